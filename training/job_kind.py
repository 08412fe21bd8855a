"""What tells one kind of job from another, for the driver that runs any."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from training.job_config import JobConfig
from training.record import JobReport

Config = TypeVar("Config", bound=JobConfig)


@dataclass(frozen=True, kw_only=True)
class RankTask(Generic[Config]):
    """What the driver hands to every rank."""

    config: Config
    job_environment: tuple[str, ...]
    """Names of the variables the job was given."""
    started_at: float
    """Unix time at which the driver asked for the worker group."""
    prepared: str | None
    """What JobKind.prepare returned."""


@dataclass(frozen=True, kw_only=True)
class JobKind(Generic[Config]):
    """Arguments, checks, report, and what each rank runs."""

    parse: Callable[[Sequence[str]], Config]
    """Raises TrainingError naming the argument and its value."""
    check: Callable[[Config], Config]
    """The arguments as the run goes on with them. Raises TrainingError for what can be known before a rank starts."""
    describe: Callable[[Config, int], str]
    """The run in a line, from its arguments and the number of ranks."""
    report: type[JobReport]
    prepare: Callable[[Config], str | None]
    """Called by the driver once it has joined the cluster; what it returns reaches every rank. Raises TrainingError."""
    run_rank: Callable[[RankTask[Config]], None]
