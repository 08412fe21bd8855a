"""The run record: what ran, exactly, and what came of it. `run_record.schema.json` is its contract."""

import json
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workload import record_file
from workload.counting_attempt import counting_attempt
from workload.run_folder import RECORD
from workload.transport import judge
from workload.transport_evidence import collect
from workload.verdict import Verdict, Wanted

if TYPE_CHECKING:
    from workload.job_following import JobOutcome, JobRequest

# What `dirty` is about: a stack's own settings are on record by themselves.
CODE = ("__main__.py", "infra", "workload", "training", "Pulumi.yaml", "requirements.lock")
SCHEMA = "ray-train-efa/run-record/1"


def write_run_record(
    request: "JobRequest", outcome: "JobOutcome", *, wanted: Wanted, settings: Mapping[str, Any]
) -> tuple[Path, dict[str, Any]]:
    """Writes `runs/<submission id>/record.json` and returns its path and content.

    Raises ReportedError when the job's report does not make a valid record, or its log cannot be read.
    """
    record = build(request, outcome, wanted=wanted, settings=settings, code=_commit(request.training.parent))
    problems = schema_problems(record)
    if problems:
        headline = f"the report of job {outcome.submission_id} makes no valid run record:"
        message = "\n".join([headline, *problems[:8], f"full log: {outcome.log}"])
        raise request.settle(request.runs / outcome.submission_id, message)
    path = request.runs / outcome.submission_id / RECORD
    record_file.write(path, record)
    return path, record


def write_verdict(path: Path, verdict: Verdict, quality: Sequence[str]) -> None:
    """Brings a record's verdict up to date; a record that is not on this machine is left to where it is."""
    if not path.exists():
        return
    record = json.loads(path.read_text(encoding="utf-8"))
    record["verdict"] = {**_verdict(verdict), "judgedAt": record_file.iso(time.time())}
    record["quality"] = {"passed": not quality, "reasons": list(quality)}
    record_file.write(path, record)


def is_on_record(path: Path, verdict: Verdict, quality: Sequence[str]) -> bool:
    """Whether a record holds this judgement; one that is not on this machine cannot be brought up to date."""
    if not path.exists():
        return True
    record = json.loads(path.read_text(encoding="utf-8"))
    held = {key: record["verdict"].get(key) for key in ("expect", "value", "reasons")}
    return held == _verdict(verdict) and record["quality"] == {"passed": not quality, "reasons": list(quality)}


def schema_problems(record: Mapping[str, Any]) -> list[str]:
    """What in a record breaks the schema, one line each."""
    import jsonschema

    schema = json.loads(Path(__file__).with_name("run_record.schema.json").read_text(encoding="utf-8"))
    errors = jsonschema.Draft202012Validator(schema).iter_errors(record)
    return [
        f"  {error.json_path}: {error.message[:200]}" for error in sorted(errors, key=lambda error: error.json_path)
    ]


def build(
    request: "JobRequest",
    outcome: "JobOutcome",
    *,
    wanted: Wanted,
    settings: Mapping[str, Any],
    code: tuple[str | None, bool | None],
) -> dict[str, Any]:
    """The record of a job that SUCCEEDED, from what was asked for and what the job reported."""
    spec, reported = request.spec, outcome.record
    transport = collect(reported, outcome.log)
    evaluation = reported["eval"]
    ranks = counting_attempt(reported["attempts"]).get("ranks", [])
    checkpoint = reported.get("checkpoint")
    return {
        "schema": SCHEMA,
        "submissionId": outcome.submission_id,
        "stack": request.stack or None,
        "attempt": outcome.attempt,
        "status": "SUCCEEDED",
        "startedAt": record_file.iso(outcome.started_at),
        "endedAt": record_file.iso(outcome.ended_at),
        "image": {"reference": spec.image, "digest": image_digest(request.placement)},
        "code": {"trainingDigest": spec.training_digest, "commit": code[0], "dirty": code[1]},
        "cluster": {
            "kind": request.head.kind,
            "name": request.head.cluster_name,
            "session": outcome.session_name,
            "specDigest": spec.cluster_spec_digest,
            "rayVersion": outcome.ray_version,
            "nodes": _nodes(ranks, request.placement),
        },
        "arguments": reported["arguments"],
        "runtimeEnv": {
            "pip": list(spec.pip),
            "env": dict(sorted(spec.env.items())),
            "secretEnvNames": sorted(spec.secret_env),
        },
        "settings": dict(sorted(settings.items())),
        "versions": ranks[0].get("versions", {}) if ranks else {},
        "transport": transport,
        "verdict": _verdict(judge(transport, wanted)),
        "quality": {"passed": None, "reasons": ["not judged yet"]},
        "throughput": {
            "tokensPerSecond": reported.get("tokens_per_second"),
            "tokensPerStep": reported.get("tokens_per_step"),
            "stepSeconds": reported.get("step_seconds", {}),
            "splitSeconds": reported.get("split_seconds", {}),
            "mfu": reported.get("mfu"),
        },
        "memory": {"peakBytesByRank": reported.get("peak_memory_bytes", {})},
        "evaluation": {
            "lossBefore": evaluation["before"]["loss"],
            "lossAfter": evaluation["after"]["loss"],
            "perplexityBefore": evaluation["before"]["perplexity"],
            "perplexityAfter": evaluation["after"]["perplexity"],
            "tokens": evaluation["after"]["tokens"],
            "metrics": {
                name: {"before": evaluation["before"].get(name), "after": value}
                for name, value in evaluation["after"].items()
                if name not in ("loss", "perplexity", "tokens")
            },
        },
        "losses": reported["losses"],
        "checkpoint": checkpoint["path"] if checkpoint else None,
        "checkpoints": reported.get("checkpoints"),
        "data": reported.get("data"),
        "model": reported.get("model"),
        "profile": reported.get("profile", {}),
        "attempts": [
            {"attempt": each["attempt"], "resumedFromStep": each.get("resumed_from_step", 0), "ranks": each["ranks"]}
            for each in reported["attempts"]
        ],
        "timings": reported["timings"],
        "log": {"path": str(outcome.log), "connections": outcome.log_connections},
        "cost": {"hourlyUsd": request.hourly_usd},
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {"expect": verdict.expect, "value": verdict.value, "reasons": list(verdict.reasons)}


def image_digest(placement: Sequence[Mapping[str, Any]]) -> str | None:
    """The digest that the pods run, as their container runtime resolved it; several are joined, none is None."""
    digests = {str(pod.get("image_id") or "").partition("@")[2] for pod in placement}
    return ", ".join(sorted(digests - {""})) or None


def _nodes(ranks: Sequence[Mapping[str, Any]], placement: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The Ray nodes that had ranks; where they are pods (a pod's name is its host name), with the machine below."""
    pods = {pod["name"]: pod for pod in placement}
    by_node: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for rank in ranks:
        by_node[rank["node_id"]].append(rank)
    return [
        {
            "id": node,
            "host": members[0].get("hostname") or "",
            "ranks": sorted(int(member["rank"]) for member in members),
            **_machine(pods.get(members[0].get("hostname") or "")),
        }
        for node, members in sorted(by_node.items(), key=lambda item: min(int(member["rank"]) for member in item[1]))
    ]


def _machine(pod: Mapping[str, Any] | None) -> dict[str, Any]:
    if pod is None:
        return {}
    return {"machine": pod.get("node"), "zone": pod.get("zone"), "instanceType": pod.get("instance_type")}


def _commit(folder: Path) -> tuple[str | None, bool | None]:
    """The checkout's commit and whether its code has changes; (None, None) outside a repository."""
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return commit, bool(_git(folder, "status", "--porcelain", "--", *CODE))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def _git(folder: Path, *command: str) -> str:
    return subprocess.run(["git", "-C", folder, *command], capture_output=True, text=True, check=True).stdout.strip()
