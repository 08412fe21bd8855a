"""PURE: what a bring-up is going to do, told before the question."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capacity.held import Held
from capacity.place import Place


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A place of the plan with USD an hour: of its nodes and of what stands around them; None is not known.

    `most` is what the stack itself counts at most, by list prices and spot with its price on demand: it holds that
    against its limit.
    """

    place: Place
    nodes: float | None
    around: float | None
    most: float | None = None

    @property
    def hourly(self) -> float | None:
        """None where nothing is known of the nodes, which are nearly all of it."""
        return None if self.nodes is None else self.nodes + (self.around or 0.0)

    def said(self) -> str:
        if self.hourly is None:
            return "price not known"
        return f"{'about' if self.around is not None else 'at least'} ${self.hourly:.2f} an hour"

    def too_dear(self, most: float) -> str:
        """Why it is not within `most` USD an hour, or may not be; empty where it is."""
        if self.hourly is None or self.hourly > most:
            return self.said()
        if self.around is None or self.most is None:
            return f"{self.said()}, and not all of its prices are known"
        if self.most > most:
            counted = math.ceil(self.most * 100) / 100
            return f"{self.said()}, but the stack counts up to ${counted:.2f} (list prices, spot as on demand)"
        return ""


def affordable(
    plan: Sequence[Priced], most: float | None, named: str = "--max-hourly"
) -> tuple[list[Priced], list[str]]:
    """Those within `most` USD an hour (`named`), and why each other one is not. What is not known is not within."""
    if most is None:
        return list(plan), []
    why = [(one, one.too_dear(most)) for one in plan]
    out = [f"{one.place.zone}: {too_dear}, and {named} is {most:g}" for one, too_dear in why if too_dear]
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
    trains: bool,
) -> list[str]:
    """`what` is the nodes in words, `hours` how long they may live, None without a limit."""
    said = [f"{what} for {env}; the first place that has them, in this order:"]
    for number, one in enumerate(plan, start=1):
        place, there = one.place, held.get(one.place.region)
        id = f" ({place.zone_id})" if place.zone_id else ""
        here = f", {_there(there, place)}" if there and there.things else ""
        said.append(f"  {number}. {place.zone}{id}, stack {env}-{place.region}: {one.said()}{here}")
    how = (
        "reserved first, in seconds; nothing else bills before"
        if reserves
        else ("launched straight, and watched: a launch without capacity is given up after about a minute")
    )
    said.append(f"the nodes are {how}")
    said.append("a change of zone keeps VPC and control plane; of region, ends what the other one had")
    first = plan[0] if plan else None
    if hours is not None and first is not None and first.hourly is not None:
        each, bound = (first.hourly, "at least") if first.most is None else (max(first.hourly, first.most), "at most")
        said.append(f"until --ttl, in {hours:g} h: {bound} ${each * hours:.2f}; then AWS takes the GPU nodes away")
    elif hours is None:
        said.append(f"no --ttl: it costs that until `efactl down --env {env}`")
    for region, told in billing.items():
        said += [f"stack {env}-{region}: {line}" for line in told]
    said.append(
        "the job runs at the end (--train)" if trains else "no job is run: --train does, or `efactl up -s STACK`"
    )
    return said


def _there(held: Held, place: Place) -> str:
    if held.group == "ready" and held.zone == place.zone:
        return "where its nodes are"
    if held.reserved == place.zone:
        return "where it holds a reservation"
    return f"{held.things} AWS resources of it are there"
