"""A bring-up without the engine: the pure fail-over drives stacks of a small program on a stand-in account, which may
refuse at any call, or lose whoever called it, and whose states know only what was written down in time.
"""

import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capacity import pending
from capacity.cause import Cause, Sorted
from capacity.causes import cause_of
from capacity.failover import Attempt, Bring, Destroy, End, Situation, next_action, ordered
from capacity.held import Held, held
from capacity.pending import TAGGED, Tagged
from capacity.place import Place
from tests.support.bring_up_program import program
from tools.standin import tokens
from tools.standin.account import Account
from tools.standin.cloud import Cloud, Configuration
from tools.standin.errors import AwsError, PartialError

NAME = "ray-train-efa/name"
PLAN = tuple(
    Place(region=region, zone=f"{region}{letter}", zone_id="")
    for region, letters in (("us-west-2", "abc"), ("us-east-2", "ab"))
    for letter in letters
)
State = dict[str, dict[str, Any]]


class KilledError(Exception):
    """The process is gone: nothing after this is written down."""


@dataclass
class Fate:
    """After so many calls that change something: killed, before the call is sent or when AWS has done it."""

    calls: int | None = None
    done: bool = False

    def strikes(self) -> bool:
        if self.calls is None:
            return False
        self.calls -= 1
        return self.calls < 0


@dataclass
class Stack:
    """`state` is what is written down, `open` what was begun and has no end there, `ending` what was being deleted."""

    region: str
    zone: str = ""
    state: State = field(default_factory=dict)
    open: State = field(default_factory=dict)
    ending: str = ""

    @property
    def name(self) -> str:
        return f"ray-dev-{self.region}"

    def resources(self) -> list[dict[str, Any]]:
        return [one for one in self.state.values() if one.get("id")]

    def held(self) -> Held:
        return held(f"dev-{self.region}", self.resources(), region=self.region, zone=self.zone)


class World:
    """One account, an environment's stacks, and the journal of its bring-up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.stacks = {place.region: Stack(place.region) for place in PLAN}
        self.attempts: list[Attempt] = []
        self.mine: list[str] = []
        self.fate = Fate()
        self._numbers = itertools.count()
        self.scenario()

    def scenario(self, **content: Any) -> None:
        (self.folder / "scenario.json").write_text(json.dumps(content))

    def there(self) -> list[str]:
        """EKS's own security group is its cluster's, and goes with it."""
        return sorted(
            f"{one.region} {tokens.kind_of(one.token)} {one.id}"
            for one in Account(self.folder).remaining()
            if one.token != tokens.SECURITY_GROUP
        )

    def count(self, token: str) -> int:
        return sum(1 for one in Account(self.folder).remaining() if one.token == token)

    def bring_up(self) -> End:
        """Raises KilledError; a further call goes on."""
        destroyed: list[str] = []
        for stack in self.stacks.values():
            self._settle(stack)
        plan = ordered(PLAN, {region: stack.held() for region, stack in self.stacks.items()}, self.mine)
        for _ in range(100):
            there = {region: stack.held() for region, stack in self.stacks.items()}
            action = next_action(
                Situation(plan=plan, held=there, attempts=self.attempts, mine=self.mine, destroyed=destroyed)
            )
            if isinstance(action, End):
                self.attempts = []
                self.mine = list(action.left) if action.place else [one for one in self.mine if there[one].things]
                return action
            if isinstance(action, Destroy):
                destroyed.append(action.region)
                self._destroy(self.stacks[action.region])
            else:
                self._bring(action)
        raise AssertionError("the fail-over does not come to an end")

    def down(self) -> bool:
        """Whether all is gone. Raises KilledError."""
        gone = []
        for stack in self.stacks.values():
            self._settle(stack)
            gone.append(self._destroy(stack))
        return all(gone)

    def _bring(self, action: Bring) -> None:
        place = action.place
        self.mine = [*(one for one in self.mine if one != place.region), place.region]
        stack = self.stacks[place.region]
        stack.zone = place.zone
        try:
            self._up(stack, replace=bool(action.replace))
        except (AwsError, PartialError) as error:
            self.attempts.append(Attempt(place=place, refused=cause_of(error.code, error.message)))
        else:
            group = stack.held()
            unmade = Sorted(cause=Cause.UNKNOWN, retry="stop", what_to_do="look")
            self.attempts.append(Attempt(place=place, refused=None if group.group == "ready" else unmade))

    def _up(self, stack: Stack, *, replace: bool) -> None:
        wanted = dict(program(stack.name, stack.region, stack.zone))
        doomed: list[dict[str, Any]] = []
        for name, (token, inputs_of) in wanted.items():
            inputs = inputs_of(lambda other: str(stack.state[other]["id"]))
            old = stack.state.get(name)
            if old is not None and old["plain"] == inputs and not (replace and name == "gpu-group"):
                continue
            if old is not None and token == tokens.NODE_GROUP:
                self._delete(stack, name)
            elif old is not None:
                doomed.append(old)
                stack.state[f"old {old['id']}"] = {**stack.state.pop(name), "delete": True}
            self._create(stack, name, token, inputs)
        for name in [one for one in reversed(stack.state) if one not in wanted]:
            self._delete(stack, name)

    def _create(self, stack: Stack, name: str, token: str, inputs: dict[str, Any]) -> None:
        given = {key: f"{value}-{next(self._numbers)}" if value == "auto" else value for key, value in inputs.items()}
        urn = f"urn:pulumi:dev-{stack.region}::p::{token}::{name}"
        noted = {"urn": urn, "type": token, "custom": True, "inputs": given, "plain": inputs}
        stack.open[name] = noted
        struck = self.fate.strikes()
        if struck and not self.fate.done:
            raise KilledError
        try:
            made = self._cloud(stack).create(token, urn, given)
        except PartialError as error:
            made = error.entry
            if not struck:
                stack.state[name] = {**noted, "id": made.id, "outputs": made.outputs, "initErrors": [str(error)]}
                del stack.open[name]
                raise
        except AwsError:
            del stack.open[name]
            raise
        if struck:
            raise KilledError
        stack.state[name] = {**noted, "id": made.id, "outputs": made.outputs}
        del stack.open[name]

    def _delete(self, stack: Stack, name: str) -> None:
        one = stack.state[name]
        struck = self.fate.strikes()
        stack.ending = name
        if struck and not self.fate.done:
            raise KilledError
        try:
            self._cloud(stack).delete(one["type"], one["urn"], one["id"])
        except AwsError:
            stack.ending = ""
            raise
        if struck:
            raise KilledError
        stack.ending = ""
        del stack.state[name]

    def _destroy(self, stack: Stack) -> bool:
        try:
            for name in list(reversed(stack.state)):
                self._delete(stack, name)
        except (AwsError, PartialError):
            return False
        return True

    def _settle(self, stack: Stack) -> None:
        """As efactl/settle.py, with the account itself in the place of AWS's answers."""
        made, stack.open = dict(stack.open), {}
        found = pending.recovery(list(made.values()), stack.resources(), list(self._tagged(stack)))
        assert found.unclear == ()
        by_urn = {one["urn"]: name for name, one in made.items()}
        with Account(self.folder).open() as records:
            for one in found.adopted:
                name = by_urn[one.urn]
                entry = records.get(made[name]["type"], one.id)
                if entry is not None:
                    if name in stack.state:
                        stack.state[f"old {stack.state[name]['id']}"] = {**stack.state.pop(name), "delete": True}
                    stack.state[name] = {**made[name], "id": one.id, "outputs": entry.outputs}
            for token, inputs in found.undone:
                for entry in records.all(token, stack.region):
                    if entry.inputs == inputs:
                        records.remove(token, entry.id)
            for name in ("cluster", "gpu-group"):
                there = stack.state.get(name)
                if there is not None and name != stack.ending and records.get(there["type"], there["id"]) is None:
                    del stack.state[name]
        if stack.ending in stack.state:
            self._delete(stack, stack.ending)
        stack.ending = ""

    def _tagged(self, stack: Stack) -> Iterator[Tagged]:
        with Account(self.folder).open() as records:
            for token, kind in TAGGED.items():
                for entry in records.all(token, stack.region):
                    if entry.outputs.get("tagsAll", {}).get(NAME) == stack.name:
                        given = entry.inputs.get("tags", {}).get("Name", "")
                        name = entry.inputs["name"] if token == pending.TEMPLATE else given
                        yield Tagged(kind=kind, id=entry.id, name=name)

    def _cloud(self, stack: Stack) -> Cloud:
        return Cloud(
            self.folder,
            Configuration(region=stack.region, default_tags={NAME: stack.name}),
            threading.Event(),
        )
