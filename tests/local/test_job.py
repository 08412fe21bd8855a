"""A job's life on a real Ray cluster: found again, followed over broken connections, ended at its deadline."""

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlparse

import pytest

from infra import local_nodes
from tests.local.conftest import head_of, local_spec
from tests.support.cutting_proxy import CuttingProxy
from tests.support.project import QUICK
from workload import job, job_following
from workload.errors import ReportedError, RunInterruptedError
from workload.head import Head, reach
from workload.job_spec import JobSpec
from workload.jobs_api import JobsApi

pytestmark = pytest.mark.local


class Runner:
    """Runs quick jobs on one cluster and remembers what was said."""

    def __init__(self, cluster: local_nodes.LocalCluster, folder: Path) -> None:
        self.head = head_of(cluster)
        self.folder = folder
        self.said: list[str] = []
        training = folder / "training"
        if not training.exists():
            training.symlink_to(QUICK)

    def request(self, run_id: str, *, steps: int = 4, deadline_s: float = 120, **env: str) -> job_following.JobRequest:
        spec = JobSpec(
            training_digest="0" * 64,
            arguments={"steps": steps},
            pip=[],
            pip_digests={},
            env=env,
            secret_env={},
            image="test",
            cluster_spec_digest="digest",
            run_id=run_id,
        )
        return job_following.JobRequest(
            spec=spec,
            head=self.head,
            training=(self.folder / "training").resolve(),
            runs=self.folder / "runs",
            storage=str(self.folder / "runs"),
            deadline_s=deadline_s,
        )

    def run(self, request: job_following.JobRequest, interrupt: Event | None = None) -> job_following.JobOutcome:
        return job.run(request, say=self.said.append, interrupt=interrupt or Event())

    def lines(self) -> str:
        return "\n".join(self.said)


@pytest.fixture
def runner(cluster: local_nodes.LocalCluster, tmp_path: Path) -> Runner:
    return Runner(cluster, tmp_path)


def jobs(head: Head) -> dict[str, str]:
    with reach(head) as endpoint:
        return {state.submission_id: state.status for state in JobsApi(endpoint).jobs()}


def in_background(action: Callable[[], object]) -> tuple[Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            raised.append(error)

    thread = Thread(target=run)
    thread.start()
    return thread, raised


def until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.2)


def test_a_job_is_followed_to_its_report(runner: Runner) -> None:
    outcome = runner.run(runner.request("plain"))
    assert outcome.attempt == 1
    assert outcome.record["world_size"] == 4, "every trainer of the cluster is a rank"
    assert outcome.submission_id in runner.lines()
    assert "step 4/4" in outcome.log.read_text()


def test_nccl_is_told_to_say_what_a_verdict_needs_unless_the_job_says_otherwise(runner: Runner) -> None:
    shown = "=NCCL_DEBUG,=NCCL_DEBUG_SUBSYS,=RAY_DEDUP_LOGS"
    log = runner.run(runner.request("by default", QUICK_SHOW=shown)).log.read_text()
    assert "value of NCCL_DEBUG is INFO\n" in log and "value of NCCL_DEBUG_SUBSYS is INIT,NET,ENV\n" in log
    request = runner.request("quieter", QUICK_SHOW=shown, NCCL_DEBUG="WARN", RAY_DEDUP_LOGS="1")
    log = runner.run(request).log.read_text()
    assert "value of NCCL_DEBUG is WARN\n" in log
    assert "value of RAY_DEDUP_LOGS is 0\n" in log, "whole lines are no matter of taste"


def test_the_same_job_again_is_another_attempt_once_the_first_is_on_record(runner: Runner) -> None:
    request = runner.request("twice")
    first = runner.run(request)
    (request.runs / first.submission_id / "record.json").write_text('{"quality": {"passed": true}}')
    second = runner.run(request)
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.submission_id != second.submission_id


def test_a_log_cut_in_the_middle_of_lines_is_whole_in_the_end(runner: Runner) -> None:
    proxy = CuttingProxy(int(urlparse(runner.head.address).port or 0))
    request = runner.request("cut", steps=60, QUICK_SECONDS="9")
    request = dataclasses.replace(
        request, head=dataclasses.replace(request.head, address=f"http://127.0.0.1:{proxy.port}")
    )
    try:
        thread, raised = in_background(lambda: runner.run(request))
        until(lambda: any("step" in line for line in runner.said), seconds=60, what="the first step")
        for _ in range(6):
            time.sleep(1.17)
            proxy.cut()
        thread.join(60)
    finally:
        proxy.close()
    assert not raised, raised
    (log,) = (runner.folder / "runs").glob("*/job.log")
    steps = [line for line in log.read_text().splitlines() if line.startswith("[train] step ")]
    assert [line.split()[2] for line in steps] == [f"{step}/60" for step in range(1, 61)]
    assert len(steps) == 60


def test_interruption_leaves_the_job_running_and_the_next_call_follows_it(runner: Runner) -> None:
    release = runner.folder / "release"
    request = runner.request("interrupted", QUICK_HOLD=str(release))
    interrupt = Event()
    thread, raised = in_background(lambda: runner.run(request, interrupt))
    until(lambda: any("step 1/4" in line for line in runner.said), seconds=60, what="the first step")
    interrupt.set()
    thread.join(60)
    assert isinstance(raised[0], RunInterruptedError)
    assert "goes on" in str(raised[0])
    ended: list[job_following.JobOutcome] = []
    thread, raised = in_background(lambda: ended.append(runner.run(request)))
    until(lambda: "already running: following it" in runner.lines(), seconds=60, what="the second call follows it")
    release.touch()
    thread.join(60)
    assert not raised, raised
    assert ended[0].attempt == 1


def test_a_job_past_its_deadline_is_stopped(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_following, "DEADLINE_GRACE_S", 1.0)
    with pytest.raises(ReportedError, match=r"past its deadline \(jobDeadlineSeconds: 5\)") as caught:
        runner.run(runner.request("late", deadline_s=5, QUICK_END="hang"))
    assert "and was stopped" in str(caught.value)
    assert "full log: " in str(caught.value)
    (identifier,) = [path.name for path in (runner.folder / "runs").iterdir()]
    assert jobs(runner.head)[identifier] == "STOPPED"


def test_a_job_that_reports_nothing_is_an_error(runner: Runner) -> None:
    request = runner.request("silent", QUICK_END="silent")
    for attempt in (1, 2):
        with pytest.raises(ReportedError, match="SUCCEEDED but its log holds no record line") as caught:
            runner.run(request)
        assert f"-{attempt} SUCCEEDED but" in str(caught.value), "a run that cannot be used is not collected again"


def test_another_ray_version_on_the_head_is_refused_before_anything_is_submitted(runner: Runner) -> None:
    before = jobs(runner.head)
    request = runner.request("version")
    request = dataclasses.replace(request, head=dataclasses.replace(request.head, ray_version="2.1.0"))
    with pytest.raises(ReportedError, match=r"runs Ray 2\.58\.0, the RayCluster was declared with 2\.1\.0"):
        runner.run(request)
    assert jobs(runner.head) == before


def test_a_wrong_token_is_refused_clearly(runner: Runner) -> None:
    request = runner.request("token")
    request = dataclasses.replace(request, head=dataclasses.replace(request.head, token="0" * 32))
    with pytest.raises(ReportedError, match="refused"):
        runner.run(request)


def test_no_head_at_the_address_is_said_with_the_address(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_following, "UNREACHABLE_S", 2.0)
    request = runner.request("nobody")
    request = dataclasses.replace(request, head=dataclasses.replace(request.head, address="http://127.0.0.1:9"))
    with pytest.raises(ReportedError, match=r"no Ray head answers at http://127\.0\.0\.1:9"):
        runner.run(request)


def test_a_head_that_stops_answering_is_given_up_with_a_reason(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_following, "UNREACHABLE_S", 4.0)
    proxy = CuttingProxy(int(urlparse(runner.head.address).port or 0))
    request = runner.request("vanishing", QUICK_HOLD="/nowhere/release")
    request = dataclasses.replace(
        request, head=dataclasses.replace(request.head, address=f"http://127.0.0.1:{proxy.port}")
    )
    try:
        thread, raised = in_background(lambda: runner.run(request))
        until(lambda: any("step 1/4" in line for line in runner.said), seconds=60, what="the first step")
        proxy.refusing = True
        proxy.cut()
        thread.join(90)
    finally:
        proxy.close()
        stopped = job.stop(runner.head, say=runner.said.append)
    assert "the Ray head has not answered for" in str(raised[0])
    assert len(stopped) == 1, "the job went on meanwhile"


@pytest.mark.full
def test_a_head_that_is_replaced_is_said_and_the_job_is_not_taken_for_ended(runner: Runner, tmp_path: Path) -> None:
    """Another cluster takes the address over, as a restarted head pod does, with an empty job table."""
    proxy = CuttingProxy(int(urlparse(runner.head.address).port or 0))
    request = runner.request("replaced", QUICK_SECONDS="60")
    request = dataclasses.replace(
        request, head=dataclasses.replace(request.head, address=f"http://127.0.0.1:{proxy.port}")
    )
    folder = Path(tempfile.mkdtemp(prefix="rtefa-r")).resolve()
    thread, raised = in_background(lambda: runner.run(request))
    try:
        until(lambda: any("step 1/4" in line for line in runner.said), seconds=60, what="the first step")
        other = local_nodes.start(local_spec(folder, worker_nodes=1, token=runner.head.token), say=print)
        proxy.target = int(urlparse(other.address).port or 0)
        proxy.cut()
        thread.join(60)
    finally:
        proxy.close()
        local_nodes.stop(folder, say=print)
        shutil.rmtree(folder, ignore_errors=True)
        job.stop(runner.head, say=print)
    assert "the Ray head was replaced while job" in str(raised[0])
    assert "the next `pulumi up` runs it again" in str(raised[0])


def test_beside_a_job_of_other_inputs_none_is_submitted(runner: Runner) -> None:
    first = runner.request("first", QUICK_HOLD="/nowhere/release")
    interrupt = Event()
    thread, _ = in_background(lambda: runner.run(first, interrupt))
    until(lambda: any("step 1/4" in line for line in runner.said), seconds=60, what="the first step")
    interrupt.set()
    thread.join(60)
    before = jobs(runner.head)
    with pytest.raises(ReportedError, match=r"of other inputs, still runs .* `efactl stop.*` stops it"):
        runner.run(runner.request("second"))
    assert jobs(runner.head).keys() == before.keys()
    assert len(job.stop(runner.head, say=print)) == 1


def test_the_storage_of_a_job_deleted_from_the_table_is_not_used_again(runner: Runner) -> None:
    request = runner.request("deleted")
    first = runner.run(request)
    with reach(runner.head) as endpoint:
        JobsApi(endpoint).client.delete_job(first.submission_id)
    second = runner.run(request)
    assert (first.attempt, second.attempt) == (1, 2)


def test_a_report_of_fewer_ranks_than_were_asked_for_is_refused(runner: Runner) -> None:
    with pytest.raises(ReportedError, match="reports 2 ranks, 4 were asked for"):
        runner.run(runner.request("fewer", QUICK_RANKS="2"))


def test_a_place_for_runs_that_cannot_be_is_said_before_anything_is_submitted(runner: Runner) -> None:
    (runner.folder / "runs").write_text("a file")
    before = jobs(runner.head)
    with pytest.raises(ReportedError, match="runs for the runs' logs and records cannot be made"):
        runner.run(runner.request("no place"))
    assert jobs(runner.head) == before
