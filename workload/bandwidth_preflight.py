"""The measurement that a training job waits for: bandwidth, right sums, and over which transport."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from workload.bandwidth_result import failures, largest, mebibytes, preflight_message
from workload.errors import ReportedError
from workload.held_inputs import as_asked
from workload.job_spec import file_digests
from workload.provider_process import differing, interrupt, reported, say
from workload.ray_train_job import job_request
from workload.record_copies import copy_of, is_due, on_settled
from workload.run_record import is_on_record, write_verdict
from workload.transport import judge
from workload.verdict import RULES, Verdict, Wanted, wanted_of

# A resource of this provider keeps its place in old states by this import path: do not rename module or class.
IDENTITY = (
    "sizes",
    "backend",
    "num_workers",
    "pip",
    "pip_digests",
    "env",
    "secret_env_names",
    "image",
    "cluster_spec_digest",
    "run_id",
)
DECIDING = ("expect", "nics", "gdr", "rules", "min_busbw_gbs")
OUTPUTS = ("submission_id", "rows", "transport", "busbw_gbs", "verdict", "log", "record", "copy")


class BandwidthPreflightProvider(ResourceProvider):
    """Delegates to `workload.bandwidth`; what it measured is judged again, and not measured, when a demand changes."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        # Ray's client costs seconds of import; an unchanged `up` never comes here.
        from workload.bandwidth import measure

        arguments = {"backend": props["backend"], "num_workers": props["num_workers"]}
        request = job_request({**props, "training_digest": "", "arguments": arguments})
        request = dataclasses.replace(request, on_settled=on_settled(props, say))
        outcome = measure(request, sizes=props["sizes"], say=say, interrupt=interrupt)
        measured = {
            "submission_id": outcome.submission_id,
            "rows": [dict(row) for row in outcome.rows],
            "transport": dict(outcome.transport),
            "log": str(outcome.log),
            "record": str(outcome.record),
        }
        return CreateResult(id_=outcome.submission_id, outs=_judged(props, measured, measured_now=True))

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        if replaces := differing(olds, news, IDENTITY):
            return DiffResult(changes=True, replaces=replaces)
        if differing(olds, news, DECIDING):
            return DiffResult(changes=True)
        record = Path(olds["record"])
        # A failed update leaves old inputs in state: going back to them is no change, yet the record has the failure.
        return DiffResult(changes=not is_on_record(record, *_judgement(news, olds)) or is_due(olds, news, record))

    @reported
    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=_judged(news, olds, measured_now=False))

    @reported
    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """A measurement in state has ended; its record is the user's and stays."""


def _judgement(props: Mapping[str, Any], measured: Mapping[str, Any]) -> tuple[Verdict, list[str]]:
    verdict = judge(measured["transport"], wanted_of(props))
    return verdict, failures(measured["rows"], props.get("min_busbw_gbs"))


def _judged(props: Mapping[str, Any], measured: Mapping[str, Any], *, measured_now: bool) -> dict[str, Any]:
    verdict, reasons = _judgement(props, measured)
    record = Path(measured["record"])
    write_verdict(record, verdict, reasons)
    copy = copy_of(props, record, say, before=measured.get("copy") or "")
    message = preflight_message(verdict, reasons, measured["submission_id"], measured["log"], measured_now=measured_now)
    if message:
        raise ReportedError(message)
    best = largest(measured["rows"])
    assert best is not None
    say(
        f"preflight: bus bandwidth {best['busbw_gbs']:.3g} GB/s at {mebibytes(best)}, all sums right; "
        f"transport {verdict.value} ({'; '.join(verdict.reasons)})"
    )
    return {
        **props,
        **{key: measured[key] for key in ("submission_id", "rows", "transport", "log", "record")},
        "busbw_gbs": best["busbw_gbs"],
        "verdict": verdict.value,
        "copy": copy,
    }


class BandwidthPreflight(Resource, module="workload", name="BandwidthPreflight"):
    """A measurement on a Ray head, stored once its transport, its sums and its bandwidth are as wanted.

    A job that depends on it is not started before. `head`, `storage`, `env`, `pip`, `placement` are as RayTrainJob has
    them; so are `backend` and `num_workers`, its arguments. `sizes` empty takes the backend's own; `min_busbw_gbs` in
    GB/s at the largest size, None demands none. `records` and `copy` are as RunGate has them.
    """

    submission_id: pulumi.Output[str]
    rows: pulumi.Output[list[dict[str, Any]]]
    transport: pulumi.Output[dict[str, Any]]
    busbw_gbs: pulumi.Output[float]
    verdict: pulumi.Output[str]
    log: pulumi.Output[str]
    record: pulumi.Output[str]
    copy: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        head: pulumi.Input[Mapping[str, Any]],
        sizes: Sequence[str],
        min_busbw_gbs: float | None,
        wanted: Wanted,
        backend: str,
        pip: Sequence[str],
        env: Mapping[str, str],
        secret_env: pulumi.Input[Mapping[str, str]],
        secret_env_names: Sequence[str],
        image: str,
        cluster_spec_digest: str,
        storage: pulumi.Input[str],
        deadline_seconds: int,
        num_workers: int = 0,
        run_id: str = "",
        placement: pulumi.Input[Sequence[Mapping[str, Any]]] = (),
        stack: str = "",
        hourly_usd: float | None = None,
        records: Mapping[str, Any] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "head": head,
            "sizes": list(sizes),
            "min_busbw_gbs": min_busbw_gbs,
            "expect": wanted.expect,
            "nics": wanted.nics,
            "gdr": wanted.gdr,
            "rules": RULES,
            "backend": backend,
            "num_workers": num_workers,
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
            "placement": placement,
            "stack": stack,
            "hourly_usd": hourly_usd,
            "records": dict(records or {}),
            **dict.fromkeys(OUTPUTS),
        }
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(additional_secret_outputs=["secret_env"]))
        super().__init__(BandwidthPreflightProvider(), name, props, opts)
        self.as_asked = as_asked(self, props, identity=IDENTITY, result="record")
