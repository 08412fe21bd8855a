"""What `efactl doctor` says of the room for GPU nodes, against an AWS on loopback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efactl.doctor.finding import Finding
from efactl.doctor.room import capacity
from efactl.doctor.subject import Subject
from tests.support import capacity_account
from tests.support.capacity_account import CapacityAccount, Fault, instance

G6 = "L-DB2E81BA"


@pytest.fixture(scope="module")
def serving() -> Iterator[CapacityAccount]:
    with capacity_account.serving() as account:
        yield account


@pytest.fixture
def account(serving: CapacityAccount) -> CapacityAccount:
    capacity_account.emptied(serving)
    serving.quotas["us-west-2", G6] = 192.0
    return serving


def looked(**settings: Any) -> list[Finding]:
    own = {"platform": "eks", "gpuZone": "us-west-2b", "gpuInstanceType": "g6.12xlarge", "gpuNodes": "2", **settings}
    file = {"aws:region": "us-west-2", **{f"ray-train-efa:{key}": value for key, value in own.items()}}
    return list(capacity(Subject(folder=Path(), stack="dev", file=file)))


def test_room_is_told_with_quota_and_price(account: CapacityAccount) -> None:
    [found] = looked()
    assert found.level == "ok"
    assert found.what.startswith("2 x g6.12xlarge in us-west-2b: quota 192 vCPU, 0 in use; $")


def test_a_quota_that_is_used_up_is_a_warning_for_a_stack_that_runs_uses_it_too(account: CapacityAccount) -> None:
    account.instances["us-west-2"] = [instance("g6.12xlarge") for _ in range(3)]
    [found] = looked()
    assert found.level == "warn"
    assert "quota" in found.what
    assert "efactl capacity" in found.fix


def test_a_zone_that_the_region_has_not_is_named(account: CapacityAccount) -> None:
    [found] = looked(gpuZone="us-west-2z")
    assert (found.level, found.what) == ("warn", "2 x g6.12xlarge in us-west-2z: region us-west-2 has no such zone")


def test_what_cannot_be_asked_is_said(account: CapacityAccount) -> None:
    account.faults.append(Fault("GetCallerIdentity", code="InvalidClientTokenId", status=403))
    [found] = looked()
    assert found.level == "warn"
    assert found.what.startswith("not looked at: ")


@pytest.mark.parametrize("settings", [{"platform": "local"}, {"gpuNodes": "0"}, {"gpuExistingGroup": "theirs"}])
def test_where_no_nodes_are_made_nothing_is_asked(account: CapacityAccount, settings: dict[str, str]) -> None:
    assert looked(**settings) == []
