"""The local platform's processes, for real: every test here looks at Ray clusters that run on this machine."""

import contextlib
import http.client
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import textwrap
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray.job_submission import JobStatus, JobSubmissionClient

from infra import local_directory, local_nodes, local_processes, versions
from infra.local_nodes import LocalCluster, LocalClusterError, LocalClusterSpec
from tests.support.still_there import contents, told

pytestmark = pytest.mark.local

PROJECT = Path(__file__).parents[2]
LOOPBACK = {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
STARTER = """
import sys
from pathlib import Path
from infra import local_nodes, versions
spec = local_nodes.LocalClusterSpec(
    name=sys.argv[1], directory=Path(sys.argv[2]), worker_nodes=int(sys.argv[3]), trainers_per_node=2,
    object_store_bytes=100 * 1024**2, dashboard_port=0, ray_version=versions.RAY)
local_nodes.start(spec, say=print)
"""
JOB = """
import json, os
import ray
ray.init(logging_level="WARNING")

@ray.remote(num_cpus=0, resources={"trainer": 1})
def rank(number):
    import time
    print(f"<rank {number}>", flush=True)
    time.sleep(3)
    context = ray.get_runtime_context()
    return context.get_node_id()

placed = ray.get([rank.remote(number) for number in range(4)])
nodes = {node["NodeID"]: node["Resources"] for node in ray.nodes()}
own = ray.get_runtime_context().get_node_id()
print("<report>", json.dumps({"placed": placed, "nodes": nodes, "address": os.environ["RAY_ADDRESS"], "own": own}))
"""


def silent(_line: str) -> None:
    pass


def new_spec(directory: Path, *, worker_nodes: int = 2) -> LocalClusterSpec:
    return LocalClusterSpec(
        name="test",
        directory=directory,
        worker_nodes=worker_nodes,
        trainers_per_node=2,
        object_store_bytes=100 * 1024**2,
        dashboard_port=0,
        ray_version=versions.RAY,
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cluster that most tests share, started by a process with a terminal that then goes away."""
    found = local_nodes.cluster_directory(tmp_path_factory.mktemp("project"), "shared")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(PROJECT)
        os.execv(sys.executable, [sys.executable, "-c", STARTER, "test", str(found), "2"])
    try:
        output = b"".join(_read_all(terminal))
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, output.decode()
        yield found
    finally:
        local_nodes.stop(found, say=silent)


def _read_all(terminal: int) -> Iterator[bytes]:
    try:
        while chunk := os.read(terminal, 4096):
            yield chunk
    except OSError:  # Linux' end of file of a terminal
        return


@pytest.fixture
def other_directory(tmp_path: Path) -> Iterator[Path]:
    found = local_nodes.cluster_directory(tmp_path, "other")
    try:
        yield found
    finally:
        local_nodes.stop(found, say=silent)


def loaded(directory: Path) -> LocalCluster:
    cluster = local_nodes.load(directory)
    assert cluster is not None
    return cluster


def get(cluster: LocalCluster, path: str, *, token: str | None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(cluster.address.removeprefix("http://"), timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def run_job(cluster: LocalCluster, program: str, *, meanwhile: Callable[[], None]) -> tuple[JobStatus, str]:
    client = JobSubmissionClient(cluster.address, headers={"Authorization": f"Bearer {cluster.token}"})
    job = client.submit_job(entrypoint=f"{sys.executable} -c '{program}'")
    deadline = time.monotonic() + 120
    while not (status := client.get_job_status(job)).is_terminal() and time.monotonic() < deadline:
        meanwhile()
        time.sleep(0.5)
    return status, client.get_job_logs(job)


def listeners(directory: Path) -> set[tuple[str, str]]:
    """(address, process name) of every port that a process of the cluster listens on."""

    def of(process: psutil.Process) -> set[tuple[str, str]]:
        return {
            (connection.laddr.ip, process.name())
            for connection in process.net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        }

    return set().union(*told(local_processes.marked(directory), of))


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held


def test_a_cluster_outlives_its_starter_and_the_starters_terminal(directory: Path) -> None:
    health = local_nodes.inspect(directory)
    assert health.state == "running", health.reasons


def test_inspect_takes_milliseconds_so_that_refresh_and_preview_stay_quick(directory: Path) -> None:
    looks = timeit.repeat(lambda: local_nodes.inspect(directory), number=1, repeat=5, timer=time.process_time)
    assert min(looks) < 0.1, "of this process; who else is busy on the machine is no matter"


def test_each_node_has_its_own_temporary_directory_raylet_and_declared_resources(directory: Path) -> None:
    cluster = loaded(directory)
    assert [node.role for node in cluster.nodes] == ["head", "worker", "worker"]
    assert [node.resources.get("trainer", 0) for node in cluster.nodes] == [0, 2, 2]
    assert [node.resources.get("GPU", 0) for node in cluster.nodes] == [0, 0, 0]
    assert [Path(node.temp_dir).name for node in cluster.nodes] == ["h", "w1", "w2"]
    assert len({node.pid for node in cluster.nodes}) == 3
    for node in cluster.nodes:
        assert (Path(node.temp_dir) / cluster.session_name / "logs").is_dir(), f"{node.name} shares another's directory"


def test_a_job_sees_the_declared_nodes_prints_each_line_once_and_listens_on_loopback_only(directory: Path) -> None:
    cluster = loaded(directory)
    seen: set[tuple[str, str]] = set()
    status, log = run_job(
        cluster, textwrap.dedent(JOB).replace("'", '"'), meanwhile=lambda: seen.update(listeners(directory))
    )
    assert status == JobStatus.SUCCEEDED, log
    for number in range(4):
        assert log.count(f"<rank {number}>") == 1, f"line of rank {number} is not there once:\n{log}"
    report: dict[str, Any] = json.loads(log.split("\n<report>")[1].splitlines()[0])
    workers = {node.node_id for node in cluster.nodes if node.role == "worker"}
    assert set(report["placed"]) == workers, "two ranks on each worker node"
    assert [report["placed"].count(node) for node in workers] == [2, 2]
    assert report["nodes"].keys() == {node.node_id for node in cluster.nodes}
    assert report["address"] == cluster.gcs_address, "the driver joined another Ray cluster of this machine"
    assert report["own"] == cluster.nodes[0].node_id, "the driver runs on the head"
    assert {"gcs_server", "raylet"} <= {name for _, name in seen}, seen
    assert {address for address, _ in seen} <= LOOPBACK, sorted(seen)


def test_the_jobs_and_state_apis_answer_to_the_token_only(directory: Path) -> None:
    cluster = loaded(directory)
    assert get(cluster, "/api/jobs/", token=None)[0] == 401
    assert get(cluster, "/api/jobs/", token="0" * 64)[0] in (401, 403)
    assert get(cluster, "/api/jobs/", token=cluster.token)[0] == 200
    status, body = get(cluster, "/api/v0/nodes", token=cluster.token)
    assert status == 200
    listed = {node["node_id"] for node in json.loads(body)["data"]["result"]["result"]}
    assert listed == {node.node_id for node in cluster.nodes}


def test_the_token_is_in_one_private_file_and_in_no_command_line_environment_or_log(directory: Path) -> None:
    cluster = loaded(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(cluster.token_path).stat().st_mode) == 0o600
    assert cluster.token not in repr(cluster)
    shown = told(local_processes.marked(directory), lambda one: [*one.cmdline(), *one.environ().values()])
    assert len(shown) > 5
    assert [words for words in shown if cluster.token in " ".join(words)] == []
    files = {path: content for path, content in contents(directory) if path != Path(cluster.token_path)}
    assert len(files) > 20
    assert [path for path, content in files.items() if cluster.token.encode() in content] == []


def test_a_second_start_with_the_same_spec_returns_the_running_cluster(directory: Path) -> None:
    said: list[str] = []
    again = local_nodes.start(new_spec(directory), say=said.append)
    assert again == loaded(directory)
    assert said == []


def test_a_second_cluster_starts_beside_it_and_its_stop_touches_nothing_else(
    directory: Path, other_directory: Path
) -> None:
    before = loaded(directory)
    with subprocess.Popen(["sleep", "300"]) as foreign:
        try:
            other = local_nodes.start(new_spec(other_directory, worker_nodes=1), say=silent)
            assert other.address != before.address
            assert local_nodes.inspect(other_directory).state == "running"
            ended = local_nodes.stop(other_directory, say=silent)
            assert {node.pid for node in other.nodes} <= set(ended)
            assert local_processes.marked(other_directory) == []
            assert not other_directory.exists()
            assert local_nodes.inspect(other_directory).state == "stopped"
            assert local_nodes.stop(other_directory, say=silent) == (), "a second stop finds nothing and is no error"
            assert foreign.poll() is None, "a process without the mark was ended"
            assert local_nodes.inspect(directory).state == "running"
            assert loaded(directory) == before
        finally:
            foreign.kill()


def test_a_starter_killed_in_mid_start_leaves_no_process_and_no_directory(other_directory: Path) -> None:
    # It hears no more of its start than that: however long the kill takes, it is not over.
    deaf = "lambda line: line.startswith('Ray is loaded') and __import__('time').sleep(600)"
    program = STARTER.replace("say=print", f"say={deaf}")
    with subprocess.Popen([sys.executable, "-c", program, "test", str(other_directory), "1"], cwd=PROJECT) as starter:
        try:
            assert within(90, lambda: "raylet" in told(local_processes.marked(other_directory), psutil.Process.name))
        finally:
            starter.send_signal(signal.SIGKILL)
    assert within(60, lambda: not local_processes.marked(other_directory) and not other_directory.exists())


def test_a_start_that_takes_too_long_or_that_ray_refuses_says_why_and_leaves_nothing(other_directory: Path) -> None:
    spec = new_spec(other_directory, worker_nodes=1)
    with pytest.raises(LocalClusterError, match="within 1 s"):
        local_nodes.start(replace(spec, start_seconds=1.0), say=silent)
    assert local_processes.marked(other_directory) == []
    assert not other_directory.exists()
    with pytest.raises(LocalClusterError, match=r"(?s)Ray did not start: ValueError: .*object store"):
        local_nodes.start(replace(spec, object_store_bytes=1024), say=silent)
    assert local_processes.marked(other_directory) == []
    assert not other_directory.exists()


def test_a_dead_raylet_is_named_and_the_next_start_repairs_the_cluster_with_its_token(directory: Path) -> None:
    before = loaded(directory)
    psutil.Process(before.nodes[2].pid).kill()
    assert within(60, lambda: local_nodes.inspect(directory).state == "degraded")
    reasons = local_nodes.inspect(directory).reasons
    assert any(reason.startswith("test-w2: its raylet") for reason in reasons), reasons
    said: list[str] = []
    after = local_nodes.start(new_spec(directory), say=said.append)
    assert "degraded" in said[0]
    assert "test-w2" in said[0]
    assert local_nodes.inspect(directory).state == "running"
    assert after.token == before.token
    assert after.cluster_id != before.cluster_id
    assert not any(psutil.pid_exists(node.pid) for node in before.nodes[:2]), "the rest of the old cluster still runs"


def test_a_dead_head_is_a_stopped_or_degraded_cluster_and_stop_clears_it_without_its_record(directory: Path) -> None:
    cluster = loaded(directory)
    for pid, _ in cluster.nodes[0].processes.values():
        with contextlib.suppress(psutil.NoSuchProcess):  # one of them may end for want of another
            psutil.Process(pid).kill()
    assert within(60, lambda: local_nodes.inspect(directory).state != "running")
    (directory / "cluster.json").unlink()
    assert local_nodes.inspect(directory).state == "stopped"
    local_nodes.stop(directory, say=silent)
    assert local_processes.marked(directory) == []
    assert not local_directory.token_path(directory).exists()
