"""PURE: the two arms of a comparison, and the order in which their runs alternate."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workload.errors import BadInputError
from workload.verdict import EXPECTATIONS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = {"expect", "env"}


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The job with `env` over its own; each run of it must be proven to have used the transport `expect`."""

    name: str
    expect: str
    env: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "expect": self.expect, "env": dict(sorted(self.env.items()))}


Arms = tuple[Arm, Arm]

_EFA_AND_TCP = (
    Arm(name="efa", expect="efa", env={"NCCL_NET": "Libfabric"}),
    Arm(name="tcp", expect="socket", env={"NCCL_NET": "Socket"}),
)
# Without it gloo connects every pair of ranks at the start, with it those that talk, when they first do.
_TWO_GLOOS = (
    Arm(name="gloo", expect="gloo", env={}),
    Arm(name="gloo-lazy", expect="gloo", env={"TORCH_GLOO_LAZY_INIT": "1"}),
)


def default_arms(expect: str) -> Arms:
    """EFA against TCP for a stack that runs NCCL; two ways of gloo for one that expects gloo."""
    return _TWO_GLOOS if expect == "gloo" else _EFA_AND_TCP


def arm_problems(named: Mapping[str, Any], *, reserved: Sequence[str] = ()) -> list[str]:
    """What in the setting `{name: {"expect": ..., "env": {...}}}` cannot be; `reserved` variables are the job's own."""
    problems = [] if len(named) == 2 else [f"names {len(named)} arms; a comparison has two"]
    for name, arm in named.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problems.append(f"{name}: is no name of letters, digits, '.', '_', '-'")
        if not isinstance(arm, Mapping) or not _KEYS.issuperset(arm) or "expect" not in arm:
            problems.append(f"{name}: must be {{expect: one of {', '.join(EXPECTATIONS)}, env: {{NAME: text}}}}")
            continue
        if arm["expect"] not in EXPECTATIONS:
            problems.append(f"{name}.expect: '{arm['expect']}' is none of {', '.join(EXPECTATIONS)}")
        problems += [f"{name}.env: {problem}" for problem in _env_problems(arm.get("env", {}), reserved)]
    return problems


def arms_of(named: Mapping[str, Any], expect: str, *, reserved: Sequence[str] = ()) -> Arms:
    """The setting's arms, or where it is empty those that `expect` stands for. Raises BadInputError.

    First is the arm that expects efa, else socket, else the first by name: Pulumi keeps no order of an object.
    """
    if not named:
        return default_arms(expect)
    if problems := arm_problems(named, reserved=reserved):
        raise BadInputError("\n".join(["arms that cannot be compared:", *(f"  {problem}" for problem in problems)]))
    arms = [
        Arm(name=name, expect=arm["expect"], env={key: str(value) for key, value in arm.get("env", {}).items()})
        for name, arm in named.items()
    ]
    first, second = sorted(arms, key=lambda arm: (EXPECTATIONS.index(arm.expect), arm.name))
    return first, second


def alternating(arms: Arms, repeats: int) -> list[tuple[int, Arm]]:
    """A B, B A, A B, ...: what drifts with time falls on both arms alike. Repeats count from 1."""
    return [(repeat, arm) for repeat in range(1, repeats + 1) for arm in (arms if repeat % 2 else arms[::-1])]


def unheard(arm: Arm, ranks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which ranks, by their own testimony, ran without the arm's variables; what a rank does not tell is no reason."""
    reasons = []
    for rank in ranks:
        given, seen = rank.get("job_environment"), rank.get("environment") or {}
        for name, value in sorted(arm.env.items()):
            if given is not None and name not in given:
                reasons.append(f"environment: rank {rank['rank']} ran without {name}")
            elif "$" not in value and seen.get(name, value) != value:
                reasons.append(f"environment: rank {rank['rank']} ran with {name}={seen[name]}, not {value}")
    return reasons


def _env_problems(env: Any, reserved: Sequence[str]) -> list[str]:
    if not isinstance(env, Mapping):
        return ["must be an object of variables"]
    problems = []
    for name, value in env.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            problems.append(f"'{name}' is not the name of an environment variable")
        elif name in reserved:
            problems.append(f"{name} is set by the job itself: its evidence depends on it")
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            problems.append(f"{name} must have text as its value; put it in quotes")
    return problems
