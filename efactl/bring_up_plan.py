"""PURE: what a bring-up is going to do, told before the question."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from capacity import ttl
from capacity.held import Held
from capacity.place import Place
from efactl.journal import Closed


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The most that a place may cost, in USD an hour, and what says so."""

    usd: float
    named: str


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A place of the plan with USD an hour: of its nodes and of what stands around them; None is not known.

    `most` is what the stack itself counts at most, by list prices and spot with its price on demand: it holds that
    against its limit. `until` is the ttlUntil that its settings have, where no --ttl takes its place. `closed`: an
    interrupted run was refused there just now, so it is passed over.
    """

    place: Place
    nodes: float | None
    around: float | None
    most: float | None = None
    limits: tuple[Limit, ...] = ()
    until: str = ""
    closed: Closed | None = None

    @property
    def hourly(self) -> float | None:
        """None where nothing is known of the nodes, which are nearly all of it."""
        return None if self.nodes is None else self.nodes + (self.around or 0.0)

    def said(self) -> str:
        if self.hourly is None:
            return "price not known"
        return f"{'about' if self.around is not None else 'at least'} ${self.hourly:.2f} an hour"

    def too_dear(self) -> str:
        """Why it is not within one of its limits, or may not be; empty where it is. What is not known is not within."""
        why = ((limit, self._over(limit.usd)) for limit in self.limits)
        return next((f"{what}, and {limit.named} is {limit.usd:g}" for limit, what in why if what), "")

    def _over(self, most: float) -> str:
        if self.hourly is None or self.hourly > most:
            return self.said()
        if self.around is None or self.most is None:
            return f"{self.said()}, and not all of its prices are known"
        if self.most > most:
            counted = math.ceil(self.most * 100) / 100
            return f"{self.said()}, but the stack counts up to ${counted:.2f} (list prices, spot as on demand)"
        return ""


def affordable(plan: Sequence[Priced]) -> tuple[list[Priced], list[str]]:
    """Those within their limits, and why each other one is not."""
    why = [(one, one.too_dear()) for one in plan]
    out = [f"{one.place.zone}: {too_dear}" for one, too_dear in why if too_dear]
    return [one for one, too_dear in why if not too_dear], out


def lines(
    plan: Sequence[Priced],
    held: Mapping[str, Held],
    billing: Mapping[str, Sequence[str]],
    *,
    env: str,
    what: str,
    reserves: bool,
    hours: float | None,
    now: datetime,
    trains: bool,
) -> list[str]:
    """`what` is the nodes in words, `hours` how long they may live by --ttl, None without it."""
    said = [f"{what} for {env}; the first place that has them, in this order:"]
    for number, one in enumerate(plan, start=1):
        place, there = one.place, held.get(one.place.region)
        id = f" ({place.zone_id})" if place.zone_id else ""
        here = f", {_there(there, place)}" if there and there.things else ""
        ends = f", nodes until {one.until} (ttlUntil)" if _lives(one, now) else ""
        said.append(
            f"  {number}. {place.zone}{id}, stack {env}-{place.region}: {one.said()}{ends}{here}{_skipped(one)}"
        )
    how = (
        "reserved first, in seconds; nothing else bills before"
        if reserves
        else ("launched straight, and watched: a launch without capacity is given up after about a minute")
    )
    said.append(f"the nodes are {how}")
    said.append("a change of zone keeps VPC and control plane; of region, ends what the other one had")
    first = next((one for one in plan if one.closed is None), None)
    if first is not None:
        said.append(_end(first, hours if hours is not None else _lives(first, now), named=hours is not None, env=env))
    elif opens := [one.closed.until for one in plan if one.closed is not None]:
        said.append(f"no place is left to try before {min(opens):%H:%M} UTC: what was begun is ended now")
    said += _passed(plan, env=env, now=now)
    for region, told in billing.items():
        said += [f"stack {env}-{region}: {line}" for line in told]
    said.append("the job runs at the end (--train)" if trains else "no job is run: --train does")
    return said


def _end(first: Priced, hours: float | None, *, named: bool, env: str) -> str:
    """What the first place comes to; `named`: by --ttl, and not by what its file has."""
    if hours is None:
        return f"no --ttl: it costs that until `efactl down --env {env}`"
    end = f"until {'--ttl' if named else f'ttlUntil {first.until}'}, in {hours:.3g} h"
    then = "then AWS takes the GPU nodes away"
    if first.hourly is None:
        return f"{end}: {first.said()}; {then}"
    each, bound = (first.hourly, "at least") if first.most is None else (max(first.hourly, first.most), "at most")
    return f"{end}: {bound} ${each * hours:.2f}; {then}"


def _lives(one: Priced, now: datetime) -> float | None:
    """Hours until the ttlUntil that its settings have; None without one that is ahead."""
    rest = ttl.left(one.until, now=now)
    return None if rest is None or ttl.is_over(one.until, now=now) else rest.total_seconds() / 3600


def _passed(plan: Sequence[Priced], *, env: str, now: datetime) -> list[str]:
    """An end of an earlier run is none of this one's."""
    over = {one.place.region: one.until for one in plan if ttl.is_over(one.until, now=now)}
    return [f"stack {env}-{region}: ttlUntil {until} has passed, and is taken out" for region, until in over.items()]


def _skipped(one: Priced) -> str:
    if one.closed is None:
        return ""
    why = one.closed.why
    return f"; skipped until {one.closed.until:%H:%M} UTC: {why.code or why.cause.value} in the run before this one"


def _there(held: Held, place: Place) -> str:
    if held.group == "ready" and held.zone == place.zone:
        return "where its nodes are"
    if held.reserved == place.zone:
        return "where it holds a reservation"
    return f"{held.things} AWS resources of it are there"
