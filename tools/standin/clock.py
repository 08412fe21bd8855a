"""The modelled time of a stand-in account."""

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tools.standin.account import Account


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Modelled seconds since an account's first use, and the account's date then."""

    now: float
    date: datetime


class CancelledError(Exception):
    """The engine asked to stop while something was being waited for."""


class Clock:
    """Modelled seconds since the account's first use.

    With a scale of 0 nothing waits: each operation moves the clock ahead by what it would have taken, one by one.
    `spent` is what was waited for through this object: an operation has one of its own.
    """

    def __init__(self, account: Account, scale: float, cancelled: threading.Event, ahead: float = 0) -> None:
        self._account, self._scale, self._cancelled, self._ahead = account, scale, cancelled, ahead
        self.spent = 0.0

    def now(self) -> float:
        with self._account.open() as records:
            if not self._scale:
                return records.number("clock")
            if not records.number("born"):
                records.add("born", time.time())
            return (time.time() - records.number("born")) / self._scale

    def moment(self) -> Moment:
        """The date is today's, later by what modelled time is ahead of real time, and by `ahead` seconds."""
        now = self.now()
        with self._account.open() as records:
            passed = time.time() - records.number("born") if self._scale else 0.0
        return Moment(now=now, date=datetime.now(UTC) + timedelta(seconds=now - passed + self._ahead))

    @property
    def stands(self) -> bool:
        """Whether modelled time passes only by what is done."""
        return not self._scale

    def pass_until(self, moment: float, look: float) -> None:
        """Towards a modelled moment: at once where the clock stands, else a real `look` at a time.

        With nothing to wait for but other operations, the `look` is all that passes.
        """
        ahead = moment - self.now()
        if self.stands and ahead > 0:
            self.wait(ahead)
            return
        self.spent += look / self._scale if self._scale else 0.0
        if self._cancelled.wait(look):
            raise CancelledError

    def wait(self, seconds: float) -> None:
        """Raises CancelledError where the engine does not want to wait longer."""
        began = time.monotonic()
        if not self._scale:
            with self._account.open() as records:
                records.add("clock", seconds)
        elif self._cancelled.wait(seconds * self._scale):
            self.spent += (time.monotonic() - began) / self._scale
            raise CancelledError
        self.spent += seconds
