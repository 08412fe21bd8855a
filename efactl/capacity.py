"""`efactl capacity`: where the GPU nodes can stand, everywhere at once; makes nothing but what is asked for."""

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from capacity import explain, table
from capacity.answers import RegionAnswers
from capacity.aws import AS_ENVIRONMENT, Access
from capacity.choice import Choice, ProbeLike, choose
from capacity.place import Place
from capacity.request import Request
from capacity.survey import survey
from efactl.exit_codes import ExitCode
from workload.errors import BadInputError

if TYPE_CHECKING:
    from efactl.kept_environment import KeptEnvironment

SPOT = "spot capacity cannot be reserved, so it cannot be probed: its placement score is the only sign before a launch"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the command line says; `given` has those of instance_type, nodes and spot that are on it.

    `write` is an environment, for whose stack of the best place's region a file is made.
    """

    given: Mapping[str, Any]
    regions: tuple[str, ...] | None
    max_hourly: float | None
    probe: bool
    all_places: bool
    write: str
    explained: bool
    as_json: bool


def capacity(wanted: Wanted) -> ExitCode:
    """NO_CAPACITY where no place is left, or none is certain after a probe; FAILED where no region answered, or a
    probe's reservation is still there."""
    # What cannot be is told before an environment is read.
    request = Request(**wanted.given, regions=wanted.regions, max_hourly=wanted.max_hourly)
    kept = _kept(wanted)
    access = AS_ENVIRONMENT
    why_not: Callable[[Place], str] = _nothing
    if kept:
        request, access, why_not = kept.request(request, wanted.given, _say), kept.access, kept.files.why_not
    if wanted.probe and request.spot:
        raise BadInputError(f"--probe: {SPOT}")
    asked_at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    answers = survey(request, _say, access=access)
    if wanted.probe and _freed(answers, access):
        _say("what an earlier probe held is free again: every region is asked once more")
        answers = survey(request, _say, access=access)
    choice = choose(request, answers, why_not=why_not)
    probes: Sequence[ProbeLike] = ()
    if wanted.probe:
        probes = _probed(choice, access, all_places=wanted.all_places)
        choice = choose(request, answers, probes, why_not=why_not)
    _tell(choice, probes, asked_at, wanted)
    left = [one.reservation_id for one in probes if one.outcome == "left"]
    if left:
        _say(f"reservation {', '.join(left)} is still there and bills{', and nothing was written' if kept else ''}")
    if choice.unanswered or left:
        return ExitCode.FAILED
    if not choice.plan:
        return ExitCode.NO_CAPACITY
    if wanted.probe and not _certain(choice):
        unwritten = ", and nothing was written" if kept else ""
        _say(f"no place is certain: of those that are left no probe was answered to the end{unwritten}")
        return ExitCode.NO_CAPACITY
    if kept:
        kept.write(choice, _say)
    return ExitCode.OK


def _kept(wanted: Wanted) -> "KeptEnvironment | None":
    if not wanted.write:
        return None
    # The Pulumi CLI is asked: nothing that a survey alone should need.
    from efactl.kept_environment import KeptEnvironment

    return KeptEnvironment.of(wanted.write, wanted.regions)


def _nothing(_place: Place) -> str:
    return ""


def _tell(choice: Choice, probes: Sequence[ProbeLike], asked_at: str, wanted: Wanted) -> None:
    explanation = explain.lines(choice) if wanted.explained else []
    if wanted.as_json:
        more = {"explanation": explanation} if wanted.explained else {}
        print(json.dumps({**_contract(choice, probes, asked_at), **more}, indent=2))
        return
    print("\n".join(table.lines(choice)))
    if explanation:
        print("\n".join(["", *explanation]))


def _contract(choice: Choice, probes: Sequence[ProbeLike], asked_at: str) -> dict[str, Any]:
    return {**choice.as_dict(), "asked_at": asked_at, "probe_usd": _usd(probes)}


def _usd(probes: Sequence[ProbeLike]) -> float | None:
    if not probes:
        return None
    from capacity.probe import total_usd

    return total_usd(probes)


def _freed(answers: Sequence[RegionAnswers], access: Access) -> bool:
    """Whether a reservation that a killed probe left was cancelled: it may have been what put its own region out."""
    from capacity.probe import Prober, cancel_leftovers

    answered = [one.region for one in answers if one.trouble is None and one.zones]
    found = cancel_leftovers(answered, _say, by=Prober(access=access))
    return any(one.id and not one.problem for one in found)


def _probed(choice: Choice, access: Access, *, all_places: bool) -> Sequence[ProbeLike]:
    """None where the best place is held already: that is more than a probe can tell."""
    from capacity.probe import Prober, probe

    held = [place for place in choice.plan if choice.of(place).reservation]
    places = [place for place in choice.plan if place not in held]
    if held and not all_places:
        _say(f"no probe: {choice.of(held[0]).reservation} in {held[0].zone} is held already")
        return ()
    if not places:
        return ()
    nodes = choice.request.nodes
    hourly = {one.region: one.usd_per_hour and one.usd_per_hour / nodes for one in choice.candidates if one.eligible}
    probes = probe(choice.request, places, all_places=all_places, say=_say, by=Prober(access=access, hourly=hourly))
    asked = [one for one in probes if one.outcome != "not-asked"]
    usd = _usd(probes)
    cost = "for a price that is not known" if usd is None else f"for at most {usd:.2f} USD"
    _say(f"{len(asked)} of {len(places)} places probed, {cost}")
    return probes


def _certain(choice: Choice) -> bool:
    """Whether there is more than hope: a reservation, or a probe that succeeded."""
    best = choice.of(choice.plan[0])
    return bool(best.reservation) or (best.probe or {}).get("outcome") == "yes"


def _say(line: str) -> None:
    # Nobody who reads (a closed terminal) is no reason to leave a reservation behind.
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
