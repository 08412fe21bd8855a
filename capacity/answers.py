"""PURE: what one region said about a request, each part an answer or the reason why there is none."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

ENABLED = ("opt-in-not-required", "opted-in")


@dataclass(frozen=True, kw_only=True)
class Missing:
    """No answer: AWS's error code (or the exception's name), and what to do about it, for a reader."""

    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" if self.code else self.text


NOT_ASKED = Missing(code="", text="not asked")


@dataclass(frozen=True, kw_only=True)
class Zone:
    """A zone as DescribeAvailabilityZones has it; local and Wavelength zones are left out: they have no EFA."""

    name: str
    zone_id: str
    state: str = "available"


@dataclass(frozen=True, kw_only=True)
class TypeFacts:
    """As DescribeInstanceTypes has it. `efa_interfaces` is the most it can have, 0 without EFA."""

    name: str
    vcpus: int
    gpus: int
    gpu_name: str
    efa_interfaces: int
    spot: bool = True


@dataclass(frozen=True, kw_only=True)
class Quota:
    """Most vCPUs at a time, of a family. `applied` is False where AWS told its default: this account has no own."""

    code: str
    vcpus: float
    applied: bool = True


@dataclass(frozen=True, kw_only=True)
class Usage:
    """vCPUs that count against the quota: of what runs, and of what own reservations keep free."""

    running_vcpus: int
    reserved_vcpus: int = 0

    @property
    def vcpus(self) -> int:
        return self.running_vcpus + self.reserved_vcpus


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """An active capacity reservation of the type asked for.

    `criteria` is open or targeted, `placement_group` the ARN of the one it was made in or empty, `ends` a UTC time or
    empty, `ends_soon` that it is within an hour of the answer, `kind` default or capacity-block, `stack` the name that
    one of our stacks tagged it with, `probe` that it is what a probe left.
    """

    id: str
    owner: str
    own: bool
    zone: str
    zone_id: str
    total: int
    free: int
    criteria: str = "open"
    platform: str = "Linux/UNIX"
    tenancy: str = "default"
    placement_group: str = ""
    ends: str = ""
    ends_soon: bool = False
    kind: str = "default"
    interruptible: bool = False
    stack: str = ""
    probe: bool = False


@dataclass(frozen=True, kw_only=True)
class Price:
    """USD an hour for one instance; `as_of` is the date of the source, as 2026-11-30."""

    usd: float
    as_of: str
    source: str


@dataclass(frozen=True, kw_only=True)
class RegionAnswers:
    """`trouble` is why the region as a whole gave no answer. `opt_in` is empty where AWS did not tell.

    `offered` are names of zones; `scores` are by zone id, `spot_prices` by the zone's name.
    """

    region: str
    opt_in: str = ""
    trouble: Missing | None = None
    zones: tuple[Zone, ...] | Missing = ()
    offered: tuple[str, ...] | Missing = ()
    type: TypeFacts | Missing = NOT_ASKED
    quota: Quota | Missing = NOT_ASKED
    usage: Usage | Missing = NOT_ASKED
    reservations: tuple[Reservation, ...] | Missing = ()
    scores: Mapping[str, int] | Missing = field(default_factory=dict)
    price: Price | Missing = NOT_ASKED
    spot_prices: Mapping[str, Price] | Missing = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; a reason is {"missing": {"code", "text"}}."""
        return {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, Missing):
        return {"missing": asdict(value)}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in sorted(value.items())}
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value
