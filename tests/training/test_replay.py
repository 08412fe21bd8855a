"""The whole way of the evidence without NCCL and EFA: a real job whose ranks meet replayed ones, to the verdict."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from infra.local_nodes import LocalCluster
from tests.training.job import PROJECT, Finished, submit
from workload.transport import judge
from workload.transport_evidence import collect
from workload.verdict import Verdict, Wanted

pytestmark = pytest.mark.local

SUPPORT = PROJECT / "tests" / "support"
STEPS = 3


def replay(cluster: LocalCluster, folder: Path, what: str) -> Finished:
    path = folder / "path"
    shutil.copytree(SUPPORT / "replay", path, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SUPPORT / "nccl_run.py", path)
    return submit(
        cluster,
        folder,
        ["--steps", str(STEPS), "--checkpoint_every", "0"],
        env={"PYTHONPATH": str(path), "REPLAY": what, "REPLAY_FOLDER": str(folder / "devices")},
    )


def verdict_on(finished: Finished, folder: Path) -> tuple[dict[str, Any], Verdict]:
    assert finished.status == "SUCCEEDED", "\n".join(finished.lines[-40:])
    log = folder / "job.log"
    log.write_text("".join(f"{line}\n" for line in finished.lines))
    transport = json.loads(json.dumps(collect(finished.record, log)))  # as a state file keeps it
    return transport, judge(transport, Wanted(expect="efa", hosts=2, ranks=4))


def test_ranks_over_efa_are_proven_by_their_lines_and_their_devices(cluster: LocalCluster, tmp_path: Path) -> None:
    finished = replay(cluster, tmp_path, "efa")
    transport, verdict = verdict_on(finished, tmp_path)
    assert verdict.value == "proven", verdict.reasons
    (attempt,) = finished.record["attempts"]
    for rank, told in zip(attempt["ranks"], transport["ranks"], strict=True):
        assert rank["backend"] == "nccl" and rank["hostname"].endswith(".replay.internal")
        assert told["lines"] == told["delivered"] | {"id": rank["transport_lines"]["id"]}, (
            "what was printed must arrive"
        )
        assert (rank["versions"]["aws_ofi_nccl"], rank["versions"]["libfabric"]) == ("1.19.0", "1.22")
        assert rank["must_move"]["steps"] == STEPS
        assert ("efa_devices" in rank) == (rank["local_rank"] == 0)
    assert not any("Destroy COMPLETE" in line for line in finished.lines)


@pytest.mark.parametrize(
    ("what", "value", "reason"),
    [
        ("socket", "refuted", "Socket"),
        pytest.param("silent", "unproven", "rank 1", marks=pytest.mark.full),
        pytest.param("idle", "refuted", "bytes", marks=pytest.mark.full),
    ],
)
def test_what_contradicts_or_lacks_is_not_proven(
    cluster: LocalCluster, tmp_path: Path, what: str, value: str, reason: str
) -> None:
    _, verdict = verdict_on(replay(cluster, tmp_path, what), tmp_path)
    assert verdict.value == value, verdict.reasons
    assert any(reason in line for line in verdict.reasons), verdict.reasons


@pytest.mark.full
def test_what_nccl_said_of_a_failure_in_the_first_collective_is_in_the_log(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    finished = replay(cluster, tmp_path, "failed")
    assert finished.status == "FAILED"
    (told,) = [line for line in finished.lines if "[nccl rank 0 #" in line and "Failed to initialize any NET" in line]
    assert told.endswith("NCCL WARN Failed to initialize any NET plugin")
