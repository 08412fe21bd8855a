"""The local stack on the real engine: what is a change, what is a run, what the gate does, what is left at the end."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra import local_nodes
from tests.support.project import Project, end_group, wait_for
from tests.support.still_there import contents
from workload.run_record import schema_problems

pytestmark = pytest.mark.engine

SECRET = "hf_swordfish_73aa"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(tmp_path_factory.mktemp("life") / "project", jobEnv={"QUICK_SHOW": "HF_TOKEN,=HF_TOKEN"})
    project.set_secret("ray-train-efa:jobSecretEnv.HF_TOKEN", SECRET)
    yield project
    project.clean()


@pytest.fixture(scope="module")
def first_up(project: Project) -> str:
    done = project.up()
    assert done.returncode == 0, done.stdout
    return done.stdout


def run_of(project: Project) -> str:
    return str(project.outputs()["run"]["submissionId"])


def test_a_preview_on_an_empty_stack_shows_the_whole_product(project: Project) -> None:
    changes = project.changes()
    assert {name: op for name, op in changes.items() if name != "ray-train-efa-local"} == {
        "ray": "create",
        "ray-cluster": "create",
        "train": "create",
        "gate": "create",
    }


def test_an_up_runs_the_job_to_its_verdict(project: Project, first_up: str) -> None:
    run = project.outputs()["run"]
    assert run["status"] == "SUCCEEDED"
    assert run["verdict"] == "proven"
    record = json.loads((project.folder / run["record"]).read_text())
    assert schema_problems(record) == []
    assert record["verdict"]["value"] == "proven"
    assert record["quality"]["passed"] is True
    assert (project.folder / "runs" / run["submissionId"] / "job.log").read_text().count("[train] step") == 4


def test_the_live_output_names_job_steps_and_verdict(first_up: str) -> None:
    for text in ("submitted", "step 1/4 loss", "SUCCEEDED; record runs/", "gate: transport proven"):
        assert text in first_up


def test_a_secret_reaches_the_job_and_is_seen_nowhere(project: Project, first_up: str) -> None:
    log = (project.folder / "runs" / run_of(project) / "job.log").read_text()
    assert hashlib.sha256(SECRET.encode()).hexdigest() in log, "the job had it"
    assert "value of HF_TOKEN is ***" in log, "a job that prints it does not put it into the log"
    assert SECRET not in first_up
    ray = local_nodes.cluster_directory(project.folder, project.stack)
    searched = 0
    for folder in (project.folder / "runs", project.folder / ".state", ray):
        for path, content in contents(folder):
            # The job's own output in Ray's folder is what it printed; the unpacked working directory is how it got it.
            if path.name.startswith("job-driver-") or path.name == ".job-secrets.json":
                continue
            searched += 1
            assert SECRET.encode() not in content, path
    assert searched > 20


def test_while_a_job_runs_its_secret_is_on_no_command_line(project: Project, first_up: str) -> None:
    release = project.folder / "release"
    project.set(jobRunId="held", jobEnv={"QUICK_HOLD": str(release)})
    process = project.start_up()
    try:
        wait_for(lambda: "step 1/4" in project.said(), seconds=90, what="the job's first step")
        lines = []
        for running in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                lines.append(" ".join(running.cmdline()))
        assert any("training.train" in line for line in lines), "the driver is among them"
        assert not [line for line in lines if SECRET in line]
        release.touch()
        assert process.wait(timeout=90) == 0, project.said()
    finally:
        end_group(process)
        project.set(jobRunId="", jobEnv={"QUICK_SHOW": "HF_TOKEN,=HF_TOKEN"})
    assert project.up().returncode == 0


def test_an_unchanged_up_changes_and_runs_nothing(project: Project, first_up: str) -> None:
    before = project.runs()
    done = project.up()
    assert done.returncode == 0
    assert "unchanged" in done.stdout
    assert project.changes() == {}
    assert project.runs() == before


def test_after_a_refresh_there_is_no_change(project: Project, first_up: str) -> None:
    project.must("refresh", "--yes")
    assert project.changes() == {}


@pytest.mark.parametrize(
    "room", ["workload/job.py", "workload/ray_train_job.py", "infra/local_ray.py", "infra/settings.py"]
)
def test_a_comment_outside_training_is_no_change(project: Project, first_up: str, room: str) -> None:
    path = project.folder / room
    path.write_text(path.read_text() + "\n# a comment\n")
    assert project.changes() == {}


def test_a_changed_argument_is_a_new_run_on_the_same_cluster(project: Project, first_up: str) -> None:
    before = run_of(project)
    project.set(trainSteps=5)
    changes = project.changes()
    assert changes.pop("train") == "replace"
    assert set(changes) <= {"gate"}, "the cluster is not touched"
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert run_of(project) != before
    assert "step 5/5" in done.stdout


def test_a_changed_line_in_training_is_a_new_run(project: Project, first_up: str) -> None:
    before = run_of(project)
    path = project.folder / "training" / "train.py"
    path.write_text(path.read_text().replace('LABEL = "first"', 'LABEL = "second"'))
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert "quick job second" in done.stdout
    assert run_of(project) != before


def test_a_changed_expectation_moves_only_the_gate_and_fails_every_up(project: Project, first_up: str) -> None:
    before = project.runs()
    project.set(expect="efa")
    for _ in range(2):
        done = project.up()
        assert done.returncode != 0
        assert "transport refuted: expected efa" in done.stdout
        assert "gloo moves bytes over TCP sockets" in done.stdout
        assert "Traceback" not in done.stdout
    assert project.runs() == before, "no GPU time is spent twice on a refuted run"
    run = project.outputs()["run"]
    assert (run["status"], run["verdict"]) == ("SUCCEEDED", "refuted")
    assert project.efactl("up").returncode == 3
    shown = json.loads(project.efactl("outputs", "--json").stdout)
    assert (shown["verdict"], shown["status"]) == ("refuted", "SUCCEEDED")
    project.set(expect="gloo")
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert project.runs() == before
    shown = json.loads(project.efactl("outputs", "--json").stdout)
    assert shown["verdict"] == "proven", "the record follows, although the gate's inputs are those in state again"
    assert project.changes() == {}


def test_quality_is_a_gate_of_its_own(project: Project, first_up: str) -> None:
    before = project.runs()
    project.set(gateMaxEvalLoss="4.5")
    done = project.efactl("up")
    assert done.returncode == 5, done.stdout
    assert "held-out loss 5.0000 is above gateMaxEvalLoss 4.5" in done.stdout
    project.set(gateMaxEvalLoss="5.5")
    passed = project.efactl("up", "--json")
    assert passed.returncode == 0
    assert json.loads(passed.stdout)["qualityPassed"] is True
    assert project.runs() == before


def test_settings_that_cannot_be_used_stop_before_anything_changes(project: Project, first_up: str) -> None:
    before = project.state()
    project.set(trainSteps=0, trainStep=3)
    done = project.up()
    project.set(trainSteps=5, trainStep=None)
    assert done.returncode != 0
    assert "ray-train-efa:trainSteps: '0' must be at least 1" in done.stdout
    assert "ray-train-efa:trainStep: '3' is not a setting: did you mean trainSteps?" in done.stdout
    assert "Traceback" not in done.stdout
    assert [resource["urn"] for resource in project.state()] == [resource["urn"] for resource in before]


def test_a_wrong_type_is_refused(project: Project, first_up: str) -> None:
    project.set(trainSteps="many")
    done = project.pulumi("preview")
    project.set(trainSteps=5)
    assert done.returncode != 0
    assert "trainSteps" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_dead_cluster_is_repaired_without_a_new_run(project: Project, first_up: str) -> None:
    before = project.runs()
    directory = local_nodes.cluster_directory(project.folder, project.stack)
    cluster = local_nodes.load(directory)
    assert cluster is not None
    psutil.Process(cluster.nodes[-1].pid).kill()
    assert project.changes() == {"ray-cluster": "update"}
    project.must("refresh", "--yes")
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert "degraded" in done.stdout
    assert local_nodes.inspect(directory).state == "running"
    assert project.runs() == before, "a run that is on record needs no cluster"


def test_destroy_leaves_nothing_but_the_runs(project: Project, first_up: str) -> None:
    directory = local_nodes.cluster_directory(project.folder, project.stack)
    runs = project.runs()
    done = project.efactl("down")
    assert done.returncode == 0, done.stdout
    assert not directory.exists()
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(directory) in " ".join(p.info["cmdline"] or [])]
    assert project.runs() == runs
    assert project.state() == []


def test_a_platform_that_lacks_settings_is_refused_with_each_of_them_before_anything_is_made(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", platform="eks", expect="efa")
    done = project.up()
    assert done.returncode != 0
    for problem in (
        "aws:region: '' is not a region",
        "ray-train-efa:gpuZone: must be set on eks",
        "ray-train-efa:eksEndpointCidrs: must list who may reach",
    ):
        assert problem in done.stdout
    assert {resource["type"] for resource in project.state()} <= {"pulumi:pulumi:Stack"}
