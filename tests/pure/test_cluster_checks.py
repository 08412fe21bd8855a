"""What a cluster must be like before a stack is declared on it."""

from typing import Any

import pytest

from infra import cluster_checks
from infra.addon_decision import AddonFound, installs
from infra.cluster_checks import needed_permissions, notes
from infra.cluster_facts import ClusterFacts, NodeFacts, Permission, addon_found, node_facts, plugin_found
from infra.device_plugins import EFA, NVIDIA, provides
from infra.kubernetes_settings import AddonSettings, KubernetesSettings, RaySettings, StorageSettings
from workload.kubernetes_access import KubernetesAccess

AUTO, EXISTING, INSTALL = (AddonSettings(mode=mode, repository="") for mode in ("auto", "existing", "install"))
ABSENT = AddonFound(present=False, ours=False, where="")
FOREIGN = AddonFound(present=True, ours=False, where="Deployment kuberay-system/kuberay-operator")
OURS = AddonFound(present=True, ours=True, where="DaemonSet kube-system/x", release="team-nvidia-device-plugin")


def settings(**changes: Any) -> KubernetesSettings:
    values: dict[str, Any] = {
        "access": KubernetesAccess(kubeconfig="team.kubeconfig"),
        "cluster_id": "",
        "namespace": "team",
        "namespace_mode": "existing",
        "nvidia_plugin": AUTO,
        "efa_plugin": AUTO,
        "kuberay": AUTO,
        "image_mirror": "",
        "instance_type": "g6.12xlarge",
        "efa": True,
        "nodes": 2,
        "zone": "",
        "node_selector": {"role": "gpu-worker"},
        "ready_seconds": 60,
        "unschedulable_seconds": 60,
        "ray": RaySettings(
            image="ray:1",
            version="2.58.0",
            pre_pull=False,
            head_cpu="1",
            head_memory="1Gi",
            worker_cpu="",
            worker_memory="",
            shm_size="",
            tmp_size="1Gi",
            trainers_per_node=1,
            env={},
            pull_secret="",
        ),
        "storage": StorageSettings(
            path="runs", in_claim=True, claim="checkpoints", storage_class="", size="", keep=False
        ),
        "hf_token": None,
    }
    return KubernetesSettings(**{**values, **changes})


def gpu_node(name: str, *, zone: str = "us-east-1a", gpus: int = 4, efa: int = 1, usable: bool = True) -> NodeFacts:
    return NodeFacts(
        name=name,
        zone=zone,
        gpus=gpus,
        efa=efa,
        usable=usable,
    )


def facts(**changes: Any) -> ClusterFacts:
    values: dict[str, Any] = {
        "server": "https://cluster",
        "identity": "ca-1",
        "version": "v1.34.3-eks-1a2b3c",
        "crd_versions": ("v1",),
        "kuberay": FOREIGN,
        "nvidia_plugin": FOREIGN,
        "efa_plugin": FOREIGN,
        "namespace_exists": True,
        "namespace_stack": "",
        "owners": {},
        "nodes": (gpu_node("gpu-1"), gpu_node("gpu-2")),
    }
    return ClusterFacts(**{**values, **changes})


def problems(found: ClusterFacts, wanted: KubernetesSettings) -> list[str]:
    return cluster_checks.problems(found, wanted, stack="dev")


def test_a_cluster_with_all_that_is_needed_has_no_problem_and_nothing_to_note() -> None:
    assert problems(facts(), settings()) == []
    assert notes(facts(), settings()) == []


@pytest.mark.parametrize("version", ["v1.34.3", "1.30", "v1.30.0+k3s1", "v0.0.0-master+dirty", ""])
def test_a_version_new_enough_or_unknown_passes(version: str) -> None:
    assert problems(facts(version=version), settings()) == []


def test_an_old_kubernetes_is_named_with_the_version_it_needs() -> None:
    (problem,) = problems(facts(version="v1.24.17"), settings())
    assert "v1.24.17" in problem
    assert "1.30" in problem


def test_missing_rights_are_one_sentence_a_scope_that_names_verb_resource_and_namespace() -> None:
    denied = (
        Permission(verb="create", group="ray.io", resource="rayclusters", namespace="team"),
        Permission(verb="patch", group="ray.io", resource="rayclusters", namespace="team"),
        Permission(verb="create", group="", resource="namespaces"),
    )
    cluster, namespace = problems(facts(denied=denied), settings())
    assert "create namespaces in the whole cluster" in cluster
    assert "create, patch rayclusters.ray.io in namespace team" in namespace
    assert "team.kubeconfig" in namespace, "whose rights are missing"


def test_a_namespace_that_must_exist_and_does_not_is_a_problem() -> None:
    (problem,) = problems(facts(namespace_exists=False), settings())
    assert "namespace team does not exist" in problem
    assert problems(facts(namespace_exists=False), settings(namespace_mode="create")) == []


def test_a_namespace_to_be_made_may_exist_only_where_this_stack_made_it() -> None:
    assert problems(facts(namespace_stack="dev"), settings(namespace_mode="create")) == []
    (foreign,) = problems(facts(), settings(namespace_mode="create"))
    assert "namespace team exists and was not made by this stack" in foreign
    assert "kubeNamespaceMode to 'existing'" in foreign
    (other,) = problems(facts(namespace_stack="prod"), settings(namespace_mode="create"))
    assert "belongs to stack prod" in other


def test_kuberay_missing_is_a_problem_only_where_nobody_installs_it() -> None:
    without = facts(crd_versions=(), kuberay=ABSENT)
    assert problems(without, settings(kuberay=AUTO)) == []
    (problem,) = problems(without, settings(kuberay=EXISTING))
    assert "addonKubeRay is 'existing'" in problem


def test_a_user_without_cluster_rights_is_told_to_have_kuberay_installed() -> None:
    (problem,) = problems(facts(crd_versions=(), kuberay=None), settings())
    assert "ask an administrator" in problem


def test_a_kuberay_that_serves_only_old_versions_is_a_problem() -> None:
    (problem,) = problems(facts(crd_versions=("v1alpha1",)), settings())
    assert "v1alpha1" in problem


def test_what_may_not_be_looked_at_is_skipped_with_a_note() -> None:
    blind = facts(nodes=None, nvidia_plugin=None, efa_plugin=None, kuberay=None, namespace_exists=None)
    assert problems(blind, settings()) == [], "a user of one namespace may use a KubeRay that others installed"
    (note,) = notes(blind, settings())
    assert "not permitted to look at nodes" in note


def test_nodes_that_are_still_to_come_are_a_note_that_names_the_labels() -> None:
    assert problems(facts(nodes=()), settings()) == []
    (note,) = notes(facts(nodes=()), settings())
    assert "no node with the labels role=gpu-worker yet" in note
    assert "gpuNodeSelector" in note


def test_too_few_nodes_may_still_join() -> None:
    one = facts(nodes=(gpu_node("gpu-1"),))
    assert problems(one, settings()) == []
    assert notes(one, settings()) == [
        "1 of the 2 nodes with the labels role=gpu-worker are Ready so far: waiting for more"
    ]


def test_nodes_whose_device_plugin_has_not_run_yet_are_no_problem() -> None:
    bare = facts(nodes=(gpu_node("gpu-1", gpus=0, efa=0), gpu_node("gpu-2", gpus=0, efa=0)), nvidia_plugin=ABSENT)
    assert problems(bare, settings()) == []


def test_nodes_that_are_all_too_small_are_a_problem_with_both_numbers() -> None:
    (problem,) = problems(facts(nodes=(gpu_node("gpu-1", gpus=1), gpu_node("gpu-2", gpus=1))), settings())
    assert "offers 1 GPUs" in problem
    assert "g6.12xlarge has 4" in problem


def test_nodes_that_are_not_ready_for_a_moment_are_a_note() -> None:
    resting = facts(nodes=(gpu_node("gpu-1", usable=False),))
    assert problems(resting, settings(nodes=1)) == []
    assert "0 of the 1 nodes" in notes(resting, settings(nodes=1))[0]


def test_nodes_spread_so_that_no_zone_has_enough_are_a_problem_that_counts_them() -> None:
    spread = facts(nodes=(gpu_node("gpu-1", zone="us-east-1a"), gpu_node("gpu-2", zone="us-east-1b")))
    (problem,) = problems(spread, settings())
    assert "us-east-1a: 1, us-east-1b: 1" in problem


def test_a_zone_without_nodes_is_a_problem_and_one_with_too_few_a_note() -> None:
    spread = facts(nodes=(gpu_node("gpu-1", zone="us-east-1a"), gpu_node("gpu-2", zone="us-east-1b")))
    assert "gpuZone us-east-1c" in problems(spread, settings(zone="us-east-1c"))[0]
    assert problems(spread, settings(zone="us-east-1a")) == []
    assert "1 of the 2 nodes with the labels role=gpu-worker in gpuZone us-east-1a" in str(
        notes(spread, settings(zone="us-east-1a"))
    )


def test_a_zone_that_is_too_small_beside_one_that_is_not_must_be_chosen_against() -> None:
    unequal = facts(
        nodes=(gpu_node("a1", zone="a"), gpu_node("b1", zone="b"), gpu_node("b2", zone="b")),
    )
    (problem,) = problems(unequal, settings())
    assert "set gpuZone to b" in problem
    assert problems(unequal, settings(zone="b")) == []


@pytest.mark.parametrize("without", [{"efa": False}, {"instance_type": ""}])
def test_without_efa_workers_may_stand_in_any_zones(without: dict[str, Any]) -> None:
    spread = facts(nodes=(gpu_node("gpu-1", zone="a", efa=0), gpu_node("gpu-2", zone="", efa=0)))
    assert problems(spread, settings(**without)) == []
    assert notes(spread, settings(**without)) == []


def test_a_namespace_that_the_stack_made_cannot_become_an_existing_one() -> None:
    (problem,) = problems(facts(namespace_stack="dev"), settings(namespace_mode="existing"))
    assert "would be removed now" in problem


@pytest.mark.parametrize(
    ("mode", "found", "installed"),
    [
        (AUTO, ABSENT, True),
        (AUTO, OURS, True),
        (AUTO, FOREIGN, False),
        (AUTO, None, False),
        (INSTALL, FOREIGN, True),
        (EXISTING, ABSENT, False),
    ],
)
def test_auto_installs_what_is_missing_or_its_own(
    mode: AddonSettings, found: AddonFound | None, installed: bool
) -> None:
    assert installs(mode.mode, found) is installed


def test_rights_are_asked_for_as_far_as_the_stack_goes() -> None:
    def asked(seen: ClusterFacts, **changes: Any) -> set[tuple[str, str, str]]:
        return {(one.verb, one.resource, one.namespace) for one in needed_permissions(seen, settings(**changes))}

    namespaced = asked(facts())
    assert {namespace for _, _, namespace in namespaced} == {"team"}, "nothing of the whole cluster"
    assert ("create", "persistentvolumeclaims", "team") not in namespaced, "the claim is there already"
    assert ("create", "namespaces", "") in asked(facts(), namespace_mode="create")
    assert ("create", "customresourcedefinitions", "") in asked(facts(kuberay=ABSENT))
    assert ("create", "customresourcedefinitions", "") not in asked(facts(nvidia_plugin=ABSENT))
    assert ("create", "daemonsets", "") not in asked(facts(nvidia_plugin=ABSENT), instance_type="")


def daemonset(name: str, image: str, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "kube-system", **metadata},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}},
    }


@pytest.mark.parametrize(
    ("name", "image", "nvidia", "efa"),
    [
        ("nvidia-device-plugin-daemonset", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", True, False),
        ("plugin", "mirror.example:5000/nvidia/k8s-device-plugin@sha256:0", True, False),
        ("team-nvidia-device-plugin-mps-control-daemon", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", False, False),
        ("team-nvidia-device-plugin-gpu-feature-discovery", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", False, False),
        ("aws-efa-k8s-device-plugin", "602401143452.dkr.ecr/eks/aws-efa-k8s-device-plugin:v0.5.20", False, True),
        ("team-aws-efa-k8s-device-plugin", "mirror/renamed:1", False, True),
        ("kube-proxy", "registry.k8s.io/kube-proxy:v1.34.3", False, False),
    ],
)
def test_a_plugin_is_known_by_its_image_or_its_name(name: str, image: str, nvidia: bool, efa: bool) -> None:
    assert provides(daemonset(name, image), NVIDIA) is nvidia
    assert provides(daemonset(name, image), EFA) is efa


def test_an_addon_is_this_stacks_own_by_its_helm_release() -> None:
    helm = {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "team-nvidia-device-plugin"},
    }
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    ours, foreign = daemonset("nvidia", image, **helm), daemonset("other", image)
    assert addon_found("DaemonSet", [ours], "team-nvidia-device-plugin").ours
    found = addon_found("DaemonSet", [ours], "another-nvidia-device-plugin")
    assert (found.present, found.ours, found.release) == (True, False, "team-nvidia-device-plugin")
    assert addon_found("DaemonSet", [foreign, ours], "team-nvidia-device-plugin").ours, "ours counts beside another"
    assert addon_found("DaemonSet", [], "x") == AddonFound(present=False, ours=False, where="")


def test_devices_that_a_node_offers_by_itself_count_as_a_plugin() -> None:
    node = {"metadata": {"name": "bottlerocket"}, "status": {"allocatable": {"nvidia.com/gpu": "4"}}}
    found = plugin_found(NVIDIA, "x", [], [node])
    assert found is not None
    assert found.present
    assert "bottlerocket" in found.where
    assert plugin_found(EFA, "x", [], [node]) == AddonFound(present=False, ours=False, where="")
    assert plugin_found(EFA, "x", None, None) is None, "unknown where neither may be listed"


def test_a_node_that_has_reported_nothing_yet_is_read_as_unusable() -> None:
    bare = node_facts({"metadata": {"name": "new"}})
    assert (bare.usable, bare.gpus, bare.zone) == (False, 0, "")
