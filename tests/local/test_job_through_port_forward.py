"""A job's life on a real Ray head that is reached as in Kubernetes: through a port-forward, and its troubles."""

import dataclasses
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from urllib.parse import urlparse

import pytest

from infra import local_nodes
from tests.local.conftest import head_of
from tests.local.test_job import Runner, in_background, jobs, until
from tests.support.fake_api_server import FakeApiServer, pod
from workload import job, job_following, port_forward
from workload.errors import ReportedError
from workload.head import Head, reach
from workload.jobs_api import JobsApi

# The bed shows the same over a real API server; these are its faults, cut finer.
pytestmark = [pytest.mark.local, pytest.mark.full]


@pytest.fixture
def api(cluster: local_nodes.LocalCluster) -> Iterator[FakeApiServer]:
    server = FakeApiServer()
    try:
        server.pods = [pod("head-a")]
        server.targets = {"head-a": urlparse(cluster.address).port or 0}
        yield server
    finally:
        server.close()


@pytest.fixture
def runner(cluster: local_nodes.LocalCluster, api: FakeApiServer, tmp_path: Path) -> Runner:
    runner = Runner(cluster, tmp_path)
    runner.head = head_of(
        cluster,
        kind="kubernetes",
        namespace="team",
        cluster_name="ray",
        address="",
        kubeconfig=str(api.kubeconfig(tmp_path / "kubeconfig")),
    )
    return runner


def local(cluster: local_nodes.LocalCluster) -> Head:
    return head_of(cluster)


def test_a_job_is_followed_over_forwards_that_are_cut_again_and_again(api: FakeApiServer, runner: Runner) -> None:
    thread, raised = in_background(lambda: runner.run(runner.request("cuts", steps=60, QUICK_SECONDS="9")))
    until(lambda: any("step" in line for line in runner.said), seconds=60, what="the first step")
    for _ in range(6):
        time.sleep(1.17)
        api.cut()
    thread.join(60)
    assert not raised, raised
    (log,) = (runner.folder / "runs").glob("*/job.log")
    steps = [line.split()[2] for line in log.read_text().splitlines() if line.startswith("[train] step ")]
    assert steps == [f"{step}/60" for step in range(1, 61)], "no line is lost or doubled"


def test_a_job_outlasts_a_restart_of_the_api_server(api: FakeApiServer, runner: Runner) -> None:
    thread, raised = in_background(lambda: runner.run(runner.request("restart", QUICK_SECONDS="12")))
    until(lambda: any("step 1/4" in line for line in runner.said), seconds=60, what="the first step")
    api.stop()
    time.sleep(3)
    api.start()
    thread.join(60)
    assert not raised, raised


def test_a_right_that_is_missing_is_said_long_before_the_head_is_given_up(
    api: FakeApiServer, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_forward, "FORBIDDEN_S", 2.0)
    api.forbidden = {"forward"}
    began = time.monotonic()
    with pytest.raises(ReportedError, match=r"403: not permitted to get and create pods/portforward in namespace team"):
        runner.run(runner.request("forbidden"))
    assert time.monotonic() - began < 20


def test_a_head_that_is_not_there_is_given_up_with_the_pods_own_reason(
    api: FakeApiServer, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_following, "UNREACHABLE_S", 2.0)
    api.pods = [pod("head-a", phase="Pending", containerStatuses=[{"state": {"waiting": {"reason": "ErrImagePull"}}}])]
    with pytest.raises(ReportedError, match=r"no head pod: head-a is Pending \(ErrImagePull\)"):
        runner.run(runner.request("pending"))


def test_credentials_that_expire_in_mid_job_are_read_anew_or_said(
    api: FakeApiServer, runner: Runner, cluster: local_nodes.LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_following, "UNREACHABLE_S", 4.0)
    thread, raised = in_background(lambda: runner.run(runner.request("expiry", QUICK_HOLD="/nowhere/release")))
    until(lambda: any("step 1/4" in line for line in runner.said), seconds=60, what="the first step")
    api.tokens = {"two"}
    api.kubeconfig(Path(runner.head.kubeconfig), token="two")
    thread.join(6)
    assert thread.is_alive(), "the renewed token is used"
    api.tokens = {"three"}
    thread.join(30)
    assert "has not answered for" in str(raised[0])
    assert "401: the API server does not accept these credentials" in str(raised[0])
    assert len(job.stop(local(cluster), say=print)) == 1, "the job went on meanwhile"


def test_rights_withdrawn_in_mid_job_end_the_following_and_not_the_job(
    api: FakeApiServer, runner: Runner, cluster: local_nodes.LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_forward, "FORBIDDEN_S", 1.0)
    request = runner.request("withdrawn", QUICK_HOLD="/nowhere/release")
    thread, raised = in_background(lambda: runner.run(request))
    until(lambda: any("step 1/4" in line for line in runner.said), seconds=60, what="the first step")
    api.forbidden = {"forward"}
    thread.join(30)
    assert "goes on, as far as is known, but cannot be followed: " in str(raised[0])
    assert "403: not permitted to get and create pods/portforward" in str(raised[0])
    api.forbidden = set()
    assert len(job.stop(runner.head, say=print)) == 1


def test_a_job_submitted_by_hand_is_named_and_does_not_hinder(
    runner: Runner, cluster: local_nodes.LocalCluster
) -> None:
    with reach(local(cluster)) as endpoint:
        api = JobsApi(endpoint)
        client = api.client
        client.submit_job(entrypoint="sleep 300", submission_id="by-hand")
        until(lambda: jobs(local(cluster)).get("by-hand") == "RUNNING", seconds=60, what="it runs")
        try:
            assert runner.run(runner.request("beside")).attempt == 1
        finally:
            assert job_following.stop_and_wait(api, "by-hand")
    assert "job by-hand, submitted by other means, runs on RayCluster ray in namespace team too" in runner.lines()


def test_unfinished_jobs_are_asked_for_once_and_a_gone_cluster_is_said_at_once(
    api: FakeApiServer, runner: Runner
) -> None:
    assert job.unfinished(runner.head) == []
    api.stop()
    began = time.monotonic()
    with pytest.raises(ReportedError, match=r"no Ray head answers at .*: the API server .* cannot be reached"):
        job.unfinished(runner.head)
    assert time.monotonic() - began < 10
    api.start()


def test_no_thread_of_the_tunnel_outlives_the_job(runner: Runner) -> None:
    runner.run(runner.request("threads"))
    until(
        lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("port-forward")],
        seconds=5,
        what="the tunnel's thread has ended",
    )


def test_an_interrupted_job_is_followed_again_through_a_new_tunnel(runner: Runner) -> None:
    request = runner.request("again", QUICK_SECONDS="10")
    interrupt = Event()
    thread, _ = in_background(lambda: runner.run(request, interrupt))
    until(lambda: any("step 1/4" in line for line in runner.said), seconds=60, what="the first step")
    interrupt.set()
    thread.join(10)
    assert not thread.is_alive()
    assert runner.run(dataclasses.replace(request)).attempt == 1
