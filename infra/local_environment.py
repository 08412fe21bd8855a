"""The environment of a local cluster's processes: a fixed choice, so that no credential of the shell goes along."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import psutil

from infra.local_directory import token_path
from infra.local_processes import CLUSTER_VARIABLE, DIRECTORY_VARIABLE

_KEPT = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONPYCACHEPREFIX",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "http_proxy",
        "https_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CUDA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
    }
)
_KEPT_PREFIXES = ("LC_", "XDG_", "PIP_", "HF_HUB_", "HF_HOME", "HF_ENDPOINT")


def node_environment(*, cluster_id: str, directory: Path) -> dict[str, str]:
    """What every process of the cluster starts with, job drivers and ranks included."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return {
        **kept,
        **_no_proxy(os.environ),
        CLUSTER_VARIABLE: cluster_id,
        DIRECTORY_VARIABLE: str(directory),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_path(directory)),
        # 0 makes Ray, also in every driver, keep 127.0.0.1 as it is; otherwise it puts the machine's address in its
        # place and its servers listen on all interfaces (ray._private.services.get_node_ip_address).
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        # A fixed port by default, which a second cluster on the machine could not have.
        "DASHBOARD_METRIC_PORT": "0",
        "GLOO_SOCKET_IFNAME": loopback_interface(),
        "NCCL_SOCKET_IFNAME": loopback_interface(),
        "RAY_USAGE_STATS_ENABLED": "0",
        # How long Ray's parts wait for each other before they give up: the start's own deadline comes first.
        "RAY_agent_register_timeout_ms": "180000",
        "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "180",
        "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "180",
        "RAY_DEDUP_LOGS": "0",
        "RAY_COLOR_PREFIX": "0",
        # Ray renames its processes with setproctitle, which would overwrite the mark in /proc/<pid>/environ.
        "SPT_NOENV": "1",
    }


def loopback_interface() -> str:
    """The name of the interface that has 127.0.0.1: lo on Linux, lo0 on macOS."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.family == socket.AF_INET and address.address == "127.0.0.1" for address in addresses):
            return name
    return "lo"


def _no_proxy(environment: Mapping[str, str]) -> dict[str, str]:
    given = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    value = ",".join([*filter(None, given.split(",")), "127.0.0.1", "localhost"])
    return {"NO_PROXY": value, "no_proxy": value}
