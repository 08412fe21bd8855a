"""The training job's arguments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from training.job_config import LOCATION, JobConfig, Rule, check, job_parser, parsed
from training.storage import is_location

TINY_QWEN2 = "tiny-qwen2"
DATASETS = ("pydoc", "random")


@dataclass(frozen=True, kw_only=True)
class TrainConfig(JobConfig):
    """Arguments of one run. Sizes are per rank: one step sees batch_size x seq_len x ranks tokens."""

    run_name: ClassVar[str] = "ray-train-fsdp-llm"
    mark: ClassVar[str] = "train"

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
    kill_at_step: int
    """The step at whose start one rank kills its own process, in the first attempt only; 0 for never."""
    resume_from: str | None


def parse_arguments(argv: Sequence[str]) -> TrainConfig:
    """Raises TrainingError naming the argument and its value."""
    parser = job_parser("python -m training.train", deadline_s=1800.0)
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
    parser.add_argument("--max_failures", type=int, default=0)
    parser.add_argument("--kill_at_step", type=int, default=0)
    parser.add_argument("--resume_from")
    config = TrainConfig(**parsed(parser, argv))
    rules: list[Rule] = [
        ("model_id", bool, "must name a model"),
        ("steps", lambda v: v >= 1, "must be at least 1"),
        ("seq_len", lambda v: v >= 2, "must be at least 2 tokens"),
        ("batch_size", lambda v: v >= 1, "must be at least 1 sequence"),
        ("lr", lambda v: math.isfinite(v) and v > 0, "must be a number above 0"),
        ("seed", lambda v: v >= 0, "must not be negative"),
        ("checkpoint_every", lambda v: v >= 0, "must be 0 (no checkpoints) or a number of steps"),
        ("eval_batches", lambda v: v >= 1, "must be at least 1"),
        ("eval_every", lambda v: v >= 0, "must be 0 (before and after training only) or a number of steps"),
        ("kill_at_step", lambda v: 0 <= v <= config.steps, f"must be 0 (never) or a step of 1..{config.steps}"),
        ("resume_from", lambda v: v is None or is_location(v), LOCATION),
    ]
    check(config, rules)
    return config
