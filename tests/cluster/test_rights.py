"""docs/rbac as it is handed out: with exactly these rights a stack comes up and goes and a job runs; with less, not."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from efactl.stack import plain
from tests.support.bed_project import STACK, BedProject, pulumi_home
from tests.support.project import ROOT, Project
from tools.bed import Bed

pytestmark = pytest.mark.full

RULES = ROOT / "docs" / "rbac"
NOTHING_OF_THE_CLUSTER = "not permitted to look at nodes, DaemonSets of all namespaces (device plugins)"
# What a user has who may run jobs on a RayCluster that somebody else declares: a program with the job alone.
JOB_PROGRAM = """
import json
from pathlib import Path

import pulumi

from workload.job_spec import training_digest
from workload.ray_train_job import RayTrainJob
from workload.verdict import Wanted

config = pulumi.Config("ray-train-efa")
head = json.loads(Path("head.json").read_text())
job = RayTrainJob(
    "train",
    head={**head, "token": config.require_secret("hfToken")},
    training_digest=training_digest(Path("training")),
    arguments={"steps": config.require_int("trainSteps")},
    pip=[],
    env={"QUICK_PER_NODE": "1"},
    secret_env={},
    secret_env_names=[],
    image="",
    cluster_spec_digest=head["spec_digest"],
    run_id="",
    storage="/mnt/ray-train/runs",
    deadline_seconds=120,
    wanted=Wanted(expect="gloo"),
    settings={},
)
pulumi.export("status", job.status)
"""


def grant(bed: Bed, namespace: str, name: str, account: str) -> None:
    """Applies docs/rbac/NAME.yaml to the namespace, bound to a new service account in place of the group."""
    role, binding = yaml.safe_load_all((RULES / f"{name}.yaml").read_text())
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    account_item: dict[str, Any] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
    for item in (account_item, role, {**binding, "subjects": [subject]}):
        bed.api.create({**item, "metadata": {**item["metadata"], "namespace": namespace}})


@pytest.fixture(scope="module")
def stack(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    """A stack in a namespace that exists, its user being one with the rights of stack.yaml and no others."""
    name = f"test-rights-{secrets.token_hex(3)}"
    bed.create_namespace(name)
    grant(bed, name, "stack", "engineer")
    kubeconfig = bed.service_account_kubeconfig(name, "engineer")
    folder = tmp_path_factory.mktemp("rights") / "project"
    project = BedProject(folder, bed, name, kubeNamespaceMode="existing", kubeconfig=str(kubeconfig))
    try:
        yield project
    finally:
        project.clean()
        bed.delete_namespace(name)


def test_a_stack_comes_up_with_the_rights_of_its_role(stack: BedProject) -> None:
    done = stack.up()
    assert done.returncode == 0, done.stdout
    assert "gate: transport proven" in done.stdout
    assert NOTHING_OF_THE_CLUSTER in done.stdout, "what could not be looked at is said"
    assert "the nodes are not checked: this user may not look at nodes" in done.stdout


def test_an_unchanged_up_with_these_rights_changes_nothing(stack: BedProject) -> None:
    runs = stack.runs()
    done = stack.up()
    assert done.returncode == 0, done.stdout
    counted = done.stdout.partition("Resources:")[2]
    assert "unchanged" in counted
    assert not [change for change in ("created", "updated", "replaced", "deleted") if change in counted]
    assert stack.runs() == runs


def test_a_missing_right_is_named_before_anything_is_declared(bed: Bed, stack: BedProject) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{stack.namespace}/roles/ray-train-stacks"
    whole = bed.api.get(path)["rules"]
    less = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "delete"]}
        if "networkpolicies" in rule["resources"]
        else rule
        for rule in whole
        if "pods/log" not in rule["resources"]
    ]
    bed.api.merge(path, {"rules": less})
    try:
        done = stack.pulumi("preview")
        assert done.returncode != 0
        assert "Traceback" not in done.stdout
        denied = "may not delete networkpolicies.networking.k8s.io; get pods/log"
        assert f"{denied} in namespace {stack.namespace}: have a Role" in done.stdout, done.stdout
    finally:
        bed.api.merge(path, {"rules": whole})


def test_a_job_runs_with_the_rights_of_the_jobs_role(bed: Bed, stack: BedProject, tmp_path: Path) -> None:
    grant(bed, stack.namespace, "job", "researcher")
    kubeconfig = bed.service_account_kubeconfig(stack.namespace, "researcher")
    exported = json.loads(stack.must("stack", "export", "--show-secrets"))["deployment"]["resources"]
    (ready,) = [one for one in exported if one["type"].endswith("RayClusterReady")]
    head = {**plain(ready["inputs"]["head"]), "kubeconfig": str(kubeconfig), "kube_context": ""}
    token = head.pop("token")
    plugins = {"PULUMI_HOME": str(pulumi_home(tmp_path / "plugins"))}
    project = Project(tmp_path / "project", stack=STACK, variables=plugins)
    (project.folder / "__main__.py").write_text(JOB_PROGRAM)
    (project.folder / "head.json").write_text(json.dumps(head))
    project.set_secret("hfToken", token)
    done = project.up()
    assert done.returncode == 0, done.stdout
    assert project.outputs()["status"] == "SUCCEEDED"
    project.set(trainSteps=5)
    again = project.up()
    assert again.returncode == 0, again.stdout
    assert len(project.runs()) == 2, "a changed argument is another run"
    for question in ("get secrets", "delete pods", "create pods", "get pods/log", "patch rayclusters.ray.io"):
        answer = may(bed, str(kubeconfig), stack.namespace, *question.split())
        assert answer == "no", f"the role allows to {question}"
    project.must("destroy", "--yes", "--skip-preview")


def test_these_rights_take_the_stack_down_again(bed: Bed, stack: BedProject) -> None:
    stack.must("destroy", "--yes", "--skip-preview")
    collections = (
        "/apis/ray.io/v1/namespaces/{}/rayclusters",
        "/api/v1/namespaces/{}/pods",
        "/api/v1/namespaces/{}/secrets",
        "/apis/apps/v1/namespaces/{}/daemonsets",
        "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    )

    def left() -> list[str]:
        return [
            f"{item['metadata']['name']} of {collection}"
            for collection in collections
            for item in bed.api.list(collection.format(stack.namespace))
        ]

    bed.wait_until("nothing of the stack is left", 30, lambda: left() == [])
    assert stack.state() == []


def may(bed: Bed, kubeconfig: str, namespace: str, verb: str, resource: str) -> str:
    """`kubectl auth can-i` as the user of that kubeconfig."""
    command = ["kubectl", f"--kubeconfig={kubeconfig}", "auth", "can-i", verb, resource, "-n", namespace]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
