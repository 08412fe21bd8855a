"""What an earlier run's guards, which stay in the region's file, do to the next `efactl up --env`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from capacity.choice import Choice
from capacity.failover import Bring, End, next_action
from capacity.held import Held
from capacity.place import Place
from capacity.request import Request
from efactl import bring_up, bring_up_plan, environment, journey, stack
from efactl.bring_up_plan import Priced
from efactl.engine_run import Ended
from efactl.environment import Environment
from efactl.journal import Journal
from efactl.journey import Journey, Wanted
from efactl.stack import Stack

WEST = Place(region="us-west-2", zone="us-west-2a", zone_id="usw2-az1")
EAST = Place(region="us-east-2", zone="us-east-2a", zone_id="use2-az1")
NOW = datetime.now(UTC)
READY = Held(stack="dev-us-west-2", region="us-west-2", zone="us-west-2a", things=40, group="ready")


def at(hours: float) -> str:
    """A setting's text for a time so many hours from now."""
    return (NOW + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


class NoEngine:
    def resources(self, _stack: str) -> list[Mapping[str, Any]]:
        return []


@dataclass(kw_only=True)
class WestEnvironment(Environment):
    """Of region us-west-2, whose stack has `comes` after each `up`."""

    comes: Held = field(default=READY)

    def settle(self, region: str, say: environment.Say) -> None:
        self.held[region] = self.comes


@dataclass
class Run:
    """Settings files in a folder of their own; `ups` are the stacks that the engine was started for."""

    folder: Path
    ups: list[str] = field(default_factory=list)

    def write(self, name: str, **settings: str) -> None:
        lines = [f'  ray-train-efa:{key}: "{value}"\n' for key, value in settings.items()]
        (self.folder / f"Pulumi.{name}.yaml").write_text(f"config:\n  ray-train-efa:platform: eks\n{''.join(lines)}")

    def environment(self, comes: Held = READY) -> WestEnvironment:
        base = Stack("dev")
        cli: Any = NoEngine()
        return WestEnvironment(name="dev", base=base, cli=cli, access=base.access(), comes=comes)

    def journey(self, *, comes: Held = READY, asked: datetime = NOW, **wanted: Any) -> Journey:
        return Journey(
            env=self.environment(comes),
            choice=Choice(request=Request(), facts=None, candidates=(), plan=()),
            plan=(WEST,),
            journal=Journal(file=self.folder / "up-dev.json"),
            wanted=Wanted(env="dev", **wanted),
            asked=asked,
        )


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    (tmp_path / "Pulumi.yaml").write_text((stack.FOLDER / "Pulumi.yaml").read_text())
    made = Run(tmp_path)
    made.write("dev")
    made.write("dev-us-west-2")
    for module in (stack, environment):
        monkeypatch.setattr(module, "FOLDER", tmp_path)

    def run_up(name: str, *_: Any, **__: Any) -> Ended:
        made.ups.append(name)
        return Ended(status=0, errors=(), trouble=None, interrupted=False, seconds=900.0)

    monkeypatch.setattr(journey, "run_up", run_up)
    monkeypatch.setattr(Journey, "_watch", lambda *_, **__: None)
    monkeypatch.setattr(Stack, "release_dead_locks", lambda _self: [])
    monkeypatch.setattr(bring_up, "at_most", lambda *_: 19.01)
    monkeypatch.setattr(bring_up, "around_nodes", lambda *_: 0.61)
    monkeypatch.setattr(Priced, "hourly", 19.01)
    return made


def end(walk: Journey, until: str = "") -> End:
    """The end that one place comes to."""
    walk._bring(Bring(place=WEST), until)
    found = next_action(walk._situation())
    assert isinstance(found, End)
    return found


def test_a_time_that_has_passed_is_taken_out_and_the_nodes_are_up(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.write("dev-us-west-2", ttlUntil=at(-20), gpuZone="us-west-2a")
    assert end(run.journey()).place == WEST
    assert run.ups == ["dev-us-west-2"]
    assert Stack("dev-us-west-2").config("ttlUntil") == ""
    assert f"ttlUntil {at(-20)} had passed: it is taken out of Pulumi.dev-us-west-2.yaml" in capsys.readouterr().err


def test_a_time_that_lies_ahead_stays(run: Run) -> None:
    run.write("dev-us-west-2", ttlUntil=at(2))
    assert end(run.journey()).place == WEST
    assert Stack("dev-us-west-2").config("ttlUntil") == at(2)


@pytest.mark.parametrize("given", [True, False])
def test_a_time_that_passes_on_the_way_stops_it_before_more_is_made(run: Run, given: bool) -> None:
    """By --ttl, or by what the file had and the plan has shown."""
    run.write("dev-us-west-2", ttlUntil=at(-0.1))
    found = end(run.journey(asked=NOW - timedelta(hours=1)), until=at(-0.1) if given else "")
    assert run.ups == []
    assert found.refused is not None
    assert f"ttlUntil {at(-0.1)} has passed" in found.refused.what_to_do
    assert "`efactl up --env dev` with a longer --ttl" in found.refused.what_to_do
    assert Stack("dev-us-west-2").config("ttlUntil") == at(-0.1), "the plan has shown it"


def test_without_gpu_nodes_that_its_settings_want_a_stack_is_not_up(run: Run) -> None:
    empty = Held(stack="dev-us-west-2", region="us-west-2", things=40)
    found = end(run.journey(comes=empty))
    assert found.place is None
    assert found.refused is not None
    assert "its GPU group wants no nodes, and gpuNodes is 2" in found.refused.what_to_do
    run.write("dev-us-west-2", gpuExistingGroup="theirs")
    assert end(run.journey(comes=empty)).place == WEST, "whose size is its owner's"


@pytest.mark.parametrize(("train", "up"), [(False, False), (True, True)])
def test_nodes_that_were_given_back_after_a_run_are_told_unless_the_run_is_what_is_asked_for(
    run: Run, train: bool, up: bool
) -> None:
    run.write("dev-us-west-2", gpuScaleToZeroAfterJob="true")
    given_back = Held(stack="dev-us-west-2", region="us-west-2", things=40, run=True)
    found = end(run.journey(comes=given_back, train=train))
    assert (found.place == WEST) is up
    assert up or (found.refused and "given back (gpuScaleToZeroAfterJob)" in found.refused.what_to_do)


def test_a_refusal_goes_by_the_settings_that_its_region_has(run: Run) -> None:
    run.write("dev", gpuNodes="2")
    run.write("dev-us-west-2", gpuNodes="8", capacity="none")
    env = run.environment()
    assert env.asked("us-west-2") == {**env.asked("us-east-2"), "capacity": "none"}
    assert env.asked("us-west-2")["gpuNodes"] == "2", "the environment's own, which is written into it"
    run.write("dev-us-west-2", capacity="cr-0123456789abcdef0")
    assert env.asked("us-west-2") == env.asked("us-east-2"), "a held one is a zone's, and chosen with it"


def planned(run: Run, **wanted: Any) -> tuple[list[Priced], list[str]]:
    """The plan over one zone in each of two regions, and its lines."""
    choice = Choice(request=Request(), facts=None, candidates=(), plan=(WEST, EAST))
    asked = Wanted(env="dev", **wanted)
    priced = bring_up._plan(run.environment(), choice, Journal(file=run.folder / "up-dev.json"), asked)
    text = bring_up_plan.lines(
        priced, {}, {}, env="dev", what="2 x", reserves=True, hours=4.0 if asked.ttl else None, now=NOW, trains=False
    )
    return priced, text


def test_the_plan_shows_the_time_that_ends_the_nodes_and_of_one_that_has_passed_that_it_goes(run: Run) -> None:
    run.write("dev-us-west-2", ttlUntil=at(4))
    ahead = planned(run)[1]
    assert any(f"stack dev-us-west-2: about $19.01 an hour, nodes until {at(4)} (ttlUntil)" in line for line in ahead)
    assert any(line.startswith(f"until ttlUntil {at(4)}, in 4 h: at most $76.0") for line in ahead)
    assert not any("no --ttl" in line for line in ahead)
    run.write("dev-us-west-2", ttlUntil=at(-20))
    over = planned(run)[1]
    assert "no --ttl: it costs that until `efactl down --env dev`" in over
    assert f"stack dev-us-west-2: ttlUntil {at(-20)} has passed, and is taken out" in over
    assert not any("ttlUntil" in line for line in planned(run, ttl="4h")[1]), "--ttl takes its place"


def test_a_limit_of_an_earlier_run_counts_in_its_region_and_the_environments_own_in_each(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.write("dev-us-west-2", maxHourlyUsd="12")
    assert [one.place for one in planned(run)[0]] == [EAST]
    assert "us-west-2a: about $19.01 an hour, and maxHourlyUsd of stack dev-us-west-2 is 12" in capsys.readouterr().err
    assert len(planned(run, max_hourly=20.0)[0]) == 2, "the option is written over it"
    run.write("dev", maxHourlyUsd="15")
    assert planned(run)[0] == []
    assert "us-east-2a: about $19.01 an hour, and maxHourlyUsd of stack dev is 15" in capsys.readouterr().err
