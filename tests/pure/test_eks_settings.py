"""The eks platform's settings: the committed stacks are complete, and what cannot be used is said before a resource."""

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra.eks_settings import EksSettings, end_of
from infra.settings import PROJECT, SettingsError, load_settings

ROOT = Path(__file__).parents[2]
DECLARED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
STACKS = ("dev", "dev-us-east-2")
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def empty_config() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


def load(stack: str = "dev", **changes: Any) -> EksSettings:
    """Settings of a committed stack with changes; `aws_region` changes aws:region."""
    values: dict[str, Any] = {f"{PROJECT}:{key}": declared["default"] for key, declared in DECLARED.items()}
    values |= yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]
    # The committed one is for documentation: everybody has to put their own.
    values[f"{PROJECT}:eksEndpointCidrs"] = ["8.8.8.8/32"]
    for key, value in changes.items():
        values[f"aws:{key.removeprefix('aws_')}" if key.startswith("aws_") else f"{PROJECT}:{key}"] = value
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    pulumi.runtime.set_all_config(texts, [])
    settings = load_settings(ROOT / "Pulumi.yaml").eks
    assert settings is not None
    return settings


def job_env(**changes: Any) -> dict[str, str]:
    load("dev", **changes)
    return dict(load_settings(ROOT / "Pulumi.yaml").job.env)


def test_a_missing_plugin_is_made_an_error_unless_the_job_says_otherwise() -> None:
    assert job_env() == {"NCCL_NET": "Libfabric"}
    assert job_env(jobEnv={"LOG_LEVEL": "debug"}) == {"NCCL_NET": "Libfabric", "LOG_LEVEL": "debug"}
    assert job_env(jobEnv={"NCCL_NET": "Socket"}) == {"NCCL_NET": "Socket"}
    assert job_env(gpuInstanceType="g6.xlarge") == {}
    assert job_env(trainBackend="gloo") == {}


@pytest.mark.parametrize("stack", STACKS)
def test_the_committed_stacks_are_valid_and_ask_for_the_default_shape(stack: str) -> None:
    settings = load(stack)
    assert (settings.gpu.instance.name, settings.gpu.nodes) == ("g6.12xlarge", 2)
    assert (settings.gpu.instance.gpus, settings.gpu.instance.efa_interfaces) == (4, 1)
    assert settings.system.instance_type == "m7i.xlarge"
    assert settings.gpu.zone.startswith(settings.aws.region)
    assert settings.capacity.mode == "reserve"
    assert settings.kubernetes.storage.in_claim is False


def test_a_second_regions_stack_differs_by_its_place_alone() -> None:
    first, second = (load(stack) for stack in STACKS)
    assert first.aws.region != second.aws.region
    same = ("capacity", "network", "cluster", "system", "storage")
    for part in same:
        assert dataclasses.asdict(getattr(first, part)) == dataclasses.asdict(getattr(second, part)), part


def test_every_thing_made_carries_the_stack_beside_the_users_own_tags() -> None:
    tags = load(tags={"team": "ml", "cost center": "7"}).tags
    assert tags["team"] == "ml"
    assert tags["ray-train-efa/stack"] == pulumi.get_stack()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aws_region": ""}, "aws:region: '' is not a region like us-west-2"),
        ({"aws_region": "oregon"}, "aws:region: 'oregon' is not a region"),
        ({"aws_accessKey": "AKIA"}, "aws:accessKey: is not used by this program, which knows aws: region, profile"),
        ({"aws_assumeRoles": [{"roleArn": "admin"}]}, "aws:assumeRoles: must be a list of one {roleArn: arn:aws:iam"),
        ({"gpuZone": ""}, "gpuZone: must be set on eks"),
        ({"gpuZone": "us-east-1a"}, "gpuZone: 'us-east-1a' is not a zone of aws:region us-west-2"),
        ({"gpuZone": "b"}, "gpuZone: 'b' is not an availability zone like us-west-2a"),
        ({"gpuInstanceType": ""}, "gpuInstanceType: must be set on eks"),
        ({"gpuInstanceType": "m7i.large"}, "gpuInstanceType: 'm7i.large' instance type 'm7i.large' is not known here"),
        ({"gpuNodes": -1}, "gpuNodes: '-1' must be between 0 and 512"),
        ({"capacity": "cr-1"}, "capacity: 'cr-1' is neither reserve, none nor the id of a reservation"),
        ({"capacityUntil": ""}, "capacityUntil: must say when the reservation ends"),
        ({"capacityUntil": "tomorrow"}, "capacityUntil: 'tomorrow' is not a time in UTC"),
        ({"capacityUntil": "2026-13-01T00:00:00Z"}, "capacityUntil: '2026-13-01T00:00:00Z' is not a time in UTC"),
        ({"gpuMarket": "spot"}, "capacity: 'reserve' is not for gpuMarket spot"),
        ({"gpuMarket": "capacity-block"}, "capacity: 'reserve' cannot buy a capacity block"),
        ({"gpuMarket": "capacity-block", "capacity": "none"}, "capacity: 'none' must be the id of the capacity block"),
        ({"eksEndpointCidrs": []}, "eksEndpointCidrs: must list who may reach the cluster's API"),
        ({"eksEndpointCidrs": ["0.0.0.0/0"]}, "eksEndpointCidrs: '0.0.0.0/0' is wider than /8"),
        ({"eksEndpointCidrs": ["0.0.0.0/1", "128.0.0.0/1"]}, "eksEndpointCidrs: '128.0.0.0/1' is wider than /8"),
        ({"eksEndpointCidrs": ["203.0.113.7/32"]}, "eksEndpointCidrs: '203.0.113.7/32' is no address of the internet"),
        ({"eksEndpointCidrs": ["10.1.0.0/16"]}, "eksEndpointCidrs: '10.1.0.0/16' is no address of the internet"),
        ({"eksEndpointCidrs": ["100.64.0.0/10"]}, "eksEndpointCidrs: '100.64.0.0/10' is no address of the internet"),
        ({"aws_assumeRoles": [{"roleArn": "arn:aws:iam::1:user/x"}]}, "aws:assumeRoles: must be a list of one"),
        (
            {"aws_assumeRoles": [{"roleArn": "arn:aws:iam::123456789012:role/x", "externalId": "e"}]},
            "aws:assumeRoles: must be a list of one {roleArn: arn:aws:iam::...:role/...}, and nothing besides",
        ),
        ({"gpuAmiRelease": "1.34.2-20251120"}, "gpuAmiRelease: '1.34.2-20251120' is not a release of eksVersion 1.35"),
        (
            {"gpuSecurityGroups": ["sg-0123456789abcdef0"]},
            "gpuSecurityGroups: 'sg-0123456789abcdef0' belong to a network",
        ),
        ({"eksEndpointCidrs": [""]}, "eksEndpointCidrs: must list who may reach the cluster's API"),
        ({"vpcCidr": "169.254.0.0/16"}, "vpcCidr: '169.254.0.0/16' is not a private range"),
        (
            {"vpcZones": ["us-west-2a", "us-west-2b"], "eksExistingCluster": "x"},
            "vpcZones: 'us-west-2a, us-west-2b' is not used",
        ),
        ({"eksEndpointCidrs": ["203.0.113.7/24"]}, "eksEndpointCidrs: '203.0.113.7/24' is not an IPv4 network"),
        ({"eksVersion": "1.12"}, "eksVersion: '1.12' is not one that add-ons are pinned for"),
        ({"eksAdmins": ["alice"]}, "eksAdmins: 'alice' is not the ARN of an IAM role or user"),
        ({"eksLogs": ["all"]}, "eksLogs: 'all' is none of api, audit"),
        ({"eksSecretsKey": "alias/mine"}, "eksSecretsKey: 'alias/mine' is not the ARN of a KMS key"),
        ({"vpcCidr": "10.0.0.0/8"}, "vpcCidr: '10.0.0.0/8' must be between /16 and /22"),
        ({"vpcCidr": "8.8.0.0/16"}, "vpcCidr: '8.8.0.0/16' is not a private range"),
        ({"vpcCidr": "10.20.0.1/16"}, "vpcCidr: '10.20.0.1/16' is not an IPv4 network"),
        ({"vpcZones": ["us-west-2b"]}, "vpcZones: 'us-west-2b' must be at least two zones"),
        ({"vpcZones": ["us-west-2a", "us-west-2c"]}, "gpuZone: 'us-west-2b' is not among vpcZones"),
        ({"vpcNat": "two"}, "vpcNat: 'two' is none of one, per-zone, none"),
        ({"vpcNat": "none"}, "vpcNat: 'none' leaves nodes without a way to any image"),
        ({"vpcEndpoints": ["dynamodb"]}, "vpcEndpoints: 'dynamodb' is none of s3, ecr"),
        ({"vpcId": "vpc-0123456789abcdef0"}, "vpcPrivateSubnets: must be set with vpcId"),
        ({"gpuExistingGroup": "gpus"}, "gpuExistingGroup: 'gpus' belongs to a cluster: name it in eksExistingCluster"),
        ({"gpuDiskGiB": 50}, "gpuDiskGiB: '50' must be between 150 and 16384"),
        ({"gpuDiskThroughput": 2000}, "gpuDiskThroughput: '2000' is more than a quarter of gpuDiskIops 4000"),
        ({"eksStorage": "efs"}, "eksStorage: 'efs' is none of bucket, fsx, claim"),
        ({"eksStorage": "fsx", "fsxGiB": 3000}, "fsxGiB: '3000' must be 1200 or a multiple of 2400"),
        (
            {"eksStorage": "fsx", "storagePath": "s3://b/c"},
            "storagePath: 's3://b/c' is a bucket, and eksStorage is fsx",
        ),
        ({"eksStorage": "claim"}, "eksStorage: 'claim' needs storageClass or storageClaim"),
        ({"eksStorage": "fsx", "storageKeep": True}, "storageKeep: 'true' would keep a file system whose security"),
        ({"kubeconfig": "~/.kube/config"}, "kubeconfig: '~/.kube/config' is not used on eks"),
        ({"eksName": "a_b"}, "eksName: 'a_b' is not a name"),
        ({"tags": {"aws:x": "y"}}, "tags: 'aws:x: y' is not a tag's key and its text"),
        ({"systemInstanceType": "m7g.xlarge"}, "systemInstanceType: 'm7g.xlarge' is not an x86-64 EC2 instance type"),
        (
            {"capacity": "cr-0123456789abcdef0", "gpuPlacementGroup": "cluster"},
            "gpuPlacementGroup: 'cluster' is made here, and reservation cr-0123456789abcdef0 was made before it",
        ),
        ({"systemNodes": 0}, "systemNodes: '0' must be between 1 and 20"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"gpuNodes": 0, "capacityUntil": ""},
        {"capacity": "none", "capacityUntil": ""},
        {"capacity": "none", "gpuMarket": "spot", "capacityUntil": ""},
        {"capacity": "cr-0123456789abcdef0", "capacityUntil": ""},
        {"capacity": "cr-0123456789abcdef0", "gpuMarket": "capacity-block", "gpuInstanceType": "p5.48xlarge"},
        {
            "vpcNat": "none",
            "vpcEndpoints": ["s3", "ecr"],
            "rayImage": "123456789012.dkr.ecr.us-west-2.amazonaws.com/ray:train-ml-cuda-v1.1",
            "addonImageMirror": "123456789012.dkr.ecr.us-west-2.amazonaws.com",
        },
        {"eksExistingCluster": "shared", "eksEndpointCidrs": []},
        {"vpcId": "vpc-0123456789abcdef0", "vpcPrivateSubnets": ["subnet-0123456789abcdef0"]},
        {"storagePath": "s3://checkpoints/runs"},
        {"eksStorage": "fsx", "fsxGiB": 2400},
        {"eksStorage": "claim", "storageClass": "efs"},
        {"eksEndpointCidrs": ["none"]},
        {"eksExistingCluster": "shared", "vpcPrivateSubnets": ["subnet-0123456789abcdef0"]},
        {"eksExistingCluster": "shared", "gpuSecurityGroups": ["sg-0123456789abcdef0"]},
        {"aws_assumeRoles": [{"roleArn": "arn:aws:iam::123456789012:role/deploy"}]},
        {"eksStorage": "fsx", "storageKeep": True, "eksExistingCluster": "shared"},
    ],
)
def test_what_belongs_together_is_taken(changes: dict[str, Any]) -> None:
    load(**changes)


def test_a_reservation_ends_at_a_fixed_time_and_is_not_held_past_it_or_without_nodes() -> None:
    until = "2026-12-01T18:00:00Z"
    capacity = load(capacityUntil=until).capacity
    assert capacity.reserves(nodes=2, now=NOW)
    assert not capacity.reserves(nodes=0, now=NOW)
    assert not capacity.reserves(nodes=2, now=end_of(until))
    assert not capacity.targets(nodes=2, now=end_of(until) + timedelta(days=1))


def test_a_reservation_already_held_is_targeted_and_not_made() -> None:
    capacity = load(capacity="cr-0123456789abcdef0").capacity
    assert (capacity.mode, capacity.reservation) == ("held", "cr-0123456789abcdef0")
    assert capacity.targets(nodes=2, now=NOW)
    assert not capacity.reserves(nodes=2, now=NOW)
    assert not capacity.targets(nodes=0, now=NOW)


def test_nodes_made_without_efa_ask_for_none() -> None:
    assert load(gpuEfa=False).gpu.instance.efa_interfaces == 0
