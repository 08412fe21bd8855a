"""An audit finds what a stack left, whoever made it, says how to end it, and takes no silence for an empty account."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from capacity.audit import LOOKS, NAME_TAG, audit
from capacity.aws import Access
from capacity.left import KINDS, Left, lines
from capacity.probe_reservation import PROBE_TAG
from tests.capacity.test_probe import put
from tests.support.aws_server import AwsServer, Fault

WEST, EAST = "us-west-2", "us-east-1"
NAME = "ray-dev"
TAGS = {NAME_TAG: NAME}
OURS = [{"Key": NAME_TAG, "Value": NAME}]
OF_CLUSTER = [{"Key": f"kubernetes.io/cluster/{NAME}", "Value": "owned"}]
SOMEBODY = [{"Key": NAME_TAG, "Value": "ray-prod"}]


def found(*regions: str, **more: Any) -> list[Left]:
    return audit(regions or (WEST,), TAGS, **more)


def kinds(left: list[Left]) -> list[tuple[str, str]]:
    return [(one.kind, one.id) for one in left]


def only(left: list[Left], kind: str) -> Left:
    [one] = [one for one in left if one.kind == kind]
    return one


def tagged(kind: str, tags: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tags}]


def subnet(aws: AwsServer, *, tags: list[dict[str, str]] | None = None) -> tuple[str, str]:
    """A VPC's id and its subnet's, of somebody's."""
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=tagged("vpc", tags or SOMEBODY))["Vpc"]["VpcId"]
    return vpc, ec2.create_subnet(VpcId=vpc, CidrBlock="10.9.0.0/24")["Subnet"]["SubnetId"]


def instance(aws: AwsServer, tags: list[dict[str, str]]) -> str:
    _, net = subnet(aws)
    run = aws.client("ec2").run_instances(
        ImageId="ami-12c6146b",
        MinCount=1,
        MaxCount=1,
        InstanceType="g6.12xlarge",
        SubnetId=net,
        TagSpecifications=tagged("instance", tags),
    )
    return str(run["Instances"][0]["InstanceId"])


def cluster(aws: AwsServer, *, name: str = NAME, tags: dict[str, str] | None = None) -> None:
    _, net = subnet(aws)
    aws.client("eks").create_cluster(
        name=name,
        roleArn="arn:aws:iam::123456789012:role/control",
        resourcesVpcConfig={"subnetIds": [net]},
        tags=TAGS if tags is None else tags,
    )


def node_group(
    aws: AwsServer, name: str, *, in_cluster: str = NAME, nodes: int = 2, tags: dict[str, str] | None = None
) -> None:
    aws.client("eks").create_nodegroup(
        clusterName=in_cluster,
        nodegroupName=name,
        subnets=["subnet-1"],
        nodeRole="arn:aws:iam::123456789012:role/node",
        scalingConfig={"minSize": nodes, "maxSize": max(nodes, 1), "desiredSize": nodes},
        tags=tags or {},
    )


def test_an_account_without_anything_of_the_stack_is_clean(aws: AwsServer) -> None:
    instance(aws, SOMEBODY)
    assert found() == []


@pytest.mark.parametrize("tags", [OURS, OF_CLUSTER], ids=["our tag", "the cluster's tag alone"])
def test_an_instance_is_found_with_its_price_and_the_command_that_ends_it(
    aws: AwsServer, tags: list[dict[str, str]]
) -> None:
    id = instance(aws, tags)
    one = only(found(), "instance")
    assert (one.id, one.bills, one.usd_per_hour) == (id, True, 4.6016)
    assert one.how_to_end == f"aws ec2 terminate-instances --region us-west-2 --instance-ids {id}"


def test_an_instance_that_is_terminated_is_not_left(aws: AwsServer) -> None:
    id = instance(aws, OURS)
    aws.client("ec2").terminate_instances(InstanceIds=[id])
    assert "instance" not in dict(kinds(found()))


def test_every_region_is_looked_at_and_each_thing_named_in_its_own(aws: AwsServer) -> None:
    aws.client("ec2", EAST).allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip", OURS))
    assert found(WEST) == []
    [one] = found(WEST, EAST)
    assert (one.region, one.kind) == (EAST, "public address")
    assert "--region us-east-1 --allocation-id eipalloc-" in one.how_to_end


def test_reservations_of_the_stack_and_of_probes_that_died_bill_what_is_idle_in_them(aws: AwsServer) -> None:
    own = put(aws, "", Tags=OURS, AvailableInstanceCount=1)
    probes = [put(aws, "by hand", Tags=[{"Key": PROBE_TAG, "Value": "by hand"}]) for _ in range(4)]
    at_work = put(aws, "0123456789ab/17/token")
    left = [one for one in found() if one.kind == "capacity reservation"]
    assert {one.id for one in left} == {own, *probes}, "on every page, and none that is at work"
    assert at_work not in {one.id for one in left}
    assert [one.usd_per_hour for one in left if one.id == own] == [4.6016]
    assert all("cancel-capacity-reservation" in one.how_to_end for one in left)


def test_a_cluster_and_all_its_node_groups_are_found_over_pages(aws: AwsServer) -> None:
    cluster(aws)
    for number in range(3):
        node_group(aws, f"group-{number}", nodes=number)
    left = found()
    assert only(left, "EKS control plane").how_to_end == "aws eks delete-cluster --region us-west-2 --name ray-dev"
    groups = {one.id: one for one in left if one.kind == "node group"}
    assert [groups[f"group-{number}"].bills for number in range(3)] == [False, True, True]
    assert groups["group-1"].how_to_end.endswith("--cluster-name ray-dev --nodegroup-name group-1")


def test_a_cluster_of_that_name_which_is_somebody_elses_is_not_named(aws: AwsServer) -> None:
    cluster(aws, tags={"owner": "them"})
    node_group(aws, "theirs")
    assert found() == []


def test_in_an_existing_cluster_only_the_stacks_own_node_group_is_left(aws: AwsServer) -> None:
    cluster(aws, name="shared", tags={})
    node_group(aws, "theirs", in_cluster="shared")
    node_group(aws, "ray-dev-gpu", in_cluster="shared", tags=TAGS)
    left = found(clusters=["shared"])
    assert kinds(left) == [("node group", "ray-dev-gpu")]
    aws.faults = [
        Fault("ListNodegroups", "ResourceNotFoundException", "No cluster found for name: shared.", status=404)
    ]
    assert found(clusters=["shared"]) == []


def test_a_nat_gateway_bills_with_its_address_and_goes_out_of_the_list_with_it(aws: AwsServer) -> None:
    ec2 = aws.client("ec2")
    _, net = subnet(aws)
    address = ec2.allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip", OURS))["AllocationId"]
    made = ec2.create_nat_gateway(SubnetId=net, AllocationId=address, TagSpecifications=tagged("natgateway", OURS))[
        "NatGateway"
    ]["NatGatewayId"]
    left = found()
    assert only(left, "NAT gateway").usd_per_hour == 0.045
    assert only(left, "public address").usd_per_hour == 0.005
    ec2.delete_nat_gateway(NatGatewayId=made)
    assert "NAT gateway" not in dict(kinds(found()))


@pytest.mark.parametrize(
    "tags", [OURS, OF_CLUSTER, [{"Key": "KubernetesCluster", "Value": NAME}]], ids=["ours", "cluster", "driver"]
)
def test_a_volume_of_the_nodes_or_of_a_claim_is_found(aws: AwsServer, tags: list[dict[str, str]]) -> None:
    made = aws.client("ec2").create_volume(
        AvailabilityZone="us-west-2a", Size=200, VolumeType="gp3", TagSpecifications=tagged("volume", tags)
    )
    one = only(found(), "volume")
    assert (one.id, one.bills) == (made["VolumeId"], True)
    assert one.usd_per_hour == pytest.approx(200 * 0.08 / 730)


@pytest.mark.parametrize(
    ("tags", "description"),
    [
        (OURS, "node"),
        (OF_CLUSTER, "aws-K8S-i-1"),
        ([{"Key": "cluster.k8s.amazonaws.com/name", "Value": NAME}], "aws-K8S-i-2"),
        (SOMEBODY, "Amazon EKS ray-dev"),
    ],
    ids=["ours", "cluster", "cni", "control plane"],
)
def test_an_interface_that_eks_or_its_cni_left_is_found_and_costs_nothing(
    aws: AwsServer, tags: list[dict[str, str]], description: str
) -> None:
    _, net = subnet(aws)
    made = aws.client("ec2").create_network_interface(
        SubnetId=net, Description=description, TagSpecifications=tagged("network-interface", tags)
    )
    [one] = found()
    assert (one.id, one.bills, one.matters) == (made["NetworkInterface"]["NetworkInterfaceId"], False, False)
    assert "delete-network-interface" in one.how_to_end


def test_what_holds_the_stacks_network_is_named_with_it_whatever_its_tags(aws: AwsServer) -> None:
    vpc, net = subnet(aws, tags=OURS)
    aws.client("ec2").create_network_interface(SubnetId=net)
    assert [kind for kind, _ in kinds(found())] == ["network interface", "VPC"]
    assert only(found(), "VPC").id == vpc


def test_interface_endpoints_bill_and_gateway_endpoints_do_not(aws: AwsServer) -> None:
    ec2 = aws.client("ec2")
    vpc, net = subnet(aws)
    for kind, more in (("Interface", {"SubnetIds": [net]}), ("Gateway", {})):
        ec2.create_vpc_endpoint(
            VpcId=vpc,
            VpcEndpointType=kind,
            ServiceName="com.amazonaws.us-west-2.s3",
            TagSpecifications=tagged("vpc-endpoint", OURS),
            **more,
        )
    assert sorted(one.bills for one in found() if one.kind == "VPC endpoint") == [False, True]


def test_a_placement_group_is_named_and_is_free(aws: AwsServer) -> None:
    for name, tags in (("mine", OURS), ("theirs", SOMEBODY)):
        aws.placement_groups[WEST, name] = {"GroupName": name, "State": "available", "Tags": tags}
    one = only(found(), "placement group")
    assert (one.id, one.matters) == ("mine", False)


def test_load_balancers_that_kubernetes_made_are_found_by_the_clusters_name(aws: AwsServer) -> None:
    vpc, net = subnet(aws)
    other = aws.client("ec2").create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24", AvailabilityZone="us-west-2b")
    new, old = aws.client("elbv2"), aws.client("elb")
    for number in range(22):
        tags = [{"Key": "elbv2.k8s.aws/cluster", "Value": NAME}] if number == 21 else SOMEBODY
        new.create_load_balancer(Name=f"lb-{number}", Subnets=[net, other["Subnet"]["SubnetId"]], Tags=tags)
    listener = {"Protocol": "tcp", "LoadBalancerPort": 80, "InstancePort": 80}
    old.create_load_balancer(LoadBalancerName="classic", Listeners=[listener], Tags=OF_CLUSTER)
    left = found()
    assert ":loadbalancer/app/lb-21/" in only(left, "load balancer").id
    assert only(left, "classic load balancer").how_to_end.endswith("--load-balancer-name classic")


def test_a_log_group_that_eks_made_anew_without_tags_is_found_by_name_and_bills_by_what_is_in_it(
    aws: AwsServer,
) -> None:
    logs = aws.client("logs")
    for name in ("/aws/eks/ray-dev/cluster", "/aws/eks/ray-dev-2/cluster"):
        logs.create_log_group(logGroupName=name)
    [one] = found()
    assert (one.id, one.bills) == ("/aws/eks/ray-dev/cluster", False)
    logs.create_log_stream(logGroupName=one.id, logStreamName="api")
    late = {"timestamp": int(time.time() * 1000), "message": "late"}
    logs.put_log_events(logGroupName=one.id, logStreamName="api", logEvents=[late])
    [one] = found()
    assert one.bills
    assert one.how_to_end == "aws logs delete-log-group --region us-west-2 --log-group-name /aws/eks/ray-dev/cluster"


def bucket(aws: AwsServer, name: str, tags: list[dict[str, str]]) -> None:
    s3 = aws.client("s3", WEST)
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": WEST})
    if tags:
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tags})


def test_a_bucket_bills_unless_a_setting_keeps_it_and_is_looked_for_in_its_own_region(aws: AwsServer) -> None:
    bucket(aws, "ray-dev-abc", OURS)
    bucket(aws, "ray-dev-2-abc", SOMEBODY)
    bucket(aws, "ray-dev-untagged", [])
    assert found(EAST) == []
    [one] = found(WEST)
    assert (one.id, one.matters) == ("ray-dev-abc", True)
    assert "aws s3api delete-bucket --region us-west-2 --bucket ray-dev-abc" in one.how_to_end
    [kept] = found(WEST, kept=["bucket"])
    assert (kept.bills, kept.matters) == (True, False)
    assert lines([kept])[0].startswith("kept by storageKeep: bucket ray-dev-abc")


def test_a_key_that_waits_for_its_deletion_is_named_and_one_that_does_not_bills(aws: AwsServer) -> None:
    kms = aws.client("kms")
    tags = [{"TagKey": NAME_TAG, "TagValue": NAME}]
    waits, stays = (kms.create_key(Tags=tags)["KeyMetadata"]["KeyId"] for _ in range(2))
    kms.create_key()
    kms.schedule_key_deletion(KeyId=waits, PendingWindowInDays=7)
    by_id = {one.id: one for one in found()}
    assert set(by_id) == {waits, stays}
    assert (by_id[waits].matters, by_id[stays].matters) == (False, True)
    assert "AWS deletes it on" in by_id[waits].note
    assert "schedule-key-deletion" in by_id[stays].how_to_end


def test_a_key_whose_own_policy_shuts_us_out_is_not_the_stacks(aws: AwsServer) -> None:
    aws.client("kms").create_key()
    says = "is not authorized to perform: kms:ListResourceTags because no resource-based policy allows it"
    aws.faults = [Fault("ListResourceTags", "AccessDeniedException", says, times=9)]
    assert found() == []


def test_a_file_system_is_found_by_its_tags(aws: AwsServer) -> None:
    _, net = subnet(aws)
    aws.client("fsx").create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[net],
        Tags=OURS,
        LustreConfiguration={"PerUnitStorageThroughput": 250, "DeploymentType": "PERSISTENT_2"},
    )
    one = only(found(), "FSx file system")
    assert one.usd_per_hour == pytest.approx(1200 * 0.21 / 730)


REFUSED: dict[str, str] = {
    "node group": "DescribeCluster",
    "EKS control plane": "DescribeCluster",
    "instance": "DescribeInstances",
    "capacity reservation": "DescribeCapacityReservations",
    "FSx file system": "DescribeFileSystems",
    "NAT gateway": "DescribeNatGateways",
    "public address": "DescribeAddresses",
    "VPC endpoint": "DescribeVpcEndpoints",
    "volume": "DescribeVolumes",
    "bucket": "ListBuckets",
    "log group": "DescribeLogGroups",
    "KMS key": "ListKeys",
    "network interface": "DescribeNetworkInterfaces",
    "placement group": "DescribePlacementGroups",
    "VPC": "DescribeVpcs",
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in ("volume", "bucket", "KMS key") else pytest.mark.full) for kind in REFUSED],
)
def test_a_kind_that_may_not_be_looked_at_is_said_and_the_teardown_is_not_complete(aws: AwsServer, kind: str) -> None:
    aws.faults = [Fault(REFUSED[kind], "AccessDenied", "You are not authorized to perform this", status=403, times=9)]
    refused = {one.kind: one for one in found()}
    assert kind in refused
    assert refused[kind].matters
    assert lines([refused[kind]])[0].startswith(f"not looked at: {kind} in us-west-2: AccessDenied")
    others = {"node group", "EKS control plane"} if kind in ("node group", "EKS control plane") else {kind}
    assert set(refused) <= others | ({"network interface"} if kind == "VPC" else set())


def test_both_generations_of_load_balancers_are_said_where_they_may_not_be_looked_at(aws: AwsServer) -> None:
    aws.faults = [Fault("DescribeLoadBalancers", "AccessDenied", status=403, times=9)]
    assert {one.kind for one in found()} == {"load balancer", "classic load balancer"}


def test_kinds_that_may_not_be_looked_at_for_the_same_reason_are_one_line_a_region() -> None:
    denied = [
        Left(region=region, kind=kind, unknown="denied") for region in ("a", "b") for kind in ("volume", "KMS key")
    ]
    assert lines([*denied, Left(region="b", kind="VPC", unknown="throttled")]) == [
        "not looked at: volume, KMS key in a: denied",
        "not looked at: volume, KMS key in b: denied",
        "not looked at: VPC in b: throttled",
    ]
    assert lines([Left(region="a", kind=kind, unknown="gone") for kind in KINDS]) == [
        "not looked at: anything in a: gone"
    ]


def test_a_region_that_does_not_answer_is_not_taken_for_empty(aws: AwsServer) -> None:
    aws.client("ec2", EAST).allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip", OURS))
    aws.faults = [Fault("*", region=WEST, times=99)]
    left = found(WEST, EAST)
    assert {one.kind for one in left if one.unknown} == set(LOOKS)
    assert [one.kind for one in left if one.bills] == ["public address"]


def test_a_group_that_goes_while_it_is_looked_at_is_gone(aws: AwsServer) -> None:
    cluster(aws)
    node_group(aws, "gpu")
    aws.faults = [Fault("DescribeNodegroup", "ResourceNotFoundException", "No node group found", status=404)]
    assert [kind for kind, _ in kinds(found())] == ["EKS control plane"]


def test_a_profile_is_in_the_commands(aws: AwsServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text("[mine]\naws_access_key_id = testing\naws_secret_access_key = testing\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    id = instance(aws, OURS)
    one = only(found(access=Access(profile="mine")), "instance")
    assert one.how_to_end.endswith(f"--instance-ids {id} --profile mine")


def test_what_bills_is_told_first() -> None:
    make: Callable[..., Left] = lambda kind, **more: Left(region=WEST, kind=kind, id="x", how_to_end="do", **more)  # noqa: E731
    told = lines([make("VPC"), make("volume", unknown="denied"), make("instance", bills=True, usd_per_hour=4.6)])
    assert [line.partition(":")[0] for line in told] == ["still billing", "not looked at", "left, and free of charge"]
    assert "instance x in us-west-2, $4.6000 an hour\n  end it: do" in told[0]
