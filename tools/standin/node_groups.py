"""Managed node groups: what they launch, from which template version, and where."""

import secrets
from typing import Any

from tools.standin import bed, node_group_rules, tokens
from tools.standin.account import Entry
from tools.standin.clusters import OF_CLUSTER
from tools.standin.kinds import Call, Kind, Refers
from tools.standin.launch import launch_of
from tools.standin.network import add_interface, drop_interfaces, in_subnets


def _outputs(call: Call) -> dict[str, Any]:
    launch = launch_of(call)
    call.hidden["running"] = launch.running()
    _place(call, launch.groups)
    cluster = call.entry(tokens.CLUSTER, "clusterName")
    name = call.inputs["nodeGroupName"]
    resource = f"nodegroup/{call.inputs['clusterName']}/{name}/{secrets.token_hex(8)}"
    return {
        "arn": call.arn("eks", resource),
        "status": "ACTIVE",
        "resources": [
            {
                "autoscalingGroups": [{"name": f"eks-{name}-{secrets.token_hex(8)}"}],
                "remoteAccessSecurityGroupId": "",
            }
        ],
        **_decided(call, cluster),
    }


def _decided(call: Call, cluster: Entry | None) -> dict[str, Any]:
    launch = launch_of(call)
    version = call.inputs.get("version") or (cluster.outputs["version"] if cluster else "")
    return {
        "version": version,
        "releaseVersion": call.inputs.get("releaseVersion", f"{version}.0-20261101"),
        "amiType": call.inputs.get("amiType", "AL2023_x86_64_STANDARD"),
        "capacityType": launch.capacity,
        # A template's own type leaves this empty; without either EKS takes t3.medium.
        "instanceTypes": call.inputs.get("instanceTypes", [] if launch.from_template else ["t3.medium"]),
        "diskSize": call.inputs.get("diskSize", 0 if "launchTemplate" in call.inputs else 20),
        "updateConfig": {"maxUnavailable": 1, **call.inputs.get("updateConfig", {})},
    }


def _place(call: Call, groups: list[str]) -> None:
    """The instances' network interfaces, of which one a subnet stands for all."""
    drop_interfaces(call, call.id)
    if call.hidden["running"]["count"]:
        for subnet in call.inputs["subnetIds"]:
            add_interface(call, call.id, subnet, groups)


def _updated(call: Call) -> dict[str, Any]:
    launch = launch_of(call)
    call.hidden["running"] = launch.running()
    _place(call, launch.groups)
    return _decided(call, call.entry(tokens.CLUSTER, "clusterName"))


def _deleted(call: Call) -> None:
    assert call.old is not None, "a deletion has something to delete"
    drop_interfaces(call, call.id, linger=True)


KINDS = (
    Kind(
        token=tokens.NODE_GROUP,
        service="EKS",
        new_id=lambda call: f"{call.inputs['clusterName']}:{call.inputs['nodeGroupName']}",
        outputs=_outputs,
        updated=_updated,
        refuse=node_group_rules.node_group,
        settle=node_group_rules.nodes_join,
        deleted=_deleted,
        joined=bed.join,
        parted=bed.leave,
        computed=(
            "version",
            "releaseVersion",
            "amiType",
            "capacityType",
            "instanceTypes",
            "diskSize",
            "updateConfig",
        ),
        fixed=(
            "clusterName",
            "nodeGroupName",
            "nodeGroupNamePrefix",
            "nodeRoleArn",
            "subnetIds",
            "amiType",
            "capacityType",
            "diskSize",
            "instanceTypes",
            "remoteAccess",
            "launchTemplate.id",
            "launchTemplate.name",
        ),
        named="nodeGroupName",
        refers=(
            OF_CLUSTER,
            in_subnets("subnetIds[]"),
            Refers(path="nodeRoleArn", token=tokens.ROLE, by="arn", missing="InvalidParameterException", patient=True),
        ),
    ),
)
