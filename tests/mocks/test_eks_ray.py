"""The eks platform as a whole: what waits for what, and what does not."""

from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
import pytest

from infra.aws_facts import AwsFacts, InstanceFacts
from infra.eks_ray import EksRay, EksRayArgs
from infra.eks_settings import EksSettings
from infra.zones import ZoneFacts, choose_zones
from tests.mocks.recording import STACK_TYPE, Recording, Registered, reference, run
from tests.pure.test_eks_settings import load

ACCOUNT = "123456789012"
ARN = f"arn:aws:eks:us-west-2:{ACCOUNT}:cluster/ray-test"
# What the remote component has made, and answers with.
URN = "urn:pulumi:test::ray-train-efa::eks:index:Cluster$aws:eks/cluster:Cluster::inner"
INSIDE = {
    URN: {
        "name": "ray-test",
        "arn": ARN,
        "endpoint": "https://example.test",
        "certificateAuthority": {"data": "Q0E="},
        "vpcConfig": {"clusterSecurityGroupId": "sg-1", "subnetIds": []},
    }
}
ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "eks:index:Cluster": {"eksCluster": reference(URN)},
    "aws:eks/nodeGroup:NodeGroup": {"status": "ACTIVE"},
    "kubernetes:helm.sh/v3:Release": {"status": {"revision": 1}},
    "kubernetes:ray.io/v1:RayCluster": {"metadata": {"uid": "uid-1"}},
    "pulumi-python:dynamic/infra:RayAuthToken": {"token": "the-token"},
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:iam/role:Role": {"arn": f"arn:aws:iam::{ACCOUNT}:role/r"},
    "aws:s3/bucket:Bucket": {"arn": "arn:aws:s3:::checkpoints"},
}
BILLED = (
    "aws:ec2/eip:Eip",
    "aws:ec2/natGateway:NatGateway",
    "aws:kms/key:Key",
    "eks:index:Cluster",
    "aws:eks/nodeGroup:NodeGroup",
)


@pytest.fixture(autouse=True)
def empty_config() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


def facts(settings: EksSettings) -> AwsFacts:
    both = frozenset({settings.gpu.instance.name, settings.system.instance_type})
    return AwsFacts(
        account=ACCOUNT,
        caller=f"arn:aws:iam::{ACCOUNT}:user/deployer",
        partition="aws",
        zones=tuple(
            ZoneFacts(name=f"us-west-2{z}", zone_id=f"usw2-az{i}", offers=both) for i, z in enumerate("abc", 1)
        ),
        instance=InstanceFacts(name=settings.gpu.instance.name, gpus=4, vcpus=48, efa_interfaces=1),
        cli=True,
    )


def declared(*, reserve: bool = True, **changes: Any) -> Recording:
    settings = load(**changes)
    seen = facts(settings)
    zones = choose_zones(seen.zones, gpu_zone=settings.gpu.zone, gpu_type=settings.gpu.instance.name, given=())
    heads = []

    def program() -> None:
        args = EksRayArgs(
            settings=settings,
            facts=seen,
            zones=zones,
            subnets=None,
            reserve=reserve and settings.gpu.nodes > 0,
            ended=False,
            targets=reserve and settings.gpu.nodes > 0,
            existing=None,
        )
        heads.append(EksRay("ray", args).head)

    recording = run(program, ANSWERS, inside=INSIDE)
    assert (heads[0] is None) == (settings.gpu.nodes == 0)
    return recording


def waits_for(recording: Recording, one: Registered) -> set[tuple[str, str]]:
    """Type and name of all that must be there before it, whichever way."""
    by_key = {key(resource): resource for resource in recording}
    seen: set[tuple[str, str]] = set()
    left = [one]
    while left:
        for urn in left.pop().request.dependencies:
            types, name = urn.split("::")[-2:]
            found = (types.rpartition("$")[2], name)
            if found not in seen:
                seen.add(found)
                left += [by_key[found]] if found in by_key else []
    return seen


def key(resource: Registered) -> tuple[str, str]:
    return resource.type, resource.name


@pytest.fixture(scope="module")
def stack() -> Recording:
    return declared()


def test_everything_that_bills_waits_for_the_reservation(stack: Recording) -> None:
    reservation = stack.one("aws:ec2/capacityReservation:CapacityReservation")
    for token in BILLED:
        assert stack.of_type(token), token
        for billed in stack.of_type(token):
            assert key(reservation) in waits_for(stack, billed), billed.name


def test_the_reservation_waits_for_nothing(stack: Recording) -> None:
    assert not waits_for(stack, stack.one("aws:ec2/capacityReservation:CapacityReservation"))


def test_the_control_plane_waits_for_no_way_out(stack: Recording) -> None:
    nat = {key(resource) for resource in stack.of_type("aws:ec2/natGateway:NatGateway")}
    assert nat
    assert not nat & waits_for(stack, stack.one("eks:index:Cluster"))


def test_gpu_nodes_come_up_beside_the_system_nodes(stack: Recording) -> None:
    system, gpu = sorted(stack.of_type("aws:eks/nodeGroup:NodeGroup"), key=lambda group: "gpu" in group.name)
    assert key(system) not in waits_for(stack, gpu)
    assert key(gpu) not in waits_for(stack, system)


def test_no_chart_waits_for_a_node_and_ray_waits_for_all_of_them(stack: Recording) -> None:
    groups = {key(group) for group in stack.of_type("aws:eks/nodeGroup:NodeGroup")}
    releases = stack.of_type("kubernetes:helm.sh/v3:Release")
    assert len(releases) == 3
    for release in releases:
        assert not groups & waits_for(stack, release), release.name
        assert release.inputs["skipAwait"] is True, "Helm would wait for nodes that are still on their way"
    assert groups | {key(release) for release in releases} <= waits_for(
        stack, stack.one("kubernetes:ray.io/v1:RayCluster")
    )


def test_ray_pods_start_only_when_their_identity_is_there(stack: Recording) -> None:
    [cluster] = stack.of_type("kubernetes:ray.io/v1:RayCluster")
    association = stack.one("aws:eks/podIdentityAssociation:PodIdentityAssociation")
    assert key(association) in waits_for(stack, cluster)
    account = stack.one("kubernetes:core/v1:ServiceAccount")
    for group in (cluster.inputs["spec"]["headGroupSpec"], cluster.inputs["spec"]["workerGroupSpecs"][0]):
        assert group["template"]["spec"]["serviceAccountName"] == account.inputs["metadata"]["name"]
    assert association.inputs["serviceAccount"] == account.inputs["metadata"]["name"]
    assert association.inputs["namespace"] == cluster.inputs["metadata"]["namespace"]


def test_ray_comes_up_beside_the_name_service_and_is_ready_only_with_it(stack: Recording) -> None:
    [dns] = [one for one in stack.of_type("aws:eks/addon:Addon") if one.inputs["addonName"] == "coredns"]
    assert key(dns) not in waits_for(stack, stack.one("kubernetes:ray.io/v1:RayCluster"))
    assert key(dns) in waits_for(stack, stack.one("pulumi-python:dynamic/infra:RayClusterReady"))


def test_nothing_stands_outside_the_component(stack: Recording) -> None:
    roots = [resource for resource in stack if not resource.request.parent or STACK_TYPE in resource.parent]
    assert {resource.name for resource in roots} <= {"ray"}


def test_no_nodes_keep_everything_but_the_reservation_and_the_run() -> None:
    stack = declared(gpuNodes=0)
    assert not stack.of_type("aws:ec2/capacityReservation:CapacityReservation")
    group = next(group for group in stack.of_type("aws:eks/nodeGroup:NodeGroup") if "gpu" in group.name)
    assert group.inputs["scalingConfig"]["desiredSize"] == 0
    [cluster] = stack.of_type("kubernetes:ray.io/v1:RayCluster")
    assert cluster.inputs["spec"]["workerGroupSpecs"][0]["replicas"] == 0
    assert not stack.of_type("pulumi-python:dynamic/infra:RayClusterReady")


def test_a_file_system_is_claimed_by_the_pods_in_place_of_a_bucket() -> None:
    stack = declared(eksStorage="fsx")
    assert not stack.of_type("aws:s3/bucket:Bucket")
    volume = stack.one("kubernetes:core/v1:PersistentVolume")
    claim = stack.one("kubernetes:core/v1:PersistentVolumeClaim")
    assert claim.inputs["spec"]["volumeName"] == volume.inputs["metadata"]["name"]
    assert claim.inputs["spec"]["storageClassName"] == ""


def test_an_expired_reservation_is_neither_made_nor_named() -> None:
    stack = declared(reserve=False)
    assert not stack.of_type("aws:ec2/capacityReservation:CapacityReservation")
    for template in stack.of_type("aws:ec2/launchTemplate:LaunchTemplate"):
        assert "capacityReservationTarget" not in str(template.inputs)


def test_scaling_to_zero_changes_the_run_and_not_the_pods_that_stay() -> None:
    two, none = (declared(gpuNodes=nodes).of_type("kubernetes:ray.io/v1:RayCluster")[0].inputs for nodes in (2, 0))
    assert two["spec"]["headGroupSpec"] == none["spec"]["headGroupSpec"]
