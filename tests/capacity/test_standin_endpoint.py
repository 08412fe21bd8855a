"""Where AWS is a stand-in, what asks it beside Pulumi gets the stand-in account's answers, and asks nobody else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capacity import aws
from capacity.audit import NAME_TAG, audit
from capacity.causes import Cause
from capacity.place import Place
from capacity.probe import probe
from capacity.request import Request
from tests.support.standin_account import StandinAccount
from tools.standin import endpoint, tokens

TAGS = {NAME_TAG: "ray"}
REGION = "us-west-2"
ZONE = Place(region=REGION, zone="us-west-2a", zone_id="usw2-az1")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandinAccount]:
    made = StandinAccount(tmp_path / "account")
    with endpoint.serving(made.folder) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        aws.forget()
        yield made
    aws.forget()


def tagged(**more: Any) -> dict[str, Any]:
    return {"tags": TAGS, **more}


def test_it_knows_whose_account_it_is(account: StandinAccount) -> None:
    account.scenario(account="210987654321", principal="role/me")
    who = aws.who(region=REGION)
    assert (who.account, who.arn, who.partition) == ("210987654321", "arn:aws:iam::210987654321:role/me", "aws")


def test_an_empty_account_is_empty_in_every_region_and_every_kind_was_looked_at(account: StandinAccount) -> None:
    assert audit([REGION, "us-east-1"], TAGS) == []


def test_what_a_stack_made_there_is_found_and_is_gone_when_it_is_deleted(account: StandinAccount) -> None:
    account.role("eks.amazonaws.com", "control")
    reservation = account.reservation(tags=TAGS)
    cluster = account.cluster(tags=TAGS)
    group = account.nodes(cluster, account.template(reservation=reservation), tags=TAGS)
    account.make(tokens.EIP, domain="vpc", tags=TAGS)
    left = audit([REGION], TAGS)
    billing = sorted(one.kind for one in left if one.bills)
    assert billing == [
        "EKS control plane",
        "capacity reservation",
        "instance",
        "instance",
        "node group",
        "public address",
    ]
    assert {one.kind for one in left} - set(billing) == {"network interface"}
    assert not any(one.unknown for one in left)
    account.delete(group)
    assert "instance" not in {one.kind for one in audit([REGION], TAGS)}


def test_a_probe_there_is_a_reservation_in_the_same_account_and_leaves_none(account: StandinAccount) -> None:
    [answer] = probe(Request(), [ZONE], say=lambda _line: None)
    assert answer.outcome == "yes"
    made = account.calls(token=tokens.CAPACITY_RESERVATION)
    assert [call["operation"] for call in made] == ["create", "delete"]
    assert account.all(tokens.CAPACITY_RESERVATION) == []


def test_capacity_that_the_scenario_does_not_have_is_refused_to_a_probe_as_to_an_up(account: StandinAccount) -> None:
    account.scenario(capacity={"us-west-2a": {"g6.12xlarge": 1}})
    [answer] = probe(Request(), [ZONE], say=lambda _line: None)
    assert (answer.outcome, answer.cause) == ("no", Cause.CAPACITY)


def test_a_fault_of_the_scenario_meets_a_question_by_its_operations_name(account: StandinAccount) -> None:
    fault = {"type": "DescribeVolumes", "operation": "invoke", "code": "UnauthorizedOperation", "message": "no"}
    account.scenario(faults=[fault])
    assert [one.kind for one in audit([REGION], TAGS) if one.unknown] == ["volume"]


def test_what_it_does_not_know_is_refused_by_name(account: StandinAccount) -> None:
    with pytest.raises(aws.AwsRefusedError, match="answers no DescribeKeyPairs of ec2"), aws.asking("keys"):
        aws.client("ec2", REGION).describe_key_pairs()
