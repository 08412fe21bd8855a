"""settings -> platform -> Ray head -> training job -> gate -> exports."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi

from infra.local_ray import LocalRay, LocalRayArgs
from infra.ray_head import RayHead
from infra.settings import Settings, load_settings
from workload.errors import ReportedError
from workload.job_spec import training_digest
from workload.ray_train_job import RayTrainJob
from workload.run_gate import RunGate
from workload.transport import judge


def ray_head(settings: Settings) -> tuple[RayHead, pulumi.Input[Sequence[Mapping[str, Any]]]]:
    """The platforms differ only in how they come by a Ray head; beside it, the pods that the run record names."""
    if settings.kubernetes is None:
        return LocalRay("ray", LocalRayArgs.of(settings.local)).head, ()
    # The Kubernetes SDK costs an import that no local stack should pay.
    from infra.kubernetes_ray import KubernetesRay
    from infra.preflight import inspected

    cluster = KubernetesRay("ray", inspected(settings.kubernetes))
    return cluster.head, cluster.pods


def main() -> None:
    settings = load_settings()
    head, pods = ray_head(settings)
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
        placement=pods,
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
    # What a cluster that was there before costs is not this program's to know.
    pulumi.export("hourlyCostUsd", 0.0 if settings.platform == "local" else None)
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
