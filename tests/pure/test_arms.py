"""The arms of a comparison and the order of their runs."""

from typing import Any

import pytest

from workload.arms import Arm, alternating, arm_problems, arms_of, default_arms, unheard
from workload.errors import BadInputError

ARM = Arm(name="tcp", expect="socket", env={"NCCL_NET": "Socket", "NCCL_SOCKET_NTHREADS": "4"})


def test_nccl_stacks_compare_efa_with_tcp_and_gloo_stacks_two_gloos() -> None:
    for expect in ("efa", "socket"):
        efa, tcp = default_arms(expect)
        assert (efa.name, efa.expect, efa.env) == ("efa", "efa", {"NCCL_NET": "Libfabric"})
        assert (tcp.name, tcp.expect, tcp.env) == ("tcp", "socket", {"NCCL_NET": "Socket"})
    one, other = default_arms("gloo")
    assert one.expect == other.expect == "gloo" and one.env != other.env
    assert arms_of({}, "gloo") == (one, other)


@pytest.mark.parametrize("repeats", [3, 4, 7])
def test_the_order_is_balanced(repeats: int) -> None:
    arms = default_arms("efa")
    order = alternating(arms, repeats)
    assert [arm.name for _, arm in order[:6]] == ["efa", "tcp", "tcp", "efa", "efa", "tcp"]
    for repeat in range(1, repeats + 1):
        assert {arm.name for number, arm in order if number == repeat} == {"efa", "tcp"}, "one of each a repeat"
    first = [order[2 * repeat][1].name for repeat in range(repeats)]
    assert abs(first.count("efa") - first.count("tcp")) <= 1, "either goes first as often"


def test_named_arms_have_an_order_whatever_that_of_the_setting() -> None:
    named = {"a-tcp": {"expect": "socket", "env": {"NCCL_NET": "Socket", "NCCL_NTHREADS": 4}}, "z": {"expect": "efa"}}
    for setting in (named, dict(reversed(named.items()))):
        first, second = arms_of(setting, "efa")
        assert (first.name, second.name) == ("z", "a-tcp"), "efa first, so that the ratio says what EFA brings"
        assert second.env == {"NCCL_NET": "Socket", "NCCL_NTHREADS": "4"} and first.env == {}
    first, second = arms_of({"b": {"expect": "gloo"}, "a": {"expect": "gloo"}}, "gloo")
    assert (first.name, second.name) == ("a", "b")


GOOD = {"expect": "gloo"}


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ({"a": GOOD}, "names 1 arms; a comparison has two"),
        ({"a": GOOD, "b": GOOD, "c": GOOD}, "names 3 arms"),
        ({"a b": GOOD, "b": GOOD}, "a b: is no name"),
        ({"a": "gloo", "b": GOOD}, "a: must be {expect: one of efa, socket, gloo"),
        ({"a": {"env": {}}, "b": GOOD}, "a: must be {expect"),
        ({"a": {**GOOD, "environment": {}}, "b": GOOD}, "a: must be {expect"),
        ({"a": {"expect": "infiniband"}, "b": GOOD}, "a.expect: 'infiniband' is none of efa, socket, gloo"),
        ({"a": {**GOOD, "env": ["A"]}, "b": GOOD}, "a.env: must be an object"),
        ({"a": {**GOOD, "env": {"A-B": "1"}}, "b": GOOD}, "a.env: 'A-B' is not the name"),
        ({"a": {**GOOD, "env": {"A": True}}, "b": GOOD}, "a.env: A must have text"),
        ({"a": {**GOOD, "env": {"RAY_DEDUP_LOGS": "1"}}, "b": GOOD}, "a.env: RAY_DEDUP_LOGS is set by the job itself"),
    ],
)
def test_arms_that_cannot_be_are_each_named(setting: dict[str, Any], problem: str) -> None:
    assert any(problem in line for line in arm_problems(setting, reserved=("RAY_DEDUP_LOGS",)))
    with pytest.raises(BadInputError, match="arms that cannot be compared") as caught:
        arms_of(setting, "gloo", reserved=("RAY_DEDUP_LOGS",))
    assert problem in str(caught.value)


def rank(number: int, **changes: Any) -> dict[str, Any]:
    whole = {
        "rank": number,
        "job_environment": ["A", "NCCL_NET", "NCCL_SOCKET_NTHREADS"],
        "environment": {"NCCL_NET": "Socket", "NCCL_SOCKET_NTHREADS": "4", "NCCL_DEBUG": "INFO"},
    }
    return {**whole, **changes}


def test_ranks_that_had_the_arms_variables_are_no_reason() -> None:
    assert unheard(ARM, [rank(0), rank(1)]) == []
    assert unheard(ARM, [{"rank": 0}]) == [], "what a rank of an older version does not tell"


def test_a_rank_without_the_arms_variable_or_with_another_value_is_named() -> None:
    ranks = [rank(0), rank(1, job_environment=["NCCL_NET"]), rank(2, environment={"NCCL_NET": "Libfabric"})]
    assert unheard(ARM, ranks) == [
        "environment: rank 1 ran without NCCL_SOCKET_NTHREADS",
        "environment: rank 2 ran with NCCL_NET=Libfabric, not Socket",
    ]


def test_a_value_that_ray_fills_in_on_the_node_is_not_compared() -> None:
    arm = Arm(name="x", expect="socket", env={"NCCL_SOCKET_IFNAME": "$IFACE"})
    assert (
        unheard(arm, [rank(0, job_environment=["NCCL_SOCKET_IFNAME"], environment={"NCCL_SOCKET_IFNAME": "e0"})]) == []
    )
