"""A Kubernetes cluster on this machine: a real control plane, nodes that are names, pods that are processes."""

import json
import shutil
import subprocess
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Literal, Self

from tools.bed import audit, kuberay, leftovers, links, programs
from tools.bed.api import Api
from tools.bed.control_plane import AGENT_PORT_FILE, HEART_BEAT_LABEL, ControlPlane
from tools.bed.errors import BedError
from tools.bed.images import Images, default_rules
from tools.bed.nodes import NodeSpec, manifest
from tools.bed.processes import Daemons
from tools.bed.volumes import volumes

Devices = Literal["published", "by plugin"]
# Seconds on a quiet machine; these limits are for one that is busy with everything else at the same time.
LIMIT_S = 120.0


class Bed:
    """A running bed; made by `start_bed`, ended by `stop` or by leaving its `with` block, or with its owner."""

    def __init__(self, directory: Path, control_plane: ControlPlane, lock: IO[str], devices: Devices) -> None:
        self.directory = directory
        self.id = control_plane.bed_id
        self._control_plane = control_plane
        self._lock = lock
        self._devices = devices
        self._daemons = Daemons(directory)
        self.api = Api(self.kubeconfig, directory / "tls.crt")
        self.images = Images(directory / "images.json", default_rules(control_plane.programs))

    @property
    def kubeconfig(self) -> Path:
        """An administrator's."""
        return self._control_plane.kubeconfig("admin")

    @property
    def server(self) -> str:
        return self._control_plane.server

    @property
    def pids(self) -> dict[str, int]:
        """The daemons that run now."""
        return self._daemons.pids()

    def kubectl(self, *arguments: str) -> str:
        """What `kubectl` prints. Raises BedError when it fails or is not installed."""
        binary = shutil.which("kubectl")
        if binary is None:
            raise BedError(f"no kubectl on PATH; use the kubeconfig {self.kubeconfig} with another client")
        command = [binary, f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise BedError(f"`kubectl {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def wait_until(self, what: str, seconds: float, holds: Callable[[], bool]) -> None:
        """Polls `holds` 20 times a second. Raises BedError after `seconds`, or at once when a daemon has ended."""
        deadline = time.monotonic() + seconds
        while not holds():
            self._daemons.check()
            if time.monotonic() > deadline:
                raise BedError(f"after {seconds:.0f} s still not: {what}; see the logs in {self.directory / 'logs'}")
            time.sleep(0.05)

    # The control plane

    def start_api_server(self) -> None:
        """Starts it and waits until it is ready."""
        self._daemons.start("kube-apiserver", self._control_plane.api_server())
        self.wait_until("the API server is ready", LIMIT_S, self.api.is_ready)

    def stop_api_server(self) -> None:
        """Kills it: open connections break, as when its machine is lost."""
        self._daemons.end("kube-apiserver", grace=0)

    def restart_api_server(self) -> None:
        self.stop_api_server()
        self.start_api_server()

    def api_requests(self, user_agent_prefix: str | None = None) -> Counter[str]:
        """How often what was asked of the API server, as "verb resource"; a watch counts once, health checks do not.

        `user_agent_prefix` counts the requests of one kind of client.
        """
        return audit.requests(self._control_plane.audit_log, user_agent_prefix or "")

    # Nodes

    def add_node(self, node: NodeSpec) -> None:
        """Registers the node and waits until pods can be scheduled on it."""
        self._create_node(node)
        self._wait_for_nodes([node.name])

    def _create_node(self, node: NodeSpec) -> None:
        self.api.create(
            manifest(
                node,
                agent_port=self.agent_port,
                devices_published=self._devices == "published",
                kubelet_version=programs.kubernetes_version(),
            )
        )

    def remove_node(self, name: str) -> None:
        """Deletes the Node. Its pods are removed by the pod garbage collector, about a minute later."""
        self.api.delete(f"/api/v1/nodes/{name}")

    def freeze_node(self, name: str) -> None:
        """The node's heart-beats end: NotReady after the grace period, its pods evicted after their tolerations."""
        self._label_node(name, {HEART_BEAT_LABEL: None})

    def thaw_node(self, name: str) -> None:
        self._label_node(name, {HEART_BEAT_LABEL: "on"})

    def _label_node(self, name: str, labels: dict[str, str | None]) -> None:
        self.api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def _wait_for_nodes(self, names: Sequence[str]) -> None:
        def ready() -> bool:
            nodes = {node["metadata"]["name"]: node for node in self.api.list("/api/v1/nodes")}
            return all(name in nodes and _is_schedulable(nodes[name]) for name in names)

        self.wait_until(f"nodes {', '.join(names)} are Ready", LIMIT_S, ready)

    @property
    def agent_port(self) -> int:
        """The agent's kubelet endpoint; 0 while it does not listen yet."""
        try:
            return int((self.directory / "agent" / AGENT_PORT_FILE).read_text() or "0")
        except FileNotFoundError:
            return 0

    # Pods

    def pod(self, namespace: str, name: str) -> dict[str, Any]:
        """What the agent knows of a running pod: uid, ip, netns, veth, bridge, pid, node, containers {name: pid}."""
        file = self.directory / "agent" / "pods" / f"{namespace}_{name}.json"
        try:
            content: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            raise BedError(f"no pod {name} of namespace {namespace} runs on this bed") from None
        return content

    def cut(self, namespace: str, pod: str) -> None:
        """Takes the pod's link down: it reaches nothing and is reached by nothing."""
        links.cut(leftovers.network(self.id), self.pod(namespace, pod))

    def heal(self, namespace: str, pod: str) -> None:
        links.heal(leftovers.network(self.id), self.pod(namespace, pod))

    def part(self, namespace: str, one: str, other: str) -> None:
        """No packet gets from one of the pods to the other; both reach all else."""
        links.part(self.pod(namespace, one), self.pod(namespace, other))

    def join(self, namespace: str, one: str, other: str) -> None:
        links.join(self.pod(namespace, one), self.pod(namespace, other))

    def moved(self, namespace: str, pod: str) -> tuple[int, int]:
        """Bytes that the pod has sent and received over its link."""
        return links.moved(leftovers.network(self.id), self.pod(namespace, pod))

    def shape(self, namespace: str, pod: str, mbit: float) -> None:
        """Limits the pod's link to `mbit` Mbit/s in both directions; 0 takes the limit away."""
        links.shape(leftovers.network(self.id), self.pod(namespace, pod), mbit)

    # The operator

    def install_crds(self) -> None:
        """KubeRay's custom resource definitions, established."""
        definitions = kuberay.custom_resource_definitions(self._control_plane.programs)
        # Each is a second's work for the API server.
        with ThreadPoolExecutor(len(definitions)) as pool:
            list(pool.map(self.api.create, definitions))
        names = [definition["metadata"]["name"] for definition in definitions]
        self.wait_until("KubeRay's CRDs are established", LIMIT_S, lambda: all(map(self.api.is_established, names)))

    def install_operator(self) -> None:
        """CRDs and the KubeRay operator's Deployment from KubeRay's own manifests; `set_operator_running` waits."""
        self.install_crds()
        for item in kuberay.objects(self._control_plane.programs):
            self.api.create(item)

    def set_operator_running(self, running: bool) -> None:
        """Scales the operator's Deployment, whoever installed it, to one or none and waits until it is so."""
        found = self.api.list(f"/apis/apps/v1/deployments?fieldSelector=metadata.name%3D{kuberay.NAME}")
        if not found:
            raise BedError(f"no Deployment {kuberay.NAME} in the bed: start it with operator=True or install the chart")
        namespace = found[0]["metadata"]["namespace"]
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{kuberay.NAME}"
        labels = found[0]["spec"]["selector"]["matchLabels"]
        selector = urllib.parse.quote(",".join(f"{key}={value}" for key, value in labels.items()))
        self.api.merge(f"{path}/scale", {"spec": {"replicas": int(running)}})

        def done() -> bool:
            if running:
                return bool(self.api.get(path)["status"].get("availableReplicas"))
            return not self.api.list(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")

        what = "the KubeRay operator runs" if running else "the KubeRay operator is gone"
        self.wait_until(what, LIMIT_S, done)

    # Namespaces and access for others

    def create_namespace(self, name: str) -> None:
        """Makes a namespace and waits until pods can be made in it."""
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._wait_for_default_account(name)

    def delete_namespace(self, name: str, *, seconds: float = LIMIT_S) -> None:
        """Deletes a namespace and waits until it is gone, its pods' processes with it."""
        self.api.delete(f"/api/v1/namespaces/{name}")

        def is_gone() -> bool:
            return all(item["metadata"]["name"] != name for item in self.api.list("/api/v1/namespaces"))

        self.wait_until(f"namespace {name} is gone", seconds, is_gone)

    def service_account_kubeconfig(self, namespace: str, name: str, *, seconds: int = 3600) -> Path:
        """A kubeconfig with a fresh token of an existing service account, valid for `seconds` (at least 600)."""
        request = {"spec": {"expirationSeconds": seconds}}
        answer = self.api.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request)
        path = self.directory / f"{namespace}.{name}.kubeconfig"
        self._control_plane.write_kubeconfig(path, name, answer["status"]["token"], namespace)
        return path

    # Start and end

    def start(self, nodes: Sequence[NodeSpec], with_operator: bool) -> None:
        """Called once, by `start_bed`."""
        plane = self._control_plane
        self._daemons.start("etcd", plane.etcd())
        self._daemons.start("kube-apiserver", plane.api_server())
        self.wait_until("the API server is ready", LIMIT_S, self.api.is_ready)
        self._daemons.start("podagent", plane.agent(self.images.path), on_owner_death="TERM")
        self._daemons.start("kube-controller-manager", plane.controller_manager())
        self._daemons.start("kube-scheduler", plane.scheduler())
        self.wait_until("the pod agent listens", LIMIT_S, lambda: self.agent_port > 0)
        self._daemons.start("kwok", plane.kwok())
        steps: list[Callable[[], None]] = [
            lambda: self._wait_for_nodes([self._register(node) for node in nodes]),
            self._create_volumes,
            self._wait_for_default_account,
        ]
        if with_operator:
            steps.append(self.install_operator)
        with ThreadPoolExecutor(len(steps)) as pool:
            for step in [pool.submit(step) for step in steps]:
                step.result()
        if with_operator:
            self.set_operator_running(True)

    def _register(self, node: NodeSpec) -> str:
        self._create_node(node)
        return node.name

    def _create_volumes(self) -> None:
        for item in volumes(self.directory / "volumes"):
            self.api.create(item)

    def _wait_for_default_account(self, namespace: str = "default") -> None:
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.wait_until(f"namespace {namespace} has its account", LIMIT_S, lambda: bool(self.api.list(accounts)))

    def stop(self) -> None:
        """Ends every pod and daemon and removes namespaces and data. Logs stay. May be called twice."""
        for name, grace in (
            ("kube-scheduler", 0.0),
            ("kube-controller-manager", 0.0),
            ("kwok", 0.0),
            ("podagent", 30.0),
            ("kube-apiserver", 0.0),
            ("etcd", 0.0),
        ):
            self._daemons.end(name, grace=grace)
        self._daemons.close()
        leftovers.clear(self.directory, self.id)
        for folder in ("etcd", "volumes"):
            shutil.rmtree(self.directory / folder, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()


def _is_schedulable(node: dict[str, Any]) -> bool:
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"].get("conditions", ()))
    return ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", ()))
