"""PURE: a zone, or a region that gave no zones, as it stands for a request."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from capacity.answers import Reservation
from capacity.place import Place


class Out(IntEnum):
    """Why a candidate is out, the most easily mended first."""

    MONEY = 0
    FILES = 1
    PROBED = 2
    QUOTA = 3
    STATE = 4
    OFFER = 5
    UNKNOWN = 6
    NOT_ENABLED = 7
    NO_ANSWER = 8


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """`zone` and `zone_id` are empty for a region without zones, whose `reasons` then say why.

    vCPUs are those of the quota's whole family; None is not known, as with the other figures. `usd_per_hour` is for all
    nodes together. `reservation` is the id of one that holds enough for them: then no quota counts.
    `reservations_told` is False where AWS did not say which there are. `outs` are the reasons against it, `notes` what
    is not known or worth knowing of it.
    """

    region: str
    zone: str = ""
    zone_id: str = ""
    opt_in: str = ""
    state: str = ""
    offered: bool | None = None
    quota_code: str = ""
    quota_vcpus: float | None = None
    used_vcpus: int | None = None
    spot_score: int | None = None
    reservations: tuple[Reservation, ...] = ()
    reservations_told: bool = True
    reservation: str = ""
    probe: Mapping[str, Any] | None = None
    usd_per_hour: float | None = None
    price_as_of: str = ""
    price_source: str = ""
    outs: tuple[tuple[Out, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def eligible(self) -> bool:
        return bool(self.zone) and not self.outs

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(text for _, text in sorted(self.outs))

    @property
    def headroom_vcpus(self) -> float | None:
        """Below 0 where more is in use than a quota lowered since allows."""
        return None if self.quota_vcpus is None or self.used_vcpus is None else self.quota_vcpus - self.used_vcpus

    @property
    def place(self) -> Place:
        return Place(region=self.region, zone=self.zone, zone_id=self.zone_id)

    def as_dict(self) -> dict[str, Any]:
        """As `efactl capacity --json` has it; null is not known."""
        return {
            "region": self.region,
            "zone": self.zone or None,
            "zone_id": self.zone_id or None,
            "opt_in": self.opt_in or None,
            "offered": self.offered,
            "quota_code": self.quota_code or None,
            "quota_vcpus": self.quota_vcpus,
            "used_vcpus": self.used_vcpus,
            "headroom_vcpus": self.headroom_vcpus,
            "spot_score": self.spot_score,
            "reservations": [asdict(one) for one in self.reservations],
            "reservation": self.reservation or None,
            "probe": None if self.probe is None else dict(self.probe),
            "usd_per_hour": self.usd_per_hour,
            "price_as_of": self.price_as_of or None,
            "price_source": self.price_source or None,
            "eligible": self.eligible,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
        }
