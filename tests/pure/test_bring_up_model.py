"""Whatever happens to a bring-up, at whichever call: a `down` in the end leaves an empty account."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.support.bring_up_model import PLAN, Fate, KilledError, World
from tests.support.bring_up_program import TYPE
from tools.standin import tokens
from tools.standin.account import Account
from tools.standin.errors import AwsError

CODES = ("InsufficientInstanceCapacity", "VcpuLimitExceeded", "UnauthorizedOperation", "RequestLimitExceeded", "Odd")
KINDS = ("CapacityReservation", "PlacementGroup", "Vpc", "Subnet", "Role", "Cluster", "NodeGroup", "Route", "*")
FAULTS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(KINDS),
        "operation": st.sampled_from(("create", "create", "delete")),
        "code": st.sampled_from(CODES),
        "skip": st.integers(0, 6),
        "times": st.integers(1, 3),
        "match": st.sampled_from(("", "dev-us-west-2", "dev-us-east-2")),
    }
)
KILLED = st.builds(Fate, calls=st.integers(0, 45), done=st.booleans())
BILLS = (tokens.CAPACITY_RESERVATION, tokens.CLUSTER, tokens.NODE_GROUP, tokens.PLACEMENT_GROUP)


class Bringing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="model-"))
        self.world = World(self.folder / "account")
        self.killed, self.ends_well = False, True

    @rule(
        faults=st.lists(FAULTS, max_size=2),
        full=st.integers(0, len(PLAN)).map(lambda number: {place.zone for place in PLAN[:number]}),
        quota=st.sampled_from((96.0, 192.0)),
    )
    def aws_is_like_this(self, faults: list[dict[str, Any]], full: set[str], quota: float) -> None:
        self.ends_well = not any(fault["operation"] == "delete" for fault in faults)
        capacity = {zone: {TYPE: 0} for zone in sorted(full)}
        with Account(self.world.folder).open() as records:
            for at in range(10):
                records.add(f"fault:{at}", -records.number(f"fault:{at}"))
        self.world.scenario(faults=faults, capacity=capacity, quotas={"L-DB2E81BA": quota})

    @rule(fate=st.one_of(st.just(Fate()), KILLED))
    def up(self, fate: Fate) -> None:
        self.world.fate = Fate(fate.calls, fate.done)
        try:
            end = self.world.bring_up()
        except (KilledError, AwsError):
            # What was left open is still open: the command failed, or is gone.
            self.killed = True
            return
        finally:
            self.world.fate = Fate()
        self.killed = False
        if end.refused is None and self.ends_well:
            assert end.left == (), "what was given up is ended"
        if end.place is not None and not end.left:
            counts = {token: self.world.count(token) for token in BILLS}
            assert counts == dict.fromkeys(BILLS, 1), self.world.there()
        elif end.refused is None and not end.left:
            assert self.world.there() == [], "no place had it, and nothing is kept"

    @rule(fate=st.one_of(st.just(Fate()), KILLED))
    def down(self, fate: Fate) -> None:
        self.world.fate = Fate(fate.calls, fate.done)
        try:
            gone = self.world.down()
        except (KilledError, AwsError):
            # What was left open is still open: the command failed, or is gone.
            self.killed = True
            return
        finally:
            self.world.fate = Fate()
        self.killed = False
        assert not gone or self.world.there() == []

    @precondition(lambda self: not self.killed)
    @invariant()
    def the_states_know_all_that_is_there(self) -> None:
        known = {str(one["id"]) for stack in self.world.stacks.values() for one in stack.resources()}
        assert {one.rpartition(" ")[2] for one in self.world.there()} <= known

    def teardown(self) -> None:
        try:
            self.world.scenario()
            assert self.world.down()
            assert self.world.there() == []
        finally:
            shutil.rmtree(self.folder)


QUICK = settings(
    max_examples=15,
    stateful_step_count=6,
    derandomize=True,
    deadline=None,
    database=None,
    # Each step is a whole bring-up: to make a failure shorter takes longer than to read it.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


def test_whatever_happens_down_ends_with_an_empty_account() -> None:
    run_state_machine_as_test(Bringing, settings=QUICK)


@pytest.mark.full
def test_whatever_happens_down_ends_with_an_empty_account_in_many_runs() -> None:
    run_state_machine_as_test(Bringing, settings=settings(QUICK, max_examples=150, stateful_step_count=12))
