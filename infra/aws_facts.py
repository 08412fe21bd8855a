"""What AWS says before anything is declared: who asks, which zones offer what, and what the instance type has."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.eks_settings import EksSettings
from infra.existing_cluster import ExistingCluster
from infra.existing_network import SubnetFacts
from infra.existing_node_group import NodeGroupFacts
from infra.zones import ZoneFacts, offering
from workload.errors import ReportedError

# What AWS's refusals have in them.
_CREDENTIALS = (
    "ExpiredToken",
    "InvalidClientTokenId",
    "InvalidSignature",
    "credentials",
    "security token",
    "AuthFailure",
)
_DENIED = ("AccessDenied", "UnauthorizedOperation", "not authorized")
_NOT_FOUND = ("NotFound", "no matching", "InvalidInstanceType", "couldn't find", "empty result", "doesn't exist")


class AwsError(ReportedError):
    """AWS refused a question, or could not be asked."""


@dataclass(frozen=True, kw_only=True)
class InstanceFacts:
    """EC2's own answer about the GPU nodes' type."""

    name: str
    gpus: int
    vcpus: int
    efa_interfaces: int


@dataclass(frozen=True, kw_only=True)
class AwsFacts:
    """`zones` are those this account may use in the region, with what each offers of the types asked about.

    `caller` is the ARN of who asks. `cluster`, `group` and `subnets` are of what the settings name as existing;
    `nodes_there`: GPU nodes of this stack are in those subnets already. `cli` says whether `aws` is on PATH.
    """

    account: str
    caller: str
    partition: str
    zones: tuple[ZoneFacts, ...]
    instance: InstanceFacts
    cli: bool
    cluster: ExistingCluster | None = None
    group: NodeGroupFacts | None = None
    group_subnet: str = ""
    subnets: tuple[SubnetFacts, ...] = ()
    nodes_there: bool = False


def read_aws_facts(settings: EksSettings, provider: aws.Provider) -> AwsFacts:
    """A handful of read-only calls. Raises AwsError with what to do where one is refused."""
    opts = pulumi.InvokeOptions(provider=provider)
    with asked("who these credentials belong to", settings):
        caller = aws.get_caller_identity(opts=opts)
    gpu_type = settings.gpu.instance.name
    with asked("which zones there are", settings):
        zones = _zones([gpu_type, settings.system.instance_type], opts)
    if not offering(zones, gpu_type):
        raise AwsError(
            f"gpuInstanceType {gpu_type} is offered in no zone of {settings.aws.region}: take another type, or another "
            "aws:region"
        )
    with asked("what the GPU instance type has", settings):
        instance = _instance(gpu_type, opts)
    cluster = _existing_cluster(settings, opts)
    group, group_subnet = _existing_group(settings, opts)
    existing = settings.network.private_subnets or (cluster.subnet_ids if cluster else ())
    return AwsFacts(
        account=caller.account_id,
        caller=caller.arn,
        partition=caller.arn.split(":")[1],
        zones=zones,
        instance=instance,
        cli=shutil.which("aws") is not None,
        cluster=cluster,
        group=group,
        group_subnet=group_subnet,
        subnets=tuple(_subnets(existing, settings, opts)),
        nodes_there=bool(existing) and _nodes_there(settings, opts),
    )


@contextmanager
def asked(what: str, settings: EksSettings) -> Iterator[None]:
    """Turns an invoke's failure into an AwsError that says what was asked and what to do."""
    try:
        yield
    except Exception as error:
        told = " ".join(str(error).split())[-400:]
        whose = f"aws:profile {settings.aws.profile}" if settings.aws.profile else "the environment's credentials"
        remedies = {
            _CREDENTIALS: f"renew {whose} (aws sts get-caller-identity shows whether they work) and run again",
            _DENIED: f"allow it to {whose} (docs/iam/deployer.json)",
            _NOT_FOUND: "correct the setting, or aws:region",
        }
        fitting = [text for signs, text in remedies.items() if any(sign.lower() in told.lower() for sign in signs)]
        raise AwsError(f"AWS did not say {what} in {settings.aws.region}: {': '.join([told, *fitting[:1]])}") from None


def _instance(name: str, opts: pulumi.InvokeOptions) -> InstanceFacts:
    found = aws.ec2.get_instance_type(instance_type=name, opts=opts)
    return InstanceFacts(
        name=name,
        gpus=sum(gpu.count for gpu in found.gpuses),
        vcpus=found.default_vcpus,
        efa_interfaces=found.efa_maximum_interfaces if found.efa_supported else 0,
    )


def _zones(types: list[str], opts: pulumi.InvokeOptions) -> tuple[ZoneFacts, ...]:
    """Local zones and Wavelength zones are left out: they have neither EKS control planes nor EFA."""
    regional = [aws.GetAvailabilityZonesFilterArgs(name="zone-type", values=["availability-zone"])]
    zones = aws.get_availability_zones(filters=regional, opts=opts)
    offered: dict[str, set[str]] = {}
    filters = [aws.ec2.GetInstanceTypeOfferingsFilterArgs(name="instance-type", values=sorted(set(types)))]
    offerings = aws.ec2.get_instance_type_offerings(location_type="availability-zone", filters=filters, opts=opts)
    for instance_type, zone in zip(offerings.instance_types, offerings.locations, strict=True):
        offered.setdefault(zone, set()).add(instance_type)
    return tuple(
        ZoneFacts(name=name, zone_id=zone_id, offers=frozenset(offered.get(name, ())))
        for name, zone_id in zip(zones.names, zones.zone_ids, strict=True)
    )


def _existing_cluster(settings: EksSettings, opts: pulumi.InvokeOptions) -> ExistingCluster | None:
    name = settings.cluster.existing
    if not name:
        return None
    with asked(f"what cluster {name} is (eksExistingCluster)", settings):
        found = aws.eks.get_cluster(name=name, opts=opts)
    return ExistingCluster(
        name=found.name,
        arn=found.arn,
        endpoint=found.endpoint,
        certificate_authority=found.certificate_authorities[0].data,
        version=found.version,
        status=found.status,
        vpc_id=found.vpc_config.vpc_id,
        subnet_ids=tuple(sorted(found.vpc_config.subnet_ids)),
        security_group=found.vpc_config.cluster_security_group_id,
    )


def _existing_group(settings: EksSettings, opts: pulumi.InvokeOptions) -> tuple[NodeGroupFacts | None, str]:
    """And one of its subnets."""
    name, cluster = settings.gpu.existing_group, settings.cluster.existing
    if not name or not cluster:
        return None, ""
    with asked(f"what node group {name} is (gpuExistingGroup)", settings):
        found = aws.eks.get_node_group(cluster_name=cluster, node_group_name=name, opts=opts)
        subnets = sorted(found.subnet_ids)
        zones = [aws.ec2.get_subnet(id=subnet, opts=opts).availability_zone for subnet in subnets]
    return NodeGroupFacts.of(found, zones=zones), subnets[0]


def _nodes_there(settings: EksSettings, opts: pulumi.InvokeOptions) -> bool:
    cluster = settings.cluster.existing or settings.name
    with asked("which clusters and node groups there are", settings):
        if cluster not in aws.eks.get_clusters(opts=opts).names:
            return False
        groups = aws.eks.get_node_groups(cluster_name=cluster, opts=opts).names
    return settings.gpu_group in groups


def _subnets(ids: tuple[str, ...], settings: EksSettings, opts: pulumi.InvokeOptions) -> Iterator[SubnetFacts]:
    for subnet in ids:
        with asked(f"what subnet {subnet} is", settings):
            found = aws.ec2.get_subnet(id=subnet, opts=opts)
        yield SubnetFacts(
            id=found.id,
            zone=found.availability_zone,
            zone_id=found.availability_zone_id,
            vpc_id=found.vpc_id,
            cidr=found.cidr_block,
            free=found.available_ip_address_count,
            auto_public=found.map_public_ip_on_launch,
        )
