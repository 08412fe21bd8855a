"""The training job's arguments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from training.data_settings import ATTENTIONS, CAUSAL, CHAT, DATASET, DOCUMENTS, FORMATS, RANDOM, is_dataset, is_files
from training.errors import TrainingError
from training.job_config import LOCATION, JobConfig, Rule, check, job_parser, parsed
from training.schedule import Schedule
from training.storage import is_location
from training.topology import FSDP, SHARDINGS

TINY_QWEN2 = "tiny-qwen2"
AUTO, ON, OFF = "auto", "on", "off"
PRECISIONS = ("mixed", "bf16", "fp32")
CHECKPOINTING = ("none", "pointwise", "selective", "full")
CHECKPOINT_MODES = ("async", "sync")
EXPORT_DTYPES = ("stored", "float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class TrainConfig(JobConfig):
    """Arguments of one run. Sizes are per rank: a step sees batch_size x accumulate x seq_len x ranks tokens."""

    run_name: ClassVar[str] = "ray-train-fsdp-llm"
    mark: ClassVar[str] = "train"

    model_id: str

    dataset: str
    validation_dataset: str | None
    validation_share: float
    dataset_format: str
    text_field: str
    attention: str

    steps: int
    seq_len: int
    batch_size: int
    accumulate: int
    """Batches of batch_size sequences whose gradients make one step."""
    lr: float
    warm_up_steps: int
    lr_floor: float
    """The share of lr that is left at the last step; 1 keeps it constant after the warm-up."""
    weight_decay: float
    decay_embeddings: str
    max_gradient_norm: float
    seed: int

    precision: str
    """mixed (float32 weights, bfloat16 compute), bf16, fp32; auto: mixed on GPUs, fp32 on CPUs."""
    sharding: str
    activation_checkpointing: str
    keep_gathered: str
    """Whether blocks stay gathered from forward to backward; auto: where the memory plan says that they fit."""
    compile: str
    """auto: on GPUs."""
    cuda_graph: str
    """Whether a whole step is recorded and replayed."""

    checkpoint_every: int
    """Steps between checkpoints; the last step always makes one; 0 makes none at all."""
    checkpoint_mode: str
    keep_checkpoints: int
    """So many of the newest stay; 0 keeps all."""
    resume_from: str | None
    spec_stem: str | None
    """What the ids of all runs of one spec begin with, for whoever submits it again; None for a run by itself."""
    stack: str | None
    """Tells whoever submits these runs from everybody else who submits the same spec."""
    goes_on_from: str | None = None
    """No argument: the driver's answer, the checkpoint of a run of the same stack and spec that did not finish."""
    export_to: str | None
    """Where a directory for from_pretrained is written at the end."""
    export_dtype: str

    eval_batches: int
    """Held-out batches each rank evaluates."""
    eval_every: int
    """Steps between evaluations besides the first and the last; 0 for just those two."""
    profile_steps: tuple[int, ...]
    kill_at_step: int
    """The step at whose start one rank kills its own process, in the first attempt only; 0 for never."""

    @property
    def schedule(self) -> Schedule:
        return Schedule(peak=self.lr, steps=self.steps, warm_up_steps=self.warm_up_steps, floor=self.lr_floor)

    @property
    def owner(self) -> str:
        """This run and every other of its stack and spec, for what they leave outside their own folders."""
        return f"{self.storage_path} {self.run_id if self.spec_stem is None else f'{self.spec_stem} {self.stack}'}"

    def tokens_per_step(self, world_size: int) -> int:
        return self.batch_size * self.accumulate * self.seq_len * world_size

    def as_json(self) -> dict[str, Any]:
        told = super().as_json() | {"profile_steps": list(self.profile_steps)}
        del told["spec_stem"], told["stack"]  # to whoever compares two runs they would be a difference
        return told


def parse_arguments(argv: Sequence[str]) -> TrainConfig:
    """Raises TrainingError naming the argument and its value."""
    parser = job_parser("python -m training.train", deadline_s=1800.0)
    add = parser.add_argument
    add("--max_failures", type=int, default=0)
    add("--model_id", default=TINY_QWEN2, help=f"{TINY_QWEN2}, a Hugging Face id, or a directory")

    add("--dataset", default="pydoc", help=DATASET)
    add("--validation_dataset", help="held out instead of a share of --dataset")
    add("--validation_share", type=float, default=0.1, help="the share of documents that is held out")
    add("--dataset_format", default="text", choices=FORMATS, help="chat: messages, of which the answers are learnt")
    add("--text_field", default="text", help="where a JSON line or a parquet row has its text")
    add("--attention", choices=ATTENTIONS, help="documents: a token sees its own document only (default); causal")

    add("--steps", type=int, default=60)
    add("--seq_len", type=int, default=256)
    add("--batch_size", type=int, default=4)
    add("--accumulate", type=int, default=1)
    add("--lr", type=float, default=3e-3)
    add("--warm_up_steps", type=int, default=0)
    add("--lr_floor", type=float, default=1.0)
    add("--weight_decay", type=float, default=0.1)
    add("--decay_embeddings", default=OFF, choices=(ON, OFF))
    add("--max_gradient_norm", type=float, default=1.0)
    add("--seed", type=int, default=1234)

    add("--precision", default=AUTO, choices=(AUTO, *PRECISIONS))
    add("--sharding", default=FSDP, choices=SHARDINGS, help="hsdp: split within a node, replicated across nodes")
    add("--activation_checkpointing", default="none", choices=CHECKPOINTING)
    add("--keep_gathered", default=AUTO, choices=(AUTO, ON, OFF))
    add("--compile", default=AUTO, choices=(AUTO, ON, OFF))
    add("--cuda_graph", default=OFF, choices=(ON, OFF))

    add("--checkpoint_every", type=int, default=20)
    add("--checkpoint_mode", default="async", choices=CHECKPOINT_MODES)
    add("--keep_checkpoints", type=int, default=0)
    add("--resume_from")
    add("--spec_stem", help="a new run goes on where one of its --stack did not finish whose id begins so too")
    add("--stack", help="tells those who submit the same from each other")
    add("--export_to")
    add("--export_dtype", default="stored", choices=EXPORT_DTYPES)

    add("--eval_batches", type=int, default=4)
    add("--eval_every", type=int, default=0)
    add("--profile_steps", default="")
    add("--kill_at_step", type=int, default=0)
    given = parsed(parser, argv)
    # A recorded step has tensors of fixed shapes, and where documents end changes from batch to batch.
    given["attention"] = given["attention"] or (CAUSAL if given["cuda_graph"] == ON else DOCUMENTS)
    config = TrainConfig(**given | {"profile_steps": _steps(given["profile_steps"], given["steps"])})
    check(config, _rules(config))
    config.schedule.check()
    return config


def _rules(config: TrainConfig) -> list[Rule]:
    in_files = is_files(config.dataset)
    gpu = config.process_group == "nccl"
    return [
        ("model_id", bool, "must name a model"),
        ("dataset", is_dataset, DATASET),
        ("validation_dataset", lambda v: v is None or is_files(v), "must be files, as a --dataset can be"),
        ("validation_dataset", lambda v: v is None or in_files, "only a --dataset in files can have one"),
        ("validation_share", lambda v: 0 < v <= 0.5, "must be above 0 and at most 0.5"),
        ("dataset_format", lambda v: v != CHAT or in_files, "needs a --dataset in files"),
        ("text_field", bool, "must name a field"),
        ("steps", lambda v: v >= 1, "must be at least 1"),
        ("seq_len", lambda v: v >= 2, "must be at least 2 tokens"),
        ("batch_size", lambda v: v >= 1, "must be at least 1 sequence"),
        ("accumulate", lambda v: v >= 1, "must be at least 1 batch"),
        ("lr", lambda v: math.isfinite(v) and v > 0, "must be a number above 0"),
        ("weight_decay", lambda v: math.isfinite(v) and v >= 0, "must be a number, 0 or above"),
        ("max_gradient_norm", lambda v: math.isfinite(v) and v > 0, "must be a number above 0"),
        ("seed", lambda v: v >= 0, "must not be negative"),
        (
            "activation_checkpointing",
            lambda v: v != "pointwise" or config.compile == ON or (config.compile == AUTO and gpu),
            "needs --compile on",
        ),
        ("cuda_graph", lambda v: v == OFF or gpu, "records what runs on a GPU, and ranks run on CPU"),
        (
            "cuda_graph",
            lambda v: v == OFF or config.attention == CAUSAL or config.dataset == RANDOM,
            "needs --attention causal: where documents end changes a step's shapes",
        ),
        ("checkpoint_every", lambda v: v >= 0, "must be 0 (no checkpoints) or a number of steps"),
        ("keep_checkpoints", lambda v: v >= 0, "must be 0 (all) or a number of checkpoints"),
        ("resume_from", lambda v: v is None or is_location(v), LOCATION),
        ("spec_stem", lambda v: v is None or config.run_id.startswith(f"{v}-"), "must be what --run_id begins with"),
        ("spec_stem", lambda v: (v is None) == (config.stack is None), "needs --stack, and --stack needs it"),
        ("export_to", lambda v: v is None or is_location(v), LOCATION),
        ("export_to", lambda v: v is None or config.checkpoint_every > 0, "needs --checkpoint_every above 0"),
        ("eval_batches", lambda v: v >= 1, "must be at least 1"),
        ("eval_every", lambda v: v >= 0, "must be 0 (before and after training only) or a number of steps"),
        ("kill_at_step", lambda v: 0 <= v <= config.steps, f"must be 0 (never) or a step of 1..{config.steps}"),
    ]


def _steps(text: str, last: int) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() and 1 <= int(word) <= last for word in words):
        raise TrainingError(f"--profile_steps {text}: must be steps of 1..{last}, as in 5,6")
    return tuple(int(word) for word in words)
