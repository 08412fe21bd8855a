"""settings -> platform -> Ray head -> training job -> gate -> exports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi

from infra.platform import Platform, platform_of
from infra.ray_head import RayHead
from infra.settings import Settings, load_settings
from workload.bandwidth_preflight import BandwidthPreflight
from workload.comparison_gate import ComparisonGate
from workload.errors import ReportedError
from workload.held_inputs import key_where_run
from workload.job_spec import training_digest
from workload.ray_train_job import RayTrainJob
from workload.run_gate import RunGate
from workload.transport import judge
from workload.transport_comparison import TransportComparison
from workload.verdict import Wanted


def main() -> None:
    settings = load_settings()
    platform = platform_of(settings)
    pulumi.export("hourlyCostUsd", platform.hourly_cost_usd)
    for name, value in platform.outputs.items():
        pulumi.export(name, value)
    if platform.head is None:
        pulumi.log.info("gpuNodes is 0: no Ray cluster and no run until there are nodes again")
        return
    pulumi.export("dashboard", platform.head.address)
    # Whoever copies one is not asked which stack is meant, and efactl's default is the local one.
    of = f"-s {pulumi.get_stack()}"
    commands = {
        "stop the job": f"efactl stop {of}",
        "figures": f"efactl outputs {of}",
        "tear down": f"efactl down {of}",
    }
    again = {"give the GPU nodes back": f"pulumi up {of}, once more (efactl up does)"} if platform.run_again else {}
    pulumi.export("commands", {**commands, **again})
    if not settings.trains:
        pulumi.log.info("train is false: all that the job needs, and no run")
        return
    run(settings, platform, platform.head)


def run(settings: Settings, platform: Platform, head: RayHead) -> None:
    """The job, its verdict, and the gate that the `up` passes or fails by."""
    wanted = Wanted(expect=settings.expect, nics=platform.nics, gdr=platform.gdr)
    # What the job has in common with what is measured beside it.
    shared: dict[str, Any] = {
        "head": head.inputs(),
        "pip": settings.job.pip,
        "env": settings.job.env,
        "secret_env": settings.job.secret_env,
        "secret_env_names": settings.job.secret_env_names,
        "image": head.image,
        "cluster_spec_digest": head.spec_digest,
        "storage": platform.storage,
        "deadline_seconds": settings.job.deadline_seconds,
        "wanted": wanted,
        "placement": platform.pods,
        "stack": pulumi.get_stack(),
        "hourly_usd": platform.hourly_cost_usd,
        "records": settings.records.inputs(),
    }
    of_job: dict[str, Any] = {
        **shared,
        "training_digest": training_digest(Path("training")),
        "arguments": settings.train.arguments(),
        "run_id": settings.job.run_id,
        "settings": settings.declared,
    }
    preflights = measured_before(settings, shared)
    job = RayTrainJob("train", **of_job, opts=pulumi.ResourceOptions(depends_on=preflights))
    verdict = job.transport.apply(lambda transport: judge(transport, wanted))
    pulumi.export(
        "run",
        {
            "submissionId": job.submission_id,
            "status": job.status,
            "verdict": verdict.apply(lambda verdict: verdict.value),
            "verdictReasons": verdict.apply(lambda verdict: list(verdict.reasons)),
            "tokensPerSecond": job.tokens_per_second,
            "evalLossBefore": job.eval_loss_before,
            "evalLossAfter": job.eval_loss_after,
            "checkpoint": job.checkpoint,
            "record": job.record,
        },
    )
    gate = RunGate(
        "gate",
        submission_id=job.submission_id,
        record=job.record,
        transport=job.transport,
        eval_loss_after=job.eval_loss_after,
        wanted=wanted,
        max_eval_loss=settings.gate_max_eval_loss,
        records=settings.records.inputs(),
    )
    measured: list[BandwidthPreflight | RayTrainJob | TransportComparison] = [*preflights, job]
    if settings.compare.repeats:
        measured.append(compare(settings, of_job, after=gate))
    if platform.run_key:
        # What an `up` with targets left out is of another run, or of none: the nodes are needed still.
        pulumi.export("runDone", key_where_run(platform.run_key, *(each.as_asked for each in measured)))


def measured_before(settings: Settings, shared: Mapping[str, Any]) -> list[BandwidthPreflight]:
    """What the job waits for, though it takes no value of it: a network that is slow or wrong is told first."""
    if not settings.preflight.bandwidth:
        return []
    preflight = BandwidthPreflight(
        "preflight",
        **shared,
        sizes=settings.preflight.sizes,
        min_busbw_gbs=settings.preflight.min_bus_bandwidth,
        backend=settings.train.backend,
        num_workers=settings.train.num_workers,
        run_id=settings.job.run_id,
    )
    pulumi.export("preflight", {"busBandwidthGBs": preflight.busbw_gbs, "record": preflight.record})
    return [preflight]


def compare(settings: Settings, of_job: Mapping[str, Any], *, after: pulumi.Resource) -> TransportComparison:
    """The job in two arms by turns, once it is known to be good, and what that must come to."""
    comparison = TransportComparison(
        "compare",
        **of_job,
        arms=settings.compare.arms,
        repeats=settings.compare.repeats,
        steps=settings.compare.steps,
        bandwidth=True,
        sizes=settings.preflight.sizes,
        opts=pulumi.ResourceOptions(depends_on=[after]),
    )
    pulumi.export("comparison", {"result": comparison.result, "report": comparison.report})
    ComparisonGate(
        "compare-gate",
        result=comparison.result,
        report=comparison.report,
        min_speedup=settings.compare.min_speedup,
    )
    return comparison


try:
    main()
except ReportedError as error:
    raise pulumi.RunError(str(error)) from None
