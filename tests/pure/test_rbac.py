"""docs/rbac: the roles that are handed out, against what the checks before an `up` ask for."""

from pathlib import Path
from typing import Any

import yaml

from infra.addon_decision import AddonFound
from infra.cluster_checks import needed_permissions
from infra.cluster_facts import ClusterFacts
from infra.kubernetes_settings import AddonSettings, KubernetesSettings, RaySettings, StorageSettings
from workload.kubernetes_access import KubernetesAccess

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "rbac"
EXISTING = AddonSettings(mode="existing", repository="")


def documents(name: str) -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all((FOLDER / name).read_text())}


def granted(name: str) -> set[tuple[str, str, str]]:
    """(verb, group, resource) of every rule."""
    return {
        (verb, group, resource)
        for rule in documents(name)["Role"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def settings() -> KubernetesSettings:
    """A stack that brings neither namespace nor add-ons, and makes everything else."""
    return KubernetesSettings(
        access=KubernetesAccess(),
        cluster_id="",
        namespace="team",
        namespace_mode="existing",
        nvidia_plugin=EXISTING,
        efa_plugin=EXISTING,
        kuberay=EXISTING,
        image_mirror="",
        instance_type="",
        nodes=2,
        zone="",
        node_selector={},
        ready_seconds=60,
        unschedulable_seconds=60,
        ray=RaySettings(
            image="ray:1",
            version="2.58.0",
            pre_pull=True,
            head_cpu="1",
            head_memory="1Gi",
            worker_cpu="1",
            worker_memory="1Gi",
            shm_size="",
            tmp_size="1Gi",
            trainers_per_node=1,
            env={},
            pull_secret="",
        ),
        efa=True,
        storage=StorageSettings(path="runs", in_claim=True, claim="", storage_class="", size="1Gi", keep=False),
        hf_token=None,
    )


def facts() -> ClusterFacts:
    there = AddonFound(present=True, ours=False, where="Deployment kuberay")
    return ClusterFacts(
        server="https://127.0.0.1:1",
        identity="ca-1",
        version="v1.34.3",
        crd_versions=("v1",),
        kuberay=there,
        nvidia_plugin=there,
        efa_plugin=there,
        namespace_exists=True,
        namespace_stack="",
        owners={},
        nodes=None,
    )


def test_the_stacks_role_is_what_the_checks_ask_for_and_no_more() -> None:
    needed = {(one.verb, one.group, one.resource) for one in needed_permissions(facts(), settings())}
    assert needed <= granted("stack.yaml")
    # The WebSocket's own verb.
    assert granted("stack.yaml") - needed <= {("get", "", "pods/portforward")}


def test_the_jobs_role_lets_a_job_be_reached_and_nothing_else() -> None:
    assert granted("job.yaml") == {
        ("list", "", "pods"),
        ("get", "", "pods/portforward"),
        ("create", "", "pods/portforward"),
    }
    assert granted("job.yaml") <= granted("stack.yaml")


def test_each_role_is_bound_to_the_group_of_its_name_and_to_no_namespace() -> None:
    for name in ("job.yaml", "stack.yaml"):
        role, binding = documents(name)["Role"], documents(name)["RoleBinding"]
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert [subject["name"] for subject in binding["subjects"]] == [role["metadata"]["name"]]
        assert "namespace" not in {**role["metadata"], **binding["metadata"]}, "it goes where `kubectl -n` says"
