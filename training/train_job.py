"""The training job, as the driver runs it."""

from training.checkpoint_files import require_complete, step_of
from training.config import TrainConfig, parse_arguments
from training.errors import TrainingError
from training.job_kind import JobKind
from training.model_source import check_model_exists
from training.train import train_func
from training.train_record import TrainReport


def check_sources(config: TrainConfig) -> None:
    """Raises TrainingError where the checkpoint to resume from or the model cannot be used."""
    if config.resume_from is not None:
        step = step_of(require_complete(config.resume_from))
        if step >= config.steps:
            raise TrainingError(
                f"--resume_from {config.resume_from}: of step {step}, so --steps {config.steps} leaves nothing to train"
            )
    check_model_exists(config.model_id)


def describe(config: TrainConfig, world_size: int) -> str:
    return (
        f"{config.model_id} on {config.dataset}: {config.steps} steps, "
        f"{world_size} ranks x {config.batch_size} sequences x {config.seq_len} tokens"
    )


TRAINING = JobKind(
    parse=parse_arguments, check=check_sources, describe=describe, report=TrainReport, run_rank=train_func
)
