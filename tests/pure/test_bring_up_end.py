"""What a bring-up says of what it leaves, whatever it ends by."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from capacity.cause import Cause, Sorted
from capacity.choice import Choice
from capacity.failover import Attempt, Bring
from capacity.held import Held
from capacity.left import Left
from capacity.place import Place
from capacity.request import Request
from efactl import commands, down, journey, stack
from efactl.exit_codes import ExitCode
from efactl.journal import Journal
from efactl.journey import Journey, Wanted
from efactl.stack import Stack
from workload.errors import ReportedError

WEST, EAST = (
    Place(region=f"us-{side}-2", zone=f"us-{side}-2a", zone_id=f"us{side[0]}2-az1") for side in ("west", "east")
)
NO_ROOM = Sorted(cause=Cause.CAPACITY, retry="next-zone", what_to_do="try later", code="InsufficientInstanceCapacity")
DENIED = Sorted(cause=Cause.PERMISSION, retry="stop", what_to_do="have eks:CreateCluster allowed")
BILLING = [
    {"type": "aws:ec2/vpc:Vpc", "id": "vpc-1", "urn": "urn::vpc"},
    {"type": "aws:ec2/natGateway:NatGateway", "id": "nat-1", "urn": "urn::nat"},
    {"type": "aws:ec2/capacityReservation:CapacityReservation", "id": "cr-1", "urn": "urn::r"},
]
BALANCER = Left(region="us-west-2", kind="load balancer", id="arn:lb", bills=True, how_to_end="aws elbv2 ...")
UNKNOWN = Left(region="us-west-2", kind="instance", unknown="AccessDenied")
FREE = Left(region="us-west-2", kind="VPC", id="vpc-9")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for region in ("us-west-2", "us-east-2"):
        (tmp_path / f"Pulumi.dev-{region}.yaml").touch()
    monkeypatch.setattr(stack, "FOLDER", tmp_path)


@dataclass
class Stacks:
    """An environment by what its stacks' states hold, by region."""

    resources: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    name: str = "dev"

    @property
    def held(self) -> dict[str, Held]:
        return {
            region: Held(stack=f"dev-{region}", region=region, things=len(found))
            for region, found in self.resources.items()
        }

    def stack_of(self, region: str) -> str:
        return f"dev-{region}"

    def settle(self, _region: str, _say: Any) -> None: ...
    def look_again(self, _region: str) -> None: ...


def walk(folder: Path, stacks: Any, *tried: Attempt, **wanted: Any) -> Journey:
    journal = Journal(file=folder / "up-dev.json")
    for one in tried:
        journal.begin(one.place.region)
        journal.add(one, {})
    return Journey(
        env=stacks,
        choice=Choice(request=Request(), facts=None, candidates=(), plan=(WEST, EAST)),
        plan=(WEST, EAST),
        journal=journal,
        wanted=Wanted(env="dev", as_json=True, **wanted),
    )


def test_a_bring_up_that_stops_names_what_bills_and_how_to_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks = Stacks({"us-west-2": [*BILLING], "us-east-2": [BILLING[0]]})
    assert walk(tmp_path, stacks, Attempt(place=WEST, refused=DENIED)).run("") == ExitCode.FAILED
    told = capsys.readouterr()
    assert "stack dev-us-west-2: still there, and billing: capacity reservation cr-1, NAT gateway nat-1" in told.err
    assert "`efactl down -s dev-us-west-2` ends it all" in told.err
    assert "dev-us-east-2" not in told.err, "a network alone is free"
    facts = json.loads(told.out)
    assert (facts["stack"], facts["left"]) == (None, ["dev-us-west-2"])
    assert facts["billing"] == {"dev-us-west-2": ["capacity reservation cr-1", "NAT gateway nat-1"]}


@pytest.mark.parametrize("error", [ReportedError("another pulumi is at work"), KeyboardInterrupt()])
def test_one_that_breaks_off_does_so_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    def breaks(_self: Journey, _action: Bring, _until: str) -> None:
        raise error

    monkeypatch.setattr(Journey, "_bring", breaks)
    stacks = Stacks({"us-west-2": [*BILLING]})
    with pytest.raises(type(error)):
        walk(tmp_path, stacks).run("")
    told = capsys.readouterr()
    assert "stack dev-us-west-2: still there, and billing: capacity reservation cr-1" in told.err
    facts = json.loads(told.out)
    assert (facts["problem"], facts["left"]) == (str(error) or "interrupted", ["dev-us-west-2"])


def destroys(monkeypatch: pytest.MonkeyPatch, stacks: Stacks, *left: Left | None) -> None:
    """Each destroy empties the state, and then finds these in AWS; None: it cannot look."""

    def destroyed(of: Stack, *, aside: bool) -> tuple[dict[str, Any], ExitCode]:
        stacks.resources[of.name.removeprefix("dev-")] = []
        found = None if None in left else [asdict(one) for one in left if one]
        matters = found is None or any(one.matters for one in left if one)
        return {"destroyed": True, "left": found}, ExitCode.FAILED if matters else ExitCode.OK

    monkeypatch.setattr(down, "destroyed", destroyed)


REFUSED = [Attempt(place=place, refused=NO_ROOM) for place in (WEST, EAST)]


@pytest.mark.parametrize(
    ("left", "said", "billing"),
    [
        (BALANCER, "still billing, and not in its state: load balancer arn:lb", ["load balancer arn:lb"]),
        (UNKNOWN, "whether these still bill is not known: instance", []),
        (None, "whether anything of it still bills is not known: AWS was not looked at", []),
    ],
)
def test_what_a_destroy_leaves_in_aws_is_not_forgotten(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    left: Left | None,
    said: str,
    billing: list[str],
) -> None:
    stacks = Stacks({"us-west-2": [*BILLING]})
    destroys(monkeypatch, stacks, left, FREE)
    assert walk(tmp_path, stacks, *REFUSED).run("") == ExitCode.FAILED
    told = capsys.readouterr()
    assert f"stack dev-us-west-2: {said}" in told.err
    assert "`efactl down -s dev-us-west-2` looks again" in told.err
    assert "no place had the nodes" in told.err
    assert "Nothing was kept" not in told.err
    facts = json.loads(told.out)
    assert (facts["left"], facts["billing"]) == (["dev-us-west-2"], {"dev-us-west-2": billing})


def test_where_a_destroy_leaves_only_what_is_free_nothing_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks = Stacks({"us-west-2": [*BILLING]})
    destroys(monkeypatch, stacks, FREE)
    assert walk(tmp_path, stacks, *REFUSED).run("") == ExitCode.NO_CAPACITY
    told = capsys.readouterr()
    assert "Nothing was kept" in told.err
    assert json.loads(told.out)["left"] == []


def test_what_the_first_region_left_is_told_although_the_next_one_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks = Stacks({"us-west-2": [*BILLING], "us-east-2": [*BILLING]})
    destroys(monkeypatch, stacks, BALANCER)
    monkeypatch.setattr(commands, "up", lambda *_, **__: pytest.fail("no job before it is ended"))
    came = (REFUSED[0], Attempt(place=EAST, refused=None))
    assert walk(tmp_path, stacks, *came, train=True).run("") == ExitCode.FAILED
    told = capsys.readouterr()
    assert "stack dev-us-east-2 is up in us-east-2a" in told.err
    assert "no job was run" in told.err
    assert "stack dev-us-east-2: still there" not in told.err, "it is what was asked for"
    facts = json.loads(told.out)
    assert (facts["stack"], facts["left"]) == ("dev-us-east-2", ["dev-us-west-2"])


def test_a_destroy_that_fails_itself_is_told_by_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_stack: Stack, *, aside: bool) -> tuple[dict[str, Any], ExitCode]:
        raise ReportedError("the cluster does not answer")

    monkeypatch.setattr(down, "destroyed", fails)
    assert walk(tmp_path, Stacks({"us-west-2": [BILLING[0]]}), *REFUSED).run("") == ExitCode.FAILED
    told = capsys.readouterr()
    assert "stack dev-us-west-2: still there, and nothing of it bills" in told.err
    assert json.loads(told.out)["left"] == ["dev-us-west-2"]


def test_a_terminal_that_is_gone_does_not_change_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("builtins.print", gone)
    journey.say("nobody reads this")
