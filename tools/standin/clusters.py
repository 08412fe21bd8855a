"""EKS clusters and what belongs to them, node groups apart."""

import secrets
from collections.abc import Mapping
from typing import Any

from tools.standin import bed, cluster_rules, log_groups, tokens
from tools.standin.account import Entry, new_id
from tools.standin.certificate import authority
from tools.standin.kinds import Call, Kind, Refers
from tools.standin.network import add_interface, drop_interfaces, in_subnets, with_groups
from tools.standin.network_rules import vpc_of

_WHEN = "2026-01-01T00:00:00Z"
_PLATFORM = "eks.12"
OF_CLUSTER = Refers(
    path="clusterName", token=tokens.CLUSTER, missing="ResourceNotFoundException", blocks="ResourceInUseException"
)
# Add-ons, access entries and associations go away with their cluster.
IN_CLUSTER = Refers(path="clusterName", token=tokens.CLUSTER, missing="ResourceNotFoundException")


def _cluster(call: Call) -> dict[str, Any]:
    vpc_config, name = call.inputs["vpcConfig"], call.id
    vpc = vpc_of(call.records, vpc_config["subnetIds"][0])
    group = _cluster_group(call, name, vpc)
    for subnet in vpc_config["subnetIds"][:2]:
        add_interface(call, name, subnet, [group, *vpc_config.get("securityGroupIds", [])])
    issuer = secrets.token_hex(16).upper()
    call.hidden["zones"] = cluster_rules.zones_of(call)
    _add_creator(call, name)
    log_groups.write(call, name, call.inputs)
    given = bed.read(call.folder)
    return {
        "arn": call.arn("eks", f"cluster/{name}"),
        # Without a bed there is no such place, and no resolver may be asked for it (RFC 2606).
        "endpoint": given.get("server") or f"https://{issuer}.gr7.{call.region}.eks.amazonaws.invalid",
        "certificateAuthority": {"data": given.get("ca") or authority(call.folder)},
        "identities": [{"oidcs": [{"issuer": f"https://oidc.eks.{call.region}.amazonaws.com/id/{issuer}"}]}],
        "status": "ACTIVE",
        "platformVersion": _PLATFORM,
        "createdAt": _WHEN,
        "version": call.inputs.get("version", cluster_rules.NEWEST),
        "vpcConfig": {
            "endpointPrivateAccess": False,
            "endpointPublicAccess": True,
            "publicAccessCidrs": ["0.0.0.0/0"],
            **vpc_config,
            "clusterSecurityGroupId": group,
            "vpcId": vpc,
        },
        "accessConfig": {
            "authenticationMode": "CONFIG_MAP",
            "bootstrapClusterCreatorAdminPermissions": True,
            **call.inputs.get("accessConfig", {}),
        },
        "kubernetesNetworkConfig": {
            "ipFamily": "ipv4",
            "serviceIpv4Cidr": "172.20.0.0/16",
            **call.inputs.get("kubernetesNetworkConfig", {}),
        },
        "upgradePolicy": call.inputs.get("upgradePolicy", {"supportType": "EXTENDED"}),
    }


def _cluster_group(call: Call, name: str, vpc: str) -> str:
    """The security group that EKS makes for a cluster, with the rules that it has from the start."""
    group = new_id("sg")
    rules = [["ingress", "-1", None, None, group], ["egress", "-1", None, None, group]]
    # https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
    rules.append(["egress", "-1", None, None, "0.0.0.0/0"])
    entry = Entry(
        token=tokens.SECURITY_GROUP,
        id=group,
        region=call.region,
        inputs={"name": f"eks-cluster-sg-{name}-{secrets.randbelow(10**9)}", "vpcId": vpc},
        outputs={"arn": call.arn("ec2", f"security-group/{group}"), "ownerId": call.account},
        hidden={"rules": rules, "cluster": name},
    )
    call.records.put(entry)
    return group


def _add_creator(call: Call, name: str) -> None:
    """The access entry that EKS makes for who creates a cluster, unless told otherwise."""
    access = call.inputs.get("accessConfig", {})
    if access.get("authenticationMode", "CONFIG_MAP") == "CONFIG_MAP":
        return
    if access.get("bootstrapClusterCreatorAdminPermissions", True):
        inputs = {"clusterName": name, "principalArn": call.scenario.caller}
        entry_id = f"{name}:{call.scenario.caller}"
        call.records.put(
            Entry(token=tokens.ACCESS_ENTRY, id=entry_id, region=call.region, inputs=inputs, outputs=dict(inputs))
        )


def _updated(call: Call) -> dict[str, Any]:
    assert call.old is not None, "an update has something to update"
    log_groups.write(call, call.id, call.inputs)
    old = call.old.outputs
    if call.changed("vpcConfig.subnetIds[]"):
        drop_interfaces(call, call.id)
        groups = [old["vpcConfig"]["clusterSecurityGroupId"], *call.inputs["vpcConfig"].get("securityGroupIds", [])]
        for subnet in call.inputs["vpcConfig"]["subnetIds"][:2]:
            add_interface(call, call.id, subnet, groups)
    merged = {
        name: {**old[name], **call.inputs.get(name, {})}
        for name in ("vpcConfig", "accessConfig", "kubernetesNetworkConfig", "upgradePolicy")
    }
    return {**merged, "version": call.inputs.get("version", old["version"])}


def _steps(call: Call) -> list[Mapping[str, Any]]:
    """A key is taken once: of a changed one the provider tells EKS nothing, and reports success."""
    assert call.old is not None, "an update has something to update"
    key = call.old.inputs.get("encryptionConfig")
    return [{**call.inputs, "encryptionConfig": key} if key else call.inputs]


def _deleted(call: Call) -> None:
    """What EKS deletes with a cluster: its security group, and what is recorded in it. Interfaces may outlive it."""
    assert call.old is not None, "a deletion has something to delete"
    log_groups.write(call, call.id, call.old.inputs, last=True)
    drop_interfaces(call, call.id, linger=True)
    call.records.remove(tokens.SECURITY_GROUP, call.old.outputs["vpcConfig"]["clusterSecurityGroupId"])
    members = (tokens.ADDON, tokens.ACCESS_ENTRY, tokens.ACCESS_POLICY_ASSOCIATION, tokens.POD_IDENTITY_ASSOCIATION)
    for token in members:
        for entry in call.records.all(token, call.region):
            if entry.inputs["clusterName"] == call.id:
                call.records.remove(token, entry.id)


def _addon(call: Call) -> dict[str, Any]:
    return {
        "arn": call.arn("eks", f"addon/{call.inputs['clusterName']}/{call.inputs['addonName']}/{secrets.token_hex(8)}"),
        "addonVersion": call.inputs.get("addonVersion", "v1.0.0-eksbuild.1"),
        "createdAt": _WHEN,
        "modifiedAt": _WHEN,
    }


def _access_entry(call: Call) -> dict[str, Any]:
    principal = str(call.inputs["principalArn"])
    return {
        "accessEntryArn": call.arn("eks", f"access-entry/{call.inputs['clusterName']}/{secrets.token_hex(8)}"),
        "createdAt": _WHEN,
        "modifiedAt": _WHEN,
        "userName": call.inputs.get("userName", principal.replace(":role/", ":assumed-role/") + "/{{SessionName}}"),
        "kubernetesGroups": call.inputs.get("kubernetesGroups", []),
    }


def _association(call: Call) -> dict[str, Any]:
    resource = f"podidentityassociation/{call.inputs['clusterName']}/{call.id}"
    return {"associationArn": call.arn("eks", resource), "associationId": call.id, "externalId": ""}


def _joined(separator: str, *names: str) -> Any:
    return lambda call: separator.join(str(call.inputs[name]) for name in names)


def _role(path: str, missing: str = "InvalidParameterException") -> Refers:
    return Refers(path=path, token=tokens.ROLE, by="arn", missing=missing, patient=True)


KINDS = (
    Kind(
        token=tokens.CLUSTER,
        service="EKS",
        new_id=_joined("", "name"),
        outputs=_cluster,
        updated=_updated,
        refuse=cluster_rules.cluster,
        keep=cluster_rules.keep_cluster,
        steps=_steps,
        deleted=_deleted,
        computed=("version", "vpcConfig", "accessConfig", "kubernetesNetworkConfig", "upgradePolicy"),
        within={"vpcConfig": ("clusterSecurityGroupId", "vpcId")},
        defaults={"bootstrapSelfManagedAddons": True, "deletionProtection": False},
        fixed=(
            "name",
            "roleArn",
            "bootstrapSelfManagedAddons",
            "outpostConfig",
            "kubernetesNetworkConfig.serviceIpv4Cidr",
            "kubernetesNetworkConfig.ipFamily",
            "accessConfig.bootstrapClusterCreatorAdminPermissions",
        ),
        lasting=("encryptionConfig",),
        named="name",
        refers=(
            _role("roleArn"),
            in_subnets("vpcConfig.subnetIds[]"),
            with_groups("vpcConfig.securityGroupIds[]"),
            Refers(
                path="encryptionConfig.provider.keyArn",
                token=tokens.KEY,
                by="arn",
                missing="InvalidParameterException",
            ),
        ),
    ),
    Kind(
        token=tokens.ADDON,
        service="EKS",
        new_id=_joined(":", "clusterName", "addonName"),
        outputs=_addon,
        refuse=cluster_rules.addon,
        settle=cluster_rules.addon_healthy,
        computed=("addonVersion",),
        fixed=("clusterName", "addonName"),
        exists="ResourceInUseException",
        refers=(IN_CLUSTER, _role("serviceAccountRoleArn")),
    ),
    Kind(
        token=tokens.ACCESS_ENTRY,
        service="EKS",
        new_id=_joined(":", "clusterName", "principalArn"),
        outputs=_access_entry,
        refuse=cluster_rules.access_entry,
        computed=("userName", "kubernetesGroups"),
        defaults={"type": "STANDARD"},
        fixed=("clusterName", "principalArn", "type"),
        refers=(IN_CLUSTER,),
    ),
    Kind(
        token=tokens.ACCESS_POLICY_ASSOCIATION,
        service="EKS",
        new_id=_joined("#", "clusterName", "principalArn", "policyArn"),
        outputs=lambda call: {"associatedAt": _WHEN, "modifiedAt": _WHEN},
        refuse=cluster_rules.access_policy,
        fixed=("clusterName", "principalArn", "policyArn"),
        refers=(IN_CLUSTER,),
    ),
    Kind(
        token=tokens.POD_IDENTITY_ASSOCIATION,
        service="EKS",
        new_id=lambda call: f"a-{secrets.token_hex(8)}",
        outputs=_association,
        refuse=cluster_rules.pod_identity,
        fixed=("clusterName", "namespace", "serviceAccount"),
        refers=(IN_CLUSTER, _role("roleArn")),
    ),
)
