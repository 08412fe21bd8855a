"""What goes wrong on a cluster, each once: the reason reaches the user in time, nothing hangs, nothing is left."""

import contextlib
import datetime
import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bed_project import SETTINGS, BedProject
from tests.support.project import end_group, wait_for
from tools.bed import Bed
from tools.bed.api import ApiError

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

# What issue and users ask: a reason within a minute of what cannot work having been declared.
REASON_S = 60.0
RELEASED = "released"
Stacks = Callable[..., BedProject]


@pytest.fixture
def stacks(bed: Bed, tmp_path: Path) -> Iterator[Stacks]:
    """Makes a project with a stack of its own; afterwards each is destroyed, and nothing of it is left."""
    made: list[BedProject] = []

    def make(namespace: str = "", **settings: Any) -> BedProject:
        name = namespace or f"faults-{secrets.token_hex(3)}"
        project = BedProject(tmp_path / f"project-{len(made)}", bed, name, **settings)
        made.append(project)
        return project

    yield make
    for project in made:
        project.clean()
        assert left(project) == []


@pytest.fixture(scope="module")
def standing(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    """A stack that is up, with a job that has ended."""
    project = BedProject(tmp_path_factory.mktemp("standing") / "project", bed, f"standing-{secrets.token_hex(3)}")
    try:
        project.must("up", "--yes", "--skip-preview")
        yield project
    finally:
        project.clean()
        assert left(project) == []


def left(project: BedProject) -> list[str]:
    """What the stack made and the cluster still has, and what the state still lists."""
    api = project.bed.api
    try:
        found = api.list(f"/apis/ray.io/v1/namespaces/{project.namespace}/rayclusters")
    except ApiError:
        found = []
    namespaces = [item["metadata"]["name"] for item in api.list("/api/v1/namespaces")]
    made = project.namespace in namespaces and not project.namespace.startswith("test-")
    names = [f"RayCluster {item['metadata']['name']}" for item in found]
    return [*names, *([f"namespace {project.namespace}"] if made else []), *(one["urn"] for one in project.state())]


def refused(project: BedProject) -> str:
    """What an `up` that cannot work says; it ends within REASON_S of the RayCluster's being declared."""
    done = project.up()
    said = done.stdout
    assert done.returncode != 0, said
    assert "Traceback" not in said, said
    path = f"/apis/ray.io/v1/namespaces/{project.namespace}/rayclusters/ray"
    with contextlib.suppress(ApiError):
        declared = project.bed.api.get(path)["metadata"]["creationTimestamp"]
        since = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(declared)
        assert since.total_seconds() < REASON_S, f"{since.total_seconds():.0f} s until it said:\n{said}"
    return said


@contextlib.contextmanager
def no_operator(bed: Bed) -> Iterator[None]:
    bed.set_operator_running(False)
    try:
        yield
    finally:
        bed.set_operator_running(True)


def held() -> dict[str, Any]:
    """Settings of a job that waits after its second step for `release`."""
    return {"jobEnv": {**SETTINGS["jobEnv"], "QUICK_HOLD": f"/mnt/ray-train/{RELEASED}"}}


def release(project: BedProject) -> None:
    (project.claim_folder() / RELEASED).touch()


@contextlib.contextmanager
def upping(project: BedProject, *, until: str, seconds: float = 300) -> Iterator["subprocess.Popen[str]"]:
    """An `up` that goes on in the block, once it has said `until`."""
    process = project.start_up()
    try:
        wait_for(lambda: until in project.said() or process.poll() is not None, seconds=seconds, what=until)
        assert until in project.said(), project.said()
        yield process
    finally:
        end_group(process)


# Reaching the cluster


def test_a_cluster_that_cannot_be_reached_is_one_clear_error_of_the_preview(
    bed: Bed, stacks: Stacks, tmp_path: Path
) -> None:
    def changed(**cluster: Any) -> str:
        content = json.loads(bed.kubeconfig.read_text())
        content["clusters"][0]["cluster"].update(cluster)
        path = tmp_path / f"{secrets.token_hex(3)}.kubeconfig"
        path.write_text(json.dumps(content))
        return str(path)

    project = stacks()
    good = str(bed.kubeconfig)
    missing = str(tmp_path / "nowhere.kubeconfig")
    for settings, expected in (
        ({"kubeconfig": missing}, [missing, "no usable kubeconfig", "set kubeconfig"]),
        ({"kubeconfig": good, "kubeContext": "elsewhere"}, ["no usable kubeconfig", "elsewhere"]),
        ({"kubeconfig": changed(server="https://127.0.0.1:1")}, ["127.0.0.1:1", "cannot be reached", "refused"]),
        ({"kubeconfig": changed(server="https://api.invalid")}, ["api.invalid", "cannot be reached"]),
        ({"kubeconfig": changed(server=bed.server.replace("https", "http"))}, [bed.server.partition("//")[2]]),
    ):
        project.set(**{"kubeContext": "", **settings})
        began = time.monotonic()
        done = project.pulumi("preview")
        assert done.returncode != 0
        assert "Traceback" not in done.stdout, done.stdout
        assert [word for word in expected if word not in done.stdout] == [], done.stdout
        assert time.monotonic() - began < 45
    project.set(kubeconfig=good, kubeContext="")


# Who acts on the RayCluster


def test_without_an_operator_the_up_says_so_and_the_stack_can_be_destroyed(bed: Bed, stacks: Stacks) -> None:
    project = stacks()
    with no_operator(bed):
        said = refused(project)
        assert "the KubeRay operator has not taken it up" in said
        assert "kuberay-operator has 0 of 0 replicas available" in said
        project.must("destroy", "--yes", "--skip-preview")
        assert left(project) == []


def test_an_up_goes_on_when_the_operator_comes_back_and_a_destroy_needs_none(bed: Bed, stacks: Stacks) -> None:
    project = stacks()
    with contextlib.ExitStack() as away:
        away.enter_context(no_operator(bed))
        with upping(project, until="the KubeRay operator has not taken it up") as up:
            away.close()
            assert up.wait(timeout=240) == 0, project.said()
    with no_operator(bed):
        project.must("destroy", "--yes", "--skip-preview")
        assert left(project) == []


# Who refuses the RayCluster


@contextlib.contextmanager
def policy(bed: Bed, namespace: str, *, expression: str, message: str) -> Iterator[None]:
    """A ValidatingAdmissionPolicy on the RayClusters of one namespace, in force within the block."""
    group = "/apis/admissionregistration.k8s.io/v1"
    name = f"ray-{namespace}"
    rule = {"apiGroups": ["ray.io"], "apiVersions": ["*"], "resources": ["rayclusters"]}
    bed.api.call(
        "POST",
        f"{group}/validatingadmissionpolicies",
        {
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE", "UPDATE"]}]},
                "validations": [{"expression": expression, "message": message}],
            },
        },
    )
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    bed.api.call(
        "POST",
        f"{group}/validatingadmissionpolicybindings",
        {
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": selector},
            },
        },
    )
    probe = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "probe"},
        "spec": {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "x"}]}}}},
    }

    def in_force() -> bool:
        try:
            bed.api.call("POST", f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters?dryRun=All", probe)
        except ApiError as error:
            return message in str(error)
        return False

    try:
        bed.wait_until("the policy is in force", 60, in_force)
        yield
    finally:
        bed.api.delete(f"{group}/validatingadmissionpolicybindings/{name}")
        bed.api.delete(f"{group}/validatingadmissionpolicies/{name}")


def test_what_the_api_server_says_against_the_raycluster_reaches_the_user(
    bed: Bed, namespace: str, stacks: Stacks
) -> None:
    project = stacks(namespace, kubeNamespaceMode="existing")
    message = "Ray clusters carry a cost-centre label"
    with policy(bed, namespace, expression="'cost-centre' in object.metadata.?labels.orValue({})", message=message):
        said = refused(project)
        assert message in said
        assert f"ray-{namespace}" in said, "the policy's name says whom to ask"


def test_what_the_operator_says_against_the_raycluster_reaches_the_user(stacks: Stacks) -> None:
    # Redis makes the head's GCS fault tolerant, which KubeRay wants to be declared in another place.
    project = stacks(rayEnv={"RAY_REDIS_ADDRESS": "redis:6379"})
    said = refused(project)
    assert "the KubeRay operator refuses it" in said
    assert "RAY_REDIS_ADDRESS" in said


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("resourcequotas", {"hard": {"requests.cpu": "4"}}, ["exceeded quota: fence", "requests.cpu=4", "raise the"]),
        ("limitranges", {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}, ["maximum cpu usage", "LimitRange"]),
    ],
)
def test_pods_that_the_namespace_does_not_allow_are_named_with_the_rule(
    bed: Bed, namespace: str, stacks: Stacks, kind: str, spec: dict[str, Any], expected: list[str]
) -> None:
    path = f"/api/v1/namespaces/{namespace}/{kind}"
    bed.api.call("POST", path, {"metadata": {"name": "fence"}, "spec": spec})
    project = stacks(namespace, kubeNamespaceMode="existing")
    said = refused(project)
    assert [word for word in expected if word not in said] == [], said
    bed.api.delete(f"{path}/fence")
    again = project.up()
    assert again.returncode == 0, f"with the {kind} out of the way the stack comes up:\n{again.stdout}"


# Pods that cannot start


@pytest.mark.parametrize(("setting", "role"), [("rayWorkerCpu", "worker"), ("rayHeadCpu", "head")])
def test_a_pod_that_no_node_can_hold_ends_the_up_with_the_schedulers_reason(
    stacks: Stacks, setting: str, role: str
) -> None:
    # A g6.8xlarge has 32 vCPUs, of which the system keeps some.
    project = stacks(**{setting: "32"})
    said = refused(project)
    assert f"{role} pod ray-" in said
    assert "has no node: 0/5 nodes are available" in said, said
    assert "Insufficient cpu" in said


def test_a_zone_without_nodes_is_said_before_anything_is_declared(stacks: Stacks) -> None:
    project = stacks(gpuZone="us-east-9z")
    said = refused(project)
    assert "us-east-9z" in said
    assert "us-east-1a: 4" in said, "the zones that there are"
    assert left(project) == [one["urn"] for one in project.state()], "nothing was made on the cluster"


def test_an_image_that_cannot_be_pulled_ends_the_up_with_the_kubelets_reason(stacks: Stacks) -> None:
    image = "registry.invalid/team/absent:1"
    project = stacks(rayImage=image)
    said = refused(project)
    assert f"cannot pull {image}" in said
    assert "not found" in said


# Credentials


def administrator(bed: Bed, namespace: str) -> None:
    """Service account `admin` of the namespace, which may do everything."""
    bed.api.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "admin", "namespace": namespace}}
    )
    with contextlib.suppress(ApiError):
        bed.api.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"admin-{namespace}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "admin", "namespace": namespace}],
            }
        )


def test_credentials_that_end_in_mid_job_end_the_up_clearly_and_the_next_one_follows_the_job(
    bed: Bed, namespace: str, stacks: Stacks
) -> None:
    administrator(bed, namespace)
    kubeconfig = bed.service_account_kubeconfig(namespace, "admin")
    project = stacks(kubeconfig=str(kubeconfig), **held())
    with upping(project, until="step 1/4") as up:
        bed.api.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/admin")
        # The API server itself takes a token that it has just checked for ten seconds more.
        assert up.wait(timeout=90) != 0
    said = project.said()
    assert "does not accept these credentials" in said
    assert "goes on" in said, "the job is not lost with the credentials"
    assert "Traceback" not in said
    administrator(bed, namespace)
    bed.service_account_kubeconfig(namespace, "admin")
    release(project)
    again = project.up()
    assert again.returncode == 0, again.stdout
    assert len(project.runs()) == 1, "the job that went on is the one that counts"


def test_a_token_that_a_credential_plugin_renews_may_end_in_mid_job(
    bed: Bed, namespace: str, stacks: Stacks, tmp_path: Path
) -> None:
    administrator(bed, namespace)
    secret_of = f"/api/v1/namespaces/{namespace}/secrets"
    token, calls = tmp_path / "token.json", tmp_path / "calls"

    def issue(ticket: str) -> None:
        """A token that ends with the Secret `ticket`."""
        uid = bed.api.call("POST", secret_of, {"metadata": {"name": ticket}})["metadata"]["uid"]
        bound = {"kind": "Secret", "apiVersion": "v1", "name": ticket, "uid": uid}
        answer = bed.api.call(
            "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/admin/token", {"spec": {"boundObjectRef": bound}}
        )
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": {"token": answer["status"]["token"]},
        }
        partial = token.with_suffix(".partial")
        partial.write_text(json.dumps(credential))
        partial.replace(token)

    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\necho called >> {calls}\nexec cat {token}\n")
    plugin.chmod(0o755)
    content = json.loads(bed.kubeconfig.read_text())
    content["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
    }
    kubeconfig = tmp_path / "plugin.kubeconfig"
    kubeconfig.write_text(json.dumps(content))
    issue("first")
    project = stacks(kubeconfig=str(kubeconfig), **held())
    with upping(project, until="step 1/4") as up:
        issue("second")
        bed.api.delete(f"{secret_of}/first")
        called = len(calls.read_text().splitlines())
        wait_for(lambda: len(calls.read_text().splitlines()) > called, seconds=60, what="the plugin is asked again")
        release(project)
        assert up.wait(timeout=120) == 0, project.said()
    assert len(project.runs()) == 1


# Others in the same cluster


def pods_of(project: BedProject) -> dict[str, str]:
    return {name: pod.metadata.uid for name, pod in project.pods().items()}


def edit(project: BedProject, fields: dict[str, Any], by: str) -> None:
    patch = [{"op": "replace", "path": path, "value": value} for path, value in fields.items()]
    project.bed.kubectl(
        *("patch", "raycluster", "ray", "-n", project.namespace, "--type=json", f"--field-manager={by}"),
        *("-p", json.dumps(patch)),
    )


def test_an_edited_number_of_workers_is_named_with_its_author_and_put_back(bed: Bed, standing: BedProject) -> None:
    runs = standing.runs()
    group = "/spec/workerGroupSpecs/0"
    edit(standing, {f"{group}/replicas": 1, f"{group}/minReplicas": 1}, "mallory")
    bed.wait_until("a worker has gone", 60, lambda: len(standing.pods("worker")) == 1)
    previewed = standing.must("preview")
    assert "replicas of group gpu-workers is 1 instead of 2 (changed by mallory at" in previewed
    assert "`pulumi up --refresh` puts it back" in previewed
    standing.must("up", "--refresh", "--yes", "--skip-preview")
    assert len(standing.pods("worker")) == 2
    assert standing.changes() == {}
    assert standing.runs() == runs, "no run is due: nothing that was declared has changed"


def test_an_edited_image_is_named_with_its_author_and_put_back(standing: BedProject) -> None:
    declared = next(iter(standing.pods("head").values())).spec.containers[0].image
    edit(standing, {"/spec/headGroupSpec/template/spec/containers/0/image": "elsewhere/ray:1"}, "mallory")
    previewed = standing.must("preview")
    assert f"the image of the head is elsewhere/ray:1 instead of {declared} (changed by mallory at" in previewed
    refusal = standing.up()
    assert refusal.returncode != 0, "an `up` that cannot see the edit in its state does not pass over it"
    assert "`pulumi up --refresh` puts it back" in refusal.stdout
    standing.must("up", "--refresh", "--yes", "--skip-preview")
    cluster = standing.bed.api.get(f"/apis/ray.io/v1/namespaces/{standing.namespace}/rayclusters/ray")
    assert cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] == declared
    assert standing.changes() == {}


def test_two_stacks_of_one_cluster_work_at_once_and_end_alone(standing: BedProject, stacks: Stacks) -> None:
    before, runs = pods_of(standing), standing.runs()
    other = stacks()
    standing.set(trainSteps=5)
    ups = [one.start_up() for one in (other, standing)]
    try:
        assert [up.wait(timeout=280) for up in ups] == [0, 0], f"{other.said()}\n{standing.said()}"
    finally:
        for up in ups:
            end_group(up)
    assert len(other.runs()) == 1
    assert len(standing.runs()) == len(runs) + 1
    other.must("destroy", "--yes", "--skip-preview")
    assert left(other) == []
    assert pods_of(standing) == before, "its pods are the ones it had"
    assert standing.changes() == {}
