"""How a bring-up ends: what is chained, what is set, and what is told where nothing was changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from capacity.candidate import Candidate
from capacity.cause import Cause, Sorted
from capacity.choice import Choice
from capacity.failover import End
from capacity.held import Held
from capacity.place import Place
from capacity.request import Request
from efactl import bring_up, commands
from efactl.__main__ import main
from efactl.environment import Environment
from efactl.exit_codes import ExitCode
from efactl.journal import Journal
from efactl.journey import Journey, Wanted
from efactl.stack import Stack

WEST, EAST = (
    Place(region=f"us-{side}-2", zone=f"us-{side}-2a", zone_id=f"us{side[0]}2-az1") for side in ("west", "east")
)
NONE_LEFT = Sorted(cause=Cause.CAPACITY, retry="next-zone", what_to_do="try later", code="InsufficientInstanceCapacity")


class FakeEnvironment:
    """One that holds nothing, and takes settings."""

    name = "dev"

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.resources: dict[str, list[Any]] = {}
        self.settings: list[tuple[str, dict[str, str]]] = []

    def stack_of(self, _region: str) -> str:
        return "dev"

    def set(self, region: str, **settings: str) -> None:
        self.settings.append((region, settings))


@pytest.mark.parametrize(
    ("end", "train", "runs"), [(End(place=WEST), True, 1), (End(place=WEST), False, 0), (End(), True, 0)]
)
def test_the_job_runs_only_where_asked_for_and_once_everything_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: End, train: bool, runs: int
) -> None:
    ran: list[str] = []

    def up(stack: Stack, *, as_json: bool) -> ExitCode:
        ran.append(stack.name)
        return ExitCode.REFUTED

    monkeypatch.setattr(commands, "up", up)
    environment: Any = FakeEnvironment()
    journey = Journey(
        env=environment,
        choice=Choice(request=Request(), facts=None, candidates=(), plan=(WEST,)),
        plan=(WEST,),
        journal=Journal(file=tmp_path / "up-dev.json"),
        wanted=Wanted(env="dev", train=train),
    )
    code = journey._ended(end)
    assert len(ran) == runs
    assert environment.settings == [("us-west-2", {"train": "true"})] * runs
    assert code == (ExitCode.REFUTED if runs else ExitCode.OK if end.place else ExitCode.NO_CAPACITY)


def test_a_region_that_was_begun_and_whose_file_is_gone_is_no_error(tmp_path: Path) -> None:
    environment: Any = FakeEnvironment()
    journey = Journey(
        env=environment,
        choice=Choice(request=Request(), facts=None, candidates=(), plan=(WEST,)),
        plan=(WEST,),
        journal=Journal(file=tmp_path / "up-dev.json", mine=["eu-west-1"]),
        wanted=Wanted(env="dev"),
    )
    assert journey._ended(End()) == ExitCode.NO_CAPACITY


@pytest.mark.parametrize(("mode", "ends"), [("reserve", True), ("none", False), ("cr-0123456789abcdef1", False)])
def test_a_later_end_is_also_the_reservations_where_its_own_nodes_put_the_place_out_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, ends: bool
) -> None:
    monkeypatch.setattr(Stack, "config", lambda _self, _key: mode)
    environment: Any = FakeEnvironment()
    journey = Journey(
        env=environment,
        choice=Choice(request=Request(), facts=None, candidates=(), plan=()),
        plan=(WEST,),
        journal=Journal(file=tmp_path / "up-dev.json"),
        wanted=Wanted(env="dev", ttl="8h"),
    )
    journey._set("us-west-2", "2026-12-01T18:00:00Z")
    (_, settings) = environment.settings[0]
    assert settings["ttlUntil"] == "2026-12-01T18:00:00Z"
    assert (settings.get("capacityUntil") == "2026-12-01T18:00:00Z") is ends


def test_a_bring_up_that_changes_nothing_tells_its_plan_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Dear(FakeEnvironment):
        base = Stack("dev")
        access = None
        billing: ClassVar[dict[str, list[str]]] = {}

        def request(self, regions: tuple[str, ...] | None, max_hourly: float | None) -> Request:
            return Request(regions=regions, max_hourly=max_hourly)

        def look(self) -> None: ...

        def asked(self, region: str) -> dict[str, str]:
            return {}

        def config(self, region: str) -> Callable[[str], Any]:
            return self.base.config

    dear = Dear()
    monkeypatch.setattr(Environment, "of", lambda _name: dear)
    monkeypatch.setattr(bring_up, "survey", lambda *_, **__: ())
    zone = Candidate(region=WEST.region, zone=WEST.zone, zone_id=WEST.zone_id, usd_per_hour=9.2)
    found = Choice(request=Request(), facts=None, candidates=(zone,), plan=(WEST,))
    monkeypatch.setattr(bring_up, "choose", lambda *_: found)
    assert main(["up", "--env", "dev", "--plan", "--json"]) == ExitCode.OK
    assert [one["zone"] for one in json.loads(capsys.readouterr().out)["plan"]] == ["us-west-2a"]
    assert main(["up", "--env", "dev", "--plan", "--json", "--max-hourly", "1"]) == ExitCode.NO_CAPACITY
    assert json.loads(capsys.readouterr().out)["plan"] == []
    nat = {"type": "aws:ec2/natGateway:NatGateway", "id": "nat-1", "urn": "urn::nat"}
    dear.resources = {"us-west-2": [nat]}
    assert main(["up", "--env", "dev", "--plan", "--json", "--max-hourly", "1"]) == ExitCode.NO_CAPACITY
    told = capsys.readouterr()
    assert "still there, and billing: NAT gateway nat-1" in told.err
    assert json.loads(told.out)["billing"] == {"dev": ["NAT gateway nat-1"]}
    monkeypatch.setattr(Journal, "read", lambda *_: Journal(file=Path("none"), mine=["us-west-2"]))
    code = main(["up", "--env", "dev", "--plan", "--json", "--max-hourly", "1"])
    assert code == ExitCode.FAILED, "an earlier run has begun it, and none will end it"
