"""One zone's probe from the request to the cancellation; whatever happens on the way, nothing is left behind."""

from collections.abc import Callable

from capacity import probe_reservation
from capacity.aws import AWS_ERRORS, AwsRefusedError, client, may_have_happened, sorted_error, words_of
from capacity.causes import Cause, Sorted
from capacity.held_signals import held_signals
from capacity.place import Place
from capacity.probe_answer import Outcome, Probe, Prober
from capacity.probe_reservation import BILLS_AT_MOST, LIVES, how_to_cancel
from capacity.request import Request

REFUSALS = (*AWS_ERRORS, AwsRefusedError)
# Of the zone: EC2 has not looked at it.
_SAYS_NOTHING = (Cause.THROTTLED, Cause.UNAVAILABLE)


def probe_zone(request: Request, place: Place, say: Callable[[str], None], by: Prober) -> Probe:
    """Says what came of it. An interruption waits until the reservation is cancelled, or is told to be there."""
    owner = probe_reservation.new_owner()
    with held_signals(say, f"interrupted: the reservation in {place.zone} is to be cancelled first"):
        try:
            answer = _asked(request, place, owner, by)
        except BaseException:
            _end(place, owner, say, by)
            raise
        # Within: an interruption that was put off is raised at the end of this block, and nobody gets the answer.
        say(f"{place.zone} ({place.zone_id}): {answer.text}")
        return answer


def _asked(request: Request, place: Place, owner: str, by: Prober) -> Probe:
    began = by.seconds()
    try:
        ec2 = client("ec2", place.region, access=by.access)
        made = probe_reservation.create(
            ec2, place, instance_type=request.instance_type, count=request.nodes, owner=owner, now=by.now()
        )
    except REFUSALS as error:
        return _lost(request, place, owner, began, error, by) if may_have_happened(error) else _refused(place, error)
    id = str(made["CapacityReservationId"])
    try:
        state = probe_reservation.settled(place.region, made, access=by.access, wait=by.wait)
    except REFUSALS:
        state = str(made["State"])
    return _made(request, place, id, state, began, by)


def _lost(request: Request, place: Place, owner: str, began: float, error: Exception, by: Prober) -> Probe:
    """The answer was lost: the reservation may be there all the same, and is found by its tag."""
    try:
        there = probe_reservation.find_soon(place.region, owner, access=by.access, wait=by.wait)
        seen = "none has shown up"
    except REFUSALS:
        there, seen = None, "EC2 could not be asked"
    if there is not None:
        return _made(request, place, there.id, there.state, began, by)
    ends = f"{by.now() + LIVES:%H:%M} UTC"
    usd = by.usd(request, place.region, BILLS_AT_MOST.total_seconds())
    text = (
        f"{words_of(error)}; whether it was reserved is not known ({seen}): the next probe looks again, and it would "
        f"end by itself within an hour after {ends}, {_price(usd)}"
    )
    after = sorted_error(error)
    return Probe(place=place, outcome="unknown", cause=after.cause, usd=usd, text=text, after=after)


def _made(request: Request, place: Place, id: str, state: str, began: float, by: Prober) -> Probe:
    if state == "failed":
        what = "EC2 took the request and found no capacity: another zone or region may have some"
        after = Sorted(cause=Cause.CAPACITY, retry="next-zone", what_to_do=what, code=state)
        return Probe(place=place, outcome="no", cause=after.cause, reservation_id=id, text=what, after=after)
    try:
        probe_reservation.cancel(place.region, id, access=by.access, wait=by.wait)
    except REFUSALS as error:
        return _left(request, place, id, error, by)
    seconds = by.seconds() - began
    usd = by.usd(request, place.region, seconds)
    text = f"{request.nodes} x {request.instance_type} reserved and cancelled within {seconds:.1f} s, {_price(usd)}"
    if state == "active":
        return Probe(place=place, outcome="yes", reservation_id=id, usd=usd, text=text, seconds=seconds)
    text = f"{text}; EC2 had not confirmed it by then (it was {state})"
    after = Sorted(cause=Cause.UNKNOWN, retry="next-zone", what_to_do=text, code=state)
    return Probe(
        place=place,
        outcome="unknown",
        cause=after.cause,
        reservation_id=id,
        usd=usd,
        text=text,
        seconds=seconds,
        after=after,
    )


def _price(usd: float | None) -> str:
    return "no price known" if usd is None else f"at most ${usd:.4f}"


def _left(request: Request, place: Place, id: str, error: Exception, by: Prober) -> Probe:
    command = how_to_cancel(place.region, id, by.access)
    usd = by.usd(request, place.region, BILLS_AT_MOST.total_seconds())
    ends = f"{by.now() + LIVES:%H:%M} UTC, or up to an hour longer"
    text = (
        f"reserved, and NOT cancelled ({words_of(error)}): it bills until {ends}, {_price(usd)}. End it with: {command}"
    )
    after = sorted_error(error)
    return Probe(place=place, outcome="left", cause=after.cause, reservation_id=id, usd=usd, text=text, after=after)


def _refused(place: Place, error: Exception) -> Probe:
    after = sorted_error(error)
    told = str(error) if isinstance(error, AwsRefusedError) else f"{words_of(error)}: {after.what_to_do}"
    outcome: Outcome = "unknown" if after.cause in _SAYS_NOTHING else "no"
    return Probe(place=place, outcome=outcome, cause=after.cause, text=told, after=after)


def _end(place: Place, owner: str, say: Callable[[str], None], by: Prober) -> None:
    """Never fails: what it is called for is an error already."""
    id = ""
    try:
        there = probe_reservation.find_soon(place.region, owner, access=by.access, wait=by.wait)
        if there is not None:
            id = there.id
            probe_reservation.cancel(place.region, id, access=by.access, wait=by.wait)
    except REFUSALS as error:
        what = f"reservation {id} is NOT cancelled" if id else "whether something was reserved is not known"
        how = f"end it with: {how_to_cancel(place.region, id, by.access)}" if id else "the next probe looks again"
        say(f"{place.zone} ({place.zone_id}): {what} ({words_of(error)}): {how}")
