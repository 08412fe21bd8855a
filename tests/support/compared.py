"""Comparisons for tests: a stack's job, and a `run` that makes up what a real one would report."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from tests.support import reports
from workload.arms import Arms, default_arms
from workload.bandwidth import BandwidthOutcome
from workload.comparison import AllReduce, ArmRun, Comparison
from workload.comparison_plan import Plan
from workload.head import Head
from workload.job_following import JobOutcome, JobRequest
from workload.job_spec import JobSpec
from workload.transport_evidence import collect
from workload.verdict import Verdict, Wanted

SECRET = "hf_very_secret"
GLOOS = default_arms("gloo")


def proven(expect: str = "gloo") -> Verdict:
    return Verdict(expect=expect, value="proven", reasons=("seen",))


def arm_run(arm: str, repeat: int, tokens: float, **changes: Any) -> ArmRun:
    values: dict[str, Any] = {
        "arm": arm,
        "repeat": repeat,
        "submission_id": f"job-{arm}-{repeat}",
        "record": f"runs/compare/job-{arm}-{repeat}/record.json",
        "verdict": proven(),
        "hosts": 2,
        "ranks": 4,
        "step_seconds": 1000 / tokens,
        "tokens_per_second": tokens,
    }
    return ArmRun(**{**values, **changes})


def all_reduce(arm: str, repeat: int, *bandwidths: tuple[int, float], **changes: Any) -> AllReduce:
    values: dict[str, Any] = {
        "arm": arm,
        "repeat": repeat,
        "submission_id": f"bandwidth-{arm}-{repeat}",
        "record": f"runs/compare/bandwidth-{arm}-{repeat}/record.json",
        "verdict": proven(),
        "hosts": 2,
        "ranks": 4,
        "rows": tuple({"bytes": size, "busbw_gbs": gbs, "wrong": 0} for size, gbs in bandwidths),
    }
    return AllReduce(**{**values, **changes})


def comparison(first: Sequence[float], second: Sequence[float], **changes: Any) -> Comparison:
    """Complete: tokens/s of each repeat of each arm, `gloo` and `gloo-lazy`."""
    runs = tuple(
        arm_run(arm.name, repeat, figure)
        for arm, figures in zip(GLOOS, (first, second), strict=True)
        for repeat, figure in enumerate(figures, start=1)
    )
    values: dict[str, Any] = {
        "arms": GLOOS,
        "repeats": len(first),
        "steps": 13,
        "with_bandwidth": False,
        "runs": runs,
    }
    return Comparison(**{**values, **changes})


def request(folder: Path, *, env: Mapping[str, str] | None = None) -> JobRequest:
    return JobRequest(
        spec=JobSpec(
            training_digest="a" * 64,
            arguments={"steps": 60.0, "checkpoint_every": 20, "seq_len": 64, "kill_at_step": 5, "max_failures": 1},
            pip=[],
            pip_digests={},
            env=env or {"A": "1"},
            secret_env={"HF_TOKEN": SECRET},
            image="image:1",
            cluster_spec_digest="c",
            run_id="",
        ),
        head=Head(
            kind="local",
            namespace="",
            cluster_name="local",
            ray_version="2.58.0",
            spec_digest="c",
            nodes=2,
            accelerators_per_node=2,
            worker_resource="trainer",
            address="http://127.0.0.1:9",
            token="bearer_token",
        ),
        training=folder / "training",
        runs=folder / "runs",
        storage=str(folder / "shared"),
        deadline_s=60,
    )


def plan(folder: Path, *, arms: Arms = GLOOS, **changes: Any) -> Plan:
    values: dict[str, Any] = {
        "request": request(folder),
        "wanted": Wanted(expect=arms[0].expect),
        "settings": {"platform": "local"},
        "arms": arms,
        "repeats": 3,
        "steps": 13,
        "sizes": None,
    }
    return Plan(**{**values, **changes})


class Cluster:
    """Stands in for a Ray cluster: `run`, `measure` and `stop` as `workload.compare_runs.carry_out` takes them.

    `tokens_per_second` gives each run's speed from its environment; `before` is called with the number of the job that
    is about to run, from 1 on, and may raise; `changed` may change what a run reports.
    """

    def __init__(
        self,
        *,
        tokens_per_second: Callable[[Mapping[str, str]], float] = lambda env: 1000.0,
        before: Callable[[int], None] = lambda number: None,
        changed: Callable[[int, dict[str, Any]], None] = lambda number, report: None,
        wrong: int = 0,
    ) -> None:
        self._tokens_per_second, self._before, self._changed, self._wrong = tokens_per_second, before, changed, wrong
        self.requests: list[JobRequest] = []
        self.measured: list[JobRequest] = []
        self.stopped: list[JobRequest] = []

    def run(self, request: JobRequest, *, say: Callable[[str], None], interrupt: Event) -> JobOutcome:
        self.requests.append(request)
        self._before(len(self.requests) + len(self.measured))
        say("step 1/13")
        tokens = self._tokens_per_second(request.spec.env)
        report = reports.report(tokens_per_second=tokens, step_seconds={"median": 1024 / tokens})
        for rank in report["attempts"][0]["ranks"]:
            rank["job_environment"] = sorted({*request.spec.env, *request.spec.secret_env})
        self._changed(len(self.requests), report)
        return _outcome(request, "ray-train-fsdp-llm", report)

    def measure(
        self, request: JobRequest, *, sizes: Sequence[str], say: Callable[[str], None], interrupt: Event
    ) -> BandwidthOutcome:
        self.measured.append(request)
        self._before(len(self.requests) + len(self.measured))
        report = reports.report()
        outcome = _outcome(request, "ray-train-bandwidth", report)
        rows = [{"bytes": 1 << 20, "busbw_gbs": 0.5 + 0.01 * len(self.measured), "wrong": self._wrong}]
        return BandwidthOutcome(
            submission_id=outcome.submission_id,
            world_size=4,
            rows=rows,
            ranks=report["attempts"][-1]["ranks"],
            transport=collect(report, outcome.log),
            versions={},
            log=outcome.log,
            record=outcome.log.with_name("record.json"),
        )

    def stop(self, request: JobRequest, *, say: Callable[[str], None]) -> None:
        self.stopped.append(request)


def _outcome(request: JobRequest, name: str, report: dict[str, Any]) -> JobOutcome:
    identifier = f"{name}-{request.spec.digest()[:10]}-{hashlib.sha256(b'session').hexdigest()[:6]}-1"
    folder = request.runs / identifier
    folder.mkdir(parents=True)
    (folder / "job.log").touch()
    return JobOutcome(
        submission_id=identifier,
        attempt=1,
        session_name="session_x",
        ray_version="2.58.0",
        started_at=1_790_000_000.0,
        ended_at=1_790_000_060.0,
        log=folder / "job.log",
        log_connections=1,
        record={**report, "run_id": identifier},
    )
