"""The way of a bring-up: what the pure fail-over decides, done, until it runs or there is nothing more to try."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from capacity import missing_nodes, stack_file, ttl
from capacity.cause import Sorted
from capacity.choice import Choice
from capacity.ended import needs_refresh
from capacity.failover import Attempt, Bring, Destroy, End, Situation, next_action
from capacity.launch_watch import LaunchWatch
from capacity.phases import clock
from capacity.place import Place
from efactl import bring_up_end, commands, down
from efactl.bring_up_end import Rest
from efactl.engine_run import run_up
from efactl.environment import Environment
from efactl.exit_codes import ExitCode
from efactl.journal import Journal
from efactl.stack import FOLDER, Stack
from workload.errors import ReportedError

STATE = FOLDER / ".state"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the command line asks for. `regions` None: all; `ttl` as text (4h) or empty."""

    env: str
    regions: tuple[str, ...] | None = None
    plan_only: bool = False
    yes: bool = False
    train: bool = False
    max_hourly: float | None = None
    ttl: str = ""
    as_json: bool = False


@dataclass(kw_only=True)
class Journey:
    """`plan` is in the order in which places are tried; `asked` is when it was made, which is what its guards go by.

    `beside` has the facts of a region's destroy that emptied the state, and after which AWS still had what bills.
    """

    env: Environment
    choice: Choice
    plan: tuple[Place, ...]
    journal: Journal
    wanted: Wanted
    asked: datetime = field(default_factory=lambda: datetime.now(UTC))
    destroyed: list[str] = field(default_factory=list)
    beside: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def run(self, until: str) -> ExitCode:
        """Raises KeyboardInterrupt where it was interrupted: the next run goes on."""
        try:
            end = self._walk(until)
        except (KeyboardInterrupt, ReportedError) as error:
            self._broken_off(str(error) or "interrupted")
            raise
        return self._ended(end)

    def _walk(self, until: str) -> End:
        for region, held in list(self.env.held.items()):
            if held.things or self.env.resources[region]:
                self.env.settle(region, say)
        while True:
            action = next_action(self._situation())
            if isinstance(action, End):
                return action
            if isinstance(action, Destroy):
                self._destroy(action.region)
            else:
                self._bring(action, until)

    def _situation(self) -> Situation:
        return Situation(
            plan=self.plan,
            held=self.env.held,
            attempts=self.journal.attempts,
            mine=self.journal.mine,
            destroyed=self.destroyed,
        )

    def _bring(self, action: Bring, until: str) -> None:
        place, env = action.place, self.env
        if action.after:
            say(f"{place.zone}: again in {action.after:.0f} s")
            time.sleep(action.after)
        self.journal.begin(place.region)
        before = env.held.get(place.region)
        if place in self.choice.plan:
            stack_file.write(
                env.name, place, self.choice, folder=FOLDER, base=env.name, until=until, move=True, say=say
            )
        self._set(place.region, until)
        stack = Stack(env.stack_of(place.region))
        # Not of the plan that was agreed to: on the way to this place it has run out.
        if over := missing_nodes.over(stack.config, env=env.name, now=datetime.now(UTC)):
            self._note(place, over)
            return
        for line in stack.release_dead_locks():
            say(line)
        resources = env.cli.resources(stack.name) or []
        options = ["--refresh"] if needs_refresh(resources, now=datetime.now(UTC)) else []
        options += ["--replace", action.replace] if action.replace else []
        env.end_late_logs(place.region, say)
        moved = before is not None and bool(before.group) and before.zone != place.zone
        say(f"stack {stack.name}: {place.zone}")
        done = run_up(
            stack.name,
            options,
            log=STATE / f"up-{stack.name}.events",
            watch=self._watch(place.region, another=moved or bool(action.replace)),
            say=say,
        )
        if done.interrupted:
            raise KeyboardInterrupt
        env.settle(place.region, say)
        refused = done.refused or missing_nodes.missing(
            stack.config,
            env.held[place.region],
            env=env.name,
            trains=self.wanted.train,
            now=datetime.now(UTC),
        )
        for error in done.errors[:6] if refused else ():
            say(f"  {_short(error)}")
        self._note(place, refused, after=f", after {clock(done.seconds)}")

    def _note(self, place: Place, refused: Sorted | None, *, after: str = "") -> None:
        self.journal.add(Attempt(place=place, refused=refused), self.env.asked(place.region))
        said = "up" if refused is None else refused.cause.value
        say(f"{place.zone}: {said}{after}{f': {refused.what_to_do}' if refused else ''}")

    def _set(self, region: str, until: str) -> None:
        """A run that the state has stays in it: without `train` the program would take it out. A time of an earlier run
        that had passed before this one was asked for is not its own."""
        held = self.env.held.get(region)
        settings = {} if held is not None and held.run else {"train": "false"}
        if until:
            settings["ttlUntil"] = until
            # Where its own nodes put the place out of the plan, nothing else has said so.
            if Stack(self.env.stack_of(region)).config("capacity") == "reserve":
                settings["capacityUntil"] = until
        elif ttl.is_over(earlier := str(self.env.config(region)("ttlUntil") or ""), now=self.asked):
            self.env.unset(region, "ttlUntil")
            say(f"ttlUntil {earlier} had passed: it is taken out of {self.env.file(region).name}")
        if self.wanted.max_hourly is not None:
            settings["maxHourlyUsd"] = f"{self.wanted.max_hourly:g}"
        self.env.set(region, **settings)

    def _watch(self, region: str, *, another: bool) -> LaunchWatch | None:
        stack = Stack(self.env.stack_of(region))
        if stack.config("gpuExistingGroup"):
            return None
        name = self.env.name_tag(region)
        cluster = str(stack.config("eksExistingCluster") or name)
        return LaunchWatch(
            cluster=cluster, group=f"{name}-gpu", region=region, say=say, another=another, access=self.env.access
        )

    def _destroy(self, region: str) -> None:
        stack = Stack(self.env.stack_of(region))
        self.destroyed.append(region)
        say(f"stack {stack.name} was given up: what it has is ended")
        facts: Mapping[str, Any] = {}
        code = ExitCode.FAILED
        try:
            facts, code = down.destroyed(stack, aside=True)
        except ReportedError as error:
            say(f"stack {stack.name}: {error}")
        self.env.look_again(region)
        # What its state has is found there again; what it has not, nobody else remembers.
        if code is ExitCode.OK or self.env.held[region].things:
            self.beside.pop(region, None)
        else:
            self.beside[region] = facts

    def _ended(self, end: End) -> ExitCode:
        # What a further run may have to end, should it go elsewhere.
        held = self.env.held
        begun = [region for region in self.journal.mine if region in held and held[region].things]
        self.journal.close(left=end.left if end.place else begun)
        rests = self._rests(end)
        _tell(rests)
        code, said = bring_up_end.closing(
            end,
            env=self.env.name,
            plan=self.plan,
            rests=rests,
            failed=bool(end.left or self.beside),
            trains=self.wanted.train,
            took=time.monotonic() - self.began,
        )
        for line in said:
            say(line)
        if end.place is not None and code is ExitCode.OK and self.wanted.train:
            stack = Stack(self.env.stack_of(end.place.region))
            self.env.set(end.place.region, train="true")
            code = commands.up(stack, as_json=self.wanted.as_json)
        elif self.wanted.as_json:
            stack_name = self.env.stack_of(end.place.region) if end.place else None
            facts = bring_up_end.facts(rests, stack=stack_name, place=end.place, refused=end.refused)
            print(json.dumps(facts, indent=2))
        return code

    def _rests(self, end: End) -> list[Rest]:
        """Where it is up: of what it gave up on the way. Else of every stack of the environment."""
        stack_of = self.env.stack_of
        regions = end.left if end.place else tuple(self.env.held)
        states = [
            bring_up_end.in_state(
                self.env.resources.get(region, []), stack=stack_of(region), region=region, given_up=region in end.left
            )
            for region in regions
        ]
        looks = [bring_up_end.beside_state(facts, stack=stack_of(region)) for region, facts in self.beside.items()]
        return [one for one in (*states, *looks) if one is not None]

    def _broken_off(self, problem: str) -> None:
        """What was begun is as its states have it now: nobody has come to read them."""
        for region in self.journal.mine:
            with contextlib.suppress(ReportedError, OSError):
                self.env.look_again(region)
        rests = self._rests(End())
        _tell(rests)
        if self.wanted.as_json:
            with contextlib.suppress(OSError):
                print(json.dumps(bring_up_end.facts(rests, problem=problem), indent=2), flush=True)


def _tell(rests: list[Rest]) -> None:
    for line in (line for one in rests for line in one.lines()):
        say(line)


def _short(text: str, most: int = 600) -> str:
    one = " ".join(text.split())
    return one if len(one) <= most else f"{one[:most]} ..."


def say(line: str) -> None:
    # Nobody who reads, or a terminal that was closed, is no reason to leave what is under way alone.
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
