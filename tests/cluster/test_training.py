"""The RayCluster that the product declares trains: FSDP on gloo between two pods with addresses of their own."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.bed_project import BedProject
from tests.support.project import ROOT
from tests.support.running_up import running_up
from tools.bed import Bed
from training.checkpoint_files import MARKER

STEPS = 4
UP_S = 480.0


@pytest.fixture(scope="module")
def project(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    project = BedProject(
        tmp_path_factory.mktemp("training") / "project",
        bed,
        f"training-{secrets.token_hex(3)}",
        quick=False,
        jobDeadlineSeconds=400,
        trainSteps=STEPS,
        trainCheckpointEvery=STEPS,
        trainSeqLen=64,
        trainEvalBatches=1,
    )
    yield project
    project.clean()


@pytest.mark.timeout(600)
def test_the_declared_cluster_trains_between_two_hosts_and_proves_it(project: BedProject) -> None:
    with running_up(project) as up:
        output = up.succeeds(seconds=UP_S)
        record: dict[str, Any] = json.loads((up.folder / "record.json").read_text())
    jsonschema.validate(record, json.loads((ROOT / "workload" / "run_record.schema.json").read_text()))
    run = project.outputs()["run"]
    assert (run["status"], run["verdict"]) == ("SUCCEEDED", "proven"), output
    assert record["verdict"]["value"] == "proven"

    pods = {name: pod.status.pod_ip for name, pod in project.pods("worker").items()}
    ranks = ranks_of(up.folder / "job.log")
    assert {rank["hostname"]: rank["node_ip"] for rank in ranks} == pods
    assert len(set(pods.values())) == 2
    assert [(rank["rank"], rank["backend"]) for rank in ranks] == [(0, "gloo"), (1, "gloo")]
    assert {node["host"] for node in record["cluster"]["nodes"]} == set(pods)

    assert run["evalLossAfter"] < run["evalLossBefore"]
    assert run["checkpoint"].endswith(f"step-{STEPS:06d}")
    kept = project.claim_folder() / Path(run["checkpoint"]).relative_to("/mnt/ray-train")
    assert json.loads((kept / MARKER).read_text())["step"] == STEPS


def ranks_of(log: Path) -> list[dict[str, Any]]:
    """What the ranks of the last attempt said of themselves, from the job's own record line."""
    mark = "RAY_TRAIN_EFA_RECORD "
    line = next(line for line in log.read_text().splitlines() if line.startswith(mark))
    ranks: list[dict[str, Any]] = json.loads(line.removeprefix(mark))["attempts"][-1]["ranks"]
    return ranks
