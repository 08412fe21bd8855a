"""Folders of runs as the product leaves them: records written by its own code, logs as its jobs print them."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from report.run import Run as Told
from report.run_files import Places, load
from tests.support import reports
from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from workload.head import Head
from workload.job_following import JobOutcome, JobRequest
from workload.job_record import MARK
from workload.job_spec import JobSpec
from workload.run_folder import LOG, settle
from workload.run_record import write_run_record, write_verdict
from workload.transport import judge
from workload.verdict import Wanted

CORPUS = Path(__file__).parents[1] / "corpus" / "marked"
HOSTS = ("ip-10-20-1-11", "ip-10-20-1-42", "ip-10-20-1-63")
STARTED = 1_790_000_000.0
PLAN = (
    "memory plan: 6.0 GiB a rank at the loss (weights 0.7, optimizer 1.4, gradients 0.9, gathered parameters 0.4, "
    "activations 2.0, logits 0.6); with what CUDA keeps 7.8 of 22.0 GiB: fits L4"
)
Spoil = Callable[[dict[str, Any]], object]


def gloo(runs: Path, name: str = "ray-train-fsdp-llm-1111aaaa11-aaaaaa-1", **changes: Any) -> Path:
    """A training of 60 steps on two nodes of this machine, in `runs/NAME`."""
    return _written(runs, name, trained(reports.report(), 60, **changes), Wanted(expect="gloo"), kind="local")


def efa(runs: Path, name: str = "ray-train-fsdp-llm-2222bbbb22-bbbbbb-1", *, hosts: int = 2, **changes: Any) -> Path:
    """Two GPUs on each of some hosts, proven over EFA, with a plan of memory and evaluations on the way."""
    marked = MarkedRun(run=Run(hosts=HOSTS[:hosts], nics=1, channels=4, gdr="/GDRDMA"))
    report = trained(marked.record(), 120, gpu=True, **changes)
    return _written(runs, name, report, Wanted(expect="efa"), log=marked.printed(), gpu=True)


def sockets(runs: Path, name: str = "ray-train-fsdp-llm-3333cccc33-cccccc-1") -> Path:
    """The same wanted over EFA, but of ranks whose NCCL found no plugin: refuted."""
    marked = MarkedRun(run=Run(hosts=HOSTS[:2], network="missing", channels=4), moved=None)
    report = trained(marked.record(), 120, gpu=True, speed=0.31)
    return _written(runs, name, report, Wanted(expect="efa"), log=marked.printed(), gpu=True, quality=("too high",))


def real_sockets(runs: Path, name: str = "real-socket") -> Path:
    """Of a job that really ran over sockets between two hosts: what its ranks told, and its log."""
    ranks = json.loads((CORPUS / "real-socket.json").read_text())
    whole = [{**reports.rank(rank["rank"], backend="nccl"), **rank} for rank in ranks]
    attempts = [{"attempt": 1, "resumed_from_step": 0, "started_at": "x", "ranks": whole}]
    report = trained(reports.report(world_size=len(ranks), attempts=attempts), 10)
    lines = (CORPUS / "real-socket.log").read_text().splitlines()
    return _written(runs, name, report, Wanted(expect="socket"), log=lines, gpu=True)


def failed(runs: Path, name: str = "ray-train-fsdp-llm-4444dddd44-dddddd-1") -> Path:
    """A job that ran out of memory at its seventh step."""
    report = trained(reports.report(), 6)
    error = "rank 1 on ip-10-20-1-42: CUDA out of memory"
    report |= {"status": "failed", "error": error, "run_id": name, "step_seconds": None, "tokens_per_second": None}
    report["eval"] |= {"after": None}
    folder = runs / name
    folder.mkdir(parents=True)
    lines = [*_said(report, 6), f"(TrainController pid=7) [error] {error}", MARK + json.dumps(report)]
    (folder / LOG).write_text("\n".join(lines) + "\n")
    settle(folder, f"job {name} ended as FAILED\n  {error}\nfull log: runs/{name}/job.log")
    return folder


def loaded(folder: Path) -> Told:
    """As a page tells of it."""
    return load(Places([]).find(str(folder)))


def spoilt(folder: Path, spoil: Spoil) -> Path:
    """Changes the record in a folder."""
    path = folder / "record.json"
    record = json.loads(path.read_text())
    spoil(record)
    path.write_text(json.dumps(record))
    return folder


def into_measurement(record: dict[str, Any]) -> None:
    """Makes a training's record that of a bandwidth job, as workload/bandwidth.py writes it."""
    for key in ("throughput", "memory", "evaluation", "losses", "checkpoint", "checkpoints", "data", "profile", "cost"):
        record.pop(key, None)
    figures = {"count": 1 << 28, "type": "float", "op": "sum", "time_us": 51_200.0, "algbw_gbs": 21.0, "wrong": 0}
    record |= {
        "schema": "ray-train-efa/bandwidth-run/1",
        "rows": [{**figures, "bytes": 1 << 30, "busbw_gbs": 31.5}],
        "quality": {"passed": True, "reasons": []},
    }


def trained(report: Mapping[str, Any], steps: int, *, gpu: bool = False, speed: float = 1.0) -> dict[str, Any]:
    """A report with as many steps, each of a made-up speed and loss."""
    step_s = (0.42 if gpu else 0.25) / speed
    world = report["world_size"]
    split: dict[str, Any] = {
        part: {"median": share * step_s, "p90": share * step_s * 1.3}
        for part, share in (("input", 0.004), ("forward", 0.31), ("backward", 0.58), ("optimizer", 0.03))
    }
    split["gpu_waited"] = {"median": 0.01 * step_s, "p90": 0.03 * step_s} if gpu else None
    last = _loss(steps)
    return {
        **report,
        "arguments": {"model_id": "Qwen/Qwen2-0.5B" if gpu else "tiny-qwen2", "steps": steps, "lr": 3e-4, "seed": 1234},
        "losses": [[step, _loss(step)] for step in range(1, steps + 1)],
        "tokens_per_step": 16384 if gpu else 4096,
        "tokens_per_second": (16384 if gpu else 4096) / step_s,
        "step_seconds": {"median": step_s, "p90": step_s * 1.3, "first": step_s * 4},
        "split_seconds": split,
        "mfu": 0.412 * speed if gpu else None,
        "peak_memory_bytes": {
            str(rank): (6_330 if gpu else 930) * 1_000_000 + rank * 3_000_000 for rank in range(world)
        },
        "eval": {
            "before": _evaluated(_loss(0), 0.002),
            "after": _evaluated(last, 0.424),
        },
        "data": {"key": "pydoc-256-0.1", "sequences": 1597, "heldOut": 228},
        "timings": {
            "driver_import_s": 3.4,
            "ray_init_s": 0.1,
            "worker_group_s": 21.0,
            "train_s": steps * step_s,
            "eval_s": 2.5,
            "checkpoint_s": 0.4,
            "total_s": 31.0 + steps * step_s,
        },
    }


def _evaluated(loss: float, accuracy: float) -> dict[str, Any]:
    return {"loss": loss, "perplexity": math.exp(loss), "tokens": 16380, "token_accuracy": accuracy}


def _loss(step: int) -> float:
    return 2.2 + 4.0 * math.exp(-step / 14) + 0.09 * math.sin(step * 1.7)


def _said(report: Mapping[str, Any], steps: int, *, gpu: bool = False) -> list[str]:
    """As rank 0 prints it."""
    typical = report["tokens_per_second"] or 16000.0
    lines = [PLAN] if gpu else []
    lines.append(f"eval before: loss {report['eval']['before']['loss']:.4f} perplexity 459.8 (16,380 tokens)")
    for step, loss in report["losses"][:steps]:
        now = typical * (0.3 if step == 1 else 1 + 0.06 * math.sin(step * 2.3) - (0.3 if step % 20 == 1 else 0))
        lines.append(f"step {step}/{steps} loss {loss:.4f} tokens/s {now:.0f} grad norm 0.46")
        if gpu and step % 30 == 0 and step < steps:
            lines.append(f"eval at step {step}: loss {loss + 0.1:.4f} perplexity 9.1 (16,380 tokens)")
    return [f"(RayTrainWorker pid=19521, ip=10.20.1.11) [train] {line}" for line in lines]


def _written(
    runs: Path,
    name: str,
    report: dict[str, Any],
    wanted: Wanted,
    *,
    log: list[str] | None = None,
    gpu: bool = False,
    kind: str = "eks",
    quality: tuple[str, ...] = (),
) -> Path:
    folder = runs / name
    folder.mkdir(parents=True)
    (folder / LOG).write_text("\n".join([*(log or []), *_said(report, len(report["losses"]), gpu=gpu)]) + "\n")
    took = float(report["timings"]["total_s"]) + 6
    outcome = JobOutcome(
        submission_id=name,
        attempt=1,
        session_name="session_x",
        ray_version="2.58.0",
        started_at=STARTED,
        ended_at=STARTED + took,
        log=folder / LOG,
        log_connections=1,
        record={**report, "run_id": name},
    )
    settings = {"platform": kind, "expect": wanted.expect, "gateMaxEvalLoss": "2.0" if quality else ""}
    path, record = write_run_record(_request(runs, kind), outcome, wanted=wanted, settings=settings)
    write_verdict(path, judge(record["transport"], wanted), quality)
    return folder


def _request(runs: Path, kind: str) -> JobRequest:
    return JobRequest(
        spec=JobSpec(
            training_digest="a" * 64,
            arguments={},
            pip=["six==1.16.0"],
            pip_digests={},
            env={},
            secret_env={"HF_TOKEN": "hf_very_secret"},
            image="registry.example/ray:train-1",
            cluster_spec_digest="c",
            run_id="",
        ),
        head=Head(
            kind="local" if kind == "local" else "kubernetes",
            namespace="",
            cluster_name=kind,
            ray_version="2.58.0",
            spec_digest="c",
            nodes=2,
            accelerators_per_node=2,
            worker_resource="trainer",
            token="bearer_token",
        ),
        training=runs / "training",
        runs=runs,
        storage=str(runs),
        deadline_s=60,
        stack="dev",
        hourly_usd=0.0 if kind == "local" else None,
    )
