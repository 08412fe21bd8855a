"""The run of the same stack, spec and model that did not finish: where the next one of them goes on.

Each run's folder says in run.json of which stack and model it is, and which of that stack's runs of the spec it was.
"""

from collections.abc import Callable, Mapping
from typing import Any

from training.checkpoint_files import newest_complete, step_of
from training.config import TrainConfig
from training.run_directory import RunDirectory
from training.storage import Folder, open_folder, storage_errors

Say = Callable[[str], None]

RUN = "run.json"
_NUMBER = "number"


def goes_on_from(config: TrainConfig, model: str, say: Say) -> Folder | None:
    """The furthest whole checkpoint of those runs that have begun since the last one that finished; None for step 1.

    Notes for later runs of which stack and `model` (its identity) this one is. A checkpoint of the last step does not
    count: a run that trains no step proves no transport. None too where this run has checkpoints, makes none or was
    given one. Raises TrainingError where storage cannot be read or written.
    """
    if config.spec_stem is None or config.resume_from is not None or config.checkpoint_every == 0:
        return None
    own, storage = RunDirectory.of(config), open_folder(config.storage_path)
    with storage_errors(storage, "cannot be read"):
        names = sorted(name for name in storage.names() if name.startswith(f"{config.spec_stem}-"))
        others = [RunDirectory(storage, name, config.run_name) for name in names if name != config.run_id]
        whose = {"stack": config.stack, "model": model}
        earlier = _of_the_same(others, whose, say)
        has_own = newest_complete(own.checkpoints)[0] is not None
        newest = None if has_own else _furthest(earlier, config.steps, say)
    with storage_errors(storage):
        own.folder.write_json(RUN, whose | {_NUMBER: max(earlier, default=0) + 1})
    return newest


def _of_the_same(others: list[RunDirectory], whose: Mapping[str, Any], say: Say) -> dict[int, RunDirectory]:
    """By their numbers. What says nothing of itself is nobody's: it may run still, or be of another model."""
    found: dict[int, RunDirectory] = {}
    for run in others:
        told = _told(run)
        number = told.pop(_NUMBER, None)
        if told == whose and isinstance(number, int):
            found[number] = run
        else:
            named = [name for name in whose if name in told and told[name] != whose[name]]
            why = f"it is of another {' and '.join(named)}" if named else f"it has no {RUN} that says whose it is"
            say(f"run {run.run_id} of the same inputs is passed over: {why}")
    return found


def _told(run: RunDirectory) -> dict[str, Any]:
    try:
        told = run.folder.read_json(RUN)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _furthest(runs: Mapping[int, RunDirectory], steps: int, say: Say) -> Folder | None:
    found: list[tuple[int, Folder, str]] = []
    for _, run in sorted(runs.items(), reverse=True):
        if run.has_finished():
            break
        newest, passed_over = newest_complete(run.checkpoints, below=steps)
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
