"""The bandwidth between all ranks of a head, measured by a job of its own: `training/bandwidth.py`."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from workload import job, nccl_tests, record_file
from workload.bandwidth_result import disagreements
from workload.job_following import JobOutcome, JobRequest
from workload.job_kind import BANDWIDTH
from workload.run_folder import RECORD
from workload.run_record import image_digest
from workload.transport_evidence import collect

SCHEMA = "ray-train-efa/bandwidth-run/1"
# What a measurement has in common with the training that it is made for.
_SHARED_ARGUMENTS = ("backend", "num_workers")


@dataclass(frozen=True, kw_only=True)
class BandwidthOutcome:
    """A measurement that SUCCEEDED, not judged yet.

    `rows` are those of the job's record: bytes, count, type, op, time_us, algbw_gbs, busbw_gbs (GB/s) and wrong.
    `ranks` are the last attempt's testimonies, `transport` is what `workload.transport.judge` takes, `record` the file
    that has all of it.
    """

    submission_id: str
    world_size: int
    rows: Sequence[Mapping[str, Any]]
    ranks: Sequence[Mapping[str, Any]]
    transport: Mapping[str, Any]
    versions: Mapping[str, str]
    log: Path
    record: Path


def measure(
    request: JobRequest,
    *,
    sizes: Sequence[str] = (),
    iterations: int | None = None,
    warm_up: int | None = None,
    say: Callable[[str], None],
    interrupt: Event,
) -> BandwidthOutcome:
    """Runs the measurement to its end, as `workload.job.run` does with a job, and keeps its record.

    Of `request`, which may be a training job's, the head, environment, packages, storage, deadline, backend and number
    of workers count. `sizes` are bytes with K, M or G; none takes the backend's own. Raises as `run` does, and
    ReportedError where the job's log and its record do not agree.
    """
    request = _for_bandwidth(request, sizes=sizes, iterations=iterations, warm_up=warm_up)
    outcome = job.run(request, say=say, interrupt=interrupt)
    rows = outcome.record["rows"]
    with outcome.log.open(encoding="utf-8", errors="replace") as lines:
        problems = disagreements(rows, nccl_tests.parse(lines))
    if problems:
        headline = f"what bandwidth job {outcome.submission_id} reports is not what its log shows:"
        message = "\n".join([headline, *(f"  {problem}" for problem in problems), f"full log: {outcome.log}"])
        raise request.settle(outcome.log.parent, message)
    record = _record(request, outcome)
    path = outcome.log.with_name(RECORD)
    record_file.write(path, record)
    return BandwidthOutcome(
        submission_id=outcome.submission_id,
        world_size=int(outcome.record["world_size"]),
        rows=rows,
        ranks=record["attempts"][-1]["ranks"] if record["attempts"] else [],
        transport=record["transport"],
        versions=record["versions"],
        log=outcome.log,
        record=path,
    )


def _for_bandwidth(
    request: JobRequest, *, sizes: Sequence[str], iterations: int | None, warm_up: int | None
) -> JobRequest:
    arguments = {key: value for key, value in request.spec.arguments.items() if key in _SHARED_ARGUMENTS}
    arguments |= {"sizes": list(sizes), "iterations": iterations, "warm_up": warm_up}
    # The code of training is no part of it: a changed model has the same network.
    spec = dataclasses.replace(request.spec, arguments=arguments, training_digest=BANDWIDTH.schema)
    return dataclasses.replace(request, spec=spec, kind=BANDWIDTH)


def _record(request: JobRequest, outcome: JobOutcome) -> dict[str, Any]:
    spec, reported = request.spec, outcome.record
    ranks = reported["attempts"][-1]["ranks"] if reported["attempts"] else []
    return {
        "schema": SCHEMA,
        "submissionId": outcome.submission_id,
        "status": "SUCCEEDED",
        "startedAt": record_file.iso(outcome.started_at),
        "endedAt": record_file.iso(outcome.ended_at),
        "image": {"reference": spec.image, "digest": image_digest(request.placement)},
        "cluster": {
            "kind": request.head.kind,
            "name": request.head.cluster_name,
            "session": outcome.session_name,
            "specDigest": spec.cluster_spec_digest,
            "rayVersion": outcome.ray_version,
        },
        "arguments": reported["arguments"],
        "runtimeEnv": {
            "pip": list(spec.pip),
            "env": dict(sorted(spec.env.items())),
            "secretEnvNames": sorted(spec.secret_env),
        },
        "versions": ranks[0].get("versions", {}) if ranks else {},
        "worldSize": reported["world_size"],
        "rows": reported["rows"],
        "transport": collect(reported, outcome.log),
        "verdict": {"expect": None, "value": None, "reasons": []},
        "quality": {"passed": None, "reasons": ["not judged yet"]},
        "attempts": reported["attempts"],
        "timings": reported["timings"],
        "log": {"path": str(outcome.log), "connections": outcome.log_connections},
    }
