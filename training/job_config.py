"""The arguments that every kind of job has: parsed once, checked once, frozen."""

import argparse
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NoReturn

from training.errors import TrainingError
from training.storage import is_location

LOCATION = "must be an absolute path that every node sees, or s3://bucket/prefix"
BACKENDS = ("auto", "nccl", "gloo")
GPU = "GPU"

LONGEST_DEADLINE_S = threading.TIMEOUT_MAX
"""292 years on Linux. The driver's timer refuses more, in its own thread: there would be no deadline."""
_INTEGERS = 2**63
"""Below it a whole number fits where torch, NumPy and the files take it."""

Rule = tuple[str, Callable[[Any], bool], str]
"""An argument, what it must satisfy, and that in words."""


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """What Ray and the driver need to know of a job of any kind."""

    run_name: ClassVar[str]
    """What the job's runs are called, and their folder in storage."""
    mark: ClassVar[str]
    """What the lines that a person is to see begin with, in brackets."""

    num_workers: int
    """Ranks; 0 takes all that the cluster has."""
    backend: str
    """auto (NCCL between GPUs, gloo between CPUs), nccl, or gloo: ranks on CPU, also where they hold GPUs."""
    worker_resource: str
    """GPU, or the name of a custom Ray resource of which a rank takes one and runs on CPU."""
    storage_path: str
    """A directory every node sees, or s3://bucket/prefix."""
    run_id: str
    max_failures: int = 0
    """How often all ranks start anew after one was lost; none does after a FinalError."""
    deadline_s: float
    pip: tuple[str, ...]

    @property
    def process_group(self) -> str:
        """The backend's own name. A rank that holds a GPU never falls back to gloo by itself."""
        if self.backend != "auto":
            return self.backend
        return "nccl" if self.worker_resource == GPU else "gloo"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"pip": list(self.pip)}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise TrainingError(message)


def job_parser(program: str, *, deadline_s: float) -> argparse.ArgumentParser:
    """With the arguments of every kind; it raises TrainingError where a command line cannot be parsed."""
    parser = _Parser(prog=program, allow_abbrev=False)
    parser.add_argument("--num_workers", type=int, default=0)
    parser.add_argument("--backend", default="auto", choices=BACKENDS)
    parser.add_argument("--worker_resource", default=GPU)
    parser.add_argument("--storage_path", required=True)
    parser.add_argument("--run_id", required=True)
    parser.add_argument("--deadline_s", type=float, default=deadline_s)
    parser.add_argument("--pip", action="extend", nargs="*", default=[], metavar="REQUIREMENT")
    return parser


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """Each argument's value by its name, as a JobConfig takes it."""
    arguments = vars(parser.parse_args(argv))
    return arguments | {"pip": tuple(arguments["pip"])}


def check(config: JobConfig, rules: Sequence[Rule]) -> None:
    """Raises TrainingError naming the argument and its value; `rules` are the kind's own."""
    common: list[Rule] = [
        ("num_workers", lambda v: v >= 0, "must be 0 (all the cluster has) or a number of ranks"),
        ("worker_resource", bool, f"must be {GPU} or the name of a custom Ray resource"),
        ("storage_path", is_location, LOCATION),
        (
            "run_id",
            lambda v: re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", v) is not None,
            "must be letters, digits, '.', '_', '-'",
        ),
        ("max_failures", lambda v: v >= 0, "must not be negative"),
        (
            "deadline_s",
            lambda v: 0 < v <= LONGEST_DEADLINE_S,
            f"must be a number of seconds above 0, at most {LONGEST_DEADLINE_S:.0f}",
        ),
    ]
    common += [
        (name, lambda v: v < _INTEGERS, f"must be below {_INTEGERS}")
        for name, value in vars(config).items()
        if isinstance(value, int)
    ]
    for name, holds, requirement in [*rules, *common]:
        value = getattr(config, name)
        if not holds(value):
            shown = " ".join(value) if isinstance(value, tuple) else value
            raise TrainingError(f"--{name} {shown}: {requirement}")
