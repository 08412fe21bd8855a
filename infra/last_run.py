"""Which run a stack asks for, and which one it did last: what decides whether GPU nodes are needed."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi

from capacity.file_backend import PAUSES_S, UNREADABLE
from infra import ray_cluster_manifest
from infra.eks_settings import EksSettings
from infra.ray_cluster import RayClusterArgs
from infra.ray_cluster_spec import SERVICE_ACCOUNT
from infra.settings import Settings
from workload.job_spec import JobSpec, digest_of, file_digests, training_digest
from workload.verdict import RULES

# The stack output that holds the key of the last run that SUCCEEDED, with all that was measured beside it; "" where an
# `up` with targets has left some of it out (workload/held_inputs.py).
OUTPUT = "runDone"


def key_of(settings: Settings, eks: EksSettings) -> str:
    """Another text for each set of inputs that makes the job, the preflight or the comparison run anew."""
    spec = RayClusterArgs.of(
        eks.kubernetes, instance=eks.kubernetes.instance, service_account=SERVICE_ACCOUNT, own_system_nodes=True
    ).spec
    job = JobSpec(
        training_digest=training_digest(Path("training")),
        arguments=settings.train.arguments(),
        pip=settings.job.pip,
        pip_digests=file_digests(settings.job.pip),
        env=settings.job.env,
        secret_env=dict.fromkeys(settings.job.secret_env_names, ""),
        image=spec.image,
        cluster_spec_digest=ray_cluster_manifest.spec_digest(spec),
        run_id=settings.job.run_id,
    )
    measured: dict[str, Any] = {}
    if settings.preflight.bandwidth:
        measured["preflight"] = list(settings.preflight.sizes)
    if settings.compare.repeats:
        compare = settings.compare
        arms = [arm.as_json() for arm in compare.arms]
        measured["compare"] = [arms, compare.repeats, compare.steps, list(settings.preflight.sizes), RULES]
    return digest_of({"job": job.identity(), **measured})[:16]


def done() -> str:
    """The key in the stack's outputs, as its last `up` left them; "" where there is none."""
    return str(_outputs().get(OUTPUT) or "")


def _outputs() -> Mapping[str, Any]:
    """The stack's own, which the engine may be writing at this moment: it saves what it makes beside the program."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    for pause in (*PAUSES_S, None):
        try:
            found = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name}).value
            break
        except Exception as error:
            # The SDK raises no narrower one.
            if pause is None or UNREADABLE not in str(error):
                raise
            time.sleep(pause)
    return (found or {}).get("outputs") or {}
