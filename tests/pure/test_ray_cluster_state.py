"""A Ray cluster on Kubernetes: ready, or the reason why it is not."""

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

import pytest

from infra.ray_cluster_state import (
    DeclaredCluster,
    PodsReady,
    SeenCluster,
    described_pod,
    judge_pods,
    judge_zone,
)
from infra.ray_nodes import RayView, judge_ray
from infra.waiting import Failed, Waiting

IMAGE = "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1"
DECLARED = DeclaredCluster(
    namespace="team",
    name="ray",
    uid="cr",
    image=IMAGE,
    workers=2,
    accelerators=4,
    worker_resource="GPU",
    ray_version="2.58.0",
    unschedulable_seconds=45.0,
)
MADE = "2026-11-29T18:00:00Z"


def cluster(**changes: Any) -> dict[str, Any]:
    def template(name: str) -> dict[str, Any]:
        return {"template": {"spec": {"containers": [{"name": name, "image": IMAGE}]}}}

    group = {"groupName": "gpu-workers", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, **template("ray-worker")}
    return {
        "metadata": {
            "name": "ray",
            "namespace": "team",
            "uid": "cr",
            "generation": 1,
            "creationTimestamp": MADE,
            "managedFields": [
                {"manager": "pulumi-kubernetes", "time": MADE, "fieldsV1": {"f:spec": {"f:workerGroupSpecs": {}}}}
            ],
        },
        "spec": {"rayVersion": "2.58.0", "headGroupSpec": template("ray-head"), "workerGroupSpecs": [group]},
        "status": {"observedGeneration": 1, "state": "ready", "readyWorkerReplicas": 2, "conditions": []},
        **changes,
    }


def pod(name: str, *, kind: str = "worker", owner: str = "cr", image: str = IMAGE, **changes: Any) -> dict[str, Any]:
    """A Ready pod, unless `status` says otherwise."""
    container = f"ray-{kind}"
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "labels": {"ray.io/cluster": "ray", "ray.io/node-type": kind},
        "ownerReferences": [{"kind": "RayCluster", "uid": owner}],
        **changes.pop("metadata", {}),
    }
    limits = {"memory": "160Gi"}
    spec = {
        "nodeName": f"node-of-{name}",
        "containers": [{"name": container, "image": image, "resources": {"limits": limits}}],
    }
    status = {
        "phase": "Running",
        "podIP": f"10.0.0.{len(name)}",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": container, "image": image, "imageID": f"{image}@sha256:1", "ready": True}],
    }
    return {"metadata": metadata, "spec": {**spec, **changes.pop("spec", {})}, "status": changes.pop("status", status)}


HEAD = pod("ray-head", kind="head")
WORKERS = (pod("ray-worker-a"), pod("ray-worker-bb"))


def starting(name: str, kind: str = "worker", **container: Any) -> dict[str, Any]:
    """A pod on a node whose Ray container is not ready."""
    statuses = [{"name": f"ray-{kind}", "image": IMAGE, "ready": False, "restartCount": 0, **container}]
    return pod(name, kind=kind, status={"phase": "Pending", "containerStatuses": statuses})


def event(
    reason: str, message: str, *, about: Mapping[str, Any] | None = None, at: str = "2026-11-29T18:05:00Z"
) -> Any:
    target = about or {"kind": "RayCluster", "name": "ray", "uid": "cr"}
    return {
        "metadata": {"creationTimestamp": at},
        "involvedObject": target,
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def about(found: Mapping[str, Any]) -> dict[str, str]:
    return {"kind": "Pod", "name": found["metadata"]["name"], "uid": found["metadata"]["uid"]}


def seen(*pods: Mapping[str, Any], **changes: Any) -> SeenCluster:
    values: dict[str, Any] = {"cluster": cluster(), "pods": pods}
    return SeenCluster(**{**values, **changes})


def waiting(found: SeenCluster) -> Waiting:
    verdict = judge_pods(DECLARED, found)
    assert isinstance(verdict, Waiting)
    return verdict


def ready() -> PodsReady:
    verdict = judge_pods(DECLARED, seen(*WORKERS, HEAD))
    assert isinstance(verdict, PodsReady)
    return verdict


def test_head_and_all_workers_ready_are_ready_whatever_their_order() -> None:
    assert [one["metadata"]["name"] for one in ready().all] == ["ray-head", "ray-worker-a", "ray-worker-bb"]


def test_the_state_ready_of_the_raycluster_proves_nothing() -> None:
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]
    lost = pod("ray-worker-bb", spec={"nodeName": None}, status={"phase": "Pending", "conditions": conditions})
    verdict = waiting(seen(HEAD, WORKERS[0], lost))
    assert message in verdict.reason
    assert verdict.patience == DECLARED.unschedulable_seconds


def test_an_unbound_claim_says_why_it_is_unbound() -> None:
    claim = {"volumes": [{"name": "storage", "persistentVolumeClaim": {"claimName": "ray-storage"}}], "nodeName": None}
    conditions = [{"type": "PodScheduled", "status": "False", "message": "pod has unbound immediate claims"}]
    lost = pod("ray-worker-bb", spec=claim, status={"phase": "Pending", "conditions": conditions})
    target = {"kind": "PersistentVolumeClaim", "name": "ray-storage", "uid": "claim"}
    verdict = waiting(
        seen(HEAD, WORKERS[0], lost, events=[event("ProvisioningFailed", "no access mode RWX", about=target)])
    )
    assert "volume claim ray-storage: no access mode RWX" in verdict.reason


@pytest.mark.parametrize(
    ("state", "said", "patience"),
    [
        ({"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}, "manifest unknown", 25.0),
        ({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling"}}, "Back-off pulling", 25.0),
        ({"waiting": {"reason": "ErrImagePull", "message": "toomanyrequests: rate"}}, "toomanyrequests", 240.0),
        (
            {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "ray-auth-token" not found'}},
            'secret "ray-auth-token" not found',
            30.0,
        ),
        ({"waiting": {"reason": "ContainerCreating"}}, "is being started", None),
    ],
)
def test_a_container_that_does_not_start_gives_the_kubelets_words(
    state: Mapping[str, Any], said: str, patience: float | None
) -> None:
    verdict = waiting(seen(HEAD, WORKERS[0], starting("ray-worker-bb", state=state)))
    assert said in verdict.reason
    assert verdict.patience == patience


def test_an_image_name_that_is_none_fails_at_once() -> None:
    state = {"waiting": {"reason": "InvalidImageName", "message": "couldn't parse image name"}}
    verdict = judge_pods(DECLARED, seen(starting("ray-head", "head", state=state)))
    assert isinstance(verdict, Failed)
    assert "couldn't parse" in verdict.reason


def test_a_crash_brings_its_log_and_counts_as_one_cause_through_its_restarts() -> None:
    ended = {"exitCode": 1, "reason": "Error"}
    down = waiting(seen(starting("ray-head", "head", state={"terminated": ended})))
    backing_off = starting(
        "ray-head", "head", state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ended}
    )
    looping = waiting(seen(backing_off))
    again = waiting(seen(starting("ray-head", "head", state={"running": {}}, lastState={"terminated": ended})))
    assert down.code == looping.code == again.code
    assert again.patience is None, "running again it may come right"
    assert looping.patience == down.patience == 25.0
    assert looping.log is not None
    assert looping.log.previous
    assert down.log is not None
    assert not down.log.previous, "it has not been started again: its last words are in the current log"


def test_a_worker_that_ended_with_its_head_is_no_crash_loop() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-29T18:05:00Z"}}
    backing_off = starting("ray-worker-bb", state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended)

    def head_ready_at(stamp: str) -> dict[str, Any]:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp}
        return pod("ray-head", kind="head", status={**HEAD["status"], "conditions": [ready]})

    with_it = waiting(seen(head_ready_at("2026-11-29T18:06:00Z"), WORKERS[0], backing_off))
    assert "it ended (exit code 1) while no head was Ready" in with_it.reason
    assert with_it.patience is None
    by_itself = waiting(seen(head_ready_at("2026-11-29T18:04:00Z"), WORKERS[0], backing_off))
    assert by_itself.patience is not None


def test_a_container_out_of_memory_names_its_limit() -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    backing_off = starting("ray-worker-bb", state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=killed)
    assert "its memory limit is 160Gi" in waiting(seen(HEAD, WORKERS[0], backing_off)).reason


def test_what_ails_the_head_comes_before_what_its_workers_make_of_it() -> None:
    ended: dict[str, Any] = {"state": {"terminated": {"exitCode": 1}}}
    found = waiting(seen(starting("ray-worker-bb", **ended), starting("ray-head", "head", **ended)))
    assert found.reason.startswith("head pod")


def test_a_worker_that_waits_for_a_head_does_not_hide_why_the_head_does_not_start() -> None:
    gcs = pod(
        "ray-worker-a",
        status={"phase": "Pending", "initContainerStatuses": [{"name": "wait-gcs-ready", "state": {"running": {}}}]},
    )
    pulling = starting("ray-head", "head", state={"waiting": {"reason": "ErrImagePull", "message": "denied"}})
    assert "denied" in waiting(seen(gcs, pulling)).reason
    assert "waits for the head's GCS, and the head is Ready" in waiting(seen(gcs, HEAD)).reason


@pytest.mark.parametrize(
    ("reason", "message", "patience"),
    [
        ("FailedMount", 'MountVolume.SetUp failed: secret "ray-auth-token" not found', 45.0),
        ("FailedAttachVolume", "Multi-Attach error for volume", 240.0),
    ],
)
def test_a_volume_that_does_not_come_is_named(reason: str, message: str, patience: float) -> None:
    stuck = starting("ray-worker-bb", state={"waiting": {"reason": "ContainerCreating"}})
    verdict = waiting(seen(HEAD, WORKERS[0], stuck, events=[event(reason, message, about=about(stuck))]))
    assert message in verdict.reason
    assert verdict.patience == patience


def test_a_running_pod_whose_probe_fails_says_what_the_probe_saw() -> None:
    unready = pod(
        "ray-worker-bb",
        status={
            "phase": "Running",
            "containerStatuses": [{"name": "ray-worker", "ready": False, "state": {"running": {}}}],
        },
    )
    events = [event("Unhealthy", "Readiness probe failed: connection refused", about=about(unready))]
    verdict = waiting(seen(HEAD, WORKERS[0], unready, events=events))
    assert "connection refused" in verdict.reason
    assert verdict.patience is None


def test_what_a_probe_says_of_a_ray_that_has_just_started_is_no_news() -> None:
    running = {"running": {"startedAt": "2026-11-29T18:04:50Z"}}
    unready = pod(
        "ray-worker-bb",
        status={
            "phase": "Running",
            "containerStatuses": [{"name": "ray-worker", "ready": False, "state": running}],
        },
    )
    early = event("Unhealthy", "connection refused", about=about(unready), at="2026-11-29T18:05:00Z")
    late = event("Unhealthy", "connection refused", about=about(unready), at="2026-11-29T18:05:21Z")
    verdict = waiting(seen(HEAD, WORKERS[0], unready, events=[early]))
    assert verdict.reason == "worker pod ray-worker-bb on node node-of-ray-worker-bb is starting Ray"
    assert "connection refused" in waiting(seen(HEAD, WORKERS[0], unready, events=[early, late])).reason


def test_a_pod_that_its_kubelet_refused_says_so() -> None:
    message = "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu"
    refused = pod("ray-worker-bb", status={"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message})
    assert message in waiting(seen(HEAD, WORKERS[0], refused)).reason
    events = [event("UnexpectedAdmissionError", message, about=about(refused))]
    gone = waiting(seen(HEAD, WORKERS[0], events=events))
    assert message in gone.reason, "KubeRay has deleted it already; its event is left"


def test_a_quota_is_named_with_what_to_do() -> None:
    said = 'pods "ray-gpu-workers-worker-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1'
    condition = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreateWorkerPod",
        "message": f"FailedCreateWorkerPod\n{said}",
    }
    refused = cluster(status={"observedGeneration": 1, "conditions": [condition]})
    verdict = waiting(seen(HEAD, cluster=refused))
    assert f"FailedCreateWorkerPod: {said}" in verdict.reason
    assert "raise the namespace's ResourceQuota" in verdict.reason
    assert verdict.patience is not None
    assert verdict.patience < 60, "within a minute"

    condition["lastTransitionTime"] = "2026-11-29T18:00:00Z"
    later = dataclasses.replace(DECLARED, waiting_since=datetime.datetime(2026, 11, 29, 18, 1, tzinfo=datetime.UTC))
    history = judge_pods(later, seen(HEAD, cluster=refused))
    assert isinstance(history, Waiting)
    assert history.patience is not None
    assert history.patience > 120, "lifted since, it is the operator's next try that tells"


def test_an_older_operators_events_tell_of_a_refused_pod_too() -> None:
    fresh = event("FailedToCreateWorkerPod", "is forbidden: maximum cpu usage per Container is 500m")
    stale = event("FailedToCreateWorkerPod", "exceeded quota", at="2026-11-29T17:00:00Z")
    assert "maximum cpu usage" in waiting(seen(HEAD, events=[stale, fresh])).reason
    assert "exceeded quota" not in waiting(seen(HEAD, events=[stale])).reason, "from before the last change"
    assert isinstance(judge_pods(DECLARED, seen(HEAD, *WORKERS, events=[fresh])), PodsReady), "overcome"


def test_a_raycluster_the_operator_refuses_fails_with_its_words() -> None:
    untouched = cluster(status={})
    events = [event("InvalidRayClusterSpec", "headGroupSpec should have at least one container")]
    verdict = judge_pods(DECLARED, seen(cluster=untouched, events=events))
    assert isinstance(verdict, Failed)
    assert "at least one container" in verdict.reason


OPERATOR = {
    "metadata": {"name": "kuberay-operator", "namespace": "kuberay-system"},
    "spec": {"replicas": 1},
    "status": {},
}


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ([OPERATOR], "Deployment kuberay-system/kuberay-operator has 0 of 1 replicas"),
        ([{**OPERATOR, "status": {"availableReplicas": 1}}], "does it watch namespace team?"),
        ([], "no Deployment of it"),
        (None, "may not look at its Deployment"),
    ],
)
def test_an_absent_operator_is_found_out_within_a_minute(operators: Any, said: str) -> None:
    verdict = waiting(seen(cluster=cluster(status={}), operators=operators))
    assert said in verdict.reason
    assert verdict.patience is not None
    assert verdict.patience < 60


def test_a_missing_pod_with_the_operator_down_names_the_operator() -> None:
    verdict = waiting(seen(HEAD, WORKERS[0], operators=[OPERATOR]))
    assert "1 of 2 worker pods" in verdict.reason
    assert "0 of 1 replicas" in verdict.reason


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("workerGroupSpecs", 0, "replicas"), 3, "replicas of group gpu-workers is 3 instead of 2"),
        (
            ("workerGroupSpecs", 0, "template", "spec", "containers", 0, "image"),
            "other:1",
            "image of the workers is other:1",
        ),
        (("headGroupSpec", "template", "spec", "containers", 0, "image"), "other:1", "image of the head is other:1"),
        (("suspend",), True, "spec.suspend is True instead of False"),
    ],
)
def test_a_raycluster_that_somebody_edited_fails_with_the_field(path: tuple[Any, ...], value: Any, said: str) -> None:
    edited = cluster()
    target = edited["spec"]
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    verdict = judge_pods(DECLARED, seen(HEAD, *WORKERS, cluster=edited))
    assert isinstance(verdict, Failed)
    assert said in verdict.reason
    assert "pulumi up --refresh" in verdict.reason


def test_the_editor_is_named_by_its_field_manager() -> None:
    edited = cluster()
    edited["spec"]["workerGroupSpecs"][0]["replicas"] = 3
    edit = {
        "manager": "kubectl-edit",
        "time": "2026-11-29T19:00:00Z",
        "fieldsV1": {"f:spec": {"f:workerGroupSpecs": {}}},
    }
    status = {"manager": "manager", "subresource": "status", "fieldsV1": {"f:spec": {}}, "time": "2026-11-29T20:00:00Z"}
    edited["metadata"]["managedFields"] += [edit, status]
    verdict = judge_pods(DECLARED, seen(HEAD, *WORKERS, cluster=edited))
    assert isinstance(verdict, Failed)
    assert "changed by kubectl-edit at 2026-11-29T19:00:00Z" in verdict.reason


def test_pods_of_another_image_are_not_the_declared_cluster() -> None:
    verdict = waiting(seen(HEAD, WORKERS[0], pod("ray-worker-bb", image="other:1")))
    assert "runs other:1" in verdict.reason


def test_pods_of_a_raycluster_that_is_gone_do_not_count() -> None:
    verdict = waiting(seen(HEAD, WORKERS[0], pod("ray-worker-bb", owner="older")))
    assert "1 of 2 worker pods" in verdict.reason


def test_a_pod_on_its_way_out_does_not_count_and_is_named() -> None:
    leaving = pod("ray-worker-bb", metadata={"deletionTimestamp": MADE})
    assert "ray-worker-bb is being deleted" in waiting(seen(HEAD, WORKERS[0], leaving)).reason


def test_another_raycluster_of_the_name_and_none_at_all_are_said() -> None:
    other = cluster()
    other["metadata"]["uid"] = "newer"
    assert "not the one that was declared" in waiting(seen(HEAD, *WORKERS, cluster=other)).reason
    assert "no such RayCluster" in waiting(seen(cluster=None)).reason


def a_node(zone: str) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone, "node.kubernetes.io/instance-type": "g6.12xlarge"}
    return {"metadata": {"name": "n", "labels": labels}, "spec": {"providerID": f"aws:///{zone}/i-0abc"}}


def test_workers_in_two_zones_fail_and_the_heads_zone_does_not_matter() -> None:
    nodes = {"node-of-ray-worker-a": a_node("us-east-1a"), "node-of-ray-head": a_node("us-east-1c")}
    assert judge_zone(DECLARED, ready(), {**nodes, "node-of-ray-worker-bb": a_node("us-east-1a")}) is None
    assert judge_zone(DECLARED, ready(), nodes) is None, "what may not be looked at is not held against it"
    spread = {**nodes, "node-of-ray-worker-bb": a_node("us-east-1b")}
    apart = judge_zone(DECLARED, ready(), spread)
    assert apart is not None
    assert "us-east-1a: ray-worker-a; us-east-1b: ray-worker-bb" in apart.reason
    assert judge_zone(dataclasses.replace(DECLARED, one_zone=False), ready(), spread) is None, "no EFA, no matter"


def test_a_pod_is_recorded_with_its_machine_and_the_image_that_really_ran() -> None:
    recorded = described_pod(WORKERS[0], {"node-of-ray-worker-a": a_node("us-east-1a")})
    assert recorded["instance_id"] == "i-0abc"
    assert recorded["zone"] == "us-east-1a"
    assert recorded["image_id"] == f"{IMAGE}@sha256:1"
    assert described_pod(WORKERS[0], {})["node"] == "node-of-ray-worker-a", "where nodes may not be read"


def ray_node(found: Mapping[str, Any], gpus: float = 4.0, state: str = "ALIVE") -> dict[str, Any]:
    return {"node_id": "0", "node_ip": found["status"]["podIP"], "state": state, "resources_total": {"GPU": gpus}}


def view(*nodes: Mapping[str, Any], **changes: Any) -> RayView:
    return RayView(**{"version": "2.58.0", "nodes": nodes, **changes})


HEAD_NODE = ray_node(HEAD, gpus=0.0)
WORKER_NODES = tuple(ray_node(worker) for worker in WORKERS)


def verdict_of(found: RayView, client: str = "2.58.0") -> Waiting | Failed | None:
    return judge_ray(DECLARED, ready(), found, client_version=client)


def test_ray_counting_head_and_workers_with_their_accelerators_is_ready() -> None:
    dead = {**ray_node(WORKERS[0], state="DEAD"), "node_ip": "10.9.9.9"}
    assert verdict_of(view(HEAD_NODE, *WORKER_NODES, dead)) is None


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (view(HEAD_NODE, WORKER_NODES[0]), "Ray counts 2 of 3 nodes: pod ray-worker-bb"),
        (view(HEAD_NODE, WORKER_NODES[0], ray_node(WORKERS[1], state="DEAD")), "has not registered"),
        (view(HEAD_NODE, *WORKER_NODES, {**HEAD_NODE, "node_ip": "10.9.9.9"}), "still counts 10.9.9.9"),
        (view(HEAD_NODE, WORKER_NODES[0], ray_node(WORKERS[1], gpus=1.0)), "offers Ray 1 GPU, declared are 4"),
        (view(error="connection refused"), "connection refused"),
        (view(error="/api/version answers 403", status=403), "refuses this stack's token"),
    ],
)
def test_what_ray_does_not_count_is_waited_for_with_the_reason(found: RayView, said: str) -> None:
    verdict = verdict_of(found)
    assert isinstance(verdict, Waiting)
    assert said in verdict.reason


def test_another_ray_version_fails_whether_the_heads_or_the_clients() -> None:
    declared = verdict_of(view(version="2.56.0"))
    assert isinstance(declared, Failed)
    assert "runs Ray 2.56.0, declared is 2.58.0" in declared.reason
    client = verdict_of(view(HEAD_NODE, *WORKER_NODES), client="2.60.0")
    assert isinstance(client, Failed)
    assert "this machine's client is 2.60.0" in client.reason


def test_a_head_that_may_never_be_reached_fails() -> None:
    verdict = verdict_of(view(error="not permitted: pods/portforward", hopeless=True))
    assert isinstance(verdict, Failed)
