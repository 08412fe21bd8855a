"""PURE: whether a training run would be due, and because of what, from two sets of inputs of the job."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.pull_request.events import Preview
from workload.job_spec import digest_of

_QUERY = re.compile(r"\?[^\s,]+")
JOB_TYPE = "pulumi-python:dynamic/workload:RayTrainJob"


@dataclass(frozen=True, kw_only=True)
class RunDue:
    """`due` None: there is no job in what was previewed, or the preview failed."""

    due: bool | None
    reasons: tuple[str, ...]


def against_state(head: Preview, base: Preview | None) -> RunDue:
    """What an `up` of the change would do to a stack as it is; `base` says whether one is due without it too."""
    job = head.of_type(JOB_TYPE)
    if job is None or job.operation == "delete":
        return RunDue(due=None, reasons=("the stack would have no job",))
    if job.operation not in ("create", "replace"):
        return RunDue(due=False, reasons=())
    if job.operation == "create":
        reasons: tuple[str, ...] = ("the stack has no run yet",)
    else:
        # An upstream replacement (another cluster) replaces nothing by itself: what the job is made of is told.
        reasons = reasons_between(job.before, job.inputs) or ("the job is replaced",)
    without = base.of_type(JOB_TYPE) if base is not None else None
    if without is not None and without.operation in ("create", "replace"):
        same = digest_of(identity(without.inputs)) == digest_of(identity(job.inputs))
        reasons += ("the same one is due without this change",) if same else ("another one is due without this change",)
    return RunDue(due=True, reasons=reasons)


def between(head: Preview, base: Preview | None) -> RunDue:
    """What tells the two programs' runs apart, whatever the stack holds: a run of the one is not one of the other."""
    job = head.of_type(JOB_TYPE)
    if job is None:
        return RunDue(due=None, reasons=("the stack would have no job",))
    before = base.of_type(JOB_TYPE) if base is not None else None
    if before is None:
        return RunDue(due=True, reasons=("there is no run of it without this change",))
    reasons = reasons_between(before.inputs, job.inputs)
    return RunDue(due=bool(reasons), reasons=reasons)


def identity(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the job's inputs that decide whether a run is due."""
    return {name: inputs.get(name) for name in TOLD}


def reasons_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Why a job of the inputs `now` is another run than one of `before`; empty where it is the same."""
    return tuple(
        tell(before.get(name), now.get(name))
        for name, tell in TOLD.items()
        if digest_of(before.get(name)) != digest_of(now.get(name))
    )


def _arguments(before: Any, now: Any) -> str:
    old, new = before or {}, now or {}
    names = sorted({*old, *new}, key=str)
    changed = [name for name in names if digest_of(old.get(name)) != digest_of(new.get(name))]
    return "arguments: " + ", ".join(f"{name} {_shown(old.get(name))} → {_shown(new.get(name))}" for name in changed)


def _packages(before: Any, now: Any) -> str:
    """Without what stands behind an address's "?": a signed one is a key to what it leads to."""
    return f"packages: {_QUERY.sub('?...', _listed(before, now))}"


def _environment(before: Any, now: Any) -> str:
    """Names alone: people put into a variable what they should have put into a secret."""
    old, new = before or {}, now or {}
    return "environment: " + ", ".join(name for name in sorted({*old, *new}) if old.get(name) != new.get(name))


def _listed(before: Any, now: Any) -> str:
    old, new = _texts(before), _texts(now)
    return ", ".join([*(f"+{one}" for one in new if one not in old), *(f"-{one}" for one in old if one not in new)])


def _texts(value: Any) -> Sequence[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "unset"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int | float | bool) else "another value"


# workload.ray_train_job.IDENTITY, in the order of interest.
TOLD: Mapping[str, Callable[[Any, Any], str]] = {
    "training_digest": lambda before, now: "files under training/ changed",
    "arguments": _arguments,
    "image": lambda before, now: f"image: {_shown(before)} → {_shown(now)}",
    "pip": _packages,
    "pip_digests": lambda before, now: "a package that is a file was built anew",
    "env": _environment,
    "secret_env_names": lambda before, now: f"secret environment: {_listed(before, now)}",
    "cluster_spec_digest": lambda before, now: "what runs in the Ray cluster's pods, or on how many nodes, changed",
    "run_id": lambda before, now: f"jobRunId: {_shown(before)} → {_shown(now)}",
}
