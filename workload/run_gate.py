"""The resource that turns a run's verdict and quality into the exit code of `pulumi up`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from workload.errors import ReportedError
from workload.judgement import judgement
from workload.provider_process import reported, say
from workload.quality import gate_message
from workload.record_copies import copy_of, is_due
from workload.run_record import is_on_record, write_verdict
from workload.verdict import RULES, Wanted

# A resource of this provider keeps its place in old states by this import path: do not rename module or class.
DECIDING = ("submission_id", "expect", "nics", "gdr", "rules", "transport", "eval_loss_after", "max_eval_loss")


class RunGateProvider(ResourceProvider):
    """Judges once per change of its inputs; a failed judgement leaves nothing in state, so the next `up` asks again."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=f"gate-{props['submission_id']}", outs=_judged(props, {}))

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        if any(olds.get(key) != news.get(key) for key in DECIDING):
            return DiffResult(changes=True)
        record = Path(news["record"])
        # A failed update leaves old inputs in state: going back to them is no change, yet the record has the failure.
        return DiffResult(changes=not is_on_record(record, *judgement(news)) or is_due(olds, news, record))

    @reported
    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=_judged(news, olds))

    @reported
    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """A judgement holds nothing."""


def _judged(props: Mapping[str, Any], olds: Mapping[str, Any]) -> dict[str, Any]:
    verdict, quality = judgement(props)
    record = Path(props["record"])
    write_verdict(record, verdict, quality)
    copy = copy_of(props, record, say, before=olds.get("copy") or "")
    if message := gate_message(verdict, quality, props["submission_id"]):
        raise ReportedError(message)
    say(f"gate: transport {verdict.value} ({'; '.join(verdict.reasons)})")
    return {**props, "verdict": verdict.value, "copy": copy}


class RunGate(Resource, module="workload", name="RunGate"):
    """Fails its `up` unless the run's transport is proven as expected and the model is good enough.

    `records` is `infra.records_settings.RecordsSettings.inputs()`: where the judged run is copied to. `copy` is where
    the copies lie, empty for nowhere; one that failed is made up for by the next `up`.
    """

    verdict: pulumi.Output[str]
    copy: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        submission_id: pulumi.Input[str],
        record: pulumi.Input[str],
        transport: pulumi.Input[Mapping[str, Any]],
        eval_loss_after: pulumi.Input[float | None],
        wanted: Wanted,
        max_eval_loss: float | None,
        records: Mapping[str, Any] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            RunGateProvider(),
            name,
            {
                "submission_id": submission_id,
                "record": record,
                "transport": transport,
                "eval_loss_after": eval_loss_after,
                "expect": wanted.expect,
                "nics": wanted.nics,
                "gdr": wanted.gdr,
                "rules": RULES,
                "max_eval_loss": max_eval_loss,
                "records": dict(records or {}),
                "verdict": None,
                "copy": None,
            },
            opts,
        )
