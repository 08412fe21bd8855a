"""Nodes of the workers: ready, or the reason why they are not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from infra.device_readiness import REGISTER_S, SETTLE_S
from infra.node_pool import NodePool, SeenNodes
from infra.node_readiness import NodesReady, judge
from infra.waiting import Patience, Waiting

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
POOL = NodePool(
    nodes=2,
    selector={"role": "gpu-worker"},
    zone="",
    instance_type="g6.12xlarge",
    gpus=4,
    efa=1,
    tolerations=[TOLERATION],
)


def node(
    name: str,
    *,
    gpus: int = 4,
    efa: int = 1,
    zone: str = "us-east-1a",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (GPU_TAINT,),
    ready: str = "True",
    message: str = "",
    cordoned: bool = False,
) -> dict[str, Any]:
    devices = {GPU: str(gpus), EFA: str(efa)}
    return {
        "metadata": {
            "name": name,
            "labels": {
                "role": "gpu-worker",
                "topology.kubernetes.io/zone": zone,
                "node.kubernetes.io/instance-type": "g6.12xlarge",
                "nvidia.com/gpu.present": "true",
                **(labels or {}),
            },
        },
        "spec": {"taints": list(taints), **({"unschedulable": True} if cordoned else {})},
        "status": {
            "allocatable": {"cpu": "47", **{device: count for device, count in devices.items() if count != "0"}},
            "conditions": [{"type": "Ready", "status": ready, "message": message}],
        },
    }


def daemonset(name: str, image: str, *, desired: int = 2, **pod: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "kube-system", "uid": name, "generation": 1},
        "spec": {"template": {"spec": {"containers": [{"name": "plugin", "image": image}], **pod}}},
        "status": {"desiredNumberScheduled": desired, "numberReady": desired, "observedGeneration": 1},
    }


def present(label: str) -> dict[str, Any]:
    """The node affinity of NVIDIA's chart, with one of its labels."""
    terms = [
        {
            "matchExpressions": [
                {"key": "feature.node.kubernetes.io/pci-10de.present", "operator": "In", "values": ["true"]}
            ]
        },
        {"matchExpressions": [{"key": label, "operator": "In", "values": ["true"]}]},
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


NVIDIA_PLUGIN = daemonset("nvidia", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", tolerations=[TOLERATION])
EFA_PLUGIN = daemonset("efa", "ecr/eks/aws-efa-k8s-device-plugin:v0.5.20", tolerations=[TOLERATION])


def plugin_pod(on: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"nvidia-{on}", "namespace": "kube-system", "uid": on},
        "spec": {"nodeName": on},
        "status": {"phase": "Running", **status},
    }


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "ready": False, **state}]


RUNNING = {"containerStatuses": container(state={"running": {}})}


def seen(*nodes: Mapping[str, Any], **changes: Any) -> SeenNodes:
    values: dict[str, Any] = {"nodes": nodes, "daemonsets": [NVIDIA_PLUGIN, EFA_PLUGIN]}
    return SeenNodes(**{**values, **changes})


def waiting(pool: NodePool, found: SeenNodes) -> Waiting:
    verdict = judge(pool, found)
    assert isinstance(verdict, Waiting)
    return verdict


def test_enough_nodes_with_exactly_their_devices_in_one_zone_are_ready() -> None:
    verdict = judge(POOL, seen(node("gpu-1"), node("gpu-2"), node("gpu-3", zone="us-east-1b")))
    assert isinstance(verdict, NodesReady)
    assert verdict.zone == "us-east-1a"
    assert [one["metadata"]["name"] for one in verdict.nodes] == ["gpu-1", "gpu-2"]


def test_nodes_of_other_labels_do_not_count() -> None:
    verdict = waiting(POOL, seen(node("gpu-1"), node("other", labels={"role": "batch"})))
    assert "1 of 2 nodes with the labels role=gpu-worker" in verdict.reason
    assert verdict.patience is None, "a node may still join"


def test_a_broken_spare_node_is_no_hindrance() -> None:
    assert isinstance(judge(POOL, seen(node("gpu-1"), node("gpu-2"), node("gpu-3", gpus=0))), NodesReady)


def test_a_user_who_may_not_look_at_nodes_passes_with_a_reason() -> None:
    verdict = judge(POOL, SeenNodes(nodes=None))
    assert isinstance(verdict, NodesReady)
    assert "may not look" in verdict.skipped


def test_workers_without_devices_need_only_schedulable_nodes() -> None:
    plain = replace(POOL, gpus=0, efa=0, instance_type="", tolerations=[])
    verdict = judge(plain, seen(node("a", gpus=0, efa=0, taints=[]), node("b", gpus=0, efa=0, taints=[])))
    assert isinstance(verdict, NodesReady)
    assert "taint nvidia.com/gpu=present:NoSchedule" in waiting(plain, seen(node("a"), node("b"))).reason


@pytest.mark.parametrize(
    ("broken", "said", "patience"),
    [
        (node("gpu-2", ready="False", message="cni plugin not initialized"), "cni plugin not initialized", None),
        (node("gpu-2", cordoned=True), "cordoned", 120.0),
        (
            node("gpu-2", taints=[GPU_TAINT, {"key": "team", "value": "a", "effect": "NoSchedule"}]),
            "taint team=a:NoSchedule",
            SETTLE_S,
        ),
        (
            node("gpu-2", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
            "node.kubernetes.io/not-ready",
            None,
        ),
        (node("gpu-2", labels={"nvidia.com/cuda.driver.major": "570"}), "driver 570", SETTLE_S),
        (node("gpu-2", gpus=1), "offers 1 nvidia.com/gpu, 4 are expected", REGISTER_S),
        (node("gpu-2", efa=2), "offers 2 vpc.amazonaws.com/efa, 1 are expected", REGISTER_S),
    ],
)
def test_what_ails_a_node_is_said_and_waited_for_only_where_it_can_pass(
    broken: Mapping[str, Any], said: str, patience: float | None
) -> None:
    verdict = waiting(POOL, seen(node("gpu-1"), broken))
    assert "gpu-2" in verdict.reason
    assert said in verdict.reason
    assert verdict.patience == patience


def test_a_hard_fact_is_said_before_all_nodes_have_joined() -> None:
    alone = node("gpu-1", taints=[{"key": "team", "effect": "NoExecute"}])
    assert "taint team:NoExecute" in waiting(POOL, seen(alone)).reason


def test_nodes_spread_over_zones_are_refused_with_the_counts() -> None:
    verdict = waiting(POOL, seen(node("gpu-1"), node("gpu-2", zone="us-east-1b")))
    assert "us-east-1a: 1, us-east-1b: 1" in verdict.reason
    given = replace(POOL, zone="us-east-1c", nodes=1)
    assert "zone us-east-1c" in waiting(given, seen(node("gpu-1"))).reason


def test_a_daemonset_that_wants_no_pod_is_not_verified_and_the_missing_label_is_named() -> None:
    plugin = {
        **NVIDIA_PLUGIN,
        **daemonset("nvidia", "k8s-device-plugin", desired=0, affinity=present("nvidia.com/gpu")),
    }
    verdict = waiting(POOL, seen(node("gpu-1", gpus=0), node("gpu-2", gpus=0), daemonsets=[plugin, EFA_PLUGIN]))
    assert "0/0 ready" in verdict.reason
    assert "feature.node.kubernetes.io/pci-10de.present=true or nvidia.com/gpu=true" in verdict.reason
    assert verdict.patience == SETTLE_S


def test_a_plugin_that_does_not_tolerate_the_nodes_taint_is_the_reason() -> None:
    plugin = daemonset("efa", "ecr/eks/aws-efa-k8s-device-plugin:v0.5.20", desired=0)
    verdict = waiting(POOL, seen(node("gpu-1", efa=0), node("gpu-2", efa=0), daemonsets=[NVIDIA_PLUGIN, plugin]))
    assert "does not tolerate the node's taint nvidia.com/gpu=present:NoSchedule" in verdict.reason


def test_a_daemonset_that_its_controller_has_not_seen_yet_is_waited_for() -> None:
    plugin = daemonset("nvidia", "k8s-device-plugin", desired=0)
    plugin["status"] = {}
    verdict = waiting(POOL, seen(node("gpu-1", gpus=0), node("gpu-2", gpus=0), daemonsets=[plugin, EFA_PLUGIN]))
    assert verdict.patience is None


@pytest.mark.parametrize(
    ("status", "said", "log"),
    [
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "1 Insufficient memory"}]},
            "1 Insufficient memory",
            None,
        ),
        (
            {
                "containerStatuses": container(
                    state={"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}, restartCount=0
                )
            },
            "cannot pull nvcr.io/nvidia/k8s-device-plugin:v0.20.0: not found",
            None,
        ),
        (
            {
                "containerStatuses": container(
                    state={"waiting": {"reason": "CrashLoopBackOff"}},
                    lastState={"terminated": {"exitCode": 1}},
                    restartCount=4,
                )
            },
            "exit code 1 (4 restarts)",
            True,
        ),
        (RUNNING, "runs and has registered none", False),
    ],
)
def test_the_plugins_pod_gives_the_reason(status: Mapping[str, Any], said: str, log: bool | None) -> None:
    pods = {"kube-system/nvidia": [plugin_pod("gpu-1", **status), plugin_pod("gpu-2")]}
    verdict = waiting(POOL, seen(node("gpu-1", gpus=0), node("gpu-2"), plugin_pods=pods))
    assert "node gpu-1 offers no nvidia.com/gpu: pod kube-system/nvidia-gpu-1" in verdict.reason
    assert said in verdict.reason
    assert verdict.patience is not None
    if log is None:
        assert verdict.log is None
    else:
        assert verdict.log is not None, "the plugin's own words tell of a missing driver"
        assert verdict.log.previous is log
        assert "AL2023_x86_64_NVIDIA" in verdict.log.hint


def test_no_plugin_at_all_is_said() -> None:
    verdict = waiting(POOL, seen(node("gpu-1", gpus=0), node("gpu-2", gpus=0), daemonsets=[EFA_PLUGIN]))
    assert "no DaemonSet of an NVIDIA device plugin exists" in verdict.reason


def test_a_plugin_nobody_may_look_at_is_waited_for() -> None:
    verdict = waiting(POOL, seen(node("gpu-1", gpus=0), node("gpu-2", gpus=0), daemonsets=None))
    assert "may not look" in verdict.reason
    assert verdict.patience is None


def test_two_plugins_of_one_device_on_a_node_are_refused_although_the_count_is_right() -> None:
    second = daemonset("nvidia-device-plugin-daemonset", "k8s-device-plugin", tolerations=[TOLERATION])
    doubled = seen(node("gpu-1"), node("gpu-2"), daemonsets=[NVIDIA_PLUGIN, second, EFA_PLUGIN])
    verdict = waiting(POOL, doubled)
    assert "kube-system/nvidia and kube-system/nvidia-device-plugin-daemonset" in verdict.reason
    assert verdict.patience == SETTLE_S
    elsewhere = {
        "kube-system/nvidia": [plugin_pod("gpu-1"), plugin_pod("gpu-2")],
        "kube-system/nvidia-device-plugin-daemonset": [plugin_pod("another-pool")],
    }
    assert isinstance(judge(POOL, replace(doubled, plugin_pods=elsewhere)), NodesReady), "each has its own nodes"


def test_efa_through_dra_is_told_from_a_missing_plugin() -> None:
    slices = [{"spec": {"driver": "dra.net", "devices": [{"name": "efa-0"}]}}]
    verdict = waiting(POOL, seen(node("gpu-1", efa=0), node("gpu-2", efa=0), daemonsets=[NVIDIA_PLUGIN], slices=slices))
    assert "DRA driver dra.net" in verdict.reason


def test_patience_counts_from_the_first_time_a_cause_is_seen_and_anew_after_a_pause() -> None:
    patience, cause = Patience(gap=8), Waiting(reason="x", code="x", patience=20)
    assert not patience.exhausted(cause, 100)
    for second in range(101, 119):
        assert not patience.exhausted(cause, second)
    assert patience.exhausted(cause, 120)
    assert not patience.exhausted(cause, 140), "it was gone for longer than the gap"
    assert not patience.exhausted(Waiting(reason="y", code="x"), 500), "no limit"
