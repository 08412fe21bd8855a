"""The two previews of a stack, its base's and its head's, and the summary of them."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.pull_request import previews
from tools.pull_request.clean import cleaner
from tools.pull_request.events import Preview
from tools.pull_request.summary import summary
from tools.setup import pins
from tools.standin import settings_file
from workload.errors import ReportedError

_Way = Callable[[previews.Source, str], Preview]


def summary_of(stack: str, base: Path, scratch: Path, *, standin: str | None) -> dict[str, Any]:
    """`base` is a checkout, `scratch` an empty folder. `standin`: why an eks stack is previewed without an account, ""
    where nobody need be told; None: with the credentials of this process, if its backend has the stack.
    """
    now = datetime.now(UTC)

    def of_standin(source: previews.Source, name: str) -> Preview:
        return previews.of_standin(source, name, now)

    if settings_file.read(stack).get("ray-train-efa:platform", "local") == "local":
        return _of_both(stack, base, scratch, previews.of_nothing)
    if standin is not None:
        return _of_both(stack, base, scratch, of_standin, instead=standin)
    try:
        return _of_both(stack, base, scratch, previews.of_state, standin=False)
    except previews.NoStackError as error:
        return _of_both(stack, base, scratch, of_standin, instead=str(error))


def _of_both(
    stack: str, base: Path, scratch: Path, way: _Way, *, standin: bool = True, instead: str = ""
) -> dict[str, Any]:
    def of(source: previews.Source) -> Preview:
        try:
            return way(source, stack)
        except ReportedError as error:
            return previews.failed(str(error))

    source = previews.Source(project=base, scratch=scratch / "of-base", policies=False)
    before = of(source) if source.has(stack) else None
    after = of(previews.Source(project=pins.PROJECT, scratch=scratch / "of-head", policies=True))
    return summary(stack, after, before, standin=standin, instead=instead, clean=cleaner(os.environ))
