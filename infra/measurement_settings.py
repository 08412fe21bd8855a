"""Settings of what measures the transport beside the job: the bandwidth preflight and the comparison of two arms."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.config_reader import ConfigReader
from workload.verdict import EXPECTATIONS

FEWEST_REPEATS = 3
_SIZE = re.compile(r"[1-9]\d*[KMG]?")
_ARM_KEYS = frozenset({"expect", "env"})


@dataclass(frozen=True, kw_only=True)
class PreflightSettings:
    """All-reduce over all ranks before the job. `sizes` are bytes with K, M or G; empty for the backend's own.

    `min_bus_bandwidth` in GB/s at the largest size; None demands none.
    """

    bandwidth: bool
    sizes: tuple[str, ...]
    min_bus_bandwidth: float | None


@dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """The comparison after the job; `repeats` 0 makes none. `arms` empty takes the platform's own two.

    An arm is {"expect": transport, "env": {name: value}} under its name. `min_speedup` is what the first arm must reach
    in tokens/s of the second; None demands none.
    """

    repeats: int
    steps: int
    arms: Mapping[str, Mapping[str, Any]]
    min_speedup: float | None


def read_preflight(read: ConfigReader) -> PreflightSettings:
    sizes = read.all_matching("preflightSizes", _SIZE, "a size in bytes such as 64M or 1G")
    return PreflightSettings(
        bandwidth=read.boolean("preflightBandwidth"),
        sizes=sizes,
        min_bus_bandwidth=read.positive_number("preflightMinBusBandwidth"),
    )


def read_compare(read: ConfigReader, *, reserved: tuple[str, ...], by: str) -> CompareSettings:
    repeats = read.integer("compareRepeats", at_least=0)
    if 0 < repeats < FEWEST_REPEATS:
        read.problem("compareRepeats", repeats, f"must be 0 (no comparison) or at least {FEWEST_REPEATS}")
    return CompareSettings(
        repeats=repeats,
        steps=read.integer("compareSteps", at_least=2),
        arms=_arms(read, reserved=reserved, by=by),
        min_speedup=read.positive_number("compareMinSpeedup"),
    )


def _arms(read: ConfigReader, *, reserved: tuple[str, ...], by: str) -> dict[str, dict[str, Any]]:
    given = read.json_value("compareArms", dict)
    if given and len(given) != 2:
        read.problem("compareArms", ", ".join(given), "must be two arms")
    arms: dict[str, dict[str, Any]] = {}
    for name, arm in given.items():
        env = arm.get("env", {}) if isinstance(arm, dict) else None
        if not isinstance(env, dict) or not set(arm) <= _ARM_KEYS or not all(isinstance(v, str) for v in env.values()):
            read.problem("compareArms", name, "must be {expect: TRANSPORT, env: {NAME: text}}")
            continue
        read.check_environment("compareArms", env, reserved=reserved, by=by)
        if arm.get("expect") not in EXPECTATIONS:
            said = f"{name}.expect {arm.get('expect')}"
            read.problem("compareArms", said, f"is none of {', '.join(EXPECTATIONS)}")
        arms[name] = {"expect": arm.get("expect"), "env": dict(env)}
    return arms
