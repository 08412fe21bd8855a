"""What the engine leaves of a gate that fails a run whose record is on another machine: enough to tell which it was."""

import json
from pathlib import Path
from typing import Any

import pytest

from efactl.event_log import events
from efactl.gate import judged_by_state, outcomes
from efactl.run_plan import plan_of
from efactl.stack import GATE_TYPE, JOB_TYPE
from tests.support.known_stack import OVER_GLOO
from tests.support.standin_stack import Stack

pytestmark = pytest.mark.engine

# The job is a stand-in of that type; the gate is the product's.
PROGRAM = """
import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider

from workload.run_gate import RunGate
from workload.verdict import Wanted


class Provider(ResourceProvider):
    serialize_as_secret_always = False

    def create(self, props):
        return CreateResult(id_="run-1", outs={{**props, "transport": {transport!r}, "eval_loss_after": 2.0}})

    def diff(self, _id, olds, news):
        return DiffResult(changes=False)


class RayTrainJob(Resource, module="workload", name="RayTrainJob"):
    transport: pulumi.Output[dict]
    eval_loss_after: pulumi.Output[float]


expect = pulumi.Config().require("expect")
if expect == "nothing":
    raise pulumi.RunError("the settings cannot be used")
inputs = {{"expect": expect, "transport": None, "eval_loss_after": None}}
job = RayTrainJob(Provider(), "train", inputs)
RunGate(
    "gate",
    submission_id=job.id,
    record="runs/elsewhere/record.json",
    transport=job.transport,
    eval_loss_after=job.eval_loss_after,
    wanted=Wanted(expect=expect),
    max_eval_loss=None,
)
"""


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    stack = Stack(tmp_path, PROGRAM.format(transport=OVER_GLOO))
    stack.environment |= {"PULUMI_DEBUG_COMMANDS": "true", "PYTHONPATH": str(Path(__file__).parents[2])}
    return stack


def up(stack: Stack, expect: str, *targets: str) -> tuple[str, dict[str, bool]]:
    """What it said, and what its gate did."""
    stack.set(expect=expect)
    log = stack.folder / f"{expect}.events"
    kept_to = [word for urn in targets for word in ("--target", urn)]
    done = stack.run("up", "--yes", "--skip-preview", *kept_to, "--event-log", str(log))
    return done.stdout, outcomes(events(log))


def job(stack: Stack) -> dict[str, Any]:
    resources = json.loads(stack.must("stack", "export", "--show-secrets"))["deployment"]["resources"]
    return next(one for one in resources if one["type"] == JOB_TYPE)


def test_the_event_log_names_the_gate_and_the_state_has_what_it_judged(stack: Stack) -> None:
    said, gates = up(stack, "gloo")
    assert gates == {GATE_TYPE: True}, said
    assert judged_by_state(job(stack), "")["verdict"] == "proven"
    said, gates = up(stack, "efa")
    assert gates == {GATE_TYPE: False}, said
    assert judged_by_state(job(stack), "")["verdict"] == "refuted", "the job is the same, its inputs are the newest"
    said, gates = up(stack, "nothing")
    assert gates == {} and "the settings cannot be used" in said, "it did not come to the gate"


def test_a_run_that_keeps_to_its_targets_leaves_what_its_gate_judged_too(stack: Stack) -> None:
    up(stack, "gloo")
    stack.set(expect="efa")
    log = stack.folder / "preview.events"
    stack.must("preview", "--event-log", str(log))
    plan = plan_of(events(log))
    assert plan.changes == ("update gate",)
    said, gates = up(stack, "efa", *plan.targets)
    assert gates == {GATE_TYPE: False}, said
    assert judged_by_state(job(stack), "")["verdict"] == "refuted"
