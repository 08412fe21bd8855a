"""The training job, as the driver runs it."""

from dataclasses import replace

from training.checkpoint_files import newest_complete, require_complete, step_of
from training.config import TrainConfig, parse_arguments
from training.data_settings import DataSettings
from training.errors import TrainingError, first_line
from training.export_mark import take_over
from training.job_kind import JobKind
from training.model_identity import model_identity
from training.model_source import check_model_exists
from training.run_directory import RunDirectory
from training.storage import open_folder, storage_errors
from training.train import train_func
from training.train_record import TrainReport
from training.unfinished_run import goes_on_from


def check_sources(config: TrainConfig) -> TrainConfig:
    """With the checkpoint of an earlier run of the same stack, spec and model, where there is one to go on from.

    Raises TrainingError where that, the checkpoint to resume from, the run's own or the model cannot be used.
    """
    _check_own_checkpoint(config)
    if config.resume_from is not None:
        step = step_of(require_complete(config.resume_from))
        if step >= config.steps:
            raise TrainingError(
                f"--resume_from {config.resume_from}: of step {step}, so --steps {config.steps} leaves nothing to train"
            )
    model = _model_identity(config.model_id)
    if config.export_to is not None:
        other = take_over(config.export_to, config.owner)  # written at the end: whether it can be is told now
        if other is not None:
            print(
                f"[{config.mark}] --export_to {config.export_to}: run {other} was to export there as well; "
                "if it still trains, the first to export has the directory",
                flush=True,
            )
    earlier = goes_on_from(config, model, lambda line: print(f"[{config.mark}] {line}", flush=True))
    return config if earlier is None else replace(config, goes_on_from=str(earlier))


def _model_identity(model_id: str) -> str:
    """Which model that is at this moment; the one that is made here follows from the other inputs alone."""
    file = check_model_exists(model_id)
    try:
        return model_id if file is None else model_identity(model_id, file.parent)
    except OSError as error:
        raise TrainingError(f"--model_id {model_id}: cannot be read: {first_line(error)}") from error


def _check_own_checkpoint(config: TrainConfig) -> None:
    """A run that has done all its steps goes through once more and reports; one that has done more cannot."""
    checkpoints = RunDirectory.of(config).checkpoints
    with storage_errors(checkpoints, "cannot be read"):
        newest, _ = newest_complete(checkpoints)
        done = 0 if newest is None else step_of(newest)
    if done > config.steps:
        raise TrainingError(
            f"--steps {config.steps}: run {config.run_id} has done {done} already ({newest}); "
            f"ask for {done} or more, or give another --run_id"
        )


def describe(config: TrainConfig, world_size: int) -> str:
    return (
        f"{config.model_id} on {config.dataset}: {config.steps} steps, "
        f"{world_size} ranks x {config.batch_size} sequences x {config.seq_len} tokens"
    )


def prepare_data(config: TrainConfig) -> str | None:
    """Where the token sequences of a data set in files lie; None for one that each rank makes for itself."""
    settings = DataSettings.of(config)
    if settings.made_by_each_rank:
        return None
    from training.prepare import described, prepare

    folder = prepare(settings, open_folder(config.storage_path))
    print(f"[{config.mark}] data: {described(folder)} -> {folder}", flush=True)
    return str(folder)


TRAINING = JobKind(
    parse=parse_arguments,
    check=check_sources,
    describe=describe,
    report=TrainReport,
    prepare=prepare_data,
    run_rank=train_func,
)
