"""A stand-in account's state: shared, in transactions, on a modelled clock."""

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.standin_account import StandinAccount
from tools.setup import pins
from tools.standin import clock, durations, references, schema, tokens
from tools.standin.account import Account
from tools.standin.catalogue import KINDS
from tools.standin.clock import CancelledError, Clock
from tools.standin.errors import PartialError

ADDER = """
import sys
from pathlib import Path
from tools.standin.account import Account

account = Account(Path(sys.argv[1]))
for _ in range(50):
    with account.open() as records:
        records.add("sum")
"""


class Waits:
    """Takes an account's waits for granted: the time they would take is over at once, and no other time passes here."""

    def __init__(self, account: StandinAccount, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.times: list[float] = []
        self._now, self._meanwhile, self._cancelled = 1e9, meanwhile, account.cancelled
        setattr(account.cancelled, "wait", self._wait)  # noqa: B010

    def time(self) -> float:
        return self._now

    monotonic = time

    def _wait(self, seconds: float) -> bool:
        self.times.append(seconds)
        self._now += seconds
        self._meanwhile()
        return self._cancelled.is_set()


def test_several_processes_share_one_account(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ADDER, str(tmp_path)]
    adders = [subprocess.Popen(command, cwd=pins.PROJECT) for _ in range(3)]
    assert [adder.wait() for adder in adders] == [0, 0, 0]
    with Account(tmp_path).open() as records:
        assert records.number("sum") == 150


def test_what_fails_within_leaves_no_trace(tmp_path: Path) -> None:
    account = Account(tmp_path)
    with pytest.raises(ZeroDivisionError), account.open() as records:
        records.add("sum")
        _ = 1 / 0
    with account.open() as records:
        assert records.number("sum") == 0


def test_one_of_two_at_once_gets_a_name_that_is_had_once(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path)

    def make(_: int) -> str:
        try:
            account.make(tokens.BUCKET, bucket="only-one")
        except Exception as error:
            return type(error).__name__
        return "made"

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(make, range(8))) == ["AwsError"] * 7 + ["made"]


def test_without_a_scale_no_time_passes_and_the_clock_adds_up_what_would_have(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path)
    waited = Waits(account)
    account.cluster()
    assert waited.times == []
    assert account.cloud.clock().now() > durations.seconds(tokens.CLUSTER, "create")
    assert account.calls(token=tokens.CLUSTER)[0]["seconds"] == durations.seconds(tokens.CLUSTER, "create")


def test_with_a_scale_things_take_their_time_beside_one_another(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, scale=0.02)
    together = threading.Barrier(4)
    waited = Waits(account, meanwhile=lambda: together.wait(60))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: account.vpc(), range(4)))
    alone = durations.seconds(tokens.VPC, "create") * 0.02
    assert waited.times == [pytest.approx(alone)] * 4


def test_with_a_scale_a_deletion_waits_for_lingering_interfaces_and_says_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = StandinAccount(tmp_path)
    cluster = account.cluster(routed=False)
    account.scenario(scale=0.001, linger=700)
    monkeypatch.setattr(clock, "time", Waits(account))
    account.delete(cluster)
    account.delete(account.there(tokens.SUBNET, cluster.outputs["vpcConfig"]["subnetIds"][0]))
    look = references._LOOK / 0.001
    assert 700 <= account.calls(token=tokens.SUBNET, operation="delete")[0]["seconds"] <= 700 + 2 * look


def test_what_is_cancelled_while_it_is_made_is_reported_as_half_made(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, scale=1000)
    Waits(account, meanwhile=account.cancelled.set)
    with pytest.raises(PartialError) as cancelled:
        account.vpc()
    assert account.remaining() == [tokens.VPC]
    assert cancelled.value.entry.id.startswith("vpc-")
    with pytest.raises(CancelledError):
        Clock(account.cloud.account, 1000, account.cancelled).wait(1)


def test_what_is_answered_are_outputs_of_the_sdk_and_all_that_it_promises(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path)
    cluster = account.cluster()
    account.nodes(cluster, account.template(reservation=account.reservation()))
    for entry in account.cloud.account.remaining():
        shape = schema.resource(entry.token)
        assert shape is not None
        assert set(entry.outputs) - shape.outputs == set(), entry.token
        promised = shape.outputs - set(shape.types) - {"tagsAll", "region"}
        optional = {"ipv6AssociationId", "ipv6CidrBlockAssociationId", "clusterId", "instanceId", "instanceOwnerId"}
        if entry.token != tokens.SECURITY_GROUP:
            assert promised - optional - set(entry.outputs) == set(), entry.token


def test_every_type_takes_some_time(tmp_path: Path) -> None:
    for token in KINDS:
        for operation in ("create", "update", "delete"):
            assert durations.seconds(token, operation) > 0
