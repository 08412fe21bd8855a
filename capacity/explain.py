"""PURE: why a choice is what it is, place by place."""

from collections.abc import Iterator, Sequence

from capacity.candidate import Candidate
from capacity.choice import Choice
from capacity.judgement import unfit
from capacity.ranking import Factor


def lines(choice: Choice) -> list[str]:
    """What counts, what put each place of the plan before the next, and every reason against the others."""
    planned = [choice.of(place) for place in choice.plan]
    out = [one for one in choice.candidates if not one.eligible]
    return [*_plan(choice, planned), *_out(out), *_reservations(choice)]


def _plan(choice: Choice, planned: Sequence[Candidate]) -> Iterator[str]:
    if not planned:
        yield "No place is eligible."
        return
    names = [factor.name for factor in choice.why[planned[0].zone]]
    yield f"Ranked by {', then '.join(names)}; what is equal in all of them by region and zone id."
    yield "The zones of a region stay together: a change of zone keeps its VPC and control plane."
    for number, one in enumerate(planned, start=1):
        said = ", ".join(f"{factor.name} {factor.said}" for factor in choice.why[one.zone])
        yield f"{number}. {one.zone} ({one.zone_id}): {said}"
        if number < len(planned):
            yield f"   before {planned[number].zone} {_because(choice, one, planned[number])}"


def _because(choice: Choice, first: Candidate, second: Candidate) -> str:
    decided = _first_difference(choice.why[first.zone], choice.why[second.zone])
    if decided is None:
        return "by its name alone"
    ours, theirs = decided
    if ours.key < theirs.key:
        return f"by {ours.name}: {ours.said} against {theirs.said}"
    return f"though {theirs.name} speaks for it ({theirs.said} against {ours.said}): this one is in the region above"


def _first_difference(ours: Sequence[Factor], theirs: Sequence[Factor]) -> tuple[Factor, Factor] | None:
    return next(((a, b) for a, b in zip(ours, theirs, strict=True) if a.key != b.key), None)


def _out(out: Sequence[Candidate]) -> Iterator[str]:
    if out:
        yield "Out:"
    for one in out:
        where = f"{one.zone} ({one.zone_id})" if one.zone else one.region
        yield f"  {where}: {'; '.join(one.reasons)}"


def _reservations(choice: Choice) -> Iterator[str]:
    found = [(one, held) for one in choice.candidates for held in one.reservations]
    if found:
        yield "Reservations of the type:"
    for one, held in found:
        owner = "own" if held.own else f"of account {held.owner}"
        group = f", in placement group {held.placement_group.rpartition('/')[2]}" if held.placement_group else ""
        ends = f", ends {held.ends}" if held.ends else ""
        why = "spot does not use it" if choice.request.spot else unfit(choice.request, held)
        verdict = f"not used: {why}" if why else "fits"
        free = f"{held.free} of {held.total} free"
        yield f"  {held.id} in {one.zone}, {owner}, {held.criteria}, {free}{group}{ends}: {verdict}"
