"""settings -> platform -> Ray head -> training job -> gate -> exports."""

from pathlib import Path

import pulumi

from infra.platform import Platform, platform_of
from infra.ray_head import RayHead
from infra.settings import Settings, load_settings
from workload.errors import ReportedError
from workload.job_spec import training_digest
from workload.ray_train_job import RayTrainJob
from workload.run_gate import RunGate
from workload.transport import judge


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
    pulumi.export("commands", {"stop the job": "efactl stop", "figures": "efactl outputs", "tear down": "efactl down"})
    run(settings, platform, platform.head)


def run(settings: Settings, platform: Platform, head: RayHead) -> None:
    """The job, its verdict, and the gate that the `up` passes or fails by."""
    job = RayTrainJob(
        "train",
        head=head.inputs(),
        training_digest=training_digest(Path("training")),
        arguments=settings.train.arguments(),
        pip=settings.job.pip,
        env=settings.job.env,
        secret_env=settings.job.secret_env,
        secret_env_names=settings.job.secret_env_names,
        image=head.image,
        cluster_spec_digest=head.spec_digest,
        run_id=settings.job.run_id,
        storage=platform.storage,
        deadline_seconds=settings.job.deadline_seconds,
        expect=settings.expect,
        settings=settings.declared,
        placement=platform.pods,
    )
    verdict = job.transport.apply(lambda transport: judge(transport, settings.expect))
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
    RunGate(
        "gate",
        submission_id=job.submission_id,
        record=job.record,
        transport=job.transport,
        eval_loss_after=job.eval_loss_after,
        expect=settings.expect,
        max_eval_loss=settings.gate_max_eval_loss,
    )


try:
    main()
except ReportedError as error:
    raise pulumi.RunError(str(error)) from None
