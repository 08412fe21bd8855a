"""The run of the same spec that did not finish: where another of that spec goes on."""

from collections.abc import Callable

from training.checkpoint_files import newest_complete, step_of
from training.config import TrainConfig
from training.run_directory import RunDirectory
from training.storage import Folder, open_folder, storage_errors


def goes_on_from(config: TrainConfig, say: Callable[[str], None]) -> Folder | None:
    """The furthest whole checkpoint of the other runs of its spec; None where this run has one, or was given one.

    None too where one of them has finished, since this is then a repetition on purpose. A checkpoint of the last step
    does not count: a run that trains no step proves no transport. Raises TrainingError where storage cannot be read.
    """
    if config.spec_stem is None or config.resume_from is not None or config.checkpoint_every == 0:
        return None
    storage = open_folder(config.storage_path)
    with storage_errors(storage, "cannot be read"):
        if newest_complete(RunDirectory.of(config).checkpoints)[0] is not None:
            return None
        names = sorted(name for name in storage.names() if name.startswith(f"{config.spec_stem}-"))
        others = [RunDirectory(storage, name, config.run_name) for name in names if name != config.run_id]
        if any(run.has_finished() for run in others):
            return None
        found: list[tuple[int, Folder, str]] = []
        for run in others:
            newest, passed_over = newest_complete(run.checkpoints, below=config.steps)
            for line in passed_over:
                say(f"run {run.run_id}: {line}")
            if newest is not None:
                found.append((step_of(newest), newest, run.run_id))
    if not found:
        return None
    step, newest, run_id = max(found, key=lambda one: one[0])
    say(
        f"goes on from {newest} (step {step}) of run {run_id}, which did not finish; jobRunId set anew begins at step 1"
    )
    return newest
