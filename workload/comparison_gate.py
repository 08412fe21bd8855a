"""The resource that turns a comparison into the exit code of `pulumi up`."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from workload import record_file
from workload.comparison import failures
from workload.errors import ReportedError
from workload.provider_process import differing, reported, say

# A resource of this provider keeps its place in old states by this import path: do not rename module or class.
DECIDING = ("result", "min_speedup", "report")


class ComparisonGateProvider(ResourceProvider):
    """Judges once per change of its inputs; a failed judgement leaves nothing in state, so the next `up` asks again."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=f"gate-{Path(props['report']).parent.name}", outs=_judged(props))

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        if differing(olds, news, DECIDING):
            return DiffResult(changes=True)
        # A failed update leaves old inputs in state: going back to them is no change, yet the report has the failure.
        return DiffResult(changes=not _is_on_report(Path(news["report"]), _judgement(news)))

    @reported
    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=_judged(news))

    @reported
    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """A judgement holds nothing."""


def _judgement(props: Mapping[str, Any]) -> dict[str, Any]:
    minimum = props.get("min_speedup")
    return {"minSpeedup": minimum, "reasons": failures(props["result"], minimum)}


def _judged(props: Mapping[str, Any]) -> dict[str, Any]:
    judgement, report = _judgement(props), Path(props["report"])
    if report.exists():
        whole = json.loads(report.read_text(encoding="utf-8"))
        record_file.write(report, {**whole, "judgement": {**judgement, "judgedAt": record_file.iso(time.time())}})
    result = props["result"]
    if judgement["reasons"]:
        headline = (
            "the comparison is too slow" if result["status"] == "complete" else f"the comparison is {result['status']}"
        )
        raise ReportedError(
            "\n".join(
                [
                    f"{headline}: {report}",
                    *(f"  {reason}" for reason in judgement["reasons"]),
                    "It stays on record and is not repeated; change a compare setting or the job to move on.",
                ]
            )
        )
    first, second = result["arms"]
    interval = f"{result['value']:.3g} times {second}'s (95 %: {result['low']:.3g} to {result['high']:.3g})"
    say(f"comparison: tokens/s of {first} are {interval}" + (", inside the noise" if result["insideNoise"] else ""))
    return {**props, "passed": True}


def _is_on_report(report: Path, judgement: Mapping[str, Any]) -> bool:
    """A report that is not on this machine cannot be brought up to date."""
    if not report.exists():
        return True
    held = json.loads(report.read_text(encoding="utf-8")).get("judgement", {})
    return all(held.get(key) == value for key, value in judgement.items())


class ComparisonGate(Resource, module="workload", name="ComparisonGate"):
    """Fails its `up` where the comparison has no ratio, or one whose interval begins below `min_speedup`."""

    passed: pulumi.Output[bool]

    def __init__(
        self,
        name: str,
        *,
        result: pulumi.Input[Mapping[str, Any]],
        report: pulumi.Input[str],
        min_speedup: float | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            ComparisonGateProvider(),
            name,
            {"result": result, "report": report, "min_speedup": min_speedup, "passed": None},
            opts,
        )
