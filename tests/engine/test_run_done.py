"""Which run a stack is known to have done after an `up` that kept to its targets. Against the real CLI."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.project import ROOT
from tests.support.standin_stack import Stack

pytestmark = pytest.mark.engine

# In the program and in the providers' process: what would take a cluster is done at once.
AT_ONCE = """
from pulumi.dynamic import CreateResult

from workload.ray_train_job import RayTrainJobProvider
from workload.transport_comparison import TransportComparisonProvider

RayTrainJobProvider.create = lambda _, props: CreateResult("run-1", {**props, "record": "runs/run-1/record.json"})
TransportComparisonProvider.create = lambda _, props: CreateResult("compare-1", {**props, "report": "runs/compare-1"})
"""

PROGRAM = """
import pulumi

from infra import last_run
from workload.arms import default_arms
from workload.held_inputs import key_where_run
from workload.ray_train_job import RayTrainJob
from workload.transport_comparison import TransportComparison
from workload.verdict import Wanted

pulumi.export("before", last_run.done())
steps = pulumi.Config().require_int("steps")
shared = {
    "head": {"address": pulumi.get_stack()},
    "training_digest": "a",
    "arguments": {"steps": steps, "lr": 1.0, "warm_up": 0.1, "model_id": "tiny"},
    "pip": [],
    "env": {"A": "b"},
    "secret_env": pulumi.Output.secret({"TOKEN": "t"}),
    "secret_env_names": ["TOKEN"],
    "image": "an-image",
    "cluster_spec_digest": "b",
    "run_id": "",
    "storage": "/shared",
    "deadline_seconds": 60,
    "wanted": Wanted(expect="gloo"),
    "settings": {"trainSteps": str(steps)},
}
parts = [RayTrainJob("train", **shared)]
if pulumi.Config().get_bool("compares"):
    comparison = TransportComparison("compare", **shared, arms=default_arms("gloo"), repeats=3, steps=8, bandwidth=True)
    parts.append(comparison)
pulumi.export("runDone", key_where_run(f"run of {steps}", *(part.as_asked for part in parts)))
"""


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    stack = Stack(tmp_path, PROGRAM)
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(AT_ONCE)
    stack.environment["PYTHONPATH"] = f"{tmp_path / 'start'}:{ROOT}"
    return stack


def up(stack: Stack, *targets: str, **settings: str) -> dict[str, Any]:
    """The stack's outputs after an `up` of those targets, none being all."""
    stack.set(**settings)
    urns = [urn for name in targets for urn in ("--target", f"**::{name}")]
    stack.must("up", "--yes", "--skip-preview", *urns)
    return stack.outputs()


def test_a_run_whose_comparison_was_left_out_is_not_done_until_that_is_made(stack: Stack) -> None:
    assert up(stack, steps="5", compares="false")["runDone"] == "run of 5"
    up(stack, "train", compares="true")
    made = up(stack)
    assert made["before"] == "", "there was none yet"
    assert made["runDone"] == "run of 5"
    assert up(stack, "train", steps="6")["runDone"] == "", "the comparison is of the run before"
    again = up(stack)
    assert (again["before"], again["runDone"]) == ("", "run of 6")
    assert up(stack)["runDone"] == "run of 6", "nothing has changed"
    assert up(stack, "compare", steps="7")["runDone"] == "", "nor is one whose job was left out"
