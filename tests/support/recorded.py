"""Runs on record, written by the product's own code, on a Kubernetes cluster or on this machine."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import reports
from tests.support.compared import request
from workload.job_following import JobOutcome
from workload.recorded_run import RecordedRun, recorded
from workload.run_record import write_run_record, write_verdict
from workload.transport import judge
from workload.verdict import Wanted

NAME = "ray-train-fsdp-llm"
TAG = "registry.example/team/ray:v1"
OLD, NEW = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
ARGUMENTS = {"steps": 60, "seq_len": 256, "batch_size": 4, "lr": 0.003, "dataset": "pydoc", "run_id": "x"}
SETTINGS = {
    "platform": "kubernetes",
    "kubeNamespace": "ray-train",
    "trainLr": "3e-3",
    "trainSeqLen": "256",
    "tags": "{}",
}
STARTED = 1_790_000_000.0


def kept(
    runs: Path,
    run: str,
    *,
    minutes: float = 0,
    image: str = TAG,
    digest: str = OLD,
    tokens: float = 10_000.0,
    loss: float = 2.2,
    arguments: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    expect: str = "gloo",
    quality: tuple[str, ...] | None = (),
    kind: str = "kubernetes",
    **changes: Any,
) -> Path:
    """The folder of a run of four ranks on two nodes, begun so many minutes after the first could be.

    `quality` are what its gate found, None where none has judged. Other `changes` are of the record, by their dotted
    path, after it was written.
    """
    identifier = f"{NAME}-{run}"
    folder = runs / identifier
    folder.mkdir(parents=True)
    whole = {**ARGUMENTS, "run_id": identifier, **(arguments or {})}
    ranks = [reports.rank(number, node=f"{run}-node{number // 2}") for number in range(4)]
    for rank in ranks:
        rank["hostname"] = f"{run}-pod-{rank['node_rank']}"
        rank["versions"] |= versions or {}
    report = reports.report(
        run_id=identifier,
        arguments=whole,
        tokens_per_second=tokens,
        step_seconds={"median": 4096 / tokens, "p90": 4096 / tokens * 1.1, "first": 1.0},
        attempts=[{"attempt": 1, "resumed_from_step": 0, "started_at": "x", "ranks": ranks}],
        data={"key": f"pydoc-{whole['seq_len']}", "sequences": 100, "heldOut": 10},
    )
    report["eval"]["after"]["loss"] = loss
    asked = request(runs.parent)
    pods = [
        {
            "name": f"{run}-pod-{number}",
            "node": f"{run}-machine-{number}",
            "zone": "us-west-2b",
            "image_id": f"x@{digest}",
        }
        | {"instance_type": "g6.12xlarge"}
        for number in range(2)
    ]
    asked = dataclasses.replace(
        asked,
        spec=dataclasses.replace(asked.spec, image=image, env={}, secret_env={}),
        head=dataclasses.replace(asked.head, kind=kind),
        placement=pods if digest and kind == "kubernetes" else (),
        runs=runs,
    )
    outcome = JobOutcome(
        submission_id=identifier,
        attempt=1,
        session_name=f"session_{run}",
        ray_version="2.58.0",
        started_at=STARTED + 60 * minutes,
        ended_at=STARTED + 60 * minutes + 50,
        log=folder / "job.log",
        log_connections=1,
        record=report,
    )
    outcome.log.touch()
    wanted = Wanted(expect=expect)
    path, record = write_run_record(
        asked, outcome, wanted=wanted, settings={**SETTINGS, "platform": kind, **(settings or {})}
    )
    if quality is not None:
        write_verdict(path, judge(record["transport"], wanted), quality)
    return changed(folder, **changes)


def changed(folder: Path, **changes: Any) -> Path:
    """Changes a record: a place is its keys with two underscores between; None takes it out."""
    record = json.loads((folder / "record.json").read_text())
    for place, value in changes.items():
        *above, last = place.split("__")
        inner = record
        for key in above:
            inner = inner.setdefault(key, {})
        inner[last] = value
        if value is None:
            del inner[last]
    (folder / "record.json").write_text(json.dumps(record))
    return folder


def read(folder: Path) -> RecordedRun:
    return recorded((folder / "record.json").read_text(), folder=folder.name, place=str(folder))
