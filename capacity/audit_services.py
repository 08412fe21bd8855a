"""What AWS's other services still have of a stack. Each function looks for one kind."""

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from capacity.left import Left
from capacity.looking import Looking
from infra.prices import HOURS_A_MONTH

# What AWS takes for keys and logs in every region that is known here, USD a month.
_KEY_MONTH, _LOG_GIB_MONTH = 1.0, 0.03
_TAGS_AT_ONCE = 20
# As the bucket's own prefix is cut (infra/storage_bucket.py).
_PREFIX_LENGTH = 36


def clusters(at: Looking) -> Iterator[Left]:
    cluster = _cluster(at)
    if cluster is not None and cluster["status"] != "DELETING":
        yield at.left(
            "EKS control plane", cluster["name"], bills=True, usd=at.prices.control_plane, note=cluster["status"]
        )


def node_groups(at: Looking) -> Iterator[Left]:
    """All of the stack's own cluster; of an existing one those with the stack's tags."""
    eks = at.client("eks")
    own = _cluster(at)
    in_own = [own["name"]] if own else []
    for name in dict.fromkeys([*in_own, *at.clusters]):
        for group in _node_group_names(eks, name):
            one = _node_group(eks, name, group)
            if one is None or one["status"] == "DELETING":
                continue
            if name not in in_own and not at.ours(one.get("tags", {})):
                continue
            nodes = one["scalingConfig"]["desiredSize"]
            note = f"{nodes} nodes, {one['status']}; nodes bill as instances"
            # It launches anew what is terminated, so it counts as long as it wants nodes.
            yield at.left("node group", group, bills=nodes > 0, usd=0.0, note=note, parent=name)


def load_balancers(at: Looking) -> Iterator[Left]:
    elb = at.client("elbv2")
    pages = elb.get_paginator("describe_load_balancers").paginate()
    arns = [one["LoadBalancerArn"] for page in pages for one in page["LoadBalancers"]]
    for some in _portions(arns):
        for one in elb.describe_tags(ResourceArns=some)["TagDescriptions"]:
            if at.ours(one["Tags"]) or at.of_cluster(one["Tags"]):
                yield at.left("load balancer", one["ResourceArn"], bills=True)


def classic_load_balancers(at: Looking) -> Iterator[Left]:
    elb = at.client("elb")
    pages = elb.get_paginator("describe_load_balancers").paginate()
    names = [one["LoadBalancerName"] for page in pages for one in page["LoadBalancerDescriptions"]]
    for some in _portions(names):
        for one in elb.describe_tags(LoadBalancerNames=some)["TagDescriptions"]:
            if at.ours(one["Tags"]) or at.of_cluster(one["Tags"]):
                yield at.left("classic load balancer", one["LoadBalancerName"], bills=True)


def log_groups(at: Looking) -> Iterator[Left]:
    """By name: EKS makes the control plane's anew, without tags, when it has one more line to write."""
    pages = at.client("logs").get_paginator("describe_log_groups")
    for prefix in (f"/aws/eks/{at.name}/", f"/aws/containerinsights/{at.name}/"):
        for page in pages.paginate(logGroupNamePrefix=prefix):
            for one in page["logGroups"]:
                stored = int(one.get("storedBytes", 0))
                usd = stored / 2**30 * _LOG_GIB_MONTH / HOURS_A_MONTH
                yield at.left("log group", one["logGroupName"], bills=stored > 0, usd=usd, note=f"{stored} bytes")


def buckets(at: Looking) -> Iterator[Left]:
    s3 = at.client("s3")
    prefix = f"{at.name.lower()[:_PREFIX_LENGTH]}-"
    for page in s3.get_paginator("list_buckets").paginate(Prefix=prefix, BucketRegion=at.region):
        for one in page["Buckets"]:
            if at.ours(_bucket_tags(s3, one["Name"])):
                yield at.left("bucket", one["Name"], bills=True, note="bills by what is in it")


def file_systems(at: Looking) -> Iterator[Left]:
    for page in at.client("fsx").get_paginator("describe_file_systems").paginate():
        for one in page["FileSystems"]:
            state = one.get("Lifecycle", "")
            if state != "DELETING" and at.ours(one.get("Tags", [])):
                speed = one.get("LustreConfiguration", {}).get("PerUnitStorageThroughput", 0)
                month = at.prices.fsx_gib_month.get(speed)
                usd = None if month is None else one["StorageCapacity"] * month / HOURS_A_MONTH
                note = f"{one['StorageCapacity']} GiB, {state}"
                yield at.left("FSx file system", one["FileSystemId"], bills=True, usd=usd, note=note)


def keys(at: Looking) -> Iterator[Left]:
    kms = at.client("kms")
    for page in kms.get_paginator("list_keys").paginate():
        for key in page["Keys"]:
            if not at.ours(_key_tags(kms, key["KeyId"])):
                continue
            one = kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]
            if one["KeyState"] == "PendingDeletion":
                note = f"AWS deletes it on {one['DeletionDate']:%Y-%m-%d}; it costs nothing until then"
                yield at.left("KMS key", key["KeyId"], bills=False, usd=0.0, note=note, how_to_end="")
            else:
                yield at.left("KMS key", key["KeyId"], bills=True, usd=_KEY_MONTH / HOURS_A_MONTH, note=one["KeyState"])


def _cluster(at: Looking) -> dict[str, Any] | None:
    """The one of the stack's name, where it is the stack's."""
    try:
        one: dict[str, Any] = at.client("eks").describe_cluster(name=at.name)["cluster"]
    except ClientError as error:
        if _not_found(error):
            return None
        raise
    return one if at.ours(one.get("tags", {})) else None


def _node_group(eks: Any, cluster: str, name: str) -> dict[str, Any] | None:
    """None for one that is gone since it was listed."""
    try:
        one: dict[str, Any] = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
    except ClientError as error:
        if _not_found(error):
            return None
        raise
    return one


def _not_found(error: ClientError) -> bool:
    return bool(error.response["Error"]["Code"] == "ResourceNotFoundException")


def _node_group_names(eks: Any, cluster: str) -> list[str]:
    try:
        pages = eks.get_paginator("list_nodegroups").paginate(clusterName=cluster)
        return [name for page in pages for name in page["nodegroups"]]
    except ClientError as error:
        if _not_found(error):
            return []
        raise


def _bucket_tags(s3: Any, name: str) -> list[dict[str, str]]:
    try:
        tags: list[dict[str, str]] = s3.get_bucket_tagging(Bucket=name)["TagSet"]
    except ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchTagSet", "NoSuchBucket"):
            return []
        raise
    return tags


def _key_tags(kms: Any, key: str) -> list[dict[str, str]]:
    """Without KMS's own names of Key and Value. A key whose own policy shuts these credentials out is none of ours."""
    try:
        pages = kms.get_paginator("list_resource_tags").paginate(KeyId=key)
        found = [tag for page in pages for tag in page["Tags"]]
    except ClientError as error:
        if "resource-based policy" in str(error):
            return []
        raise
    return [{"Key": tag["TagKey"], "Value": tag["TagValue"]} for tag in found]


def _portions(names: list[str]) -> list[list[str]]:
    return [names[start : start + _TAGS_AT_ONCE] for start in range(0, len(names), _TAGS_AT_ONCE)]
