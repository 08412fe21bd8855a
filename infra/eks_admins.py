"""PURE: who else may administer an EKS cluster than the one who made it."""


def entry_name(principal: str) -> str:
    """What an access entry is called in the stack; one name for each ARN of an IAM role or user."""
    _, _, _, _, account, resource = principal.split(":", 5)
    return f"admin-{account}-{resource}"


def admin_policy(principal: str) -> str:
    """EKS's own access policy for administrators, in the principal's partition."""
    return f"arn:{principal.split(':')[1]}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def is_caller(principal: str, caller: str) -> bool:
    """Whether `caller`, as STS names it, is that role or user.

    EKS makes the entry of a cluster's creator itself and refuses a second one. An assumed role's ARN lacks the role's
    path.
    """
    if principal == caller:
        return True
    _, _, _, _, account, resource = principal.split(":", 5)
    _, _, service, _, caller_account, session = caller.split(":", 5)
    kind, _, path = resource.partition("/")
    role = path.rpartition("/")[2]
    return (
        service == "sts"
        and kind == "role"
        and account == caller_account
        and session.split("/")[:2]
        == [
            "assumed-role",
            role,
        ]
    )
