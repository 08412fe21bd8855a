"""PURE: what a region's answers mean for each of its zones: can the nodes stand there, and if not, why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capacity.answers import ENABLED, Missing, Price, Quota, RegionAnswers, Reservation, TypeFacts, Usage, Zone
from capacity.candidate import Candidate, Out
from capacity.request import Request
from infra.held_reservation import PLATFORM

# A zone that is not up still takes launches in its other states.
_NO_LAUNCHES = "unavailable"


def candidates(
    request: Request, answers: RegionAnswers, facts: TypeFacts | None, probes: Mapping[str, Mapping[str, Any]]
) -> list[Candidate]:
    """One a zone; one without a zone where the region told none. `probes` are by name of the zone."""
    whole = _region_outs(answers)
    zones = () if isinstance(answers.zones, Missing) else answers.zones
    if whole or not zones:
        outs = whole or [(Out.NO_ANSWER, "the region has no zone of the usual kind")]
        return [Candidate(region=answers.region, opt_in=answers.opt_in, outs=tuple(outs))]
    return [_candidate(request, answers, facts, zone, probes.get(zone.name)) for zone in zones]


def _region_outs(answers: RegionAnswers) -> list[tuple[Out, str]]:
    if answers.opt_in and answers.opt_in not in ENABLED:
        text = f"the region is not enabled for this account ({answers.opt_in}): Account settings, AWS Regions, Enable"
        return [(Out.NOT_ENABLED, text)]
    if answers.trouble is not None:
        return [(Out.NO_ANSWER, str(answers.trouble))]
    if isinstance(answers.zones, Missing):
        return [(Out.NO_ANSWER, f"its zones were not told: {answers.zones}")]
    return []


@dataclass(kw_only=True)
class _Findings:
    outs: list[tuple[Out, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _candidate(
    request: Request,
    answers: RegionAnswers,
    facts: TypeFacts | None,
    zone: Zone,
    probe: Mapping[str, Any] | None,
) -> Candidate:
    found = _Findings()
    offered = _offered(request, answers, zone, found)
    held = _held(answers, zone, found)
    usable = None if request.spot else _usable(request, held)
    if request.spot and facts is not None and not facts.spot:
        found.outs.append((Out.OFFER, f"{request.instance_type} is not sold on spot"))
    if usable is None:
        _check_quota(request, answers, facts, found)
    else:
        _note(usable, found)
    price = _price(request, answers, zone, found)
    if probe is not None and probe["outcome"] == "no":
        found.outs.append((Out.PROBED, f"the probe was refused: {probe['text']}"))
    elif probe is not None and probe["outcome"] in ("unknown", "left"):
        found.notes.append(f"the probe: {probe['text']}")
    quota = answers.quota if isinstance(answers.quota, Quota) else None
    return Candidate(
        region=answers.region,
        zone=zone.name,
        zone_id=zone.zone_id,
        opt_in=answers.opt_in,
        state=zone.state,
        offered=offered,
        quota_code=quota.code if quota else "",
        quota_vcpus=quota.vcpus if quota else None,
        used_vcpus=answers.usage.vcpus if isinstance(answers.usage, Usage) else None,
        spot_score=_score(request, answers, zone, found),
        reservations=held,
        reservations_told=not isinstance(answers.reservations, Missing),
        reservation=usable.id if usable else "",
        probe=probe,
        usd_per_hour=None if price is None else round(request.nodes * price.usd, 4),
        price_as_of=price.as_of if price else "",
        price_source=price.source if price else "",
        outs=tuple(sorted(found.outs)),
        notes=tuple(found.notes),
    )


def _offered(request: Request, answers: RegionAnswers, zone: Zone, found: _Findings) -> bool | None:
    if zone.state == _NO_LAUNCHES:
        found.outs.append((Out.STATE, "AWS has marked the zone unavailable"))
    elif zone.state != "available":
        found.notes.append(f"AWS has marked the zone {zone.state}")
    if isinstance(answers.offered, Missing):
        text = f"whether it offers {request.instance_type} was not told: {answers.offered}"
        found.outs.append((Out.UNKNOWN, text))
        return None
    if zone.name in answers.offered:
        return True
    there = ", ".join(sorted(answers.offered))
    where = f" (of the region's zones {there} {'does' if len(answers.offered) == 1 else 'do'})" if there else ""
    found.outs.append((Out.OFFER, f"offers no {request.instance_type}{where}"))
    return False


def _held(answers: RegionAnswers, zone: Zone, found: _Findings) -> tuple[Reservation, ...]:
    if isinstance(answers.reservations, Missing):
        found.notes.append(f"reservations were not told: {answers.reservations}")
        return ()
    # By id where there is one: an owner's name of the zone may be another than ours.
    here = [one for one in answers.reservations if (one.zone_id or one.zone) in (zone.zone_id, zone.name)]
    return tuple(sorted(here, key=lambda one: (not one.own, -one.free, one.id)))


def unfit(request: Request, held: Reservation) -> str:
    """Why a reservation in the right zone cannot take the nodes; empty where it can."""
    if held.probe:
        return "left by a probe"
    if held.stack:
        return f"of stack {held.stack}"
    if held.kind != "default":
        return f"a {held.kind}"
    if held.platform != PLATFORM:
        return f"for {held.platform}"
    if held.tenancy != "default":
        return f"of {held.tenancy} tenancy"
    if held.interruptible:
        return "interruptible"
    if held.ends_soon:
        return "it ends within an hour"
    if held.free < request.nodes:
        return f"{held.free} of {held.total} free"
    return ""


def _usable(request: Request, held: tuple[Reservation, ...]) -> Reservation | None:
    return next((one for one in held if not unfit(request, one)), None)


def _note(usable: Reservation, found: _Findings) -> None:
    if usable.placement_group:
        group = usable.placement_group.rpartition("/")[2]
        found.notes.append(f"reservation {usable.id} is in placement group {group}: set gpuPlacementGroup to it")
    if usable.ends:
        found.notes.append(
            f"reservation {usable.id} ends at {usable.ends}: from then on nothing keeps the nodes' places"
        )


def _check_quota(request: Request, answers: RegionAnswers, facts: TypeFacts | None, found: _Findings) -> None:
    quota, usage = answers.quota, answers.usage
    if facts is None:
        found.outs.append((Out.UNKNOWN, f"how many vCPUs {request.instance_type} has was not told by any region"))
        return
    needed = request.nodes * facts.vcpus
    if isinstance(quota, Missing):
        found.notes.append(f"the quota was not told: {quota}")
        return
    if isinstance(usage, Missing):
        found.notes.append(f"what is in use was not told: {usage}")
        used = 0
    else:
        used = usage.vcpus
    if quota.vcpus - used < needed:
        whose = "" if quota.applied else " (AWS's default)"
        kept = usage.reserved_vcpus if isinstance(usage, Usage) else 0
        idle = f" ({kept} of it kept by reservations)" if kept else ""
        found.outs.append(
            (
                Out.QUOTA,
                f"quota {quota.code}{whose} is {quota.vcpus:g} vCPU, {used} in use{idle}, and {request.nodes} x "
                f"{request.instance_type} need {needed}: ask for {used + needed} in Service Quotas",
            )
        )


def _price(request: Request, answers: RegionAnswers, zone: Zone, found: _Findings) -> Price | None:
    price: Price | Missing = answers.price
    if request.spot:
        prices = answers.spot_prices
        absent = Missing(code="", text="there is no spot price of this zone")
        price = prices if isinstance(prices, Missing) else prices.get(zone.name, absent)
    if isinstance(price, Missing):
        found.notes.append(f"the price was not told: {price}")
        if request.max_hourly is not None:
            text = f"its price is not known, so it may cost more than --max-hourly {request.max_hourly:g}"
            found.outs.append((Out.MONEY, text))
        return None
    hourly = request.nodes * price.usd
    if request.max_hourly is not None and hourly > request.max_hourly:
        text = f"{request.nodes} nodes cost {hourly:.2f} USD an hour: more than --max-hourly {request.max_hourly:g}"
        found.outs.append((Out.MONEY, text))
    return price


def _score(request: Request, answers: RegionAnswers, zone: Zone, found: _Findings) -> int | None:
    if isinstance(answers.scores, Missing):
        found.notes.append(f"the spot placement score was not told: {answers.scores}")
        return None
    score = answers.scores.get(zone.zone_id)
    if score is None and request.spot:
        found.notes.append("AWS gave it no spot placement score")
    return score
