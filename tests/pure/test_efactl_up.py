"""What `efactl up` does before and after the engine's run on eks: what a killed one left, and nodes to give back."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from efactl import commands, teardown
from efactl.exit_codes import ExitCode
from efactl.gate import judged_by_state
from efactl.stack import COMPARISON_GATE_TYPE, COMPARISON_TYPE, GATE_TYPE, JOB_TYPE, Stack
from tests.support.known_stack import OVER_GLOO

PENDING = {"type": "aws:eks/nodeGroup:NodeGroup", "urn": "urn::half-made"}
RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
CLUSTER = "aws:eks/cluster:Cluster"


def gpu_group(nodes: int) -> dict[str, Any]:
    outputs = {"scalingConfig": {"desiredSize": nodes}}
    return {"type": "aws:eks/nodeGroup:NodeGroup", "urn": "urn::ray-gpu-group", "outputs": outputs}


def job(record: str) -> dict[str, Any]:
    outputs = {
        "submission_id": "one",
        "status": "SUCCEEDED",
        "tokens_per_second": 1.0,
        "eval_loss_before": 2.0,
        "eval_loss_after": 1.0,
        "record": record,
    }
    return {"type": JOB_TYPE, "urn": "urn::train", "outputs": outputs}


class UpStack(Stack):
    """`statuses` are what pulumi ends with, by turns; `ran` is what it was asked."""

    def __init__(self, resources: Sequence[Mapping[str, Any]], *statuses: int, **settings: Any) -> None:
        super().__init__("dev")
        self._resources, self._statuses, self._settings = list(resources), list(statuses), settings
        self.ran: list[Sequence[str]] = []
        # The state that each run of pulumi leaves, by turns; as it was where none is given.
        self.leaves: list[Sequence[Mapping[str, Any]]] = []
        self.settled: list[Mapping[str, Any]] = []
        # The gate that pulumi comes to where it fails; None for none.
        self.fails_at: str | None = GATE_TYPE

    def resources(self) -> list[Mapping[str, Any]]:
        return list(self._resources)

    def config(self, key: str) -> Any:
        return self._settings[key] if key in self._settings else super().config(key)

    def release_dead_locks(self) -> list[str]:
        return []

    def settle(self, say: Callable[[str], None], **where: Any) -> list[Mapping[str, Any]]:
        self.settled.append(where)
        return self.resources()

    def run(self, command: Sequence[str], *, aside: bool) -> int:
        self.ran.append(command)
        status = self._statuses[len(self.ran) - 1]
        if "--event-log" in command and status != 0 and self.fails_at:
            step = {"op": "update", "type": self.fails_at, "urn": "urn::gate"}
            event = {"resOpFailedEvent": {"metadata": step}}
            Path(command[list(command).index("--event-log") + 1]).write_text(f'{json.dumps(event)}\n{{"cut')
        if len(self.leaves) >= len(self.ran):
            self._resources = list(self.leaves[len(self.ran) - 1])
        return status


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for records; the account is the right one."""
    monkeypatch.setattr(commands, "FOLDER", tmp_path)
    monkeypatch.setattr(teardown, "in_its_account", lambda made: made)
    (tmp_path / "runs").mkdir()
    return tmp_path


def judged(runs: Path, verdict: str) -> str:
    """A record that a gate has judged."""
    record = {"verdict": {"value": verdict, "reasons": []}, "quality": {"passed": True}}
    (runs / "runs" / "record.json").write_text(json.dumps(record))
    return "runs/record.json"


@pytest.mark.parametrize(("status", "verdict", "code"), [(0, "proven", ExitCode.OK), (1, "refuted", ExitCode.REFUTED)])
def test_nodes_are_given_back_after_a_run_however_it_was_judged(
    runs: Path, status: int, verdict: str, code: ExitCode
) -> None:
    stack = UpStack([job(judged(runs, verdict)), gpu_group(2)], status, status, gpuScaleToZeroAfterJob="true")
    assert commands.up(stack, as_json=False) == code
    [_, again] = stack.ran
    assert "--continue-on-error" in again


RUN_AND_NODES = [gpu_group(2), {"type": RESERVATION, "id": "cr-1", "urn": "urn::it", "outputs": {"instanceCount": 2}}]


@pytest.mark.parametrize("status", [0, 1])
def test_nodes_are_said_to_be_given_back_once_the_state_has_none(
    runs: Path, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gate that fails the run fails that `up` too, which ends them all the same."""
    run = job(judged(runs, "refuted" if status else "proven"))
    stack = UpStack([run, *RUN_AND_NODES], status, status, gpuScaleToZeroAfterJob="true")
    stack.leaves = [[run, *RUN_AND_NODES], [run, gpu_group(0)]]
    commands.up(stack, as_json=False)
    assert "the GPU nodes are given back" in capsys.readouterr().err


@pytest.mark.parametrize("left", [RUN_AND_NODES, RUN_AND_NODES[:1], RUN_AND_NODES[1:]])
@pytest.mark.parametrize("status", [0, 1])
def test_nodes_that_stay_are_said_to_bill(
    runs: Path, status: int, left: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    run = job(judged(runs, "proven"))
    stack = UpStack([run, *RUN_AND_NODES], 0, status, gpuScaleToZeroAfterJob="true")
    stack.leaves = [[run, *RUN_AND_NODES], [run, *left, {"type": CLUSTER, "id": "ray-dev", "urn": "urn::eks"}]]
    assert commands.up(stack, as_json=False) == ExitCode.OK
    said = capsys.readouterr().err
    assert "NOT given back" in said and "the GPU nodes are given back" not in said
    assert "still there, and billing" in said and "`efactl down -s dev` ends it all" in said


def test_an_interrupted_giving_back_says_what_bills(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(command: Sequence[str], *, aside: bool) -> int:
        if "--continue-on-error" in command:
            raise KeyboardInterrupt
        return 0

    stack = UpStack([job(judged(runs, "proven")), *RUN_AND_NODES], gpuScaleToZeroAfterJob="true")
    stack.run = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        commands.up(stack, as_json=False)
    assert "still there, and billing: capacity reservation cr-1" in capsys.readouterr().err


def test_only_the_run_keeps_to_its_targets_and_what_gives_nodes_back_has_none(runs: Path) -> None:
    """Node group and reservation are no part of a run."""
    stack = UpStack([job(judged(runs, "proven")), gpu_group(2)], 0, 0, gpuScaleToZeroAfterJob="true")
    commands.up(stack, as_json=False, targets=["urn::train", "urn::gate"])
    first, again = stack.ran
    assert [word for flag, word in pairwise(first) if flag == "--target"] == ["urn::train", "urn::gate"]
    assert "--target" not in again


def test_nodes_stay_for_what_was_left_out_of_the_run_and_are_said_to_bill(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without targets, the `up` that gives nodes back would begin the comparison."""
    stack = UpStack([job(judged(runs, "proven")), *RUN_AND_NODES], 0, gpuScaleToZeroAfterJob="true")
    assert commands.up(stack, as_json=False, targets=["urn::train"], whole_run=False) == ExitCode.OK
    assert len(stack.ran) == 1
    assert "still there, and billing: capacity reservation cr-1" in capsys.readouterr().err


def elsewhere(expect: str, **outputs: Any) -> dict[str, Any]:
    """A job over gloo whose record another machine has; `expect` is what its stack expects by now."""
    made = job("runs/elsewhere/record.json")
    # As the engine keeps them: a job that stays as it is has the inputs of the last `up`, and its own outputs.
    made["outputs"] |= {"transport": OVER_GLOO, "expect": "gloo", **outputs}
    return made | {"inputs": {"expect": expect, "transport": None}}


@pytest.mark.parametrize(
    ("expect", "transport", "limit", "verdict", "quality", "code"),
    [
        ("efa", OVER_GLOO, "", "refuted", True, ExitCode.REFUTED),
        ("gloo", {**OVER_GLOO, "worldSize": 8.0}, "", "unproven", True, ExitCode.UNPROVEN),
        ("gloo", None, "", "unproven", True, ExitCode.UNPROVEN),
        ("gloo", OVER_GLOO, "0.5", "proven", False, ExitCode.QUALITY),
    ],
)
def test_a_run_whose_record_is_elsewhere_is_judged_by_the_state_as_its_gate_does(
    runs: Path,
    expect: str,
    transport: Any,
    limit: str,
    verdict: str,
    quality: bool,
    code: ExitCode,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = elsewhere(expect, transport=transport)
    given = {"gpuScaleToZeroAfterJob": "true", "gateMaxEvalLoss": limit}
    stack = UpStack([run, gpu_group(2)], 1, 1, **given)
    assert commands.up(stack, as_json=False) == code
    assert len(stack.ran) == 2, "its nodes are given back"
    capsys.readouterr()
    assert commands.outputs(stack, as_json=True) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["qualityPassed"], told["judgedAt"]) == (verdict, quality, None)
    assert told["verdictReasons"]


def test_an_up_that_fails_before_the_gate_is_not_told_as_the_gates_doing(runs: Path) -> None:
    stack = UpStack([elsewhere("efa"), gpu_group(2)], 1, gpuScaleToZeroAfterJob="true")
    stack.fails_at = None
    stack.head = lambda: None  # type: ignore[method-assign]
    assert commands.up(stack, as_json=False) == ExitCode.FAILED
    assert len(stack.ran) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("complete", ExitCode.SLOW),
        ("refuted", ExitCode.REFUTED),
        ("unproven", ExitCode.UNPROVEN),
        ("failed", ExitCode.FAILED),
    ],
)
def test_a_comparison_whose_report_is_elsewhere_fails_as_it_did_there(runs: Path, status: str, code: ExitCode) -> None:
    outputs = {"result": {"status": status}, "report": "runs/compare-1/comparison.json"}
    comparison = {"type": COMPARISON_TYPE, "urn": "urn::compare", "outputs": outputs}
    stack = UpStack([elsewhere("gloo"), comparison, gpu_group(2)], 1, 1, gpuScaleToZeroAfterJob="true")
    stack.fails_at = COMPARISON_GATE_TYPE
    assert commands.up(stack, as_json=False) == code
    assert len(stack.ran) == 2, "its nodes are given back"


@pytest.mark.parametrize("limit", ["", "much"])
def test_a_limit_that_no_up_would_take_judges_nothing(runs: Path, limit: str) -> None:
    judged_so = judged_by_state(elsewhere("gloo"), limit)
    assert judged_so.get("verdict") == (None if limit else "proven")
    assert judged_by_state(job("runs/elsewhere/record.json"), "") == {}, "an old state says not what was expected"


@pytest.mark.parametrize("content", ["{", "[]", "", '{"verdict": 5}'])
def test_a_damaged_record_is_a_verdict_that_is_not_known(
    runs: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = judged(runs, "refuted")
    (runs / path).write_text(content)
    (runs / "runs" / "ray-train-bandwidth-1").mkdir()
    (runs / "runs" / "ray-train-bandwidth-1" / "record.json").write_text(content)
    stack = UpStack([job(path)], 1, platform="local")
    stack.head = lambda: None  # type: ignore[method-assign]
    assert commands.up(stack, as_json=False) == ExitCode.FAILED
    assert commands.outputs(stack, as_json=True) == ExitCode.OK
    told = capsys.readouterr()
    assert json.loads(told.out)["verdict"] is None
    assert ("cannot be read" in told.err) == (content in ("{", ""))


@pytest.mark.parametrize("asked", [False, "false"])
def test_nodes_stay_where_nobody_asked_for_their_end(runs: Path, asked: Any) -> None:
    stack = UpStack([job(judged(runs, "proven")), gpu_group(2)], 0, gpuScaleToZeroAfterJob=asked)
    assert commands.up(stack, as_json=False) == ExitCode.OK
    assert len(stack.ran) == 1


def test_a_job_that_failed_is_not_begun_again_by_giving_nodes_back(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state still has the run before it: a further `up` would run the failed one once more."""
    earlier = judged(runs, "refuted")
    held = {"type": RESERVATION, "id": "cr-1", "urn": "urn::it", "outputs": {}}
    stack = UpStack([job(earlier), gpu_group(2), held], 1, gpuScaleToZeroAfterJob="true")
    stack.fails_at = None
    stack.head = lambda: None  # type: ignore[method-assign]
    assert commands.up(stack, as_json=False) == ExitCode.FAILED
    assert len(stack.ran) == 1
    assert "still there, and billing: capacity reservation cr-1" in capsys.readouterr().err


def test_what_a_killed_up_left_open_is_ended_first(runs: Path) -> None:
    stack = UpStack([PENDING], 0)
    assert commands.up(stack, as_json=False) == ExitCode.OK
    [where] = stack.settled
    assert where["name"] == "ray-dev"


def test_a_reservation_that_aws_ended_is_refreshed_away(runs: Path) -> None:
    over = {"type": RESERVATION, "id": "cr-1", "urn": "urn::it", "outputs": {"endDate": "2026-01-01T00:00:00Z"}}
    stack = UpStack([over], 0)
    commands.up(stack, as_json=False)
    assert "--refresh" in stack.ran[0]


def test_a_stack_without_aws_asks_aws_nothing(runs: Path) -> None:
    stack = UpStack([PENDING], 0, platform="local")
    assert commands.up(stack, as_json=False) == ExitCode.OK
    assert stack.settled == []
