"""What goes wrong with an eks stack, and what gets it right again: AWS as a stand-in, Kubernetes and the job real."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack_plan import unpermitted
from tests.support.standin_project import StandinProject
from tools.bed import Bed, start_bed
from tools.standin import tokens
from tools.standin.account import Account, Entry

pytestmark = pytest.mark.full

# Longer than the provider asks again for a subnet's interfaces to go away.
LINGER_S = 3000


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane without a node."""
    with start_bed(tmp_path_factory.mktemp("empty"), nodes=(), operator=False, devices="by plugin") as bed:
        yield bed


@pytest.fixture(scope="module")
def project(empty: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    project = StandinProject(tmp_path_factory.mktemp("faults") / "project", bed=empty, gpuPlacementGroup="cluster")
    try:
        yield project
    finally:
        project.set_scenario()
        project.clean()


@pytest.fixture(scope="module")
def failed_up(project: StandinProject) -> str:
    """Through throttling and a role that is not seen everywhere yet, to a GPU group that fails after long silence."""
    group = {"type": "NodeGroup", "operation": "create", "match": "ray-gpu-group", "code": "AsgInstanceLaunchFailures"}
    project.set_scenario(
        faults=[
            {"type": "Subnet", "operation": "create", "code": "RequestLimitExceeded", "times": 3},
            {"type": "Role", "operation": "use", "code": "InvalidParameterException", "times": 3},
            {**group, "silence": 1500, "partial": "CREATE_FAILED"},
        ]
    )
    done = project.up()
    project.set_scenario()
    assert done.returncode != 0
    return done.stdout


@pytest.fixture(scope="module")
def mended_up(project: StandinProject, failed_up: str) -> str:
    """By the command that the next preview tells."""
    said = project.pulumi("preview")
    assert said.returncode != 0
    assert "node group ray-dev-gpu is CREATE_FAILED" in said.stdout
    [command] = set(re.findall(r"`pulumi (up --replace '[^']+')` makes the group anew", said.stdout))
    return project.must(*shlex.split(command), "--yes", "--skip-preview")


def gpu_group(project: StandinProject) -> Entry:
    with Account(project.account_folder).open() as records:
        found = records.get(tokens.NODE_GROUP, "ray-dev:ray-dev-gpu")
    assert found is not None
    return found


def reservations(project: StandinProject) -> list[str]:
    return [entry.id for entry in project.remaining() if entry.token == tokens.CAPACITY_RESERVATION]


def gpu_nodes(bed: Bed) -> list[str]:
    selector = "labelSelector=eks.amazonaws.com%2Fnodegroup%3Dray-dev-gpu"
    return [node["metadata"]["name"] for node in bed.api.list(f"/api/v1/nodes?{selector}")]


def test_throttling_and_a_role_not_seen_yet_are_waited_out_and_a_groups_failure_is_told(
    project: StandinProject, failed_up: str
) -> None:
    assert "AsgInstanceLaunchFailures" in failed_up
    with Account(project.account_folder).open() as records:
        assert records.number("fault:0") > 3, "Subnets were throttled"
        assert records.number("fault:1") > 3, "a role was not seen yet"
    failed = [(call["type"], call["error"]) for call in project.calls() if call["error"]]
    assert failed == [(tokens.NODE_GROUP, "AsgInstanceLaunchFailures")]
    assert gpu_group(project).outputs["status"] == "CREATE_FAILED"


def test_the_command_that_the_next_preview_tells_makes_the_group_anew_and_proves_the_run(
    empty: Bed, project: StandinProject, mended_up: str
) -> None:
    assert project.outputs()["run"]["verdict"] == "proven", mended_up
    assert len(gpu_nodes(empty)) == 2
    assert project.changes() == {}


def test_at_no_nodes_the_reservation_goes_and_nothing_was_launched_outside_it(
    empty: Bed, project: StandinProject, mended_up: str
) -> None:
    before, [reserved] = gpu_group(project), reservations(project)
    project.set(gpuNodes=0)
    project.must("up", "--yes", "--skip-preview")
    after = gpu_group(project)
    assert gpu_nodes(empty) == []
    assert reservations(project) == []
    assert after.outputs["launchTemplate"] == before.outputs["launchTemplate"], "its nodes were not rolled on the way"
    assert after.hidden["running"] == {**before.hidden["running"], "count": 0}
    assert after.hidden["running"]["reservation"] == reserved
    assert project.changes() == {}


def test_nodes_come_back_in_a_reservation_of_their_own_and_the_run_is_proven_again(
    empty: Bed, project: StandinProject, mended_up: str
) -> None:
    project.set(gpuNodes=2)
    project.must("up", "--yes", "--skip-preview")
    running, [reserved] = gpu_group(project).hidden["running"], reservations(project)
    assert (running["count"], running["reservation"]) == (2, reserved)
    assert len(gpu_nodes(empty)) == 2
    assert project.outputs()["run"]["verdict"] == "proven"


def test_a_destroy_that_interfaces_hold_up_is_finished_by_a_second_one(
    empty: Bed, project: StandinProject, mended_up: str
) -> None:
    project.set_scenario(linger=LINGER_S)
    first = project.pulumi("destroy", "--yes", "--skip-preview")
    assert first.returncode != 0
    assert "DependencyViolation" in first.stdout
    project.must("destroy", "--yes", "--skip-preview")
    project.set_scenario()
    assert project.remaining() == []
    assert project.state() == []


def test_a_stack_is_made_again_under_its_name_and_leaves_nothing_again(
    empty: Bed, project: StandinProject, mended_up: str
) -> None:
    project.must("up", "--yes", "--skip-preview")
    assert project.outputs()["run"]["verdict"] == "proven"
    project.must("destroy", "--yes", "--skip-preview")
    assert project.remaining() == []
    assert project.state() == []
    assert unpermitted(project) == []


def without_its_cluster(folder: Path, **settings: Any) -> StandinProject:
    """A stack without GPU nodes whose cluster was deleted elsewhere, after its `up`."""
    with start_bed(folder / "bed", nodes=(), operator=False, devices="by plugin") as bed:
        project = StandinProject(folder / "project", bed=bed, gpuNodes=0, **settings)
        project.must("up", "--yes", "--skip-preview")
        assert {"RayCluster", "Release"} <= {resource["type"].rpartition(":")[2] for resource in project.state()}
    project.set_scenario(gone=["Cluster"])
    return project


def test_a_destroy_after_the_cluster_was_deleted_elsewhere_leaves_nothing(tmp_path: Path) -> None:
    project = without_its_cluster(tmp_path, eksStorage="bucket", storageClass=None)
    done = project.efactl("down")
    assert done.returncode == 0, done.stderr
    assert project.remaining() == []
    assert project.state() == []


def test_a_claim_in_a_cluster_deleted_elsewhere_is_forgotten_by_the_command_that_is_told(tmp_path: Path) -> None:
    project = without_its_cluster(tmp_path)
    refused = project.efactl("down")
    assert refused.returncode != 0
    assert "Nothing was destroyed" in refused.stderr
    [command] = re.findall(r"`pulumi (state delete '[^']+' --target-dependents) -s dev`", refused.stderr)
    project.must(*shlex.split(command), "--yes")
    done = project.efactl("down")
    assert done.returncode == 0, done.stderr
    assert project.remaining() == []
    assert project.state() == []
