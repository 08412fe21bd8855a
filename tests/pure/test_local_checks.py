"""Reasons not to start a local cluster: each one sentence with the setting and its value, and nothing is started."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infra import local_checks, local_nodes, local_processes, versions
from infra.local_environment import loopback_interface, node_environment
from infra.local_nodes import LocalClusterError, LocalClusterSpec
from infra.local_ports import choose_block


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[LocalClusterSpec]:
    directory = local_nodes.cluster_directory(tmp_path, "checks")
    yield LocalClusterSpec(
        name="checks",
        directory=directory,
        worker_nodes=2,
        trainers_per_node=2,
        object_store_bytes=100 * 1024**2,
        dashboard_port=0,
        ray_version=versions.RAY,
    )
    local_nodes.stop(directory, say=lambda _line: None)


def refusal(spec: LocalClusterSpec) -> str:
    """The error of a start that must be refused before it starts anything."""
    said: list[str] = []
    with pytest.raises(LocalClusterError) as caught:
        local_nodes.start(spec, say=said.append)
    assert said == [], "a check came after the start"
    assert local_processes.marked(spec.directory) == []
    assert not spec.directory.exists()
    return str(caught.value)


def test_a_taken_dashboard_port_is_named_with_its_setting(spec: LocalClusterSpec) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refusal(replace(spec, dashboard_port=port))
    assert f"localDashboardPort {port}" in message
    assert "in use" in message
    assert "0 for any" in message


@pytest.mark.parametrize("path", ["/srv/my project/.venv/bin/python", "/x/it's/python", "/x/$y/python"])
def test_a_path_that_a_shell_would_take_apart_is_refused(path: str) -> None:
    assert f"'{path}'" in (local_checks.python_path_problem(path) or "")


@pytest.mark.parametrize("path", ["/srv/project/.venv/bin/python3.11", "/srv/zoë/pro-ject_1/python"])
def test_an_ordinary_path_is_not(path: str) -> None:
    assert local_checks.python_path_problem(path) is None


def test_another_installed_ray_is_named_with_both_versions(spec: LocalClusterSpec) -> None:
    message = refusal(replace(spec, ray_version="2.51.0"))
    assert "Ray 2.51.0 is needed" in message
    assert f"{versions.RAY} is installed" in message


def test_too_many_ranks_for_the_memory_name_both_settings_need_and_what_is_free(spec: LocalClusterSpec) -> None:
    message = refusal(replace(spec, worker_nodes=16, trainers_per_node=10_000))
    assert "localWorkerNodes 16 x localTrainersPerNode 10000" in message
    assert "GiB are free" in message


def test_object_stores_larger_than_shared_memory_name_their_setting(
    spec: LocalClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_checks, "memory_available", lambda: 10**18)
    message = refusal(replace(spec, object_store_bytes=2**50))
    assert "localObjectStoreMiB 1073741824" in message
    assert "--shm-size" in message


def test_a_temporary_directory_that_takes_no_files_is_named(spec: LocalClusterSpec) -> None:
    with pytest.raises(LocalClusterError, match="TMPDIR"):
        local_nodes.start(replace(spec, directory=Path("/proc/rtefa-0")), say=print)


def test_memory_grows_with_nodes_and_ranks(spec: LocalClusterSpec) -> None:
    base = local_checks.memory_needed(spec)
    assert local_checks.memory_needed(replace(spec, trainers_per_node=3)) - base == 2 * 600 * 1024**2
    assert local_checks.memory_needed(replace(spec, worker_nodes=3)) > base + 2 * 600 * 1024**2
    assert local_checks.memory_available() > 0


def test_the_nodes_environment_has_the_mark_and_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "PULUMI_CONFIG_PASSPHRASE", "RAY_ADDRESS", "RAY_AUTH_TOKEN", "HF_TOKEN"):
        monkeypatch.setenv(name, "from-the-shell")
    monkeypatch.setenv("NO_PROXY", "example.org")
    environment = node_environment(cluster_id="c", directory=tmp_path)
    assert "from-the-shell" not in environment.values()
    assert environment["RAY_TRAIN_EFA_CLUSTER"] == "c"
    assert environment["RAY_AUTH_TOKEN_PATH"] == str(tmp_path / "token")
    assert environment["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert environment["GLOO_SOCKET_IFNAME"] == loopback_interface()
    assert environment["PATH"]


def test_two_clusters_never_get_the_same_ports_while_the_first_lives() -> None:
    one = choose_block()
    with socket.socket() as gcs:
        # As servers do, or a connection of an earlier one that has just ended would be in the way.
        gcs.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        gcs.bind(("127.0.0.1", one.gcs))
        gcs.listen()
        for _ in range(200):
            assert choose_block().gcs != one.gcs
    ports = [one.gcs, *(port for _ in range(17) for port in one.node().values())]
    assert len(set(ports)) == len(ports), "17 nodes of one cluster share a port"
    assert max(ports) < 32_768, "within Linux' range for outgoing connections"


def test_the_api_module_loads_without_ray_or_pulumi() -> None:
    """It is imported by every preview and every efactl command."""
    program = "import sys, infra.local_nodes; print(sorted({'ray', 'pulumi', 'torch'} & sys.modules.keys()))"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed == "[]\n"
