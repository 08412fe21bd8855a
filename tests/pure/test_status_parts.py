"""What a status says from facts: nodes, pods, the RayCluster's state and truth, Ray's view, what it costs."""

import datetime
from typing import Any

import pytest

from efactl.leftovers import RESERVATION
from efactl.stack import RAY_CLUSTER_READY_TYPE
from efactl.status import kubernetes_parts, last_run, ray_part
from efactl.status.state import (
    RAY_CLUSTER_TYPE,
    Declared,
    ReadStack,
    cost,
    declared_cluster,
    secrets_in,
)
from infra.prices import AS_OF
from infra.ray_cluster_state import SeenCluster
from tests.pure.test_ray_cluster_state import HEAD, IMAGE, WORKERS, cluster, pod, starting
from tests.support.known_stack import KnownStack, custom, local_cluster, secret
from workload.head import Head
from workload.recorded_run import RecordedRun

NOW = datetime.datetime(2026, 11, 29, 20, 0, tzinfo=datetime.UTC)
DECLARED = Declared(namespace="team", name="ray", uid="cr", image=IMAGE, workers=2, ray_version="2.58.0")


def node(name: str, *, ready: str = "True", gpus: str = "8", **labels: str) -> dict[str, Any]:
    kind = {"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/zone": "us-east-1a"}
    return {
        "metadata": {"name": name, "labels": {**kind, **labels}},
        "spec": {"providerID": f"aws:///us-east-1a/i-{name}"},
        "status": {
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet stopped"}],
            "allocatable": {"nvidia.com/gpu": gpus, "vpc.amazonaws.com/efa": "32"},
        },
    }


def read(*resources: dict[str, Any], **settings: Any) -> ReadStack:
    return ReadStack(KnownStack([], **settings), resources)


def test_a_node_is_told_with_its_instance_its_devices_and_whether_it_is_ready() -> None:
    (told,) = kubernetes_parts.nodes_part([node("a", pool="gpu")], {"pool": "gpu"}, [])
    assert told == {
        "name": "a",
        "instanceId": "i-a",
        "instanceType": "p5.48xlarge",
        "zone": "us-east-1a",
        "gpu": 8,
        "efa": 32,
        "ready": True,
        "note": None,
    }


def test_a_node_that_is_not_ready_says_why() -> None:
    (told,) = kubernetes_parts.nodes_part([node("a", ready="False")], {}, [])
    assert (told["ready"], told["note"]) == (False, "kubelet stopped")


def test_of_a_shared_cluster_only_the_nodes_of_the_stack_are_told() -> None:
    system = pod("ray-head", kind="head", spec={"nodeName": "system"})
    nodes = [node("gpu", pool="gpu"), node("system", gpus="0", pool="system"), node("foreign", pool="other")]
    told = [one["name"] for one in kubernetes_parts.nodes_part(nodes, {"pool": "gpu"}, [system])]
    assert told == ["gpu", "system"], "the pool's and the head's, none of another team"


def test_a_raycluster_that_says_ready_while_a_worker_waits_is_told_as_what_it_is() -> None:
    unschedulable = pod(
        "ray-worker-bb",
        spec={"nodeName": ""},
        status={
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available"}],
        },
    )
    seen = SeenCluster(cluster=cluster(), pods=[HEAD, WORKERS[0], unschedulable])
    told = kubernetes_parts.ray_cluster_part(DECLARED, seen, unschedulable_seconds=45)
    assert told["reported"]["state"] == "ready"
    assert (told["headReady"], told["workersReady"], told["workersWanted"]) == (True, 1, 2)
    assert "0/4 nodes are available" in told["problem"]


def test_a_raycluster_as_declared_has_no_problem() -> None:
    seen = SeenCluster(cluster=cluster(), pods=[HEAD, *WORKERS])
    told = kubernetes_parts.ray_cluster_part(DECLARED, seen, unschedulable_seconds=45)
    assert (told["workersReady"], told["problem"]) == (2, None)


def test_a_raycluster_that_is_gone_is_a_problem_and_no_crash() -> None:
    told = kubernetes_parts.ray_cluster_part(DECLARED, SeenCluster(cluster=None, pods=[]), unschedulable_seconds=45)
    assert told["reported"] is None
    assert "there is no such RayCluster" in told["problem"]


def test_a_pod_that_cannot_pull_its_image_says_so() -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    told = kubernetes_parts.pods_part([starting("ray-worker-a", state=waiting), HEAD], [], unschedulable_seconds=45)
    assert [one["role"] for one in told] == ["head", "worker"]
    assert told[0]["problem"] is None
    assert "cannot pull" in told[1]["problem"]


HEAD_OF = Head(
    kind="local",
    namespace="",
    cluster_name="local",
    ray_version="2.58.0",
    spec_digest="",
    nodes=2,
    accelerators_per_node=2,
    worker_resource="trainer",
)


def ray_nodes(*states: str, trainers: float = 2.0) -> list[dict[str, Any]]:
    head = {"state": "ALIVE", "is_head_node": True, "resources_total": {"node:127.0.0.1": 1.0, "memory": 1e9}}
    resources = {"trainer": trainers, "CPU": 2.0, "node:127.0.0.1": 1.0}
    return [head, *({"state": state, "is_head_node": False, "resources_total": resources} for state in states)]


def test_rays_view_sums_what_nodes_offer_and_what_placement_groups_hold() -> None:
    groups = [
        {"state": "CREATED", "bundles": [{"unit_resources": {"trainer": 1.0}}] * 4},
        {"state": "REMOVED", "bundles": [{"unit_resources": {"trainer": 4.0}}]},
    ]
    told = ray_part.ray_part(
        HEAD_OF, version={"ray_version": "2.58.0"}, nodes=ray_nodes("ALIVE", "ALIVE"), groups=groups
    )
    assert told["resources"]["trainer"] == {"total": 4.0, "reserved": 4.0}
    assert list(told["resources"]) == ["trainer", "CPU", "memory"], "no resource of one node alone"
    assert (told["nodesAlive"], told["nodesDead"], told["problem"]) == (3, 0, None)


@pytest.mark.parametrize(
    ("version", "nodes", "problem"),
    [
        ("2.58.0", ray_nodes("ALIVE", "DEAD"), "Ray counts 1 of 2 worker nodes"),
        ("2.58.0", ray_nodes("ALIVE", "ALIVE", trainers=1.0), "the nodes offer Ray 2 trainer, 4 are declared"),
        ("2.50.0", ray_nodes("ALIVE", "ALIVE"), "the head runs Ray 2.50.0, declared is 2.58.0"),
    ],
)
def test_where_ray_differs_from_what_was_declared_it_is_said(
    version: str, nodes: list[dict[str, Any]], problem: str
) -> None:
    told = ray_part.ray_part(HEAD_OF, version={"ray_version": version}, nodes=nodes, groups=[])
    assert told["problem"] == problem


def test_the_last_runs_judgement_is_its_records_and_without_it_the_gates_by_the_state() -> None:
    state = {"submission_id": "it-1", "status": "SUCCEEDED", "expect": "efa", "record": "runs/it-1/record.json"}
    judged = {"expect": "socket", "verdict": "unproven", "verdictReasons": ["no lines"], "qualityPassed": False}
    content = {
        "endedAt": "2026-11-29T19:00:00+00:00",
        "verdict": {"expect": "efa", "value": "refuted", "reasons": ["rank 3 uses Socket"]},
        "quality": {"passed": True},
    }
    there = last_run.last_run_part(state, judged, RecordedRun(id="it-1", place="x", record=content))
    assert there is not None
    assert (there["verdict"], there["verdictReasons"]) == ("refuted", ["rank 3 uses Socket"])
    assert (there["qualityPassed"], there["note"]) == (True, None)
    damaged = RecordedRun(id="it-1", place="x", record=content, problem="damaged: it lacks quality")
    for record, note in ((None, "its record is not on this machine"), (damaged, damaged.problem)):
        told = last_run.last_run_part(state, judged, record)
        assert told is not None
        assert {key: told[key] for key in judged} == judged
        assert told["note"] == f"{note}: judged by the state"


def test_what_is_up_is_counted_from_the_first_resource_that_bills() -> None:
    stack = read(
        custom("aws:eks/cluster:Cluster", {}, created="2026-11-29T18:30:00Z"),
        custom(RESERVATION, {"instanceType": "p5.48xlarge", "instanceCount": 2.0}, created="2026-11-29T18:00:00Z"),
        custom("aws:ec2/vpc:Vpc", {}, created="2026-11-29T10:00:00Z"),
        platform="eks",
        **{"aws:region": "us-west-2"},
    )
    told = cost(stack, NOW)
    assert (told["hourlyUsd"], told["hoursUp"], told["sinceUpUsd"]) == (110.18, 2.0, 220.36)
    assert told["pricesOf"] == AS_OF.isoformat()
    assert told["upSince"] == "2026-11-29T18:00:00+00:00"


def test_a_cluster_of_others_is_not_priced() -> None:
    told = cost(read(custom(RAY_CLUSTER_TYPE, {}), platform="kubernetes"), NOW)
    assert (told["hourlyUsd"], told["sinceUpUsd"], told["hoursUp"]) == (None, None, 2.0)


def test_the_declared_cluster_is_known_while_its_pods_are_still_waited_for() -> None:
    stack = read(custom(RAY_CLUSTER_TYPE, cluster()), platform="kubernetes")
    assert stack.head() is None
    assert declared_cluster(stack, None) == DECLARED


def test_a_head_alone_tells_which_cluster_it_is() -> None:
    head: dict[str, Any] = {"kind": "kubernetes", "namespace": "team", "cluster_name": "ray", "ray_version": "2.58.0"}
    head |= {"spec_digest": "", "nodes": 2.0, "accelerators_per_node": 1.0, "worker_resource": "GPU"}
    stack = read(custom(RAY_CLUSTER_READY_TYPE, {"head": head}), platform="kubernetes")
    found = declared_cluster(stack, stack.head())
    assert found is not None
    assert (found.namespace, found.name, found.workers) == ("team", "ray", 2)


def test_every_secret_of_a_state_is_found() -> None:
    state = [local_cluster(), custom("any", {"deep": [{"of": secret({"HF_TOKEN": "hf_1", "list": ["two"]})}]})]
    assert set(secrets_in(state)) == {"the token of the head", "hf_1", "two"}
