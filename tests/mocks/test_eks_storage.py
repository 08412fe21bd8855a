"""What each kind of storage declares on AWS and in the cluster."""

import json
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s
import pytest

from infra import versions
from infra.eks_storage import EksStorage, EksStorageArgs
from tests.mocks.recording import Recording, run

BUCKET = "aws:s3/bucket:Bucket"
VERSIONING = "aws:s3/bucketVersioning:BucketVersioning"
LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
PRIVATE = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
POLICY = "aws:s3/bucketPolicy:BucketPolicy"
ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
ADDON = "aws:eks/addon:Addon"
VOLUME = "kubernetes:core/v1:PersistentVolume"
NAME = "ray-dev-1a2b3c"
PROTECTION = (BUCKET, VERSIONING, LIFECYCLE, PRIVATE, POLICY, ENCRYPTION)


def made(kind: str = "bucket", seen: dict[str, Any] | None = None, **changes: Any) -> Recording:
    values: dict[str, Any] = {
        "name": "ray-Dev",
        "kind": kind,
        "path": "runs/ray",
        "expire_days": 0,
        "keep": False,
        "partition": "aws",
        "version": "1.34",
        "cluster_name": "ray-dev",
        "namespace": "ray",
        "service_account": "ray",
        "fsx_gib": 2400,
        "fsx_throughput": 250,
        "vpc_id": "vpc-1",
        "subnet_id": "subnet-gpu",
        "node_security_groups": ["sg-cluster"],
    }

    def declare() -> Any:
        reservation = aws.ec2.PlacementGroup("reservation", strategy="cluster")
        system = aws.ec2.PlacementGroup("system", strategy="spread")
        providers = [aws.Provider("aws", region="us-west-2"), k8s.Provider("cluster", kubeconfig="{}")]
        storage = EksStorage(
            "storage",
            EksStorageArgs(**{**values, **changes}, system_nodes=[system], billed_after=[reservation]),
            pulumi.ResourceOptions(providers=providers),
        )
        found = {"volume": storage.volume, "ready": [resource._name for resource in storage.ready]}
        return pulumi.Output.all(uri=storage.uri, **found).apply((seen if seen is not None else {}).update)

    answers = {
        BUCKET: {"arn": f"arn:aws:s3:::{NAME}"},
        LUSTRE: {"dnsName": "fs-1.fsx.us-west-2.amazonaws.com", "mountName": "abcdefgh"},
        ROLE: {"arn": "arn:aws:iam::111122223333:role/made"},
    }
    return run(declare, answers)


def test_the_bucket_is_private_encrypted_versioned_and_takes_tls_alone() -> None:
    recording = made()
    assert recording.one(BUCKET).inputs["bucketPrefix"] == "ray-dev-", "a bucket's name has no capitals"
    for name in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"):
        assert recording.one(PRIVATE).inputs[name] is True
    [encryption] = recording.one(ENCRYPTION).inputs["rules"]
    assert encryption["applyServerSideEncryptionByDefault"]["sseAlgorithm"] == "AES256"
    assert recording.one(VERSIONING).inputs["versioningConfiguration"] == {"status": "Enabled"}
    [statement] = json.loads(recording.one(POLICY).inputs["policy"])["Statement"]
    assert statement["Effect"] == "Deny"
    assert f"arn:aws:s3:::{NAME}/*" in statement["Resource"]


def test_a_long_name_still_makes_a_prefix_that_s3_takes() -> None:
    prefix = made(name="a" * 40).one(BUCKET).inputs["bucketPrefix"]
    assert len(prefix) <= 37
    assert prefix.endswith("-")


def test_changes_of_the_buckets_configuration_follow_one_another() -> None:
    recording = made()
    assert recording.one(PRIVATE).name in recording.one(POLICY).dependencies
    assert recording.one(VERSIONING).name in recording.one(LIFECYCLE).dependencies


@pytest.mark.parametrize("days", [0, 90])
def test_old_versions_and_cut_off_uploads_go_and_files_where_that_is_asked(days: int) -> None:
    rules = {rule["id"]: rule for rule in made(expire_days=days).one(LIFECYCLE).inputs["rules"]}
    assert rules["tidy"]["noncurrentVersionExpiration"]["noncurrentDays"] > 0
    assert rules["tidy"]["abortIncompleteMultipartUpload"]["daysAfterInitiation"] > 0
    assert "days" not in rules["tidy"]["expiration"], "S3 refuses it beside the removal of delete markers"
    assert ("expire" in rules) is (days > 0)
    if days:
        assert rules["expire"]["expiration"] == {"days": days}
        assert rules["expire"]["filter"] == {"prefix": "runs/ray/"}


def test_rays_pods_alone_may_use_the_folder() -> None:
    seen: dict[str, Any] = {}
    recording = made(seen=seen)
    identity = recording.one(IDENTITY)
    assert (identity.inputs["clusterName"], identity.inputs["namespace"]) == ("ray-dev", "ray")
    assert identity.inputs["serviceAccount"] == "ray"
    assert identity.inputs["roleArn"] == "arn:aws:iam::111122223333:role/made"
    folder = json.loads(recording.one(ROLE_POLICY).inputs["policy"])["Statement"][1]
    assert folder["Resource"] == f"arn:aws:s3:::{NAME}/runs/ray/*"
    assert seen["uri"] == f"s3://{recording.one(BUCKET).name}-id/runs/ray"
    assert seen["volume"] is None
    assert set(seen["ready"]) == {identity.name, recording.one(ROLE_POLICY).name}


def test_a_bucket_that_is_there_gets_a_role_and_nothing_else() -> None:
    seen: dict[str, Any] = {}
    recording = made(path="s3://theirs/team/ray", seen=seen, partition="aws-cn")
    assert not [resource for resource in recording if resource.type.startswith("aws:s3/")]
    statements = json.loads(recording.one(ROLE_POLICY).inputs["policy"])["Statement"]
    assert statements[0]["Resource"] == "arn:aws-cn:s3:::theirs"
    assert statements[1]["Resource"] == "arn:aws-cn:s3:::theirs/team/ray/*"
    assert seen["uri"] == "s3://theirs/team/ray"


def test_destroy_empties_the_bucket_unless_it_is_kept_with_what_protects_it() -> None:
    gone, kept = made(keep=False), made(keep=True)
    assert gone.one(BUCKET).inputs["forceDestroy"] is True
    assert kept.one(BUCKET).inputs["forceDestroy"] is False
    for token in PROTECTION:
        assert gone.one(token).request.retainOnDelete is False
        assert kept.one(token).request.retainOnDelete is True
    assert kept.one(ROLE).request.retainOnDelete is False, "a role without its cluster is of no use"


def test_lustre_stands_in_the_gpu_subnet_once_capacity_is_certain() -> None:
    files = made("fsx").one(LUSTRE)
    assert files.inputs["deploymentType"] == "PERSISTENT_2"
    assert files.inputs["subnetIds"] == "subnet-gpu"
    assert (files.inputs["storageCapacity"], files.inputs["perUnitStorageThroughput"]) == (2400, 250)
    assert "reservation" in files.dependencies
    assert "system" not in files.dependencies, "it is made beside the nodes"


def test_lustre_and_nodes_reach_each_other_on_its_ports_alone() -> None:
    recording = made("fsx")
    group = recording.one(GROUP)
    ports = [(988, 988), (1018, 1023)]
    for direction in ("ingress", "egress"):
        rules = group.inputs[direction]
        assert [(rule["fromPort"], rule["toPort"]) for rule in rules] == ports
        for rule in rules:
            assert rule["securityGroups"] == ["sg-cluster"]
            assert rule["self"] is True
            assert "cidrBlocks" not in rule
    rules = [rule.inputs for rule in recording.of_type(RULE)]
    assert [(rule["fromPort"], rule["toPort"]) for rule in rules] == ports
    assert {(rule["securityGroupId"], rule["referencedSecurityGroupId"]) for rule in rules} == {
        ("sg-cluster", f"{group.name}-id")
    }


def test_the_cluster_has_the_file_system_as_a_volume() -> None:
    seen: dict[str, Any] = {}
    recording = made("fsx", seen=seen)
    volume = recording.one(VOLUME)
    spec = volume.inputs["spec"]
    assert volume.inputs["metadata"]["name"] == seen["volume"] == "ray-dev-lustre"
    assert spec["storageClassName"] == "", "else a claim for it would be given another one"
    assert spec["accessModes"] == ["ReadWriteMany"]
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert spec["csi"] == {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": f"{recording.one(LUSTRE).name}-id",
        "volumeAttributes": {"dnsname": "fs-1.fsx.us-west-2.amazonaws.com", "mountname": "abcdefgh"},
    }
    assert volume.request.provider.split("::")[-2] == "cluster"
    assert seen["uri"] == ""
    assert set(seen["ready"]) == {volume.name, recording.one(ADDON).name}


def test_its_driver_is_pinned_and_may_only_look() -> None:
    recording = made("fsx")
    driver = recording.one(ADDON)
    assert driver.inputs["addonName"] == "aws-fsx-csi-driver"
    assert driver.inputs["addonVersion"] == versions.EKS["1.34"].fsx_csi
    assert "system" in driver.dependencies
    [statement] = json.loads(recording.one(ROLE_POLICY).inputs["policy"])["Statement"]
    assert statement["Action"] == "fsx:DescribeFileSystems"


def test_a_kept_file_system_keeps_its_security_group() -> None:
    recording = made("fsx", keep=True)
    assert recording.one(LUSTRE).request.retainOnDelete is True
    assert recording.one(GROUP).request.retainOnDelete is True
    assert recording.one(VOLUME).request.retainOnDelete is False


def test_a_claim_needs_nothing_of_aws() -> None:
    seen: dict[str, Any] = {}
    recording = made("claim", seen=seen)
    assert [resource.name for resource in recording if resource.parent == "storage"] == []
    assert seen == {"uri": "", "volume": None, "ready": []}
