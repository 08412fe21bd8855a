"""Settings of the training job. What a value may be is training/config.py's to say: it is the one that runs."""

import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from infra.config_reader import ConfigReader
from training.config import (
    AUTO,
    CHECKPOINT_MODES,
    CHECKPOINTING,
    EXPORT_DTYPES,
    OFF,
    ON,
    PRECISIONS,
    parse_arguments,
)
from training.data_settings import ATTENTIONS, FORMATS
from training.errors import TrainingError
from training.job_config import BACKENDS
from training.topology import SHARDINGS


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Arguments of training/train.py, under its own names. Empty text leaves an argument to the program's default."""

    model_id: str
    dataset: str
    validation_dataset: str
    validation_share: str
    dataset_format: str
    text_field: str
    attention: str
    steps: int
    seq_len: int
    batch_size: int
    accumulate: int
    lr: float
    warm_up_steps: int
    lr_floor: str
    weight_decay: str
    decay_embeddings: bool
    max_gradient_norm: str
    seed: int
    precision: str
    sharding: str
    activation_checkpointing: str
    keep_gathered: str
    compile: str
    cuda_graph: str
    eval_every: int
    eval_batches: int
    checkpoint_every: int
    checkpoint_mode: str
    keep_checkpoints: int
    resume_from: str
    export_to: str
    export_dtype: str
    profile_steps: str
    num_workers: int
    max_failures: int
    kill_at_step: int
    backend: str

    def arguments(self) -> dict[str, Any]:
        """As RayTrainJob takes them. The program's defaults are left out, so that a new setting asks for no new run."""
        given = asdict(self) | {"decay_embeddings": ON if self.decay_embeddings else OFF}
        return {
            name: value
            for name, value in given.items()
            if name in _ALWAYS or str(value) not in ("", str(_DEFAULTS[name]))
        }


def read_train(read: ConfigReader) -> TrainSettings:
    return TrainSettings(
        model_id=read.text("trainModelId", required=True),
        dataset=read.text("trainDataset", required=True),
        validation_dataset=read.text("trainValidationDataset"),
        validation_share=read.text("trainValidationShare"),
        dataset_format=read.one_of("trainDatasetFormat", FORMATS),
        text_field=read.text("trainTextField", required=True),
        attention=read.one_of("trainAttention", ("", *ATTENTIONS)),
        steps=read.integer("trainSteps", at_least=1),
        seq_len=read.integer("trainSeqLen", at_least=2),
        batch_size=read.integer("trainBatchSize", at_least=1),
        accumulate=read.integer("trainAccumulate", at_least=1),
        lr=read.positive_number("trainLr", required=True) or 1.0,
        warm_up_steps=read.integer("trainWarmUpSteps", at_least=0),
        lr_floor=read.text("trainLrFloor"),
        weight_decay=read.text("trainWeightDecay"),
        decay_embeddings=read.boolean("trainDecayEmbeddings"),
        max_gradient_norm=read.text("trainMaxGradientNorm"),
        seed=read.integer("trainSeed", at_least=0),
        precision=read.one_of("trainPrecision", (AUTO, *PRECISIONS)),
        sharding=read.one_of("trainSharding", SHARDINGS),
        activation_checkpointing=read.one_of("trainActivationCheckpointing", CHECKPOINTING),
        keep_gathered=read.one_of("trainKeepGathered", (AUTO, ON, OFF)),
        compile=read.one_of("trainCompile", (AUTO, ON, OFF)),
        cuda_graph=read.one_of("trainCudaGraph", (ON, OFF)),
        eval_every=read.integer("trainEvalEvery", at_least=0),
        eval_batches=read.integer("trainEvalBatches", at_least=1),
        checkpoint_every=read.integer("trainCheckpointEvery", at_least=1),
        checkpoint_mode=read.one_of("trainCheckpointMode", CHECKPOINT_MODES),
        keep_checkpoints=read.integer("trainKeepCheckpoints", at_least=0),
        resume_from=read.text("trainResumeFrom"),
        export_to=read.text("trainExportTo"),
        export_dtype=read.one_of("trainExportDtype", EXPORT_DTYPES),
        profile_steps=read.text("trainProfileSteps"),
        num_workers=read.integer("trainNumWorkers", at_least=0),
        max_failures=read.integer("trainMaxFailures", at_least=0),
        kill_at_step=read.integer("trainKillAtStep", at_least=0),
        backend=read.one_of("trainBackend", BACKENDS),
    )


def check_train(read: ConfigReader, train: TrainSettings, *, worker_resource: str) -> None:
    """Refuses what the job's own rules refuse, before anything is made for it."""
    words = [*_WHERE, "--worker_resource", worker_resource]
    for name, value in train.arguments().items():
        words += [f"--{name}", str(value)]
    try:
        parse_arguments(words)
    except TrainingError as error:
        found = re.fullmatch(r"(?:argument )?--(\w+)(?: (.*?))?: (.*)", str(error))
        if found is None:
            raise
        name, value, what = found.groups()
        read.problem(setting_of(name), getattr(train, name) if value is None else value, what)


def setting_of(argument: str) -> str:
    """The stack's setting that becomes an argument of the job."""
    return "train" + "".join(word.capitalize() for word in argument.split("_"))


_WHERE = ["--storage_path", "/anywhere", "--run_id", "any"]
_DEFAULTS: dict[str, Any] = vars(parse_arguments(_WHERE)) | {
    # What stands for "not asked for" among the settings.
    "validation_dataset": "",
    "resume_from": "",
    "export_to": "",
    "profile_steps": "",
    "attention": "",
}
_ALWAYS = frozenset(
    {
        *("model_id", "dataset", "steps", "seq_len", "batch_size", "lr", "seed", "eval_batches", "checkpoint_every"),
        *("num_workers", "max_failures", "backend"),
    }
)
assert {field.name for field in fields(TrainSettings)} <= _DEFAULTS.keys()
