"""What the Ray cluster's component registers, in which order, and what it leaves out."""

import dataclasses
import json
from typing import Any

import pulumi
import pytest

from infra.ray_cluster import RayCluster, RayClusterArgs
from tests.mocks.recording import Recording, run
from tests.pure.test_ray_cluster_spec import spec

RAY = "kubernetes:ray.io/v1:RayCluster"
NAMESPACE = "kubernetes:core/v1:Namespace"
SECRET = "kubernetes:core/v1:Secret"
CLAIM = "kubernetes:core/v1:PersistentVolumeClaim"
POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
PULL = "kubernetes:apps/v1:DaemonSet"
TOKEN = "pulumi-python:dynamic/infra:RayAuthToken"
ANSWERS: dict[str, dict[str, Any]] = {RAY: {"metadata": {"uid": "uid-1"}}, TOKEN: {"token": "the-token"}}


def args(**changes: Any) -> RayClusterArgs:
    made = RayClusterArgs(
        spec=spec(),
        namespace_made=True,
        claim_made=False,
        storage_class="",
        storage_size="100Gi",
        storage_keep=False,
        pre_pull=True,
    )
    return dataclasses.replace(made, **changes)


def made_with(arguments: RayClusterArgs) -> Recording:
    return run(lambda: RayCluster("ray", arguments).uid, ANSWERS)


def test_all_of_it_is_the_components_own() -> None:
    recording = made_with(args(claim_made=True, spec=spec(claim="ray-storage", hf_token=True), hf_token=secret("hf")))
    assert {resource.parent for resource in recording if resource.name != "ray"} == {"ray"}
    assert {resource.type for resource in recording} == {
        "ray-train-efa:infra:RayCluster",
        *(NAMESPACE, SECRET, CLAIM, POLICY, PULL, TOKEN, RAY),
    }


def secret(value: str) -> "pulumi.Output[str]":
    return pulumi.Output.secret(value)


def test_no_pod_can_start_before_its_secrets_and_its_policy() -> None:
    recording = made_with(args(spec=spec(hf_token=True), hf_token=secret("hf")))
    needed = {resource.name for resource in recording if resource.type in (SECRET, POLICY, NAMESPACE)}
    assert len(needed) == 4
    assert needed <= recording.one(RAY).dependencies


def test_the_image_is_pulled_without_waiting_and_without_being_waited_for() -> None:
    recording = made_with(args())
    pull = recording.one(PULL)
    assert pull.inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
    assert pull.dependencies == {"ray-namespace"}
    assert pull.name not in recording.one(RAY).dependencies


def test_what_pods_need_of_others_is_waited_for_by_the_raycluster_alone() -> None:
    class Operator(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("test:test:Operator", "operator")

    recording = run(lambda: RayCluster("ray", args(after=[Operator()])).uid, ANSWERS)
    waiting = {resource.name for resource in recording if "operator" in resource.dependencies}
    assert waiting <= {"ray-raycluster"}


def test_nothing_is_made_that_is_there_or_not_wanted() -> None:
    recording = made_with(args(namespace_made=False, pre_pull=False, spec=spec(claim="theirs")))
    for token in (NAMESPACE, CLAIM, PULL):
        assert recording.of_type(token) == []
    assert [resource.name for resource in recording.of_type(SECRET)] == ["ray-auth-token-secret"]
    assert recording.one(RAY).inputs["metadata"]["namespace"] == "ray-train"


def test_a_change_that_running_pods_do_not_follow_makes_another_raycluster() -> None:
    """Which path is which kind of change was tried on the real provider: replicas alone are changed in place."""
    request = made_with(args()).one(RAY).request
    assert request.deleteBeforeReplace, "both would have the same name"
    replaced = set(request.replaceOnChanges)
    assert {"spec.headGroupSpec", "spec.rayVersion", "spec.workerGroupSpecs[*].template"} <= replaced
    assert "spec.workerGroupSpecs[*].rayStartParams" in replaced
    assert not any("eplicas" in path for path in replaced)


def test_the_raycluster_is_applied_with_force_and_deleted_with_its_pods() -> None:
    annotations = made_with(args()).one(RAY).inputs["metadata"]["annotations"]
    assert annotations == {
        "pulumi.com/patchForce": "true",
        "pulumi.com/deletionPropagationPolicy": "foreground",
    }, "no waitFor: after an update the provider waits for a condition newer than the one there is (#4521)"


@pytest.mark.parametrize("keep", [True, False])
def test_a_claim_that_is_kept_keeps_its_namespace(keep: bool) -> None:
    recording = made_with(args(claim_made=True, storage_keep=keep, spec=spec(claim="ray-storage")))
    assert recording.one(CLAIM).request.retainOnDelete is keep
    assert recording.one(NAMESPACE).request.retainOnDelete is keep
    assert recording.one(CLAIM).inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
    assert recording.one(CLAIM).inputs["spec"]["resources"]["requests"]["storage"] == "100Gi"


def test_secrets_are_secrets_to_the_engine_and_stand_nowhere_else() -> None:
    recording = made_with(args(spec=spec(hf_token=True), hf_token=secret("hf-value")))
    for resource in recording:
        text = json.dumps(resource.inputs, default=str)
        for value in ("the-token", "hf-value"):
            if value in text:
                assert resource.type == SECRET
                assert "4dabf18193072939515e22adb298388d" in text, "the engine's signature of a secret value"
    assert "token" in recording.one(TOKEN).request.additionalSecretOutputs


def test_uid_token_and_digest_come_out() -> None:
    seen: dict[str, Any] = {}

    def program() -> Any:
        cluster = RayCluster("ray", args())
        seen["digest"] = cluster.spec_digest
        return pulumi.Output.all(cluster.uid, cluster.token).apply(lambda both: seen.update(uid=both[0], token=both[1]))

    run(program, ANSWERS)
    assert (seen["uid"], seen["token"]) == ("uid-1", "the-token")
    assert len(seen["digest"]) == 64, "plain, so that a preview knows whether a run is due"


def test_a_preview_of_a_cluster_that_is_not_there_has_no_uid_and_no_error() -> None:
    run(lambda: RayCluster("ray", args()).uid, {TOKEN: {"token": "the-token"}})
