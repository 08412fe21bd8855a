"""Nothing exposed: who has no token gets nowhere, nothing listens outside, and secrets lie where secrets belong."""

import base64
import contextlib
import gzip
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.bed_project import SETTINGS, BedProject
from tests.support.project import end_group, wait_for
from tools.bed import Bed
from workload.kubernetes_access import KubernetesAccess
from workload.port_forward import PortForward

HF_TOKEN, JOB_SECRET = f"hf_{secrets.token_hex(16)}", f"job-{secrets.token_hex(16)}"
RELEASED = "released"
# What a stranger tries, in a pod of another namespace; prints {what: answer} and ends.
STRANGER = """
import json, os, subprocess, sys, urllib.error, urllib.request

import grpc

head, worker, submission = sys.argv[1:]
answers = {}
job = json.dumps({"entrypoint": "true", "submission_id": "strangers"}).encode()
wrong = {"Authorization": "Bearer " + "0" * 64}
cookie = {"Cookie": "ray-authentication-token=" + "0" * 64}

def ask(what, url, data=None, headers={}):
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json", **headers})
    try:
        answers[what] = urllib.request.urlopen(request, timeout=20).status
    except urllib.error.HTTPError as error:
        answers[what] = error.code
    except OSError as error:
        answers[what] = str(error)

dashboard = f"http://{head}:8265"
for path in ("/api/version", "/api/jobs/", f"/api/jobs/{submission}", f"/api/jobs/{submission}/logs", "/api/v0/nodes",
             "/api/v0/tasks", "/api/v0/logs?node_ip=" + head, "/nodes?view=summary", "/api/cluster_status", "/events"):
    ask("GET " + path, dashboard + path)
ask("submit", dashboard + "/api/jobs/", job)
ask("submit with a wrong token", dashboard + "/api/jobs/", job, wrong)
ask("submit with a wrong cookie", dashboard + "/api/jobs/", job, cookie)
ask("stop", dashboard + f"/api/jobs/{submission}/stop", b"")
for role, address in (("head", head), ("worker", worker)):
    agent = f"http://{address}:52365"
    ask(f"submit to the agent of the {role}", agent + "/api/job_agent/jobs/", job)
    ask(f"logs of the agent of the {role}", agent + f"/api/job_agent/jobs/{submission}/logs")
    ask(f"log of the {role}", agent + "/api/v0/logs/file?filename=raylet.out")
# It is there: what needs no token answers.
ask("health", dashboard + "/api/gcs_healthz")

for what, environment in (("no", {}), ("a wrong", {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64})):
    code = '''
import sys
from ray._raylet import GcsClient
try:
    print("read", GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, timeout=10))
except Exception as error:
    print("refused", type(error).__name__, str(error)[:300])
'''
    done = subprocess.run([sys.executable, "-c", code, f"{head}:6379"], env={**os.environ, **environment},
                          capture_output=True, text=True)
    answers[f"GCS with {what} token"] = (done.stdout or done.stderr).strip()[-400:]
try:
    grpc.insecure_channel(f"{head}:10001").unary_unary("/ray.rpc.RayletDriver/ClusterInfo")(b"", timeout=20)
    answers["Ray client"] = "answered"
except grpc.RpcError as error:
    answers["Ray client"] = error.code().name
print("ANSWERS " + json.dumps(answers), flush=True)
"""


class Stack:
    """A stack whose job holds after its second step, and the token its pods share."""

    def __init__(self, project: BedProject) -> None:
        self.project = project
        self.bed, self.namespace = project.bed, project.namespace
        self.process = project.start_up()

    @property
    def token(self) -> str:
        found = self.bed.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/ray-auth-token")
        return base64.b64decode(found["data"]["token"]).decode()

    @property
    def secrets(self) -> dict[str, str]:
        return {"the Ray token": self.token, "hfToken": HF_TOKEN, "jobSecretEnv": JOB_SECRET}

    def list(self, path: str) -> list[dict[str, Any]]:
        return self.bed.api.list(path.format(self.namespace))


@pytest.fixture(scope="module")
def stack(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    env = {"QUICK_HOLD": f"/mnt/ray-train/{RELEASED}", "QUICK_SHOW": "SECRET_OF_JOB,HF_TOKEN"}
    project = BedProject(
        tmp_path_factory.mktemp("security") / "project",
        bed,
        f"secure-{secrets.token_hex(3)}",
        jobEnv={**SETTINGS["jobEnv"], **env},
    )
    project.set_secret("hfToken", HF_TOKEN)
    project.set_secret("jobSecretEnv.SECRET_OF_JOB", JOB_SECRET)
    started = Stack(project)
    try:
        wait_for(
            lambda: "step 1/4" in project.said() or started.process.poll() is not None,
            seconds=300,
            what="the job's first step",
        )
        assert started.process.poll() is None, project.said()
        yield started
    finally:
        end_group(started.process)
        project.clean()


def run_of(stack: Stack) -> str:
    (submission,) = stack.project.runs()
    return submission


def test_a_pod_of_another_namespace_without_the_token_gets_nowhere(bed: Bed, stack: Stack, namespace: str) -> None:
    (head,) = stack.project.pods("head").values()
    worker = next(iter(stack.project.pods("worker").values()))
    bed.api.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "stranger", "namespace": namespace},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": "docker.io/library/python:3.11",
                        "command": [
                            *("python", "-c", STRANGER),
                            *(head.status.pod_ip, worker.status.pod_ip, run_of(stack)),
                        ],
                    }
                ],
            },
        }
    )
    path = f"/api/v1/namespaces/{namespace}/pods/stranger"
    bed.wait_until(
        "the stranger has tried everything",
        120,
        lambda: bed.api.get(path)["status"].get("phase") in ("Succeeded", "Failed"),
    )
    # What it says on standard error may stand behind what it said later on the other.
    lines = bed.kubectl("logs", "-n", namespace, "stranger").splitlines()
    answers = json.loads(next(line for line in lines if line.startswith("ANSWERS ")).removeprefix("ANSWERS "))
    assert answers.pop("health") == 200, "the ports were reached"
    gcs = [answers.pop(what) for what in ("GCS with no token", "GCS with a wrong token")]
    assert [said for said in gcs if not said.startswith("refused AuthenticationError")] == []
    assert answers.pop("Ray client") == "UNAUTHENTICATED"
    assert {what: said for what, said in answers.items() if said not in (401, 403)} == {}
    assert len(answers) > 15
    access = KubernetesAccess(kubeconfig=str(bed.kubeconfig))
    with PortForward(access, namespace=stack.namespace, cluster="ray") as forward:
        import urllib3

        # Who may port-forward is still asked for the token.
        assert urllib3.request("GET", f"{forward.url}/api/jobs/", timeout=20).status == 401
        mine = {"Authorization": f"Bearer {stack.token}"}
        jobs = urllib3.request("GET", f"{forward.url}/api/jobs/", headers=mine, timeout=20).json()
        assert [job["submission_id"] for job in jobs] == [run_of(stack)], "no job of a stranger's"
        assert jobs[0]["status"] == "RUNNING", "nor could it stop ours"
        shown = json.dumps(jobs)
    assert [what for what, value in stack.secrets.items() if value in shown] == []


def test_nothing_listens_outside_the_cluster(stack: Stack) -> None:
    services = stack.list("/api/v1/namespaces/{}/services")
    assert services
    for service in services:
        assert service["spec"]["type"] == "ClusterIP", service["metadata"]["name"]
        assert not service["spec"].get("externalIPs")
        assert not any(port.get("nodePort") for port in service["spec"]["ports"])
    assert stack.list("/apis/networking.k8s.io/v1/namespaces/{}/ingresses") == []
    for pod in stack.list("/api/v1/namespaces/{}/pods"):
        spec = pod["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & {key for key, value in spec.items() if value}
        assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume]
        assert spec["automountServiceAccountToken"] is False, "a job needs nothing of the Kubernetes API"
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            assert not [port for port in container.get("ports", []) if port.get("hostPort")]
            assert not container.get("securityContext", {}).get("privileged")


def admits(policies: list[dict[str, Any]], pod: Mapping[str, str], source: Mapping[str, str], *, same: bool) -> bool:
    """Whether NetworkPolicies of label selectors let `source` reach `pod`; `same`: of one namespace."""

    def selected(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
        assert set(selector) <= {"matchLabels"}
        return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())

    binding = [
        policy["spec"]
        for policy in policies
        if selected(policy["spec"]["podSelector"], pod) and "Ingress" in policy["spec"]["policyTypes"]
    ]
    if not binding:
        return True
    for rule in (rule for policy in binding for rule in policy.get("ingress", [])):
        if not rule.get("from"):
            return True
        for peer in rule["from"]:
            assert set(peer) <= {"podSelector"}, "other peers are not reckoned with here"
            if same and selected(peer["podSelector"], source):
                return True
    return False


def test_the_network_policy_lets_the_clusters_own_pods_in_and_nobody_else(stack: Stack) -> None:
    policies = stack.list("/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies")
    ours = [pod.metadata.labels for pod in stack.project.pods().values()]
    assert len(ours) == 3
    for pod in ours:
        assert all(admits(policies, pod, other, same=True) for other in ours)
        assert not admits(policies, pod, {"app": "stranger"}, same=True)
        assert not any(admits(policies, pod, other, same=False) for other in ours), "labels alone open no door"


def forms(value: str) -> tuple[bytes, ...]:
    """As text, and as a Secret's data."""
    return value.encode(), base64.b64encode(value.encode())


def found_in(content: bytes, known: Mapping[str, str]) -> list[str]:
    return [what for what, value in known.items() if any(form in content for form in forms(value))]


def test_while_a_job_runs_its_secrets_are_in_secrets_and_process_environments_alone(stack: Stack) -> None:
    known = stack.secrets
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append("\0".join(process.cmdline()).encode())
    assert any(b"training.train" in line for line in lines), "the job's driver is among them"
    assert any(b"raylet" in line for line in lines)
    assert [what for line in lines for what in found_in(line, known)] == []
    api, holders = stack.bed.api, []
    for collection in (
        "/api/v1/pods",
        "/api/v1/events",
        "/api/v1/configmaps",
        "/api/v1/services",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/secrets",
        "/apis/apps/v1/daemonsets",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/controllerrevisions",
        "/apis/ray.io/v1/rayclusters",
        "/apis/networking.k8s.io/v1/networkpolicies",
    ):
        items = api.list(collection)
        for item in items:
            content = json.dumps(item).encode() + helm_release(item)
            name = f"{collection.rpartition('/')[2]} {item['metadata'].get('namespace')}/{item['metadata']['name']}"
            holders += [(name, what) for what in found_in(content, known)]
    assert sorted(holders) == [
        (f"secrets {stack.namespace}/ray-auth-token", "the Ray token"),
        (f"secrets {stack.namespace}/ray-hf-token", "hfToken"),
    ]


def helm_release(item: Mapping[str, Any]) -> bytes:
    """What Helm keeps of a release, values included, in the Secret that is its record; empty for other objects."""
    if item.get("type") != "helm.sh/release.v1":
        return b""
    return gzip.decompress(base64.b64decode(base64.b64decode(item["data"]["release"])))


def test_after_the_run_no_secret_is_left_in_a_log_the_state_a_record_or_the_output(stack: Stack) -> None:
    project, known = stack.project, stack.secrets
    (project.claim_folder() / RELEASED).touch()
    assert stack.process.wait(timeout=120) == 0, project.said()
    log = (project.folder / "runs" / run_of(stack) / "job.log").read_text()
    for value in (JOB_SECRET, HF_TOKEN):
        assert hashlib.sha256(value.encode()).hexdigest() in log, "the job had it"
    shown = [project.said(), project.must("stack", "output", "--json"), project.must("preview", "--diff")]
    shown += [project.must("stack", "export"), project.efactl("outputs").stdout]
    assert [what for text in shown for what in found_in(text.encode(), known)] == []
    folders = [project.folder, Path(project.environment["PULUMI_HOME"]), project.claim_folder()]
    folders += [stack.bed.directory / "logs", stack.bed.directory / "agent"]
    # A volume of limited size is mounted in its pod alone.
    running = [stack.bed.pod(stack.namespace, pod)["containers"] for pod in project.pods()]
    pids = [pid for containers in running for pid in containers.values()]
    folders += [Path("/proc", str(pid), "root", "tmp", "ray") for pid in pids]
    searched = {path: found_in(content, known) for folder in folders for path, content in contents(folder)}
    assert {path: found for path, found in searched.items() if found} == {}
    names = {path.name for path in searched}
    assert {"job.log", "record.json", "bed.json", "audit.log", "raylet.out", f"job-driver-{run_of(stack)}.log"} <= names


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Regular files, links not followed, without the place where a job's secrets travel."""
    # Ray goes on writing and replaces files of its own, pods that ended take their folders along: walk goes on without
    # a folder that has gone.
    for path in (Path(where, name) for where, _, names in os.walk(folder) for name in names):
        if ".venv" in path.parts or path.name == ".job-secrets.json" or path.is_symlink() or not path.is_file():
            continue
        with contextlib.suppress(FileNotFoundError):
            yield path, path.read_bytes()
