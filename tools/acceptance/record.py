"""PURE: what an acceptance run leaves for its readers: which record is its own, and a few lines about it."""

from collections.abc import Mapping, Sequence
from typing import Any

from efactl.exit_codes import MEANINGS, ExitCode
from tools.pull_request.comment import plain


def meaning(code: int) -> str:
    try:
        return MEANINGS[ExitCode(code)]
    except ValueError:
        return "it was ended from outside" if code < 0 or code > 128 else "something failed"


def text(stack: str, code: int, record: Mapping[str, Any] | None, report: str) -> str:
    """Markdown for the job's page. `record` None: the run has none; `report` empty: there is no page about it."""
    lines = [f"### `efactl up -s {stack}` ended with {code}", "", f"{meaning(code)}.", ""]
    if record is None:
        return "\n".join([*lines, "No run record was written: the log says how far it came.", ""])
    verdict = record.get("verdict") or {}
    lines.append(f"- run `{record.get('submissionId') or record.get('job', {}).get('submissionId') or '?'}`")
    lines.append(f"- transport **{verdict.get('value') or 'not judged'}**")
    lines += [f"  - {plain(str(reason))}" for reason in _some(verdict.get("reasons") or ())]
    speed = (record.get("throughput") or {}).get("tokensPerSecond")
    if isinstance(speed, int | float):
        lines.append(f"- {speed:,.0f} tokens/s")
    if report:
        lines.append(f"- `{report}` in this run's artifacts is the whole of it")
    return "\n".join([*lines, ""])


def _some(reasons: Sequence[Any], shown: int = 8) -> list[Any]:
    more = len(reasons) - shown
    return [*reasons[:shown], *([f"and {more} more"] if more > 0 else [])]
