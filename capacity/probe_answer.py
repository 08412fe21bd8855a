"""What a probe is made with, and what one zone answered."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from capacity.aws import AS_ENVIRONMENT, Access
from capacity.causes import Cause, Sorted
from capacity.place import Place
from capacity.request import Request
from infra.prices import prices_of

# yes: it was reserved, and is cancelled. no: AWS refused. unknown: AWS did not answer to the end, and a reservation may
# be there until its end date. left: it was reserved and could not be cancelled. not-asked: no question was put.
Outcome = Literal["yes", "no", "unknown", "left", "not-asked"]
# EC2 bills by the second; whether a reservation has an instance's minimum of a minute is not documented.
_LEAST_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One zone's answer. `usd` is what it cost at most, None where no price is known; `text` is for people.

    `after` is what the refusal means for the next step.
    """

    place: Place
    outcome: Outcome
    cause: Cause | None = None
    reservation_id: str = ""
    usd: float | None = 0.0
    text: str = ""
    seconds: float = 0.0
    after: Sorted | None = None


@dataclass(frozen=True, kw_only=True)
class Prober:
    """How a probe is made: as whom, what an instance of the type costs an hour by region, and the clocks.

    `hourly` None takes the dated table of prices.
    """

    access: Access = AS_ENVIRONMENT
    hourly: Mapping[str, float | None] | None = None
    wait: Callable[[float], None] = time.sleep
    seconds: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def usd(self, request: Request, region: str, seconds: float) -> float | None:
        """The price of having had the reservation that long; None where it is not known."""
        table = prices_of(region).instances if self.hourly is None else {request.instance_type: self.hourly.get(region)}
        hourly = table.get(request.instance_type)
        return None if hourly is None else round(hourly * request.nodes * max(seconds, _LEAST_SECONDS) / 3600, 4)
