"""What a bring-up says and writes down: progress, plan, journal, and what is refused."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from capacity.cause import Cause, Sorted
from capacity.failover import Attempt
from capacity.held import Held
from capacity.phases import Progress, clock, phase_of
from capacity.place import Place
from efactl import bring_up_plan
from efactl.__main__ import main
from efactl.bring_up_plan import Limit, Priced
from efactl.journal import Closed, Journal

WEST, EAST = (
    Place(region=f"us-{side}-2", zone=f"us-{side}-2a", zone_id=f"us{side[0]}2-az1") for side in ("west", "east")
)
NONE_LEFT = Sorted(cause=Cause.CAPACITY, retry="next-zone", what_to_do="try later", code="InsufficientInstanceCapacity")
PRICED = [Priced(place=WEST, nodes=9.2, around=0.4, most=9.6), Priced(place=EAST, nodes=10.0, around=None)]


def event(kind: str, op: str, urn: str) -> dict[str, Any]:
    return {kind: {"metadata": {"op": op, "urn": urn}}}


GROUP = "urn:pulumi:dev::p::ray:infra:EksRay$ray:infra:GpuNodes$aws:eks/nodeGroup:NodeGroup::ray-gpu-group"
CLUSTER = "urn:pulumi:dev::p::eks:index:Cluster$aws:eks/cluster:Cluster::ray-eks-cluster-eksCluster"


def test_what_takes_long_is_told_with_the_time_it_took_and_should_take() -> None:
    progress = Progress(began=100.0)
    assert progress.read(event("resourcePreEvent", "create", CLUSTER), 105.0) == [
        "0:05  control plane: begun, about 11:00"
    ]
    assert progress.read(event("resourcePreEvent", "delete-replaced", GROUP), 110.0) == ["0:10  GPU nodes (end): begun"]
    assert progress.line(400.0) == "5:00  control plane 4:55 of about 11:00; GPU nodes (end) 4:50"
    assert progress.read(event("resOutputsEvent", "create", CLUSTER), 705.0) == [
        "10:05  control plane: done after 10:00"
    ]
    assert progress.read(event("resOpFailedEvent", "delete-replaced", GROUP), 710.0) == [
        "10:10  GPU nodes (end): failed after 10:00"
    ]
    assert progress.line(711.0) == "10:11  between two steps"


def test_short_steps_and_those_that_change_nothing_are_not_told() -> None:
    progress = Progress(began=0.0)
    assert progress.read(event("resourcePreEvent", "same", GROUP), 1.0) == []
    assert progress.read(event("resourcePreEvent", "create", "urn:pulumi:dev::p::aws:iam/role:Role::x"), 1.0) == []
    assert phase_of("urn:pulumi:dev::p::eks:index:Cluster::ray-eks-cluster") is None, "its control plane is told once"
    assert clock(3.9) == "0:03"
    assert clock(3675) == "1:01:15"


def test_errors_are_kept_but_for_what_the_engine_adds_to_every_failure() -> None:
    progress = Progress(began=0.0)
    for severity, message in (
        ("error", "api error InsufficientInstanceCapacity: none\n"),
        ("error", "update failed"),
        ("error", "Resource monitor has terminated, shutting down"),
        ("debug", "Traceback"),
    ):
        progress.read({"diagnosticEvent": {"severity": severity, "message": message}}, 1.0)
    assert progress.errors == ["api error InsufficientInstanceCapacity: none"]


def shown(**more: Any) -> str:
    given: dict[str, Any] = {"env": "dev", "what": "2 x g6.12xlarge", "reserves": True, "hours": 4.0, "trains": False}
    given["now"] = datetime.now(UTC)
    plan = more.pop("plan", PRICED)
    return "\n".join(bring_up_plan.lines(plan, more.pop("held", {}), more.pop("billing", {}), **{**given, **more}))


def test_the_plan_tells_places_costs_and_what_is_there() -> None:
    held = {"us-east-2": Held(stack="dev-us-east-2", region="us-east-2", things=40, reserved="us-east-2a")}
    text = shown(held=held, billing={"us-east-2": ["still there, and billing: capacity reservation cr-1"]})
    assert "1. us-west-2a (usw2-az1), stack dev-us-west-2: about $9.60 an hour\n" in text
    assert (
        "2. us-east-2a (use2-az1), stack dev-us-east-2: at least $10.00 an hour, where it holds a reservation" in text
    )
    assert "in 4 h: at most $38.40; then AWS takes the GPU nodes away" in text
    assert "stack dev-us-east-2: still there, and billing: capacity reservation cr-1" in text
    assert "reserved first, in seconds" in text
    assert "no --ttl" in shown(hours=None)
    assert "given up after about a minute" in shown(reserves=False)


def test_what_costs_more_than_allowed_or_nobody_knows_how_much_is_out() -> None:
    def within(most: float) -> tuple[list[Priced], list[str]]:
        limit = Limit(usd=most, named="--max-hourly")
        return bring_up_plan.affordable([replace(one, limits=(limit,)) for one in PRICED])

    fitting, out = within(12.0)
    assert [one.place for one in fitting] == [WEST]
    assert out == ["us-east-2a: at least $10.00 an hour, and not all of its prices are known, and --max-hourly is 12"]
    assert within(9.0)[0] == []
    assert bring_up_plan.affordable(PRICED) == (PRICED, [])


ASKED = {
    "gpuInstanceType": "g6.12xlarge",
    "gpuNodes": "2",
    "gpuMarket": "on-demand",
    "capacity": "reserve",
    "gpuPlacementGroup": "",
}


def read(folder: Path, asked: dict[str, str] = ASKED) -> Journal:
    return Journal.read(folder / "none", "dev", lambda _region: asked)


def test_a_journal_keeps_what_was_begun_and_refused_and_forgets_what_is_old(tmp_path: Path) -> None:
    journal = read(tmp_path)
    assert (journal.mine, journal.attempts) == ([], [])
    journal.begin("us-west-2")
    journal.add(Attempt(place=WEST, refused=NONE_LEFT), ASKED)
    journal.begin("us-east-2")
    again = read(tmp_path)
    assert again.mine == ["us-west-2", "us-east-2"]
    assert again.attempts == [Attempt(place=WEST, refused=NONE_LEFT)]
    kept = json.loads(journal.file.read_text())
    kept["refused"][0]["at"] = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    journal.file.write_text(json.dumps(kept))
    old = read(tmp_path)
    assert (old.mine, old.attempts) == (["us-west-2", "us-east-2"], []), "capacity changes, what was begun does not"
    old.close(left=["us-west-2"])
    assert read(tmp_path).mine == ["us-west-2"]
    old.close()
    assert not journal.file.exists()
    journal.file.write_text("{")
    assert read(tmp_path).mine == []


@pytest.mark.parametrize(
    "other",
    [
        {"gpuInstanceType": "g6.24xlarge"},
        {"gpuNodes": "1"},
        {"gpuMarket": "spot"},
        {"capacity": "none"},
        {"gpuPlacementGroup": "cluster"},
    ],
)
def test_a_refusal_is_of_what_was_asked_for_and_of_nothing_else(tmp_path: Path, other: dict[str, str]) -> None:
    journal = read(tmp_path)
    journal.begin("us-west-2")
    journal.add(Attempt(place=WEST, refused=NONE_LEFT), ASKED)
    assert read(tmp_path).closed(WEST)
    again = read(tmp_path, {**ASKED, **other})
    assert (again.mine, again.attempts, again.closed(WEST)) == (["us-west-2"], [], None)


def test_a_place_is_passed_over_until_its_refusal_is_forgotten(tmp_path: Path) -> None:
    journal = read(tmp_path)
    journal.add(Attempt(place=WEST, refused=NONE_LEFT), ASKED)
    closed = journal.closed(WEST)
    assert closed is not None
    assert timedelta(minutes=29) < closed.until - datetime.now(UTC) <= timedelta(minutes=30)
    assert journal.closed(EAST) is None
    waits = Sorted(cause=Cause.THROTTLED, retry="wait", what_to_do="wait")
    for _ in range(3):
        assert journal.closed(EAST) is None, "it is asked three times"
        journal.add(Attempt(place=EAST, refused=waits), ASKED)
    shut = journal.closed(EAST)
    assert shut is not None
    assert shut.until == journal.tried[1].at + timedelta(minutes=30), "with the first of the three it opens"


def test_the_plan_shows_what_is_passed_over_and_costs_the_first_that_is_tried() -> None:
    until = datetime(2026, 12, 1, 18, 5, tzinfo=UTC)
    skipped = replace(PRICED[0], closed=Closed(why=NONE_LEFT, until=until))
    text = shown(plan=[skipped, PRICED[1]])
    said = "about $9.60 an hour; skipped until 18:05 UTC: InsufficientInstanceCapacity in the run before this one"
    assert said in text
    assert "in 4 h: at least $40.00; then AWS" in text
    assert "no place is left to try before 18:05 UTC: what was begun is ended now" in shown(plan=[skipped])


def test_options_of_a_bring_up_without_an_environment_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "-s", "local", "--ttl", "4h"]) == 2
    assert "go with --env" in capsys.readouterr().err
    assert main(["up", "--regions", "us-west-2"]) == 2
    assert "go with --env" in capsys.readouterr().err
    assert main(["up", "--env", "", "-y"]) == 2
    assert "'' is no name of an environment" in capsys.readouterr().err
    assert main(["up", "--env", "local", "-y"]) == 2
    assert "is of platform local, which stands where it stands" in capsys.readouterr().err
    assert main(["up", "--env", "dev", "-y", "--ttl", "soon"]) == 2
    assert "'soon' is no length of time" in capsys.readouterr().err
