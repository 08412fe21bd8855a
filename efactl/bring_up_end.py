"""PURE: what a bring-up that is over leaves: by its stacks' states, and by the looks at AWS after what it destroyed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from capacity.cause import Sorted
from capacity.failover import End
from capacity.phases import clock
from capacity.place import Place
from capacity.stack_settings import name_of
from efactl import leftovers
from efactl.exit_codes import ExitCode


@dataclass(frozen=True, kw_only=True)
class Rest:
    """Of one stack: `billing` are its things that bill, `said` is for people."""

    stack: str
    billing: tuple[str, ...]
    said: tuple[str, ...]

    def lines(self) -> list[str]:
        return [f"stack {self.stack}: {line}" for line in self.said]


def in_state(resources: leftovers.State, *, stack: str, region: str, given_up: bool = False) -> Rest | None:
    """None where nothing of it bills; one that was `given_up` counts all the same, as its end has failed."""
    said = leftovers.still_billing(resources, stack=stack, region=region)
    if not said and given_up:
        said = [f"still there, and nothing of it bills: `efactl down -s {stack}` ends it"]
    return Rest(stack=stack, billing=tuple(leftovers.billing(resources)), said=tuple(said)) if said else None


def beside_state(facts: Mapping[str, Any], *, stack: str) -> Rest:
    """By the facts of a `down` that emptied the state and yet is not complete; none where it failed itself."""
    found = facts.get("left")
    matter = [one for one in found or () if one["unknown"] or (one["bills"] and not one["kept"])]
    billing = tuple(f"{one['kind']} {one['id']}" for one in matter if not one["unknown"])
    said = [f"still billing, and not in its state: {', '.join(billing)}"] if billing else []
    if found is None:
        said.append("whether anything of it still bills is not known: AWS was not looked at")
    elif kinds := [one["kind"] for one in matter if one["unknown"]]:
        said.append(f"whether these still bill is not known: {', '.join(dict.fromkeys(kinds))}")
    return Rest(
        stack=stack, billing=billing, said=(*said, f"`efactl down -s {stack}` looks again, and says how to end it")
    )


def closing(
    end: End, *, env: str, plan: Sequence[Place], rests: Sequence[Rest], failed: bool, trains: bool, took: float
) -> tuple[ExitCode, list[str]]:
    """The exit code before any job, and the last words. `failed`: what was given up could not be ended, or not all of
    it; `took` is in seconds."""
    if end.place is not None:
        said = [f"stack {name_of(env, end.place)} is up in {end.place.zone}, {clock(took)} after the question"]
        if not trains:
            said.append(f"--train runs the job; `efactl down --env {env}` ends all that bills")
        elif failed:
            said.append("no job was run, as not all that was given up is ended: the same command again runs it")
        return ExitCode.FAILED if failed else ExitCode.OK, said
    if end.refused is not None:
        return ExitCode.FAILED, [f"stopped: {end.refused.what_to_do}"]
    zones, kept = ", ".join(place.zone for place in plan), "" if rests else "Nothing was kept; "
    said = [f"no place had the nodes: {zones}. {kept}capacity changes by the hour: try again later"]
    return ExitCode.FAILED if failed else ExitCode.NO_CAPACITY, said


def facts(
    rests: Sequence[Rest],
    *,
    stack: str | None = None,
    place: Place | None = None,
    refused: Sorted | None = None,
    problem: str | None = None,
) -> dict[str, Any]:
    """The contract of `efactl up --env --json`."""
    return {
        "stack": stack,
        "place": asdict(place) if place else None,
        "refused": asdict(refused) if refused else None,
        "problem": problem,
        **left(rests),
    }


def left(rests: Sequence[Rest]) -> dict[str, Any]:
    """The stacks that are left, and what of each bills."""
    stacks = list(dict.fromkeys(one.stack for one in rests))
    billing = {name: [what for one in rests if one.stack == name for what in one.billing] for name in stacks}
    return {"left": stacks, "billing": billing}
