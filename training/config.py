"""The job's arguments: parsed once, checked once, frozen."""

import argparse
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from training.errors import TrainingError
from training.storage import is_location

LOCATION = "must be an absolute path that every node sees, or s3://bucket/prefix"
TINY_QWEN2 = "tiny-qwen2"
DATASETS = ("pydoc", "random")
BACKENDS = ("auto", "nccl", "gloo")
GPU = "GPU"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Arguments of one run. Sizes are per rank: one step sees batch_size x seq_len x ranks tokens."""

    model_id: str
    dataset: str
    steps: int
    seq_len: int
    batch_size: int
    lr: float
    seed: int
    checkpoint_every: int
    """Steps between checkpoints; the last step always makes one; 0 makes none at all."""
    eval_batches: int
    """Held-out batches each rank evaluates."""
    eval_every: int
    """Steps between evaluations besides the first and the last; 0 for just those two."""
    num_workers: int
    """Ranks; 0 takes all that the cluster has."""
    backend: str
    """auto (NCCL between GPUs, gloo between CPUs), nccl, or gloo: ranks on CPU, also where they hold GPUs."""
    worker_resource: str
    """GPU, or the name of a custom Ray resource of which a rank takes one and runs on CPU."""
    storage_path: str
    """A directory every node sees, or s3://bucket/prefix."""
    run_id: str
    max_failures: int
    deadline_s: float
    kill_at_step: int
    """The step at whose start one rank kills its own process, in the first attempt only; 0 for never."""
    resume_from: str | None
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


def parse_arguments(argv: Sequence[str]) -> TrainConfig:
    """Raises TrainingError naming the argument and its value."""
    parser = _Parser(prog="python -m training.train", allow_abbrev=False)
    parser.add_argument("--model_id", default=TINY_QWEN2, help=f"{TINY_QWEN2}, a Hugging Face id, or a directory")
    parser.add_argument("--dataset", default="pydoc", choices=DATASETS)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seq_len", type=int, default=256)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--checkpoint_every", type=int, default=20)
    parser.add_argument("--eval_batches", type=int, default=4)
    parser.add_argument("--eval_every", type=int, default=0)
    parser.add_argument("--num_workers", type=int, default=0)
    parser.add_argument("--backend", default="auto", choices=BACKENDS)
    parser.add_argument("--worker_resource", default=GPU)
    parser.add_argument("--storage_path", required=True)
    parser.add_argument("--run_id", required=True)
    parser.add_argument("--max_failures", type=int, default=0)
    parser.add_argument("--deadline_s", type=float, default=1800.0)
    parser.add_argument("--kill_at_step", type=int, default=0)
    parser.add_argument("--resume_from")
    parser.add_argument("--pip", action="extend", nargs="*", default=[], metavar="REQUIREMENT")
    arguments = vars(parser.parse_args(argv))
    config = TrainConfig(**arguments | {"pip": tuple(arguments["pip"])})
    _validate(config)
    return config


def _validate(config: TrainConfig) -> None:
    rules: list[tuple[str, Callable[[Any], bool], str]] = [
        ("model_id", bool, "must name a model"),
        ("steps", lambda v: v >= 1, "must be at least 1"),
        ("seq_len", lambda v: v >= 2, "must be at least 2 tokens"),
        ("batch_size", lambda v: v >= 1, "must be at least 1 sequence"),
        ("lr", lambda v: math.isfinite(v) and v > 0, "must be a number above 0"),
        ("seed", lambda v: v >= 0, "must not be negative"),
        ("checkpoint_every", lambda v: v >= 0, "must be 0 (no checkpoints) or a number of steps"),
        ("eval_batches", lambda v: v >= 1, "must be at least 1"),
        ("eval_every", lambda v: v >= 0, "must be 0 (before and after training only) or a number of steps"),
        ("num_workers", lambda v: v >= 0, "must be 0 (all the cluster has) or a number of ranks"),
        ("worker_resource", bool, f"must be {GPU} or the name of a custom Ray resource"),
        ("storage_path", is_location, LOCATION),
        (
            "run_id",
            lambda v: re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", v) is not None,
            "must be letters, digits, '.', '_', '-'",
        ),
        ("max_failures", lambda v: v >= 0, "must not be negative"),
        ("deadline_s", lambda v: math.isfinite(v) and v > 0, "must be a number of seconds above 0"),
        ("kill_at_step", lambda v: 0 <= v <= config.steps, f"must be 0 (never) or a step of 1..{config.steps}"),
        ("resume_from", lambda v: v is None or is_location(v), LOCATION),
    ]
    for name, holds, requirement in rules:
        value = getattr(config, name)
        if not holds(value):
            raise TrainingError(f"--{name} {value}: {requirement}")
