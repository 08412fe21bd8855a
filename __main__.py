"""settings -> platform -> Ray head -> training job -> gate -> exports."""

from pathlib import Path

import pulumi

from infra.local_ray import LocalRay, LocalRayArgs
from infra.ray_head import RayHead
from infra.settings import Settings, load_settings
from workload.errors import ReportedError
from workload.job_spec import training_digest
from workload.ray_train_job import RayTrainJob
from workload.run_gate import RunGate
from workload.transport import judge


def ray_head(settings: Settings) -> RayHead:
    """The platforms differ only in how they come by a Ray head."""
    return LocalRay("ray", LocalRayArgs.of(settings.local)).head


def main() -> None:
    settings = load_settings()
    head = ray_head(settings)
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
        storage=settings.storage_path,
        deadline_seconds=settings.job.deadline_seconds,
        expect=settings.expect,
        settings=settings.declared,
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
    pulumi.export("hourlyCostUsd", 0.0)
    pulumi.export("dashboard", head.address)
    pulumi.export("commands", {"stop the job": "efactl stop", "figures": "efactl outputs", "tear down": "efactl down"})
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
