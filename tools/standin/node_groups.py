"""Managed node groups: what they launch, from which template version, and where."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
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
    assert call.old is not None, "an update has something to update"
    status = "ACTIVE" if call.old.outputs["status"] == "DEGRADED" else call.old.outputs["status"]
    return {**_decided(call, call.entry(tokens.CLUSTER, "clusterName")), "status": status}


# What the provider changes after it has rolled the nodes (terraform-provider-aws, internal/service/eks/node_group.go).
_LATER = ("labels", "scalingConfig", "taints", "updateConfig")


def _steps(call: Call) -> list[Mapping[str, Any]]:
    assert call.old is not None, "an update has something to update"
    if not node_group_rules.rolls(call) or not call.changed(*_LATER):
        return [call.inputs]
    now = {name: value for name, value in call.inputs.items() if name not in _LATER}
    return [{**now, **{name: call.old.inputs[name] for name in _LATER if name in call.old.inputs}}, call.inputs]


def _failed(call: Call) -> Entry | None:
    """A roll that finds no capacity has ended nodes by then; EKS goes on trying and calls the group degraded."""
    gone = node_group_rules.ended_first(call)
    if call.old is None or not gone:
        return call.old
    running = {**call.old.hidden["running"], "count": call.old.hidden["running"]["count"] - gone}
    return replace(
        call.old,
        outputs={**call.old.outputs, "status": "DEGRADED"},
        hidden={**call.old.hidden, "running": running},
    )


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
        steps=_steps,
        failed=_failed,
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
