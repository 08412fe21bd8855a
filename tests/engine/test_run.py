"""`efactl run` on a real stack: a run of its own, the file as it was, and nothing else touched."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.support.project import Project, end_group

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    project = Project(tmp_path_factory.mktemp("run") / "project")
    try:
        project.must("up", "--yes", "--skip-preview")
        yield project
    finally:
        project.clean()


def file_of(project: Project) -> str:
    return (project.folder / f"Pulumi.{project.stack}.yaml").read_text()


def others(project: Project) -> dict[str, object]:
    """The state of what is no part of a run; secrets in clear, since they are encrypted anew whenever it is written.

    The provider of the dynamic resources is told every setting of the program, and is no resource of the stack.
    """
    resources = json.loads(project.must("stack", "export", "--show-secrets"))["deployment"]["resources"]
    parts = ("RayTrainJob", "RunGate", "Stack", "pulumi:providers:")
    return {one["urn"]: one.get("outputs") for one in resources if not any(part in one["urn"] for part in parts)}


def submitted(project: Project) -> str:
    return str(project.outputs()["run"]["submissionId"])


def test_a_changed_setting_is_a_run_and_the_file_and_the_cluster_stay(project: Project) -> None:
    file, cluster, before = file_of(project), others(project), submitted(project)
    done = project.efactl("run", "trainSteps=6", "jobEnv.LOG_LEVEL=debug", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert run["status"] == "SUCCEEDED" and run["verdict"] == "proven" and run["submissionId"] != before
    assert "step 6/6" in done.stderr, "pulumi's own output is beside the facts"
    record = json.loads((project.folder / run["record"]).read_text())
    assert record["settings"]["trainSteps"] == "6"
    assert json.loads(record["settings"]["jobEnv"]) == {"LOG_LEVEL": "debug"}
    assert file_of(project) == file
    assert others(project) == cluster
    assert submitted(project) == run["submissionId"], "the stack's outputs are of the new run"
    assert "the next `up` asks for a run of its settings again" in done.stderr
    assert project.changes() == {"train": "replace", "gate": "update"}, "a plain `up` goes back to the file's settings"


def test_the_same_settings_again_are_no_run(project: Project) -> None:
    assert project.efactl("run", "trainSteps=5").returncode == 0
    before = project.runs()
    done = project.efactl("run", "trainSteps=5", "--json")
    assert done.returncode == 0, done.stderr
    assert "no run is due" in done.stderr and json.loads(done.stdout)["status"] == "SUCCEEDED"
    assert project.runs() == before


def test_again_repeats_the_last_one(project: Project) -> None:
    before = project.runs()
    done = project.efactl("run", "trainSteps=5", "--again")
    assert done.returncode == 0, done.stderr + done.stdout
    assert len(project.runs()) == len(before) + 1


def test_a_gate_fails_it_as_it_fails_an_up(project: Project) -> None:
    before = project.runs()
    assert project.efactl("run", "trainSteps=5", "gateMaxEvalLoss=0.0001", "--again").returncode == 5
    assert len(project.runs()) == len(before) + 1
    assert project.efactl("up").returncode == 0


def test_a_value_that_cannot_be_fails_by_the_program_s_own_words(project: Project) -> None:
    before, state = project.runs(), project.state()
    done = project.efactl("run", "trainSteps=0")
    assert done.returncode == 1
    assert "trainSteps: '0' must be at least 1" in done.stdout + done.stderr
    assert (project.runs(), project.state()) == (before, state)


def test_where_the_stack_itself_is_due_for_a_change_a_run_is_refused(project: Project) -> None:
    before, state = project.runs(), project.state()
    project.set(localObjectStoreMiB=120)
    try:
        done = project.efactl("run", "trainSteps=9")
    finally:
        project.set(localObjectStoreMiB=None)
    assert done.returncode == 1
    assert "more than a run would change" in done.stderr and "ray-cluster" in done.stderr
    assert (project.runs(), project.state()) == (before, state)


def test_keep_writes_the_settings_so_that_the_next_up_has_nothing_to_do(project: Project) -> None:
    path = project.folder / f"Pulumi.{project.stack}.yaml"
    path.write_text("# a comment of the team's\n" + path.read_text())
    done = project.efactl("run", "trainSteps=8", "jobPip=[]", "jobEnv={QUICK_A: 'true', QUICK_B: b}", "--keep")
    assert done.returncode == 0, done.stderr + done.stdout
    assert project.changes() == {}
    assert "# a comment of the team's" in file_of(project)
    assert "kept in Pulumi.local.yaml: trainSteps" in done.stderr


def test_colours_stay_out_of_a_pipe(project: Project) -> None:
    done = project.efactl("run", "--preview")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_the_dashboard_s_address_leads_to_this_stack_s_ray_until_the_command_ends(project: Project) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "efactl", "ui", "-s", project.stack, "--no-browser", "--json"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout and process.stderr
        url = json.loads(process.stdout.readline())["url"]
        base, key = url.rsplit("/", 1)
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({}))
        with pytest.raises(urllib.error.HTTPError, match="403"):
            browser.open(f"{base}/api/version")
        browser.open(url).read()
        assert json.loads(browser.open(f"{base}/api/version").read())["ray_version"]
        jobs = json.loads(browser.open(f"{base}/api/jobs/").read())
        assert submitted(project) in {job["submission_id"] for job in jobs}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        with pytest.raises(urllib.error.URLError, match="refused"):
            browser.open(base)
        said = process.stdout.read() + process.stderr.read()
        assert key not in said and "Bearer" not in said and "Traceback" not in said
    finally:
        end_group(process)
