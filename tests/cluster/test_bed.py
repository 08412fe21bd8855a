"""The test bed itself: it starts quickly, its pods are real as far as tests look, and it leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tools.bed import Bed, BedError, leftovers, start_bed, why_not
from tools.bed.bed import LIMIT_S
from tools.bed.nodes import EFA, GPU
from workload.kubernetes_access import KubernetesAccess, KubernetesError, explained

HOST_IMAGE = "docker.io/library/busybox:1.37"
WAITS = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
OWNER = """
import sys, time
from tools.bed import start_bed
bed = start_bed(sys.argv[1], operator=False)
bed.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "namespace": "default"}, "spec":
    {"containers": [{"name": "main", "image": sys.argv[2], "command": ["sleep", "3600"]}]}})
running = lambda: bed.api.get("/api/v1/namespaces/default/pods/orphan")["status"].get("phase") == "Running"
bed.wait_until("the pod runs", 60, running)
print(bed.id, flush=True)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def namespace(bed: Bed) -> Iterator[str]:
    """One for all tests of this file: Kubernetes takes five seconds to begin with the deletion of one."""
    bed.create_namespace("test-bed")
    yield "test-bed"
    bed.delete_namespace("test-bed")


def pod(name: str, namespace: str, script: str, *, image: str = HOST_IMAGE, **changes: Any) -> dict[str, Any]:
    """A pod of one container that runs a shell script; `changes` go into the container, `spec` into the pod's spec."""
    spec = changes.pop("spec", {})
    container = {"name": "main", "image": image, "command": ["sh", "-c", script], **changes}
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [container], **spec},
    }


def read(bed: Bed, namespace: str, name: str) -> dict[str, Any]:
    return bed.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")


def is_ready(item: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in item["status"].get("conditions", ()))


def started(bed: Bed, item: dict[str, Any], holds: Callable[[dict[str, Any]], bool] = is_ready) -> dict[str, Any]:
    """Creates a pod and waits until `holds` (default: it is Ready); returns it."""
    bed.api.create(item)
    return awaited(bed, item["metadata"]["namespace"], item["metadata"]["name"], holds)


def awaited(bed: Bed, namespace: str, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    bed.wait_until(f"pod {name} is as awaited", LIMIT_S, lambda: holds(read(bed, namespace, name)))
    return read(bed, namespace, name)


def state(item: dict[str, Any]) -> dict[str, Any]:
    """The first container's status."""
    statuses = item["status"].get("containerStatuses") or [{"state": {}, "restartCount": 0}]
    found: dict[str, Any] = statuses[0]
    return found


def logs(bed: Bed, namespace: str, name: str, **options: Any) -> str:
    from kubernetes import client

    text: str = client.CoreV1Api(access(bed)).read_namespaced_pod_log(name, namespace, **options)
    return text


def names(items: list[dict[str, Any]]) -> set[str]:
    return {item["metadata"]["name"] for item in items}


def execute(bed: Bed, namespace: str, name: str, *command: str) -> tuple[int, str]:
    """Exit code and output of a command run in a pod through the API server."""
    from kubernetes import client
    from kubernetes.stream import stream

    call = client.CoreV1Api(access(bed)).connect_get_namespaced_pod_exec
    session = stream(
        call, name, namespace, command=list(command), stdout=True, stderr=True, stdin=False, _preload_content=False
    )
    session.run_forever(timeout=LIMIT_S)
    return session.returncode, session.read_all()


def access(bed: Bed, kubeconfig: Path | None = None) -> Any:
    return KubernetesAccess(kubeconfig=str(kubeconfig or bed.kubeconfig)).client()


def remains(directory: Path, bed_id: str) -> list[str]:
    """What of a bed is still on the machine: processes that name its directory, network namespaces, mounts."""
    found = [f"namespace {name}" for name in leftovers.namespaces(bed_id)]
    for process in psutil.process_iter(["cmdline"]):
        if any(str(directory) in word for word in process.info["cmdline"] or ()):
            found.append(f"process {process.pid}: {process.info['cmdline'][:3]}")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return found + [line for line in mounts if f"{directory}/" in line]


def test_a_pod_runs_its_command_as_a_host_of_its_own(bed: Bed, namespace: str) -> None:
    script = f"hostname; echo $GREETING; cat /proc/1/comm >/dev/null; ip -o -4 addr show dev eth0; {WAITS}"
    item = started(bed, pod("alone", namespace, script, env=[{"name": "GREETING", "value": "good day"}]))
    assert item["status"]["phase"] == "Running"
    # Without a probe a container is Ready as soon as it runs, whatever it has said by then.
    bed.wait_until("the pod has said all", LIMIT_S, lambda: "inet" in logs(bed, namespace, "alone"))
    text = logs(bed, namespace, "alone")
    assert text.splitlines()[:2] == ["alone", "good day"]
    assert item["status"]["podIP"] in text, "the address that Kubernetes shows is the one on the pod's own interface"
    assert str(bed.pod(namespace, "alone")["ip"]) == item["status"]["podIP"]


def test_exec_returns_output_and_exit_code_of_what_ran_inside(bed: Bed, namespace: str) -> None:
    started(bed, pod("target", namespace, WAITS))
    code, output = execute(bed, namespace, "target", "sh", "-c", "hostname; exit 7")
    assert (code, output.strip()) == (7, "target")


def test_a_port_forward_reaches_a_server_inside_the_pod(bed: Bed, namespace: str) -> None:
    from kubernetes import client
    from kubernetes.stream import portforward

    serve = (
        "mkdir -p /tmp/www && echo from the pod > /tmp/www/index.html && exec python -m http.server -d /tmp/www 8000"
    )
    probe = {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 1}
    started(bed, pod("server", namespace, serve, readinessProbe=probe))
    call = client.CoreV1Api(access(bed)).connect_get_namespaced_pod_portforward
    forward = portforward(call, "server", namespace, ports="8000")
    connection: socket.socket = forward.socket(8000)
    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
    connection.settimeout(LIMIT_S)
    answer = b""
    while chunk := connection.recv(4096):
        answer += chunk
    assert b"from the pod" in answer


@pytest.mark.full
def test_services_are_known_by_name_in_other_pods(bed: Bed, namespace: str) -> None:
    spec = {"selector": {"app": "backend"}, "clusterIP": "None", "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "named"}, "spec": spec}
    bed.api.call("POST", f"/api/v1/namespaces/{namespace}/services", service)
    backend = started(bed, pod("backend", namespace, WAITS))
    started(bed, pod("asking", namespace, WAITS))
    name = f"named.{namespace}.svc.cluster.local"

    def resolved() -> bool:
        return str(backend["status"]["podIP"]) in execute(bed, namespace, "asking", "getent", "hosts", name)[1]

    bed.wait_until(f"{name} resolves to its pod", 10, resolved)


def test_a_readiness_probe_decides_when_a_pod_is_ready(bed: Bed, namespace: str) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/open"]}, "periodSeconds": 1}
    closed = started(
        bed, pod("door", namespace, WAITS, readinessProbe=probe), lambda item: "running" in state(item)["state"]
    )
    assert not is_ready(closed)
    execute(bed, namespace, "door", "touch", "/tmp/open")
    awaited(bed, namespace, "door", is_ready)


@pytest.mark.full
def test_an_exit_code_and_restarts_show_in_the_status(bed: Bed, namespace: str) -> None:
    once = started(
        bed,
        pod("once", namespace, "echo last words; exit 3", spec={"restartPolicy": "Never"}),
        lambda item: item["status"].get("phase") == "Failed",
    )
    assert state(once)["state"]["terminated"]["exitCode"] == 3
    assert logs(bed, namespace, "once").strip() == "last words"
    script = 'test -e /keep/seen && exec sh -c "$0"; touch /keep/seen; exit 4'
    volume = {"volumes": [{"name": "keep", "emptyDir": {}}]}
    again = pod("again", namespace, script, volumeMounts=[{"name": "keep", "mountPath": "/keep"}], spec=volume)
    again["spec"]["containers"][0]["command"].append(WAITS)
    item = started(bed, again, lambda item: state(item)["restartCount"] == 1 and "running" in state(item)["state"])
    assert state(item)["lastState"]["terminated"]["exitCode"] == 4


@pytest.mark.full
def test_a_deleted_pod_ends_with_its_processes(bed: Bed, namespace: str) -> None:
    started(bed, pod("short", namespace, f"sleep 3456 & {WAITS}"))
    inside = psutil.Process(bed.pod(namespace, "short")["pid"])
    family = [inside, *inside.children(recursive=True)]
    path = f"/api/v1/namespaces/{namespace}/pods"
    bed.api.delete(f"{path}/short")
    bed.wait_until("the pod object is gone", 20, lambda: "short" not in names(bed.api.list(path)))
    assert not [process for process in family if process.is_running()]
    with pytest.raises(BedError, match="no pod short"):
        bed.pod(namespace, "short")


@pytest.mark.full
def test_an_image_that_cannot_be_pulled_says_so(bed: Bed, namespace: str) -> None:
    item = started(
        bed,
        pod("nowhere", namespace, WAITS, image="registry.example/none:1"),
        lambda item: "waiting" in state(item)["state"] and "Pull" in state(item)["state"]["waiting"].get("reason", ""),
    )
    assert state(item)["state"]["waiting"]["reason"] in ("ErrImagePull", "ImagePullBackOff")


@pytest.mark.full
def test_gpus_are_counted_by_the_scheduler(bed: Bed, namespace: str) -> None:
    tolerates = {"tolerations": [{"key": GPU, "operator": "Exists"}]}
    asks: dict[str, Any] = {"resources": {"limits": {GPU: "1", EFA: "1"}}}
    gpu_nodes = {node for node in names(bed.api.list("/api/v1/nodes")) if node.startswith("gpu-")}
    placed = [started(bed, pod(f"for-{node}", namespace, WAITS, spec=tolerates, **asks)) for node in gpu_nodes]
    assert {item["spec"]["nodeName"] for item in placed} == gpu_nodes
    extra = started(
        bed, pod("extra", namespace, WAITS, spec=tolerates, **asks), lambda item: bool(item["status"].get("conditions"))
    )
    (scheduled,) = (c for c in extra["status"]["conditions"] if c["type"] == "PodScheduled")
    assert "Insufficient nvidia.com/gpu" in scheduled["message"]


@pytest.mark.full
def test_a_cut_link_keeps_pods_apart_until_it_is_healed(bed: Bed, namespace: str) -> None:
    _, other = (started(bed, pod(name, namespace, WAITS)) for name in ("one", "other"))
    # Nothing listens there: a refusal shows that the packet arrived, silence that it did not.
    knock = f"timeout 1 bash -c '</dev/tcp/{other['status']['podIP']}/9' 2>&1 | grep -q refused"
    reach = ("bash", "-c", knock)
    assert execute(bed, namespace, "one", *reach)[0] == 0
    bed.cut(namespace, "other")
    assert execute(bed, namespace, "one", *reach)[0] != 0
    bed.heal(namespace, "other")
    bed.wait_until("the pods reach each other again", 10, lambda: execute(bed, namespace, "one", *reach)[0] == 0)
    bed.shape(namespace, "other", 20)
    bed.shape(namespace, "other", 0)


@pytest.mark.full
def test_pods_outlive_a_restart_of_the_api_server(bed: Bed, namespace: str) -> None:
    before = started(bed, pod("steady", namespace, WAITS))
    bed.restart_api_server()
    assert execute(bed, namespace, "steady", "true")[0] == 0
    after = read(bed, namespace, "steady")
    assert (after["metadata"]["uid"], state(after)["restartCount"]) == (before["metadata"]["uid"], 0)
    started(bed, pod("later", namespace, WAITS))


@pytest.mark.full
def test_a_service_account_may_only_what_its_role_says(bed: Bed, namespace: str) -> None:
    from kubernetes import client

    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "guest", "namespace": namespace}}
    bed.api.create(account)
    calls = client.CoreV1Api(access(bed, bed.service_account_kubeconfig(namespace, "guest")))
    with pytest.raises(KubernetesError, match=f"system:serviceaccount:{namespace}:guest"), explained("listing secrets"):
        calls.list_namespaced_secret(namespace)


@pytest.mark.full
def test_requests_are_counted_by_who_asks(bed: Bed, namespace: str) -> None:
    from kubernetes import client

    client_of_its_own = access(bed)
    client_of_its_own.user_agent = f"counted-{namespace}"
    client.CoreV1Api(client_of_its_own).list_namespaced_pod(namespace)
    client.CoreV1Api(client_of_its_own).list_namespaced_pod(namespace)
    assert bed.api_requests(f"counted-{namespace}") == {"list pods": 2}


@pytest.mark.full
def test_the_operator_can_be_stopped_and_started(bed: Bed) -> None:
    bed.set_operator_running(False)
    assert not bed.api.list("/api/v1/namespaces/kuberay-operator/pods")
    bed.set_operator_running(True)


@pytest.mark.full
def test_a_second_bed_starts_in_time_beside_the_first_and_leaves_nothing(bed: Bed, tmp_path: Path) -> None:
    # Half a minute of a machine that does nothing else; longer where others have most of it.
    allowed = 30 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    began = time.monotonic()
    with start_bed(tmp_path, devices="by plugin") as second:
        assert time.monotonic() - began < allowed
        allocatable = second.api.get("/api/v1/nodes/gpu-1")["status"]["allocatable"]
        assert GPU not in allocatable, "no device plugin has run yet"
        labels = {"app": "plugin"}
        container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
        }
        second.api.create(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": "plugin", "namespace": "kube-system"},
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            }
        )
        second.wait_until(
            "the plugin's pod publishes the GPU",
            20,
            lambda: second.api.get("/api/v1/nodes/gpu-1")["status"]["allocatable"].get(GPU) == "1",
        )
        for each in (bed, second):
            started(each, pod("twin", "default", WAITS))
        assert bed.pod("default", "twin")["netns"] != second.pod("default", "twin")["netns"]
        with pytest.raises(BedError, match="another bed runs in"):
            start_bed(tmp_path)
    assert remains(tmp_path, second.id) == []
    assert execute(bed, "default", "twin", "true")[0] == 0, "the first bed goes on"
    bed.api.delete("/api/v1/namespaces/default/pods/twin")


@pytest.mark.full
def test_a_killed_owner_leaves_nothing(bed: Bed, tmp_path: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(tmp_path / "bed"), HOST_IMAGE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        bed_id = owner.stdout.readline().strip()
        try:
            assert leftovers.namespaces(bed_id), "its pod had a network namespace"
        finally:
            os.kill(owner.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while (left := remains(tmp_path / "bed", bed_id)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == [], "all of it ends with its owner"


def test_a_machine_that_cannot_run_a_bed_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "not on PATH: ip, tc, unshare, setpriv, wget" in (why_not.__wrapped__() or "")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in (why_not.__wrapped__() or "")


def test_a_directory_that_holds_other_things_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BedError, match=r"thesis\.txt and is no bed's directory"):
        start_bed(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]
