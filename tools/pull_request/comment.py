"""PURE: the summaries of a pull request's stacks as one Markdown comment."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# By it the comment of an earlier push is found and replaced.
MARK = "<!-- ray-train-efa: what this pull request would do -->"
# GitHub takes 65,536 characters of a comment, and of a step's summary 1 MiB, none of it where that is more.
LONGEST = 60_000
LONGEST_SUMMARY = 1_000_000
# Of each stack, in a comment.
_ROWS = 60
_ERRORS = 4000
_VERBS = {
    "create": "to create",
    "update": "to update",
    "change": "to change",
    "replace": "to replace",
    "delete": "to delete",
    "import": "to import",
}


def comment(
    summaries: Sequence[Mapping[str, Any]],
    *,
    commit: str,
    expected: Iterable[str] = (),
    skipped: Mapping[str, str] | None = None,
    whole: bool = False,
) -> str:
    """`expected`: the stacks that were to be previewed. `skipped`: those that were not to be, with the reason.
    `whole`: for a job's summary, where there is room for every resource.
    """
    told = {one["stack"] for one in summaries}
    rows = [(one["stack"], _row(one)) for one in summaries]
    rows += [(stack, _unfinished(stack)) for stack in expected if stack not in told]
    head = [MARK, "### What this pull request would do", ""]
    if rows:
        head += ["| stack | changes | cost an hour | policy | a training run |", "|---|---|---|---|---|"]
        head += [row for _, row in sorted(rows)]
    elif skipped:
        head.append("Nothing was previewed.")
    else:
        head.append("No stack is touched by it, so nothing was previewed.")
    for one in summaries:
        if one["instead"]:
            head += ["", f"{code(one['stack'])} was previewed without an account: {plain(one['instead'])}"]
    for stack, reason in sorted((skipped or {}).items()):
        head += ["", f"{code(stack)} was not previewed: {plain(reason)}"]
    details = [_details(one, whole=whole) for one in summaries]
    parts = ["\n".join(head), *details, _foot(summaries, commit)]
    text = "\n\n".join(filter(None, parts)) + "\n"
    if len(text.encode()) <= LONGEST_SUMMARY if whole else len(text) <= LONGEST:
        return text
    if whole:
        short = "The details are too long for GitHub: the preview's STACK.json has them."
    else:
        short = "The details are too long for a comment: they stand in the summaries of the jobs that previewed."
    return "\n\n".join([parts[0], short, parts[-1]]) + "\n"


def code(text: str) -> str:
    """As code in one line: nothing in it is Markdown, a mention or the end of a table's cell."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    inner = " ".join(text.replace("|", "\\|").split())
    return f"{fence} {inner} {fence}" if longest else f"{fence}{inner}{fence}"


def plain(text: str) -> str:
    """In one line of a table, without markup of its own."""
    kept = " ".join(text.split())
    for sign in "\\`*_[]|#":
        kept = kept.replace(sign, f"\\{sign}")
    # Last: these hold a sign of those before. GitHub looks for mentions once entities are signs again, so what follows
    # one is kept from it by a space of no width.
    return kept.replace("&", "&amp;").replace("<", "&lt;").replace("@", "@&#8203;")


def _row(told: Mapping[str, Any]) -> str:
    return "| " + " | ".join([code(told["stack"]), _changes(told), _cost(told), _policy(told), _run(told)]) + " |"


def _unfinished(stack: str) -> str:
    """Of a job that came to no summary: no credentials, no packages, no time."""
    return f"| {code(stack)} | **the preview did not finish**: see the job | not known | not asked | not known |"


def _changes(told: Mapping[str, Any]) -> str:
    if told["failed"]:
        return "**the preview failed**"
    if told["base_error"] and told["standin"]:
        return "not known"
    counts = [f"{count} {_VERBS.get(name, name)}" for name, count in told["counts"].items()]
    return ", ".join(counts) or "none"


def _cost(told: Mapping[str, Any]) -> str:
    return "not known" if told["failed"] else plain(told["cost"]["text"])


def _policy(told: Mapping[str, Any]) -> str:
    policy = told["policy"]
    if broken := policy["broken"]:
        return f"**{len({one['rule'] for one in broken})} broken**, {policy['kept']} kept"
    return f"{policy['kept']} rules kept" if policy["kept"] else "not asked"


def _run(told: Mapping[str, Any]) -> str:
    run = told["run"]
    if run["due"] is None:
        return plain("; ".join(run["reasons"])) or "not known"
    return f"**due**: {plain('; '.join(run['reasons']))}" if run["due"] else "not due"


def _details(told: Mapping[str, Any], *, whole: bool) -> str:
    parts: list[str] = []
    if told["errors"]:
        text = "\n".join(told["errors"])[0 if whole else -_ERRORS :].replace("```", "'''")
        parts.append(f"```text\n{text}\n```")
    if told["base_error"]:
        parts.append(f"The base could not be previewed, so nothing is compared with it: {plain(told['base_error'])}")
    parts += [
        f"- {'' if one['mandatory'] else 'advisory: '}{code(one['rule'])}: {plain(one['message'])}"
        for one in told["policy"]["broken"]
    ]
    if changes := told["changes"]:
        table = ["| | resource | properties |", "|---|---|---|"]
        rows = len(changes) if whole else _ROWS
        for one in changes[:rows]:
            names = ", ".join(code(name) for name in one["properties"])
            table.append(f"| {one['operation']} | {code(one['resource'])} | {names} |")
        if len(changes) > rows:
            table.append(f"| | and {len(changes) - rows} more: see the job's summary | |")
        parts.append("\n".join(table))
    if lines := told["cost"]["lines"]:
        parts.append("\n".join(["USD an hour:", "", *(f"- {plain(line)}" for line in lines)]))
    if not parts:
        return ""
    inside = "\n\n".join(parts)
    opened = " open" if told["failed"] or told["base_error"] or told["policy"]["broken"] else ""
    return f"<details{opened}><summary>{plain(told['stack'])}</summary>\n\n{inside}\n\n</details>"


def _foot(summaries: Sequence[Mapping[str, Any]], commit: str) -> str:
    said = [f"Previewed at {code(commit[:12])}."]
    if any(one["standin"] for one in summaries):
        said.append("Without an account: stand-ins for AWS, and the program of the base branch to compare with.")
    dates = sorted({one["cost"]["prices_of"] for one in summaries if one["cost"]["prices_of"]})
    if dates:
        said.append(f"List prices of {', '.join(dates)}.")
    return " ".join(said)
