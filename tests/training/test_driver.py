import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.arguments import arguments, config
from tests.training.job import PROJECT, Finished, run_driver
from training.checkpoint_files import Progress, write_marker, write_progress
from training.driver import EXIT_BAD_ARGUMENT, EXIT_FAILED, collective_seconds, count_ranks, missing_ranks
from training.errors import TrainingError
from training.run_directory import RunDirectory
from training.storage import LocalFolder


def whole_checkpoint(directory: Path, step: int) -> Path:
    directory.mkdir()
    write_progress(LocalFolder(directory), Progress(step=step, losses=[], eval_before=None))
    write_marker(LocalFolder(directory), step, world_size=4)
    return directory


def refused(exit_code: int, **changes: object) -> str:
    """The one error line; the record must tell the same."""
    code, finished = run_driver(arguments(**changes))
    assert code == exit_code, finished.lines
    assert finished.record["status"] == "failed"
    assert finished.errors == [finished.record["error"]]
    assert finished.lines[-1].startswith("RAY_TRAIN_EFA_RECORD ")
    return finished.errors[0]


def test_a_bad_argument_ends_the_driver_at_once_with_its_own_exit_code() -> None:
    assert refused(EXIT_BAD_ARGUMENT, steps=0) == "--steps 0: must be at least 1"


def test_storage_that_cannot_be_written_is_told_with_the_system_s_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    storage = tmp_path / "file" / "runs"
    told = refused(EXIT_FAILED, storage_path=storage)
    assert told.startswith(f"--storage_path {storage}: cannot be written: ") and "Not a directory" in told


def test_a_model_id_that_does_not_exist_is_told_before_any_rank_starts(tmp_path: Path) -> None:
    told = refused(EXIT_FAILED, storage_path=tmp_path, model_id="no-such-owner/no-such-model")
    assert told.startswith("--model_id no-such-owner/no-such-model: ")


def test_a_checkpoint_without_its_marker_is_refused_by_its_path(tmp_path: Path) -> None:
    unmarked = tmp_path / "step-000010"
    unmarked.mkdir()
    told = refused(EXIT_FAILED, storage_path=tmp_path, resume_from=unmarked)
    assert told == f"--resume_from {unmarked}: not a complete checkpoint: it has no COMPLETE.json"


def test_a_checkpoint_of_the_last_step_leaves_nothing_to_train(tmp_path: Path) -> None:
    final = whole_checkpoint(tmp_path / "step-000040", step=40)
    assert "--steps 40 leaves nothing to train" in refused(
        EXIT_FAILED, storage_path=tmp_path, resume_from=final, steps=40
    )


def test_a_run_that_has_done_more_steps_than_are_asked_for_says_so(tmp_path: Path) -> None:
    checkpoints = RunDirectory.of(config(storage_path=tmp_path)).checkpoints
    assert isinstance(checkpoints, LocalFolder)
    checkpoints.make()
    own = whole_checkpoint(checkpoints.path / "step-000040", step=40)
    assert refused(EXIT_FAILED, storage_path=tmp_path, steps=39) == (
        f"--steps 39: run run-1 has done 40 already ({own}); ask for 40 or more, or give another --run_id"
    )
    for steps in (40, 41):
        assert refused(EXIT_FAILED, storage_path=tmp_path, steps=steps).startswith("no Ray cluster to join: ")


def test_without_a_cluster_the_driver_says_so(tmp_path: Path) -> None:
    assert refused(EXIT_FAILED, storage_path=tmp_path).startswith("no Ray cluster to join: ")


@pytest.mark.parametrize(
    ("wanted", "has", "told"),
    [
        (6, {"trainer": 4.0}, "--num_workers 6: the cluster has 4 'trainer'"),
        (1, {"CPU": 8.0}, "--worker_resource trainer: the cluster has none"),
        (0, {}, "--worker_resource trainer: the cluster has none"),
    ],
)
def test_more_ranks_than_the_cluster_has_are_refused(wanted: int, has: dict[str, float], told: str) -> None:
    with pytest.raises(TrainingError) as refusal:
        count_ranks(config(num_workers=wanted, worker_resource="trainer"), has)
    assert str(refusal.value).startswith(told)


def test_no_number_of_ranks_means_all_of_them() -> None:
    assert count_ranks(config(num_workers=0, worker_resource="GPU"), {"GPU": 8.0}) == 8
    assert count_ranks(config(num_workers=2, worker_resource="GPU"), {"GPU": 8.0}) == 2


def test_the_driver_loads_neither_torch_nor_transformers_before_it_needs_ray_train() -> None:
    drivers = "training.driver, training.train_job, training.bandwidth_job"
    program = f"import sys, {drivers}; print(sorted({{'torch', 'transformers', 'ray', 'numpy'}} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]", "every second here is one in which no rank can start"


HANGING = """
import os, sys, threading, time
from tests.training.arguments import config
from training import driver
from training.errors import TrainingError
from training.job_kind import JobKind
from training.run_directory import RunDirectory
from training.train_record import TrainReport

driver.STORED_S = 1.0
ends, telling = sys.argv[2], threading.Event()
settings = config(storage_path=sys.argv[1], deadline_s=1.0)
run = RunDirectory.of(settings)
run.create()
run.begin_attempt(0.1)
os.mkfifo(run.attempt(1).path / "rank-0.json")  # a file that is asked for, and never comes


def check(settings):
    if ends == "hangs":
        time.sleep(60)
    raise TrainingError("the run's own error")


class Report(TrainReport):
    # However slow the machine: who comes second finds the other one telling, which begins with own_fields.
    def finish(self, *args, **kwargs):
        by_deadline = threading.current_thread() is not threading.main_thread()
        if (ends, by_deadline) in {("late", False), ("at once", True)}:
            telling.wait()
        return super().finish(*args, **kwargs)

    def own_fields(self):
        telling.set()
        return super().own_fields()


kind = JobKind(parse=lambda _: settings, check=check, describe=None, report=Report, prepare=None, run_rank=None)
sys.exit(driver.main(kind, []))
"""


def deadline_where_storage_hangs(tmp_path: Path, ends: str) -> Finished:
    words = [sys.executable, "-c", HANGING, str(tmp_path), ends]
    run = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, timeout=45, check=False)
    assert run.returncode == EXIT_FAILED, run.stderr
    return Finished("FAILED", run.stdout.splitlines())


@pytest.mark.parametrize("ends", ["hangs", "late"])
def test_the_deadline_ends_a_run_whose_storage_hangs_with_a_record_of_what_is_known(tmp_path: Path, ends: str) -> None:
    finished = deadline_where_storage_hangs(tmp_path, ends)
    assert finished.errors == [finished.record["error"]] == ["--deadline_s 1: the deadline passed before the run ended"]
    lacks = f"the record lacks what the run stored: --storage_path {tmp_path} has not answered for 1 s"
    assert finished.said(lacks), "\n".join(finished.lines)
    assert finished.record["arguments"]["steps"] == 60 and finished.record["attempts"] == []


def test_the_deadline_ends_a_run_that_has_ended_and_cannot_read_its_record(tmp_path: Path) -> None:
    finished = deadline_where_storage_hangs(tmp_path, "at once")
    assert finished.errors == [
        "the run's own error",
        f"--deadline_s 1: the deadline passed before --storage_path {tmp_path} gave what the record needs",
    ]


def ray_node(name: str, *, alive: bool, gpus: int = 1, address: str = "10.0.0.1") -> dict[str, Any]:
    """As `ray.nodes()` describes it: a dead node has no resources."""
    resources = {"GPU": float(gpus)} if alive and gpus else {}
    return {
        "NodeID": f"{name}@{address}{'' if alive else ' dead'}",
        "NodeManagerHostname": name,
        "NodeManagerAddress": address,
        "Alive": alive,
        "Resources": resources,
    }


def test_ranks_without_a_place_are_told_with_the_nodes_that_ray_lost() -> None:
    head, worker = ray_node("head", alive=True, gpus=0), ray_node("worker-a", alive=True)
    lost = ray_node("worker-b", alive=False, address="10.0.0.7")
    assert missing_ranks([head, worker, ray_node("worker-b", alive=True)], "GPU", 2, []) == []
    assert missing_ranks([head, worker, lost], "GPU", 2, []) == [
        "Ray has lost node worker-b (10.0.0.7) and has 1 GPU where 2 ranks take one each"
    ]
    assert missing_ranks([head, worker], "GPU", 2, []) == ["Ray has 1 GPU where 2 ranks take one each"]


def test_a_node_lost_before_the_run_began_is_not_blamed_for_what_the_run_lacks() -> None:
    long_gone = ray_node("worker-0", alive=False, address="10.0.0.3")
    lost = ray_node("worker-b", alive=False, address="10.0.0.7")
    nodes = [long_gone, ray_node("worker-a", alive=True), lost]
    assert missing_ranks(nodes, "GPU", 2, {long_gone["NodeID"]}) == [
        "Ray has lost node worker-b (10.0.0.7) and has 1 GPU where 2 ranks take one each"
    ]


def test_a_node_that_is_back_is_not_lost() -> None:
    nodes = [ray_node("worker-b", alive=False), ray_node("worker-b", alive=True)]
    assert missing_ranks(nodes, "GPU", 2, []) == ["Ray has 1 GPU where 2 ranks take one each"]


@pytest.mark.parametrize(("deadline", "seconds"), [(86_400.0, 600), (400.0, 100), (1.0, 1)])
def test_a_rank_waits_for_another_for_a_part_of_the_deadline(deadline: float, seconds: int) -> None:
    assert collective_seconds(deadline) == seconds
