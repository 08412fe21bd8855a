"""Whether a local cluster is all there: milliseconds, without importing Ray."""

import http.client
import json
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Literal

from infra import local_cluster, local_directory, local_processes
from infra.local_cluster import LocalCluster

# On a machine that trains, the dashboard answers late: only silence through all of these is a fault.
_TIMEOUTS_SECONDS = (1.0, 4.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class Health:
    """`degraded`: a part of the cluster lives; `stopped`: nothing does. The reasons name node and part."""

    state: Literal["running", "degraded", "stopped"]
    reasons: tuple[str, ...] = ()


def inspect(directory: Path) -> Health:
    """Looks at every process of every node and asks the Jobs API for its session."""
    cluster = local_cluster.load(directory)
    if cluster is None:
        return Health(state="stopped", reasons=(f"no cluster was started in {directory}",))
    gone = [
        f"{node.name}: its {part} (pid {pid}) is gone"
        for node in cluster.nodes
        for part, (pid, created) in node.processes.items()
        if not local_processes.is_alive(pid, created)
    ]
    if len(gone) == sum(len(node.processes) for node in cluster.nodes):
        return Health(state="stopped", reasons=("none of its processes runs",))
    if gone:
        return Health(state="degraded", reasons=tuple(gone))
    problem = _python_problem(directory) or _jobs_api_problem(cluster)
    return Health(state="degraded", reasons=(problem,)) if problem else Health(state="running")


def _python_problem(directory: Path) -> str | None:
    """New workers are started by path: nodes that run from a project that was moved can start none."""
    python = (local_directory.read_state(directory) or {}).get("python")
    return f"its Python {python} is gone" if python and not Path(python).exists() else None


def _jobs_api_problem(cluster: LocalCluster) -> str | None:
    for timeout in _TIMEOUTS_SECONDS:
        try:
            return _answer_problem(cluster, timeout)
        except TimeoutError:
            continue
        except (OSError, http.client.HTTPException) as error:
            return f"the Jobs API at {cluster.address} does not answer ({error})"
    return f"the Jobs API at {cluster.address} does not answer within {sum(_TIMEOUTS_SECONDS):g} s"


def _answer_problem(cluster: LocalCluster, timeout: float) -> str | None:
    host, _, port = cluster.address.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
    try:
        connection.request("GET", "/api/version", headers={"Authorization": f"Bearer {cluster.token}"})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != HTTPStatus.OK:
        return f"the Jobs API at {cluster.address} answers {answer.status}"
    try:
        session = json.loads(body)["session_name"]
    except (ValueError, KeyError, TypeError):
        return f"what answers at {cluster.address} is not the Jobs API"
    return None if session == cluster.session_name else f"another Ray session answers at {cluster.address}: {session}"
