"""PURE: what is left in an account of a stack that was destroyed, whether it bills, and the command that ends it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# By kind, in the order in which things are ended: what runs first, what others stand on last.
_COMMANDS = {
    "node group": "aws eks delete-nodegroup --region {region} --cluster-name {parent} --nodegroup-name {id}",
    "EKS control plane": "aws eks delete-cluster --region {region} --name {id}",
    "instance": "aws ec2 terminate-instances --region {region} --instance-ids {id}",
    "capacity reservation": "aws ec2 cancel-capacity-reservation --region {region} --capacity-reservation-id {id}",
    "load balancer": "aws elbv2 delete-load-balancer --region {region} --load-balancer-arn {id}",
    "classic load balancer": "aws elb delete-load-balancer --region {region} --load-balancer-name {id}",
    "FSx file system": "aws fsx delete-file-system --region {region} --file-system-id {id}",
    "NAT gateway": "aws ec2 delete-nat-gateway --region {region} --nat-gateway-id {id}",
    "public address": "aws ec2 release-address --region {region} --allocation-id {id}",
    "VPC endpoint": "aws ec2 delete-vpc-endpoints --region {region} --vpc-endpoint-ids {id}",
    "volume": "aws ec2 delete-volume --region {region} --volume-id {id}",
    # A versioned bucket is empty only without its old versions; one call deletes up to a thousand.
    "bucket": (
        "aws s3api list-object-versions --region {region} --bucket {id} --max-items 1000 --output json --query "
        "'{{Objects: [Versions, DeleteMarkers][].{{Key: Key, VersionId: VersionId}}}}' > {id}.json && "
        "aws s3api delete-objects --region {region} --bucket {id} --delete file://{id}.json (again while there are "
        "any), then aws s3api delete-bucket --region {region} --bucket {id}"
    ),
    "log group": "aws logs delete-log-group --region {region} --log-group-name {id}",
    "KMS key": "aws kms schedule-key-deletion --region {region} --key-id {id} --pending-window-in-days 7",
    "network interface": "aws ec2 delete-network-interface --region {region} --network-interface-id {id}",
    "placement group": "aws ec2 delete-placement-group --region {region} --group-name {id}",
    "VPC": "aws ec2 delete-vpc --region {region} --vpc-id {id}",
}
KINDS = tuple(_COMMANDS)


@dataclass(frozen=True, kw_only=True)
class Left:
    """One thing that is there; or, with `unknown`, a kind that could not be looked at, and why.

    `usd_per_hour` is None where no price is known. `kept` names the setting by which it is there on purpose; `note`
    says what else is to be known of it.
    """

    region: str
    kind: str
    id: str = ""
    bills: bool = False
    how_to_end: str = ""
    usd_per_hour: float | None = None
    kept: str = ""
    note: str = ""
    unknown: str = ""

    @property
    def matters(self) -> bool:
        """Whether it keeps a teardown from being complete."""
        return bool(self.unknown) or (self.bills and not self.kept)


def command(kind: str, region: str, id: str, *, parent: str = "", option: str = "") -> str:
    """The exact `aws` command line; `parent` is a node group's cluster, `option` goes to its end."""
    return _COMMANDS[kind].format(region=region, id=id, parent=parent) + option


def in_order(found: Iterable[Left]) -> list[Left]:
    """By region, what runs first; each thing once."""
    once = {(one.region, one.kind, one.id): one for one in found}
    return [once[key] for key in sorted(once, key=lambda key: (key[0], KINDS.index(key[1]), key[2]))]


def lines(found: Sequence[Left]) -> list[str]:
    """For people: what bills first, then what could not be looked at, then the rest."""
    billing = [one for one in found if one.bills and not one.unknown and not one.kept]
    unknown = [one for one in found if one.unknown]
    rest = [one for one in found if one not in billing and one not in unknown]
    said = [f"still billing: {_named(one)}\n  end it: {one.how_to_end}" for one in billing]
    said += _not_looked_at(unknown)
    for one in rest:
        what = f"kept by {one.kept}" if one.kept else "left, and free of charge"
        end = f"\n  end it: {one.how_to_end}" if one.how_to_end else ""
        said.append(f"{what}: {_named(one)}{end}")
    return said


def _not_looked_at(unknown: Sequence[Left]) -> list[str]:
    """A line for each region and reason: credentials that ran out are the same one for every kind."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for one in unknown:
        kinds.setdefault((one.region, one.unknown), []).append(one.kind)
    return [
        f"not looked at: {'anything' if len(of) == len(KINDS) else ', '.join(of)} in {region}: {why}"
        for (region, why), of in kinds.items()
    ]


def _named(one: Left) -> str:
    price = "" if one.usd_per_hour is None else f", ${one.usd_per_hour:.4f} an hour"
    note = f" ({one.note})" if one.note else ""
    return f"{one.kind} {one.id} in {one.region}{price}{note}"
