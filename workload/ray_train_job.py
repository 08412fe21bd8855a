"""The training job as a Pulumi resource: its inputs decide when a run is due."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from workload.head import Head
from workload.held_inputs import as_asked
from workload.job_spec import JobSpec, file_digests
from workload.provider_process import differing, interrupt, reported, say
from workload.record_copies import on_settled
from workload.verdict import Wanted, wanted_of

IDENTITY = (
    "training_digest",
    "arguments",
    "pip",
    "pip_digests",
    "env",
    "secret_env_names",
    "image",
    "cluster_spec_digest",
    "run_id",
)
OUTPUTS = (
    "submission_id",
    "attempt",
    "status",
    "transport",
    "tokens_per_second",
    "eval_loss_before",
    "eval_loss_after",
    "checkpoint",
    "record",
)


class RayTrainJobProvider(ResourceProvider):
    """Delegates to `workload.job`. Pickled by reference, so that no change of code is a change of the resource."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        # Ray's client costs seconds of import; an unchanged `up` never comes here.
        from workload import job
        from workload.placement import at_the_end
        from workload.run_record import write_run_record

        request = dataclasses.replace(job_request(props), on_settled=on_settled(props, say))
        outcome = job.run(request, say=say, interrupt=interrupt)
        request = dataclasses.replace(request, placement=at_the_end(request.head, request.placement))
        record_path, record = write_run_record(request, outcome, wanted=wanted_of(props), settings=props["settings"])
        say(f"job {outcome.submission_id} SUCCEEDED; record {record_path}")
        outs = {
            **props,
            "submission_id": outcome.submission_id,
            "attempt": outcome.attempt,
            "status": "SUCCEEDED",
            "transport": record["transport"],
            "tokens_per_second": record["throughput"]["tokensPerSecond"],
            "eval_loss_before": record["evaluation"]["lossBefore"],
            "eval_loss_after": record["evaluation"]["lossAfter"],
            # A None would be unknown to the next preview.
            "checkpoint": record["checkpoint"] or "",
            "record": str(record_path),
        }
        return CreateResult(id_=outcome.submission_id, outs=outs)

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        changed = differing(olds, news, IDENTITY)
        return DiffResult(changes=bool(changed), replaces=changed)

    @reported
    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Reached only after a refresh or an import: nothing but a replacement starts a run."""
        return UpdateResult(outs={**news, **{key: olds.get(key) for key in OUTPUTS}})

    @reported
    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """A job in state has ended; its record and checkpoints are the user's and stay."""


def job_request(props: Mapping[str, Any]) -> Any:
    """The resource's inputs as `workload.job_following.JobRequest`; paths are relative to the program's folder."""
    from workload.job_following import JobRequest

    spec = JobSpec(
        training_digest=props["training_digest"],
        arguments=props["arguments"],
        pip=props["pip"],
        pip_digests=props.get("pip_digests") or {},
        env=props["env"],
        secret_env=props.get("secret_env") or {},
        image=props["image"],
        cluster_spec_digest=props["cluster_spec_digest"],
        run_id=props["run_id"],
    )
    storage, head = props["storage"], Head.from_inputs(props["head"])
    return JobRequest(
        spec=spec,
        head=head,
        placement=tuple(props.get("placement") or ()),
        stack=props.get("stack") or "",
        hourly_usd=props.get("hourly_usd"),
        training=Path("training").resolve(),
        runs=Path("runs"),
        # A path of this machine only where the ranks run on it.
        storage=os.path.realpath(storage) if head.kind == "local" and "://" not in storage else storage,
        deadline_s=float(props["deadline_seconds"]),
    )


class RayTrainJob(Resource, module="workload", name="RayTrainJob"):
    """A run of training/train.py on a Ray head, stored once it SUCCEEDED and reported, whatever the verdict on it.

    `head` is `infra.ray_head.RayHead.inputs()`. `storage` is where checkpoints go, as the ranks see it. `wanted` is
    what the record is judged by; it decides no rerun. `placement` says for the record which pods ran it, where and of
    which image, `stack` whose it is and `hourly_usd` what an hour of that stack costs; they decide none either.
    `records` is where a run that ends with an error is copied, whom no gate judges: as RunGate has it.
    """

    submission_id: pulumi.Output[str]
    attempt: pulumi.Output[int]
    status: pulumi.Output[str]
    transport: pulumi.Output[dict[str, Any]]
    tokens_per_second: pulumi.Output[float]
    eval_loss_before: pulumi.Output[float]
    eval_loss_after: pulumi.Output[float]
    checkpoint: pulumi.Output[str]
    record: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        head: pulumi.Input[Mapping[str, Any]],
        training_digest: str,
        arguments: Mapping[str, Any],
        pip: Sequence[str],
        env: Mapping[str, str],
        secret_env: pulumi.Input[Mapping[str, str]],
        secret_env_names: Sequence[str],
        image: str,
        cluster_spec_digest: str,
        run_id: str,
        storage: pulumi.Input[str],
        deadline_seconds: int,
        wanted: Wanted,
        settings: Mapping[str, Any],
        placement: pulumi.Input[Sequence[Mapping[str, Any]]] = (),
        stack: str = "",
        hourly_usd: float | None = None,
        records: Mapping[str, Any] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "head": head,
            "training_digest": training_digest,
            "arguments": dict(arguments),
            "pip": list(pip),
            "pip_digests": file_digests(pip),
            "env": dict(env),
            "secret_env": secret_env,
            "secret_env_names": sorted(secret_env_names),
            "image": image,
            "cluster_spec_digest": cluster_spec_digest,
            "run_id": run_id,
            "storage": storage,
            "deadline_seconds": deadline_seconds,
            "expect": wanted.expect,
            "nics": wanted.nics,
            "gdr": wanted.gdr,
            "settings": dict(settings),
            "placement": placement,
            "stack": stack,
            "hourly_usd": hourly_usd,
            "records": dict(records or {}),
            **dict.fromkeys(OUTPUTS),
        }
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(additional_secret_outputs=["secret_env"]))
        super().__init__(RayTrainJobProvider(), name, props, opts)
        self.as_asked = as_asked(self, props, identity=IDENTITY, result="record")
