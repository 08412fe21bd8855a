"""The way of a bring-up: what the pure fail-over decides, done, until it runs or there is nothing more to try."""

import contextlib
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from capacity import missing_nodes, stack_file, ttl
from capacity.cause import Cause, Sorted
from capacity.causes import in_text
from capacity.choice import Choice
from capacity.ended import needs_refresh
from capacity.failover import Attempt, Bring, Destroy, End, Situation, next_action
from capacity.launch_watch import LaunchWatch
from capacity.phases import clock
from capacity.place import Place
from efactl import commands, down
from efactl.engine_run import Ended, run_up
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
    """`plan` is in the order in which places are tried; `asked` is when it was made, which is what its guards go by."""

    env: Environment
    choice: Choice
    plan: tuple[Place, ...]
    journal: Journal
    wanted: Wanted
    asked: datetime = field(default_factory=lambda: datetime.now(UTC))
    destroyed: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def run(self, until: str) -> ExitCode:
        """Raises KeyboardInterrupt where it was interrupted: the next run goes on."""
        for region, held in list(self.env.held.items()):
            if held.things or self.env.resources[region]:
                self.env.settle(region, say)
        while True:
            action = next_action(self._situation())
            if isinstance(action, End):
                return self._ended(action)
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
        refused = _refused(done) or missing_nodes.missing(
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
        try:
            down.destroyed(stack, aside=True)
        except ReportedError as error:
            say(f"stack {stack.name}: {error}")
        self.env.look_again(region)

    def _ended(self, end: End) -> ExitCode:
        # What a further run may have to end, should it go elsewhere.
        held = self.env.held
        begun = [region for region in self.journal.mine if region in held and held[region].things]
        self.journal.close(left=end.left if end.place else begun)
        for region in end.left:
            say(f"still there: stack {self.env.stack_of(region)}: `efactl down -s {self.env.stack_of(region)}` ends it")
        code = self._code(end)
        if end.place is not None and code is ExitCode.OK and self.wanted.train:
            stack = Stack(self.env.stack_of(end.place.region))
            self.env.set(end.place.region, train="true")
            code = commands.up(stack, as_json=self.wanted.as_json)
        elif self.wanted.as_json:
            print(json.dumps(self._facts(end), indent=2))
        return code

    def _code(self, end: End) -> ExitCode:
        if end.place is not None:
            name = self.env.stack_of(end.place.region)
            say(f"stack {name} is up in {end.place.zone}, {clock(time.monotonic() - self.began)} after the question")
            if not self.wanted.train:
                say(f"--train runs the job; `efactl down --env {self.env.name}` ends all that bills")
            return ExitCode.FAILED if end.left else ExitCode.OK
        if end.refused is None:
            zones = ", ".join(place.zone for place in self.plan)
            say(f"no place had the nodes: {zones}. Nothing was kept; capacity changes by the hour: try again later")
            return ExitCode.FAILED if end.left else ExitCode.NO_CAPACITY
        say(f"stopped: {end.refused.what_to_do}")
        return ExitCode.FAILED

    def _facts(self, end: End) -> dict[str, object]:
        place = end.place
        return {
            "stack": self.env.stack_of(place.region) if place else None,
            "place": asdict(place) if place else None,
            "refused": asdict(end.refused) if end.refused else None,
            "left": [self.env.stack_of(region) for region in end.left],
        }


def _refused(done: Ended) -> Sorted | None:
    """Why an `up` failed: what the watch saw, else what the engine's errors say."""
    if done.trouble is not None:
        return done.trouble.sorted
    if done.status == 0:
        return None
    unknown = Sorted(cause=Cause.UNKNOWN, retry="stop", what_to_do="read what the engine said, and run it again")
    return in_text("\n".join(done.errors)) or unknown


def _short(text: str, most: int = 600) -> str:
    one = " ".join(text.split())
    return one if len(one) <= most else f"{one[:most]} ..."


def say(line: str) -> None:
    # Nobody who reads is no reason to leave what is under way alone.
    with contextlib.suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)
