"""`efactl image check`: what the stack's image setting stands for now, against what its last good run ran."""

import argparse
import json
import sys
from collections.abc import Iterator

from efactl.exit_codes import ExitCode
from efactl.runs import found_in, runs_elsewhere, where
from efactl.runs_text import minute, plain
from efactl.stack import PROJECT, Stack
from workload.errors import BadInputError
from workload.image_check import SETTING, ImageCheck
from workload.image_reference import ImageReference, Manifest, parse
from workload.recorded_run import RecordedRun
from workload.run_choice import last_good, selected

_BY_STATE = {
    "same": ExitCode.OK,
    "moved": ExitCode.UNPROVEN,
    "unproven": ExitCode.UNPROVEN,
    "unknown": ExitCode.FAILED,
}


def image(asked: argparse.Namespace) -> ExitCode:
    stack = Stack(asked.stack)
    if stack.config("platform") == "local":
        raise BadInputError(f"stack {stack.name} runs no image: its packages are those of requirements.lock")
    reference = parse(str(stack.config(SETTING)))
    found = found_in(asked.places, stack.name)
    good = last_good(selected(found.runs, stack=stack.name, where=where(stack.name)))
    if good is None and (advice := runs_elsewhere(found.runs, stack.name)):
        print(advice, file=sys.stderr)
    check = _asked(stack.name, reference, good)
    if asked.json:
        print(json.dumps(check.as_json(), indent=2))
    else:
        for line in _lines(check):
            print(line)
    return _BY_STATE[check.state]


def _asked(stack: str, reference: ImageReference, good: RecordedRun | None) -> ImageCheck:
    # A fifth of a second that no other command should pay.
    from workload.image_registry import RegistryError, look_up

    tag: Manifest | None = None
    pinned: Manifest | None = None
    reason = problem = ""
    try:
        pinned = look_up(reference, reference.digest) if reference.digest else None
        tag = look_up(reference, reference.tag) if reference.tag else None
    except RegistryError as error:
        reason, problem = error.reason, str(error)
    return ImageCheck(
        stack=stack,
        project=PROJECT,
        setting=reference,
        good=good,
        tag=tag,
        pinned=pinned,
        reason=reason,
        problem=problem,
    )


def _lines(check: ImageCheck) -> Iterator[str]:
    good = check.good
    yield f"stack {check.stack}: {SETTING} {check.setting}"
    if good is None:
        yield "  last good run   none on record: proven transport, passed quality, and the digest that ran"
    else:
        yield f"  last good run   {plain(good.id)}, {minute(good.started)} UTC"
        yield f"    it ran        {', '.join(good.image_digests)}"
        if check.elsewhere and check.proven:
            yield f"    of another repository than the setting's: {check.proven.repository_name}"
    if check.pinned:
        yield f"  pinned to       {_named(check.pinned)}"
    if check.tag:
        yield f"  the tag is now  {_named(check.tag)}"
    yield f"{check.state}: {_meaning(check)}"
    if check.problem and check.state != "unknown":
        yield f"note: {check.problem}"
    for change, what in ((check.keep, "to stay on the proven image"), (check.update, "to take what the tag is now")):
        if change is not None:
            yield f"{what}, one line for a review:"
            yield f"  {change.command}"
            yield f"  {change.yaml}"
    if check.update and good:
        yield f"then `efactl up -s {check.stack}`, and `efactl runs diff {plain(good.short_id)} NEW` says what it did"


def _meaning(check: ImageCheck) -> str:
    if check.state == "unknown":
        return check.problem
    if check.state == "unproven":
        return "no run tells what this image does"
    if check.state == "moved":
        what = "the digest is" if check.setting.digest else "the tag points at"
        return f"{what} another image than the last good run's"
    newer = "; the tag points at another one" if check.tag_moved else ""
    return f"an `up` would run the image of the last good run{newer}"


def _named(manifest: Manifest) -> str:
    platforms = ", ".join(sorted(set(manifest.platforms.values())))
    return f"{manifest.digest}{f' (an index: {platforms})' if platforms else ''}"
