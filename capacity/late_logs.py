"""The log group that EKS makes anew for the last lines of a cluster that is gone: the next one of its name would fail
at making its own, after what bills."""

from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from capacity.aws import AS_ENVIRONMENT, Access, AwsRefusedError, asking, client

_CLUSTER, _LOG_GROUP = "aws:eks/cluster:Cluster", "aws:cloudwatch/logGroup:LogGroup"
# Bytes. The logs of a cluster that ran are more, and somebody may want them.
_LAST_LINES = 2**20


def ended(cluster: str, resources: Sequence[Mapping[str, Any]], *, region: str, access: Access = AS_ENVIRONMENT) -> str:
    """Deletes it, and returns its name; empty where there is none, or where these credentials may not.

    Not one in the state (`resources`) or of a cluster that is there, and none with a tag, a retention or more than the
    last lines: those are somebody's.
    """
    name = f"/aws/eks/{cluster}/cluster"
    known = {(one["type"], one.get("id")) for one in resources}
    if {(_CLUSTER, cluster), (_LOG_GROUP, name)} & known:
        return ""
    try:
        with asking(f"the log group {name}", region=region):
            return name if _deleted(name, cluster, region, access) else ""
    except AwsRefusedError:
        # Whoever makes or looks for it next says what AWS refused.
        return ""


def _deleted(name: str, cluster: str, region: str, access: Access) -> bool:
    logs = client("logs", region, access=access)
    groups = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    found = next((one for one in groups if one["logGroupName"] == name), None)
    if found is None or "retentionInDays" in found or found.get("storedBytes", 0) > _LAST_LINES:
        return False
    # The ARN that tags are asked by ends without the :* that stands for the group's streams.
    arn = found["arn"].removesuffix(":*")
    if logs.list_tags_for_resource(resourceArn=arn)["tags"] or _is_there(cluster, region, access):
        return False
    logs.delete_log_group(logGroupName=name)
    return True


def _is_there(cluster: str, region: str, access: Access) -> bool:
    try:
        client("eks", region, access=access).describe_cluster(name=cluster)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return False
        raise
    return True
