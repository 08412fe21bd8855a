"""Who administers an EKS cluster beside its creator."""

import pytest

from infra.eks_admins import admin_policy, entry_name, is_caller

ROLE = "arn:aws:iam::111122223333:role/teams/ml/Admin"


def test_every_principal_has_an_entry_of_its_own() -> None:
    principals = [
        ROLE,
        "arn:aws:iam::111122223333:role/Admin",
        "arn:aws:iam::444455556666:role/Admin",
        "arn:aws:iam::111122223333:user/Admin",
        "arn:aws:iam::111122223333:role/teams-ml/Admin",
    ]
    names = {entry_name(principal) for principal in principals}
    assert len(names) == len(principals)
    assert not any("::" in name for name in names), "that separates the parts of a resource's URN"


def test_the_policy_is_of_the_principals_partition() -> None:
    assert admin_policy(ROLE) == "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    assert admin_policy(ROLE.replace("arn:aws:", "arn:aws-cn:")).startswith("arn:aws-cn:eks::aws:")


@pytest.mark.parametrize(
    ("principal", "caller", "same"),
    [
        (ROLE, "arn:aws:sts::111122223333:assumed-role/Admin/anna", True),
        (ROLE, "arn:aws:sts::111122223333:assumed-role/Adm/anna", False),
        (ROLE, "arn:aws:sts::444455556666:assumed-role/Admin/anna", False),
        ("arn:aws:iam::111122223333:user/x/bob", "arn:aws:iam::111122223333:user/x/bob", True),
        ("arn:aws:iam::111122223333:user/Admin", "arn:aws:sts::111122223333:assumed-role/Admin/anna", False),
        (ROLE, "arn:aws:iam::111122223333:root", False),
    ],
)
def test_the_caller_is_recognised(principal: str, caller: str, same: bool) -> None:
    assert is_caller(principal, caller) is same
