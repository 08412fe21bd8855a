"""PURE: what an acceptance run leaves for its readers: which run is its own, and a few lines about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from efactl.exit_codes import MEANINGS, ExitCode
from tools.pull_request.comment import plain

_LONGEST_ERROR = 2000
NOTHING_PROVEN = "no run of its own is on record as proven (a stack with gpuNodes 0 runs no job)"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept of a run: `record` None or `error` empty where it has none, `report` empty without a page."""

    run: str
    record: Mapping[str, Any] | None = None
    error: str = ""
    report: str = ""


def meaning(code: int) -> str:
    try:
        return MEANINGS[ExitCode(code)]
    except ValueError:
        return "it was ended from outside" if code < 0 or code > 128 else "something failed"


def judged(code: int, kept: Kept | None) -> int:
    """The gate's exit code, from the `up`'s: one that succeeded counts by the record of a run of its own alone."""
    if code != ExitCode.OK or _verdict(kept) == "proven":
        return code
    return ExitCode.UNPROVEN


def run_among(made: Sequence[str], *, failed: bool) -> str | None:
    """The run, of those that an `up` has made files of, the newest last; None where it came to none.

    A preflight is not the run, but all that there is where an `up` failed by it.
    """
    runs = [run for run in made if "bandwidth" not in run]
    return next(reversed(runs or (made if failed else ())), None)


def text(stack: str, code: int, kept: Kept | None) -> str:
    """Markdown for the job's page. `kept` None: there was no run."""
    of_gate = judged(code, kept)
    said = f"{meaning(code)}." if of_gate == code else f"**The gate fails with {of_gate:d}: {NOTHING_PROVEN}.**"
    lines = [f"### `efactl up -s {stack}` ended with {code}", "", said, ""]
    if kept is None:
        return "\n".join([*lines, "There was no run: the log says how far it came.", ""])
    record = kept.record or {}
    lines.append(f"- run `{kept.run}`")
    if kept.record is None:
        lines.append(f"- {plain(kept.error[-_LONGEST_ERROR:]) or 'it left a log and no record: it had not ended'}")
    else:
        verdict = record.get("verdict") or {}
        lines.append(f"- transport **{verdict.get('value') or 'not judged'}**")
        lines += [f"  - {plain(str(reason))}" for reason in _some(verdict.get("reasons") or ())]
    speed = (record.get("throughput") or {}).get("tokensPerSecond")
    if isinstance(speed, int | float):
        lines.append(f"- {speed:,.0f} tokens/s")
    if kept.report:
        lines.append(f"- `{kept.report}` in this run's artifacts is the whole of it")
    return "\n".join([*lines, ""])


def _verdict(kept: Kept | None) -> str | None:
    record = (kept.record if kept else None) or {}
    return (record.get("verdict") or {}).get("value")


def _some(reasons: Sequence[Any], shown: int = 8) -> list[Any]:
    more = len(reasons) - shown
    return [*reasons[:shown], *([f"and {more} more"] if more > 0 else [])]
