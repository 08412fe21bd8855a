"""PURE: which of two eligible places is the better one, and by which of its properties."""

from collections.abc import Mapping
from dataclasses import dataclass

from capacity.candidate import Candidate
from capacity.request import Request


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A property by which places are ranked: a smaller `key` is better, `said` is it in words."""

    name: str
    key: float
    said: str


def factors(request: Request, one: Candidate, *, siblings: int) -> tuple[Factor, ...]:
    """What counts, the weightiest first. `siblings` is the number of eligible zones of its region.

    On demand a try costs seconds (a reservation is made or refused), so the cheaper place is tried first; on spot
    nothing is known before the launch but the score.
    """
    score = one.spot_score
    price = one.usd_per_hour
    by_score = Factor(
        name="spot placement score",
        key=-(score or 0),
        said="none" if score is None else f"{score} of 10",
    )
    by_price = Factor(
        name="price",
        key=float("inf") if price is None else price,
        said="not known" if price is None else f"{price:.2f} USD an hour",
    )
    probed = one.probe is not None and one.probe["outcome"] in ("yes", "left")
    known = one.reservation != "" or one.headroom_vcpus is not None
    return (
        # First: what is held already is not probed, and is as certain.
        _by_reservation(one),
        Factor(name="probe", key=0 if probed else 1, said="succeeded" if probed else "none"),
        Factor(name="state of the zone", key=0 if one.state == "available" else 1, said=one.state.replace("-", " ")),
        Factor(name="quota", key=0 if known else 1, said="known to be enough" if known else "not known"),
        *((by_score, by_price) if request.spot else (by_price, by_score)),
        Factor(
            name="other zones in the region",
            key=-siblings,
            said=str(siblings - 1),
        ),
    )


def _by_reservation(one: Candidate) -> Factor:
    held = next((r for r in one.reservations if one.reservation and r.id == one.reservation), None)
    if held is None:
        return Factor(name="reservation", key=2, said="none")
    return Factor(
        name="reservation",
        key=0 if held.own else 1,
        said=f"{held.id} of {'this account' if held.own else held.owner}",
    )


def order(request: Request, eligible: list[Candidate]) -> tuple[list[Candidate], Mapping[str, tuple[Factor, ...]]]:
    """Regions by their best place, places within a region by rank; and each zone's factors by its name.

    The zones of a region stay together, since a change of zone keeps VPC and control plane, and one of region does not.
    """
    counts = {one.region: sum(other.region == one.region for other in eligible) for one in eligible}
    why = {one.zone: factors(request, one, siblings=counts[one.region]) for one in eligible}

    def rank(one: Candidate) -> tuple[tuple[float, ...], str, str, str]:
        return tuple(factor.key for factor in why[one.zone]), one.region, one.zone_id, one.zone

    best = {region: min(rank(one) for one in eligible if one.region == region) for region in counts}
    return sorted(eligible, key=lambda one: (best[one.region], rank(one))), why
