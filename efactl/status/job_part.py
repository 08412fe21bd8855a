"""PURE: the job that runs and how far it has come, from the head's table of jobs and the job's own log."""

import datetime
import itertools
import re
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workload.job_kind import BANDWIDTH, TRAINING, is_ours
from workload.progress import ERROR, PHASES, STEP, plain
from workload.recorded_run import number, shortened, text

ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
# So many of the last steps give the speed: one may be slow by itself.
_LAST_STEPS = 10
_STEP = re.compile(r"step (\d{1,12})/(\d{1,12}) loss (\S+)(?: tokens/s (\d+))?")
# training/train_job.py describes the job so, before its first step.
_SIZES = re.compile(r"\b(\d{1,9}) ranks x (\d{1,9}) sequences x (\d{1,9}) tokens\b")
# Ray's message goes on with the end of the log.
_LOG_IN_MESSAGE = ", last available logs"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """`says` is the last that the job told since its last step; `eta_s` leaves evaluations and checkpoints out."""

    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    tokens_per_second: float | None = None
    eta_s: float | None = None
    says: str | None = None


def progress_of(lines: Iterable[str], *, accumulate: int = 1) -> Progress:
    """A run that starts anew tells earlier steps again: what came last counts."""
    step: re.Match[str] | None = None
    says: str | None = None
    rates: list[int] = []
    tokens_per_step = 0
    for line in lines:
        told = plain(line)
        if told.startswith(STEP) and (found := _STEP.match(told.partition("] ")[2])):
            if step is not None and int(found[1]) <= int(step[1]):
                rates.clear()
            step, says = found, None
            rates += [int(found[4])] if found[4] and int(found[4]) else []
        elif told.startswith((*PHASES, ERROR)):
            says = shortened(told.partition("] ")[2])
            if sizes := _SIZES.search(says):
                tokens_per_step = int(sizes[1]) * int(sizes[2]) * int(sizes[3]) * accumulate
    if step is None:
        return Progress(says=says)
    speed = statistics.median(rates[-_LAST_STEPS:]) if rates else None
    left = max(0, int(step[2]) - int(step[1]))
    return Progress(
        step=int(step[1]),
        steps=int(step[2]),
        loss=_loss(step[3]),
        tokens_per_second=speed,
        eta_s=left * tokens_per_step / speed if speed and tokens_per_step else None,
        says=says,
    )


def _loss(told: str) -> float | None:
    try:
        return number(float(told))
    except ValueError:
        return None


def accumulate_of(entrypoint: str) -> int:
    """Batches a step, by the job's command line; 1 where it does not tell."""
    try:
        words = shlex.split(entrypoint)
    except ValueError:
        return 1
    following = [after for word, after in itertools.pairwise(words) if word == "--accumulate"]
    return int(following[-1]) if following and following[-1].isdecimal() else 1


def running_job(table: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The newest of this product's jobs that has not ended, else of any other."""
    return max(_running(table), key=lambda job: (is_ours(_id(job)), _time(job, "start_time")), default=None)


def newest_job(table: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The running one, else the newest of this product's jobs that has ended."""
    return running_job(table) or _last_ended(table)


def _running(table: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [job for job in table if job.get("submission_id") and job.get("status") not in ENDED]


def _last_ended(table: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    ended = [job for job in table if job.get("status") in ENDED and is_ours(_id(job))]
    return max(ended, key=lambda job: _time(job, "end_time"), default=None)


def job_part(
    table: Sequence[Mapping[str, Any]], progress: Progress, now: datetime.datetime, *, log: str
) -> dict[str, Any]:
    """`progress` is the running job's; `log` says why there is none to go by, empty where there is."""
    running, ended = running_job(table), _last_ended(table)
    return {
        "running": _running_part(running, progress, now, log) if running else None,
        "alsoRunning": [_id(job) for job in _running(table) if job is not running],
        "lastEnded": {
            "submissionId": _id(ended),
            "status": ended.get("status"),
            "endedAt": _iso(_time(ended, "end_time")),
            "message": _message(ended),
        }
        if ended
        else None,
    }


def _running_part(job: Mapping[str, Any], progress: Progress, now: datetime.datetime, log: str) -> dict[str, Any]:
    began = _time(job, "start_time")
    return {
        "submissionId": _id(job),
        "kind": _kind(_id(job)),
        "status": job.get("status"),
        "startedAt": _iso(began),
        "seconds": max(0, round(now.timestamp() - began / 1000)) if began else None,
        "step": progress.step,
        "steps": progress.steps,
        "loss": progress.loss,
        "tokensPerSecond": progress.tokens_per_second,
        "etaSeconds": None if progress.eta_s is None else round(progress.eta_s, 1),
        "says": progress.says or (_message(job) if progress.step is None else None),
        "logUnreachable": log or None,
    }


def _kind(identifier: str) -> str:
    for name, kind in (("training", TRAINING), ("bandwidth", BANDWIDTH)):
        if identifier.startswith(f"{kind.run_name}-"):
            return name
    return "other"


def _id(job: Mapping[str, Any]) -> str:
    return str(job.get("submission_id") or "")


def _time(job: Mapping[str, Any], name: str) -> float:
    """Unix milliseconds on the head's clock; 0 where not reached."""
    return number(job.get(name)) or 0.0


def _iso(milliseconds: float) -> str | None:
    if not milliseconds:
        return None
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).isoformat(timespec="seconds")


def _message(job: Mapping[str, Any]) -> str | None:
    said = str(job.get("message") or "").partition(_LOG_IN_MESSAGE)[0].partition("\n")[0]
    return text(shortened(said))
