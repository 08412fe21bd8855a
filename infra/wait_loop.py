"""Looking at a watched cluster until it is where it should be, with a line whenever the reason to wait changes."""

import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from infra.waiting import Failed, LogOf, Patience, Waiting
from workload.errors import ReportedError, RunInterruptedError
from workload.kubernetes_access import KubernetesError
from workload.kubernetes_api import UNAUTHORIZED
from workload.kubernetes_watch import Watching

T = TypeVar("T")

SILENCE_S, REFUSED_S = 60.0, 10.0
LOOK_S, PASSING_S, REPEAT_S = 1.0, 1.5, 20.0
LOG_LINES = 10


def until(
    look: Callable[[], T | Waiting | Failed],
    *,
    watching: Watching,
    what: str,
    seconds: float,
    say: Callable[[str], None],
    interrupt: Event,
) -> T:
    """Returns the first verdict of `look` that is neither Waiting nor Failed.

    Raises ReportedError with the reason when it cannot be or has not come within `seconds`, RunInterruptedError as soon
    as `interrupt` is set, and KubernetesError when the API server has not answered for SILENCE_S.
    """
    started = time.monotonic()
    patience = Patience()
    said, said_at = Waiting(reason="", code=""), started
    cause, since = said, started
    while True:
        verdict = _verdict(look, watching)
        if not isinstance(verdict, Waiting | Failed):
            return verdict
        if interrupt.is_set():
            raise RunInterruptedError(
                f"{what}: interrupted ({verdict.reason}); nothing is undone, the next `pulumi up` waits again"
            )
        now = time.monotonic()
        if isinstance(verdict, Failed) or patience.exhausted(verdict, now):
            raise ReportedError(f"{what}: {verdict.reason}{_log_end(verdict.log, watching)}")
        if now - started >= seconds:
            raise ReportedError(
                f"{what}: not within {seconds:g} s (kubeReadySeconds): {verdict.reason}"
                f"{_log_end(verdict.log, watching)}"
            )
        if verdict.code != cause.code:
            cause, since = verdict, now
        # What passes at once is not worth a line, and the same cause in other words (a retry's pod has another name)
        # not each time.
        news = verdict.code != said.code and now - since >= PASSING_S
        if news or (verdict.code == said.code and verdict.reason != said.reason and now - said_at >= REPEAT_S):
            say(f"{what}: {verdict.reason}")
            said, said_at = verdict, now
        _pause(watching, interrupt)


def _verdict(look: Callable[[], T | Waiting | Failed], watching: Watching) -> T | Waiting | Failed:
    """What was seen last says nothing while the API server is silent."""
    error: KubernetesError | None = None
    if watching.trouble() is None:
        try:
            return look()
        except KubernetesError as raised:
            error = raised
    trouble = watching.trouble()
    if trouble is None:
        assert error is not None
        return Waiting(reason=str(error), code="api", patience=SILENCE_S)
    limit = REFUSED_S if trouble.error.status == UNAUTHORIZED else SILENCE_S
    if trouble.seconds >= limit:
        raise KubernetesError(f"{trouble.error} (for {trouble.seconds:.0f} s)", trouble.error.status)
    return Waiting(reason=f"{trouble.error}; trying for {limit:g} s", code="trouble")


def _pause(watching: Watching, interrupt: Event) -> None:
    """Until something changed, LOOK_S at most; an interrupt ends it at once."""
    end = time.monotonic() + LOOK_S
    while not interrupt.is_set() and (left := end - time.monotonic()) > 0:
        if watching.wait(min(left, 0.2)):
            return


def _log_end(log: LogOf | None, watching: Watching) -> str:
    """The last lines of a container's log, for the end of a message; says so where they may not be read."""
    if log is None:
        return ""
    path = f"/api/v1/namespaces/{log.namespace}/pods/{log.pod}/log"
    query = {"container": log.container, "tailLines": str(LOG_LINES), "previous": str(log.previous).lower()}
    try:
        text = watching.api.text(path, doing=f"reading the log of {log.namespace}/{log.pod}", **query).strip()
    except KubernetesError as error:
        return f" (its log could not be read: {error})"
    if not text:
        return f" ({log.pod} has logged nothing)"
    return f"; the log of {log.pod} ends with:\n{text}" + (f"\n{log.hint}" if log.hint else "")
