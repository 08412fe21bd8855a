"""Whether capacity can be had now: the one certain answer is a reservation, made and cancelled in seconds."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from capacity import probe_reservation
from capacity.answers import Missing
from capacity.at_once import PATIENCE_S, AtOnce
from capacity.aws import words_of
from capacity.choice import ProbeLike
from capacity.place import Place
from capacity.probe_answer import Probe, Prober
from capacity.probe_reservation import PROBE_TAG, how_to_cancel
from capacity.probe_zone import REFUSALS, probe_zone
from capacity.request import Request

__all__ = ["PROBE_TAG", "Leftover", "Probe", "Prober", "cancel_leftovers", "probe", "total_usd"]

Say = Callable[[str], None]
_PART = "left"


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """A reservation of an earlier probe; `problem` says why it is still there, or what could not be asked."""

    region: str
    id: str = ""
    problem: str = ""


def probe(
    request: Request, places: Sequence[Place], *, all_places: bool = False, say: Say, by: Prober | None = None
) -> list[Probe]:
    """One answer for each place, in order; questions are put up to the first "yes", or to `all_places`. On demand: spot
    capacity cannot be reserved.

    What earlier probes left in those regions is cancelled first. After a refusal that every zone of its region would
    repeat, the region's other zones are not asked. Interrupted (Ctrl-C, TERM) it cancels what it holds, or says how to,
    and raises KeyboardInterrupt.
    """
    by = by or Prober()
    cancel_leftovers((place.region for place in places), say, by=by)
    answers: list[Probe] = []
    closed: dict[str, str] = {}
    stop = ""
    for place in places:
        if why := stop or closed.get(place.region, ""):
            answers.append(Probe(place=place, outcome="not-asked", text=why))
            continue
        answer = probe_zone(request, place, say, by)
        answers.append(answer)
        if answer.outcome == "yes" and not all_places:
            stop = f"not asked: {place.zone} has it"
        elif answer.outcome == "left":
            stop = f"not asked: reservation {answer.reservation_id} is to be cancelled first"
        elif answer.outcome == "no" and answer.after is not None and answer.after.retry not in ("next-zone", "wait"):
            closed[place.region] = f"not asked: {place.zone} was refused for what holds in all of {place.region}"
    return answers


def cancel_leftovers(
    regions: Iterable[str], say: Say, *, by: Prober | None = None, patience: float = PATIENCE_S
) -> list[Leftover]:
    """Cancels what probes that were killed have left in these regions, all at once; never fails.

    A probe that is still at work, in this machine's other processes or elsewhere, is left alone. A region that is
    silent for `patience` seconds holds up nothing, and may be interrupted.
    """
    by = by or Prober()
    at_once, found = AtOnce(patience), list[Leftover]()
    for region in dict.fromkeys(regions):
        at_once.expect(region, [_PART])
        at_once.run(functools.partial(at_once.ask, region, _PART, functools.partial(_leftovers, region, by)))
    while at_once.waiting():
        at_once.wait(seconds=0.2)
    for (region, _), told in sorted(at_once.answers.items()):
        found += [Leftover(region=region, problem=str(told))] if isinstance(told, Missing) else told
    for one in found:
        if one.id:
            what = f"could not be cancelled: {one.problem}" if one.problem else "cancelled"
            say(f"{one.region}: reservation {one.id} of an earlier probe: {what}")
        else:
            say(f"{one.region}: whether an earlier probe has left something is not known: {one.problem}")
    return found


def total_usd(probes: Iterable[ProbeLike]) -> float | None:
    """What they cost together at most; None where the price of one is not known."""
    costs = [one.usd for one in probes]
    return None if None in costs else round(sum(cost or 0.0 for cost in costs), 4)


def _leftovers(region: str, by: Prober) -> list[Leftover]:
    there = probe_reservation.find(region, access=by.access)
    return [_cancelled(one, by) for one in there if one.left_behind(by.now())]


def _cancelled(one: probe_reservation.Found, by: Prober) -> Leftover:
    try:
        probe_reservation.cancel(one.region, one.id, access=by.access, wait=by.wait)
    except REFUSALS as error:
        command = how_to_cancel(one.region, one.id, by.access)
        return Leftover(region=one.region, id=one.id, problem=f"{words_of(error)}: {command}")
    return Leftover(region=one.region, id=one.id)
