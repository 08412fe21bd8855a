"""Settings of what measures the transport beside the job: the bandwidth preflight and the comparison of two arms."""

from collections.abc import Sequence
from dataclasses import dataclass

from infra.config_reader import ConfigReader
from training.bus_bandwidth import bytes_of
from workload.arms import Arms, arm_problems, arms_of, default_arms
from workload.bandwidth_result import NO_SIZE
from workload.comparison import LEAST_REPEATS, LEAST_STEPS


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
    """The comparison after the job; `repeats` 0 makes none. `arms` are the platform's own where none are named.

    `min_speedup` is what the first arm must reach in tokens/s of the second; None demands none.
    """

    repeats: int
    steps: int
    arms: Arms
    min_speedup: float | None


def read_preflight(read: ConfigReader) -> PreflightSettings:
    sizes = read.texts("preflightSizes")
    for size in sizes:
        if bytes_of(size) is None:
            read.problem("preflightSizes", size, NO_SIZE)
    return PreflightSettings(
        bandwidth=read.boolean("preflightBandwidth"),
        sizes=tuple(sizes),
        min_bus_bandwidth=read.positive_number("preflightMinBusBandwidth"),
    )


def read_compare(read: ConfigReader, *, expect: str, reserved: Sequence[str]) -> CompareSettings:
    repeats = read.integer("compareRepeats", at_least=0)
    if 0 < repeats < LEAST_REPEATS:
        read.problem("compareRepeats", repeats, f"must be 0 (no comparison) or at least {LEAST_REPEATS}")
    named = read.json_value("compareArms", dict)
    problems = arm_problems(named, reserved=reserved) if named else []
    for problem in problems:
        read.problem("compareArms", "", problem)
    return CompareSettings(
        repeats=repeats,
        steps=read.integer("compareSteps", at_least=LEAST_STEPS),
        arms=default_arms(expect) if problems else arms_of(named, expect, reserved=reserved),
        min_speedup=read.positive_number("compareMinSpeedup"),
    )
