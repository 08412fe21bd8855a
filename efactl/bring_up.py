"""`efactl up --env ENV`: through zones and regions until the GPU nodes run; what was left on the way is ended."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from capacity import table, ttl
from capacity.choice import Choice, choose
from capacity.failover import ordered
from capacity.plan_cost import around_nodes, at_most
from capacity.survey import survey
from efactl import bring_up_end, bring_up_plan
from efactl.bring_up_end import Rest
from efactl.bring_up_plan import Limit, Priced
from efactl.environment import Environment
from efactl.exit_codes import ExitCode
from efactl.journal import Journal
from efactl.journey import STATE, Journey, Wanted, say
from workload.errors import BadInputError

__all__ = ["Wanted", "bring_up"]


def bring_up(wanted: Wanted) -> ExitCode:
    """NO_CAPACITY where no place of the plan had the nodes; then nothing is left of what was made on the way."""
    if not (wanted.plan_only or wanted.yes or sys.stdin.isatty()):
        raise BadInputError("there is no terminal to ask on: -y goes ahead without the question, --plan shows the plan")
    now = datetime.now(UTC)
    until = ttl.until(wanted.ttl, now=now) if wanted.ttl else ""
    env = Environment.of(wanted.env)
    request = env.request(wanted.regions, wanted.max_hourly)
    env.look()
    journal = Journal.read(STATE, wanted.env, env.asked)
    choice = choose(request, survey(request, say, access=env.access))
    plan = _plan(env, choice, journal, wanted)
    rests = _rests(env)
    if not plan:
        say("\n".join([*table.lines(choice), *(line for one in rests for line in one.lines())]))
        _tell(plan, rests, wanted)
        begun = {env.stack_of(region) for region in journal.mine}
        failed = choice.unanswered or any(one.stack in begun for one in rests)
        return ExitCode.FAILED if failed else ExitCode.NO_CAPACITY
    hours = ttl.duration(wanted.ttl).total_seconds() / 3600 if wanted.ttl else None
    shown = bring_up_plan.lines(
        plan,
        env.held,
        env.billing,
        env=wanted.env,
        what=f"{request.nodes} x {request.instance_type}, {request.market}",
        reserves=not request.spot and str(env.base.config("capacity")) != "none",
        hours=hours,
        now=now,
        trains=wanted.train,
    )
    print("\n".join(shown), file=sys.stderr if wanted.as_json else sys.stdout, flush=True)
    if wanted.plan_only or not (wanted.yes or _agreed()):
        say("nothing was changed")
        _tell(plan, rests, wanted)
        return ExitCode.OK
    journey = Journey(
        env=env,
        choice=choice,
        plan=tuple(one.place for one in plan),
        journal=journal,
        wanted=wanted,
        asked=now,
    )
    return journey.run(until)


def _plan(env: Environment, choice: Choice, journal: Journal, wanted: Wanted) -> list[Priced]:
    hourly = {one.zone: one.usd_per_hour for one in choice.candidates}
    places = ordered(choice.plan, env.held, journal.mine)
    if wanted.regions is not None:
        places = tuple(place for place in places if place.region in wanted.regions)
    priced = [
        Priced(
            place=place,
            nodes=hourly.get(place.zone),
            around=around_nodes(env.config(place.region), place.region),
            most=at_most(env.config(place.region), place.region),
            limits=_limits(env, wanted, place.region),
            until="" if wanted.ttl else str(env.config(place.region)("ttlUntil") or ""),
            closed=journal.closed(place),
        )
        for place in places
    ]
    plan, out = bring_up_plan.affordable(priced)
    for line in out:
        say(line)
    return plan


def _limits(env: Environment, wanted: Wanted, region: str) -> tuple[Limit, ...]:
    """By name: the option goes before every setting, and takes its place; without it a region's stack holds its own,
    perhaps an earlier option's."""
    if wanted.max_hourly is not None:
        return (Limit(usd=wanted.max_hourly, named="--max-hourly"),)
    settings = {wanted.env: env.base.config, env.stack_of(region): env.config(region)}
    found = {name: str(config("maxHourlyUsd") or "") for name, config in settings.items()}
    if len(set(found.values())) == 1:
        # A file that is still to be made from the environment's, or says the same.
        found.popitem()
    return tuple(_limit(stack, setting) for stack, setting in found.items() if setting)


def _limit(stack: str, setting: str) -> Limit:
    try:
        return Limit(usd=float(setting), named=f"maxHourlyUsd of stack {stack}")
    except ValueError:
        raise BadInputError(f"maxHourlyUsd '{setting}' of stack {stack} is no amount in USD") from None


def _rests(env: Environment) -> list[Rest]:
    """What of the environment bills before anything is done."""
    found = (
        bring_up_end.in_state(resources, stack=env.stack_of(region), region=region)
        for region, resources in env.resources.items()
    )
    return [one for one in found if one is not None]


def _tell(plan: Sequence[Priced], rests: Sequence[Rest], wanted: Wanted) -> None:
    """The facts of a bring-up that changed nothing."""
    if wanted.as_json:
        facts = [
            {
                **asdict(one.place),
                "usd_per_hour": one.hourly,
                "ttl_until": one.until or None,
                "skipped_until": one.closed and one.closed.until.isoformat(timespec="seconds"),
            }
            for one in plan
        ]
        print(json.dumps({"stack": None, "plan": facts, **bring_up_end.left(rests)}, indent=2))


def _agreed() -> bool:
    print("Bring it up? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
