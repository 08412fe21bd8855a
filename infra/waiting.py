"""Waiting for a cluster to get somewhere: what each look at it says, and how long that may stay so."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LogOf:
    """The container whose last lines explain a reason; `previous` means the run before its last restart.

    `hint` says what to look for in them.
    """

    namespace: str
    pod: str
    container: str
    previous: bool = False
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Not there yet. `reason` is for the reader; `code` stays the same while the cause does, whatever the words.

    `patience` is for how many seconds the cause may last until it counts as a failure; None: as long as the wait.
    """

    reason: str
    code: str
    patience: float | None = None
    log: LogOf | None = None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Nothing that can change by waiting."""

    reason: str
    log: LogOf | None = None


class Patience:
    """Since when each cause of `Waiting` has been seen without a pause of more than `gap` seconds."""

    def __init__(self, gap: float = 8.0) -> None:
        self._gap = gap
        self._seen: dict[str, tuple[float, float]] = {}

    def exhausted(self, waiting: Waiting, now: float) -> bool:
        """Whether its cause has lasted as long as it may; `now` is a monotonic clock's seconds."""
        first, last = self._seen.get(waiting.code, (now, now))
        if now - last > self._gap:
            first = now
        self._seen[waiting.code] = (first, now)
        return waiting.patience is not None and now - first >= waiting.patience
