"""PURE: from the plan, what was tried, and what each region's stack holds, to the one thing to do next."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capacity.cause import Cause, Sorted
from capacity.held import Held
from capacity.place import Place

# How often one place is tried where AWS only asked to wait, and a stack given up is destroyed.
_TRIES = 3
_DESTROYS = 2
_PAUSE = 30.0
NODES_RUN = Sorted(
    cause=Cause.CAPACITY,
    retry="stop",
    what_to_do="its nodes run and are left where they are: another zone would end them. `efactl down` of that stack "
    "first moves them, or take back what was changed",
)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A place that was tried: `refused` is why it did not come up, None where it did."""

    place: Place
    refused: Sorted | None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """`plan` is best first. `held` is by region. `mine` are the regions that this journey has begun in, in their order:
    no other stack is ever destroyed. `destroyed` are the regions of destroys so far, one for each, failed ones too."""

    plan: Sequence[Place]
    held: Mapping[str, Held]
    attempts: Sequence[Attempt] = ()
    mine: Sequence[str] = ()
    destroyed: Sequence[str] = ()

    def of(self, region: str) -> Held:
        return self.held.get(region) or Held(stack="", region=region)


@dataclass(frozen=True, kw_only=True)
class Bring:
    """Bring the place's stack up, after so many seconds. `replace` is the URN of a node group that failed in this
    very zone: the engine takes it for made."""

    place: Place
    replace: str = ""
    after: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Destroy:
    """Destroy what the stack of a region has."""

    region: str


@dataclass(frozen=True, kw_only=True)
class End:
    """`place` is where it runs, None where it does not; then `refused` says why, None where the plan is used up.

    `left` are regions whose stacks could not be destroyed.
    """

    place: Place | None = None
    refused: Sorted | None = None
    left: tuple[str, ...] = field(default=())


Action = Bring | Destroy | End


def next_action(now: Situation) -> Action:
    """Comes to an end whatever the outcomes: a place is tried so many times at most, and a stack destroyed twice."""
    last = now.attempts[-1] if now.attempts else None
    if last is None:
        return _bring(now, None)
    refused, region = last.refused, last.place.region
    if refused is None:
        return _clear(now, keep=region) or End(place=last.place, left=_left(now, keep=region))
    if refused.retry == "stop":
        return _room(now, last) or _clear(now, keep=region) or End(refused=refused, left=_left(now, keep=region))
    if now.of(region).group == "ready":
        return _clear(now, keep=region) or End(refused=NODES_RUN, left=_left(now, keep=region))
    if refused.retry == "wait" and (waits := _waits(now.attempts, last.place)) < _TRIES:
        return Bring(place=last.place, after=_PAUSE * waits)
    return _bring(now, last)


def is_open(place: Place, attempts: Sequence[Attempt]) -> bool:
    """Whether nothing that was tried speaks against it."""
    zones, regions = _closed(attempts)
    return place.zone not in zones and place.region not in regions


def ordered(plan: Sequence[Place], held: Mapping[str, Held], mine: Sequence[str] = ()) -> tuple[Place, ...]:
    """The plan with what is there already first: GPU capacity that a stack has, then the region last begun in.

    A zone whose capacity is this environment's own may be out of the plan for that very reason.
    """
    there = [
        Place(region=one.region, zone=one.reserved or one.zone, zone_id="")
        for one in held.values()
        if one.has_capacity and (one.reserved or one.zone)
    ]
    zones = {place.zone for place in plan}
    all_ = [*(place for place in there if place.zone not in zones), *plan]
    owned = {place.zone for place in there}
    current = mine[-1] if mine else ""
    return tuple(sorted(all_, key=lambda place: (place.zone not in owned, place.region != current)))


def _bring(now: Situation, last: Attempt | None) -> Action:
    place = next((one for one in now.plan if is_open(one, now.attempts)), None)
    if place is None:
        return _clear(now, keep="") or End(left=_left(now, keep=""))
    there = now.of(place.region)
    moved = last is not None and last.place.region == place.region and last.place.zone != place.zone
    if moved and there.one_zone and there.things and (action := _destroy_once(now, place.region)):
        return action
    stays = there.group == "failed" and place.zone == (there.reserved or there.zone)
    return Bring(place=place, replace=there.urn if stays else "")


def _closed(attempts: Sequence[Attempt]) -> tuple[set[str], set[str]]:
    """Zones and regions that refused. What asks to wait closes its region once it was asked often enough."""
    zones, regions = set(), set()
    for one in attempts:
        if one.refused is None:
            continue
        zones |= {one.place.zone} if one.refused.retry == "next-zone" else set()
        waited = one.refused.retry == "wait" and _waits(attempts, one.place) >= _TRIES
        regions |= {one.place.region} if one.refused.retry == "next-region" or waited else set()
    return zones, regions


def _waits(attempts: Sequence[Attempt], place: Place) -> int:
    return sum(1 for one in attempts if one.place == place and one.refused and one.refused.retry == "wait")


def _room(now: Situation, last: Attempt) -> Action | None:
    """What a quota that holds one reservation and not two asks for: the new one is made before the old one goes."""
    region, there = last.place.region, now.of(last.place.region)
    if last.refused is None or last.refused.cause is not Cause.QUOTA:
        return None
    if there.reserved not in ("", last.place.zone) and there.group != "ready":
        return _destroy_once(now, region)
    again = sum(1 for one in now.attempts if one.place == last.place and one.refused == last.refused) == 1
    return Bring(place=last.place) if again and region in now.destroyed and not there.things else None


def _destroy_once(now: Situation, region: str) -> Destroy | None:
    return Destroy(region=region) if Counter(now.destroyed)[region] < _DESTROYS else None


def _clear(now: Situation, *, keep: str) -> Destroy | None:
    """The first stack that this journey began and gave up, and that still has something."""
    done = Counter(now.destroyed)
    rest = [region for region in _left(now, keep=keep) if now.of(region).group != "ready"]
    return next((Destroy(region=region) for region in rest if done[region] < _DESTROYS), None)


def _left(now: Situation, *, keep: str) -> tuple[str, ...]:
    return tuple(region for region in dict.fromkeys(now.mine) if region != keep and now.of(region).things)
