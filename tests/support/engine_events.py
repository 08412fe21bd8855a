"""Makes event logs as the engine writes them, from what a preview is to say."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

JOB = "pulumi-python:dynamic/workload:RayTrainJob"
INPUTS: dict[str, Any] = {
    "training_digest": "aa",
    "arguments": {"steps": 20, "lr": 1e-5, "model_id": "tiny-qwen2"},
    "pip": ["humanize==4.12.0"],
    "pip_digests": {},
    "env": {"LOG_LEVEL": "info"},
    "secret_env_names": ["HF_TOKEN"],
    "image": "registry.example/ray:1",
    "cluster_spec_digest": "cc",
    "run_id": "",
    "settings": {"trainSteps": "20"},
}


def urn(token: str, name: str) -> str:
    return f"urn:pulumi:dev::ray-train-efa::{token}::{name}"


def step(
    operation: str,
    token: str,
    name: str,
    *,
    inputs: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    diffs: Sequence[str] = (),
) -> dict[str, Any]:
    metadata = {
        "op": operation,
        "urn": urn(token, name),
        "type": token,
        "old": None if before is None else {"type": token, "inputs": before},
        "new": None if inputs is None else {"type": token, "inputs": inputs},
        "diffs": list(diffs),
        "detailedDiff": None,
    }
    return {"resourcePreEvent": {"metadata": metadata, "planning": True}}


def job(operation: str, *, before: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return step(operation, JOB, "train", inputs={**INPUTS, **changes}, before=before)


def outputs(values: Mapping[str, Any]) -> dict[str, Any]:
    stack = "pulumi:pulumi:Stack"
    metadata = {"op": "same", "urn": urn(stack, "ray-train-efa-dev"), "type": stack, "new": {"outputs": dict(values)}}
    return {"resOutputsEvent": {"metadata": metadata, "planning": True}}


def cost(total: float, *lines: tuple[str, int, float | None], lacks: Sequence[str] = ()) -> dict[str, Any]:
    shown = [{"what": what, "count": count, "hourlyUsd": usd} for what, count, usd in lines]
    detail = {"totalUsd": total, "lines": shown, "lacks": list(lacks), "pricesOf": "2026-09-10"}
    return outputs({"hourlyCostUsd": total, "hourlyCost": detail})


def broken(rule: str, message: str, level: str = "mandatory") -> dict[str, Any]:
    return {"policyEvent": {"policyName": rule, "message": message, "enforcementLevel": level}}


def kept(*rules: str) -> dict[str, Any]:
    return {"policyAnalyzeSummaryEvent": {"resourceUrn": urn("a:b:C", "c"), "passed": list(rules)}}


def error(message: str) -> dict[str, Any]:
    return {"diagnosticEvent": {"severity": "error", "message": message}}


END: dict[str, Any] = {"summaryEvent": {"resourceChanges": {}, "isPreview": True, "result": "succeeded"}}


def log(*events: Mapping[str, Any]) -> list[str]:
    return [json.dumps({"sequence": number, **event}) for number, event in enumerate(events)]
