"""The bandwidth job's arguments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from training.bus_bandwidth import bytes_of
from training.job_config import JobConfig, Rule, check, job_parser, parsed


@dataclass(frozen=True, kw_only=True)
class BandwidthConfig(JobConfig):
    """Arguments of one measurement."""

    run_name: ClassVar[str] = "ray-train-bandwidth"
    mark: ClassVar[str] = "bandwidth"

    sizes: tuple[str, ...]
    """Bytes of each all-reduce, with K, M or G (binary); none takes the backend's own."""
    iterations: int
    warm_up: int


def parse_arguments(argv: Sequence[str]) -> BandwidthConfig:
    """Raises TrainingError naming the argument and its value."""
    parser = job_parser("python -m training.bandwidth", deadline_s=600.0)
    parser.add_argument("--sizes", nargs="*", default=[], metavar="SIZE")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warm_up", type=int, default=5)
    arguments = parsed(parser, argv)
    config = BandwidthConfig(**arguments | {"sizes": tuple(arguments["sizes"])})
    rules: list[Rule] = [
        ("iterations", lambda v: v >= 1, "must be at least 1"),
        ("warm_up", lambda v: v >= 0, "must not be negative"),
        (
            "sizes",
            lambda v: all(bytes_of(size) for size in v),
            "must be sizes such as 64M or 1G, multiples of 4 bytes",
        ),
    ]
    check(config, rules)
    return config
