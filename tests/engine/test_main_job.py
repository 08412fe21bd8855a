"""The product's default, real from end to end: Ray nodes, FSDP2 training on text, checkpoint, recovery, verdict."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Project
from tests.support.running_up import running_up
from workload.run_record import schema_problems

pytestmark = pytest.mark.engine

STEPS = 12


def wheel(folder: Path) -> Path:
    """A wheel with one module, since no index is asked in tests."""
    path = folder / "jobprobe-1.5-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("jobprobe.py", "VALUE = 15\n")
        archive.writestr("jobprobe-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: jobprobe\nVersion: 1.5\n")
        archive.writestr(
            "jobprobe-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("jobprobe-1.5.dist-info/RECORD", "")
    return path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("main")
    project = Project(
        folder / "project",
        quick=False,
        trainSteps=STEPS,
        trainCheckpointEvery=4,
        jobPip=[str(wheel(folder))],
        jobEnv={"JOB_COLOUR": "green"},
    )
    yield project
    project.clean()


def record_of(project: Project) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((project.folder / project.outputs()["run"]["record"]).read_text())
    return record


@pytest.fixture(scope="module")
def undisturbed(project: Project) -> dict[str, Any]:
    done = project.up()
    assert done.returncode == 0, done.stdout
    return record_of(project)


def test_four_ranks_on_two_nodes_prove_gloo(undisturbed: dict[str, Any]) -> None:
    assert schema_problems(undisturbed) == []
    assert undisturbed["verdict"]["value"] == "proven"
    assert [len(node["ranks"]) for node in undisturbed["cluster"]["nodes"]] == [2, 2]
    ranks = undisturbed["transport"]["ranks"]
    assert len({rank["pid"] for rank in ranks}) == 4
    assert {rank["backend"] for rank in ranks} == {"gloo"}


def test_the_model_learns(undisturbed: dict[str, Any]) -> None:
    evaluation = undisturbed["evaluation"]
    assert 5 < evaluation["lossBefore"] < 7, "an untrained model guesses among some 256 bytes"
    assert evaluation["lossAfter"] < evaluation["lossBefore"] - 1
    assert [step for step, _ in undisturbed["losses"]] == list(range(1, STEPS + 1))
    assert undisturbed["throughput"]["tokensPerSecond"] > 0
    assert set(undisturbed["memory"]["peakBytesByRank"]) == {"0", "1", "2", "3"}


def test_the_checkpoint_is_whole_and_where_the_record_says(undisturbed: dict[str, Any]) -> None:
    checkpoint = Path(undisturbed["checkpoint"])
    marker = json.loads((checkpoint / "COMPLETE.json").read_text())
    assert marker["step"] == STEPS
    for name, size in marker["files"].items():
        assert (checkpoint / name).stat().st_size == size


def test_the_jobs_packages_and_environment_are_on_record(undisturbed: dict[str, Any]) -> None:
    assert undisturbed["runtimeEnv"]["env"] == {"JOB_COLOUR": "green"}
    assert undisturbed["runtimeEnv"]["pip"][0].endswith("jobprobe-1.5-py3-none-any.whl")
    for rank in undisturbed["attempts"][-1]["ranks"]:
        assert "JOB_COLOUR" in rank["job_environment"]
        assert rank["packages"]["jobprobe"] == "1.5", "every rank saw the package"


def test_a_rank_that_dies_costs_time_and_nothing_else(project: Project, undisturbed: dict[str, Any]) -> None:
    project.set(trainKillAtStep=7)
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert "resumed from step 4 (attempt 2)" in done.stdout
    record = record_of(project)
    assert [each["attempt"] for each in record["attempts"]] == [1, 2]
    assert record["attempts"][1]["resumedFromStep"] == 4
    assert record["losses"] == undisturbed["losses"], "from the checkpoint on, the same losses to the last bit"
    assert record["evaluation"]["lossAfter"] == undisturbed["evaluation"]["lossAfter"]
    assert record["verdict"]["value"] == "proven"


def test_a_run_goes_on_from_the_checkpoint_it_is_given(project: Project, undisturbed: dict[str, Any]) -> None:
    checkpoint = str(Path(undisturbed["checkpoint"]).with_name("step-000008"))
    project.set(trainKillAtStep=0, trainResumeFrom=checkpoint)
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert f"resumed from step 8 of {checkpoint}" in done.stdout
    record = record_of(project)
    assert record["losses"] == undisturbed["losses"]
    assert record["evaluation"]["lossAfter"] == undisturbed["evaluation"]["lossAfter"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trainResumeFrom": "/nowhere/step-000004"}, ("--resume_from", "/nowhere/step-000004")),
        ({"storagePath": "/proc/nowhere"}, ("--storage_path", "/proc/nowhere")),
        ({"jobPip": ["no-such-package-here==1.0"], "jobEnv": {"PIP_NO_INDEX": "1"}}, ("no-such-package-here==1.0",)),
    ],
)
def test_bad_input_is_one_clear_error(
    project: Project, undisturbed: dict[str, Any], settings: dict[str, object], said: tuple[str, ...]
) -> None:
    project.set(**{"trainKillAtStep": 0, "trainResumeFrom": "", "storagePath": "runs", "jobPip": [], **settings})
    done = project.up()
    project.set(storagePath="runs", trainResumeFrom="", jobPip=[], jobEnv={})
    assert done.returncode != 0
    for text in said:
        assert text in done.stdout
    assert "Traceback" not in done.stdout
    assert "full log: runs/" in done.stdout


def test_the_next_run_starts_at_step_one(project: Project, undisturbed: dict[str, Any]) -> None:
    project.set(trainKillAtStep=0, trainResumeFrom="", jobRunId="again", trainSteps=2)
    done = project.up()
    assert done.returncode == 0, done.stdout
    record = record_of(project)
    assert [step for step, _ in record["losses"]] == [1, 2]
    assert record["losses"] == undisturbed["losses"][:2]


@pytest.mark.full
def test_a_run_that_somebody_stopped_goes_on_with_the_next_up(project: Project, undisturbed: dict[str, Any]) -> None:
    project.set(trainKillAtStep=0, trainResumeFrom="", jobRunId="stopped", trainSteps=400, trainCheckpointEvery=5)
    with running_up(project) as up:
        up.reaches(10, seconds=240)
        assert project.efactl("stop").returncode == 0
        assert "runs it again, from its newest checkpoint before the last step" in up.fails(seconds=120)
        stopped, told = up.job, up.step
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert f"of run {stopped}, which did not finish" in done.stdout
    record = record_of(project)
    [attempt] = record["attempts"]
    assert 10 <= attempt["resumedFromStep"] <= told + 5
    assert f"/{stopped}/" in record["arguments"]["goes_on_from"]
    assert [step for step, _ in record["losses"]] == list(range(1, 401)), "those of the steps before are kept"
    assert record["verdict"]["value"] == "proven"
