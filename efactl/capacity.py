"""`efactl capacity`: where the GPU nodes can stand, everywhere at once; makes nothing but what is asked for."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capacity import explain, table
from capacity.choice import Choice, ProbeLike, choose
from capacity.request import Request
from capacity.survey import survey
from efactl.exit_codes import ExitCode
from workload.errors import BadInputError

_ROOT = Path(__file__).parents[1]


def capacity(
    request: Request, *, probe: bool, all_places: bool, write: str, explained: bool, as_json: bool
) -> ExitCode:
    """NO_CAPACITY where no place is left. `write` is an environment, whose stack file for the best place is made."""
    _check_environment(write)
    asked_at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    answers = survey(request, _say)
    choice = choose(request, answers)
    probes: Sequence[ProbeLike] = ()
    if probe:
        probes = _probed(choice, all_places=all_places)
        choice = choose(request, answers, probes)
    if as_json:
        print(json.dumps(_contract(choice, probes, asked_at), indent=2))
    else:
        print("\n".join(table.lines(choice)))
        if explained:
            print("\n".join(["", *explain.lines(choice)]))
    if not choice.plan or (probe and not _certain(choice)):
        return ExitCode.NO_CAPACITY
    if write:
        _write(write, choice)
    return ExitCode.OK


def _contract(choice: Choice, probes: Sequence[ProbeLike], asked_at: str) -> dict[str, Any]:
    known = [one.usd for one in probes if one.usd is not None]
    return {**choice.as_dict(), "asked_at": asked_at, "probe_usd": round(sum(known), 4) if probes else None}


def _probed(choice: Choice, *, all_places: bool) -> Sequence[ProbeLike]:
    """None where the best place is held already: that is more than a probe can tell."""
    from capacity.probe import Prober, probe, total_usd

    held = [place for place in choice.plan if choice.of(place).reservation]
    places = [place for place in choice.plan if place not in held]
    if held and not all_places:
        _say(f"no probe: {choice.of(held[0]).reservation} in {held[0].zone} is held already")
        return ()
    if not places:
        return ()
    nodes = choice.request.nodes
    hourly = {one.region: one.usd_per_hour and one.usd_per_hour / nodes for one in choice.candidates if one.eligible}
    probes = probe(choice.request, places, all_places=all_places, say=_say, by=Prober(hourly=hourly))
    asked = [one for one in probes if one.outcome != "not-asked"]
    _say(f"{len(asked)} of {len(places)} places probed, for at most {total_usd(probes):.2f} USD")
    return probes


def _certain(choice: Choice) -> bool:
    """Whether there is more than hope: a reservation, or a probe that succeeded. Spot cannot be probed."""
    best = choice.of(choice.plan[0])
    return choice.request.spot or bool(best.reservation) or (best.probe or {}).get("outcome") in ("yes", "left")


def _check_environment(name: str) -> None:
    """Before a survey that would be for nothing. Raises BadInputError."""
    if name and not (_ROOT / f"Pulumi.{name}.yaml").exists():
        raise BadInputError(f"--write {name}: there is no Pulumi.{name}.yaml to make a region's file from")


def _write(environment: str, choice: Choice) -> None:
    from capacity.stack_file import write

    write(environment, choice.plan[0], choice, folder=_ROOT, base=environment, say=_say)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
