"""The guards on money, with the real engine on the stand-in account."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
import pytest
import yaml

from infra import last_run
from infra.settings import load_settings
from tests.support.stack_plan import plan, unpermitted
from tests.support.standin_project import StandinProject
from tools.standin import tokens
from tools.standin.account import Account

pytestmark = [pytest.mark.engine, pytest.mark.kubernetes_provider]

RESERVATION = "CapacityReservation ray-reservation-capacity"


def in_hours(number: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    yield StandinProject(tmp_path_factory.mktemp("guards") / "project")


def planned(project: StandinProject, name: str) -> Any:
    """A resource's inputs by a preview."""
    steps = json.loads(project.must("preview", "--json"))["steps"]
    [step] = [step for step in steps if step["urn"].endswith(f"::{name}")]
    return step["newState"]["inputs"]


def test_a_stack_above_its_limit_is_refused_in_preview_and_up_before_anything_is_made(project: StandinProject) -> None:
    project.set(maxHourlyUsd="5", gpuScaleToZeroAfterJob=True)
    for command in (("preview",), ("up", "--yes", "--skip-preview")):
        refused = project.pulumi(*command)
        assert refused.returncode != 0
        assert "maxHourlyUsd is 5: nothing was made" in refused.stdout, refused.stdout
        assert "2 x g6.12xlarge, GPU nodes" in refused.stdout
    assert {call["operation"] for call in project.calls()} == {"invoke"}
    assert project.remaining() == []
    project.set(maxHourlyUsd="50")
    created = plan(project).created
    assert {RESERVATION, "NodeGroup ray-gpu-group", "RayTrainJob train"} <= created, "a stack that has run nothing yet"


def created(project: StandinProject) -> list[str]:
    """The kinds of all that was made, in their order."""
    return [tokens.kind_of(call["type"]) for call in project.calls() if call["operation"] == "create"]


@pytest.mark.full
def test_nodes_end_at_their_time_and_come_back_only_for_a_run_that_is_due(project: StandinProject) -> None:
    until = in_hours(2)
    project.set(ttlUntil=until)
    schedule = planned(project, "ray-ttl-schedule")
    assert schedule["scheduleExpression"] == f"at({until.removesuffix('Z')})"
    assert planned(project, "ray-reservation-capacity")["endDate"] == until, "earlier than capacityUntil"
    # The cluster itself does not answer; all of AWS is made, by a second `up` where that ended the first too early.
    assert project.up().returncode != 0
    if created(project).count("NodeGroup") < 2:
        project.up()
    order = created(project)
    last_group = len(order) - 1 - order[::-1].index("NodeGroup")
    assert order.index("Schedule") < last_group
    assert unpermitted(project) == []
    assert "Schedule ray-ttl-schedule" in plan(project).same

    project.set_scenario(ahead=3 * 3600)
    project.must("refresh", "--yes", "--skip-preview")
    assert sizes(project)["dev-gpu"] == 0, "nobody's machine was on"
    project.set_scenario()

    project.set(ttlUntil=in_hours(-1))
    refused = project.pulumi("preview")
    assert refused.returncode != 0
    assert "has passed, and a run is due" in refused.stdout, refused.stdout

    as_if_run(project)
    after = plan(project)
    assert RESERVATION not in after.created | after.same
    assert not {"RayClusterReady ray-kubernetes-ready", "GpuNodesReady ray-kubernetes-nodes-nodes"} & after.created
    again = plan(project, ttlUntil=in_hours(2), trainSteps=5)
    assert RESERVATION in again.created
    assert "NodeGroup ray-gpu-group" in again.updated
    project.must("destroy", "--yes", "--skip-preview")
    assert project.remaining() == []


def sizes(project: StandinProject) -> dict[str, int]:
    with Account(project.account_folder).open() as records:
        groups = records.all(tokens.NODE_GROUP)
    return {
        group.inputs["nodeGroupName"].removeprefix("ray-"): int(group.inputs["scalingConfig"]["desiredSize"])
        for group in groups
    }


def as_if_run(project: StandinProject) -> None:
    """The state of a stack whose run, the one that its settings ask for, has SUCCEEDED."""
    state = json.loads(project.must("stack", "export"))
    [stack] = [one for one in state["deployment"]["resources"] if one["type"] == "pulumi:pulumi:Stack"]
    stack["outputs"] = {**stack.get("outputs", {}), last_run.OUTPUT: key_of(project)}
    file = project.folder / "state.json"
    file.write_text(json.dumps(state))
    project.must("stack", "import", "--file", str(file))


def key_of(project: StandinProject) -> str:
    declared = yaml.safe_load((project.folder / "Pulumi.yaml").read_text())["config"]
    values = {f"ray-train-efa:{key}": one["default"] for key, one in declared.items()}
    values |= yaml.safe_load((project.folder / f"Pulumi.{project.stack}.yaml").read_text())["config"]
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.folder)
        patch.setattr(pulumi, "get_stack", lambda: project.stack)
        pulumi.runtime.set_all_config(texts, [])
        try:
            settings = load_settings()
            assert settings.eks is not None
            return last_run.key_of(settings, settings.eks)
        finally:
            pulumi.runtime.set_all_config({}, [])
