"""Questions to EKS and IAM."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from tools.standin import bed, tokens
from tools.standin.account import Entry
from tools.standin.asking import Asking, described
from tools.standin.errors import AwsError

_UNSAID: dict[str, list[Any]] = {
    "computeConfigs": [],
    "storageConfigs": [],
    "outpostConfigs": [],
    "zonalShiftConfigs": [],
}


def _missing(what: str) -> AwsError:
    """The provider does not pass on EKS's ResourceNotFoundException where it looks for one thing."""
    return AwsError("ResourceNotFoundException", f"reading {what}: couldn't find resource", own=True)


def _cluster_named(asking: Asking, name: str) -> Entry:
    found = asking.records.get(tokens.CLUSTER, name)
    if found is None or found.region != asking.region:
        raise AwsError("ResourceNotFoundException", f"No cluster found for name: {name}.")
    return found


def _cluster(asking: Asking) -> dict[str, Any]:
    name = asking.arguments["name"]
    found = asking.records.get(tokens.CLUSTER, name)
    if found is None or found.region != asking.region:
        raise _missing(f"EKS Cluster ({name})")
    outputs = found.outputs
    config = {"endpointPrivateAccess": False, "securityGroupIds": [], **outputs["vpcConfig"]}
    network = {"elasticLoadBalancings": [], "serviceIpv6Cidr": "", **outputs["kubernetesNetworkConfig"]}
    return {
        **_UNSAID,
        **{name: outputs[name] for name in ("arn", "endpoint", "identities", "status", "version", "createdAt")},
        "id": found.id,
        "name": found.id,
        "roleArn": outputs["roleArn"],
        "platformVersion": outputs["platformVersion"],
        "accessConfigs": [outputs["accessConfig"]],
        "certificateAuthorities": [outputs["certificateAuthority"]],
        "kubernetesNetworkConfigs": [network],
        "upgradePolicies": [outputs["upgradePolicy"]],
        "enabledClusterLogTypes": outputs.get("enabledClusterLogTypes", []),
        "deletionProtection": outputs["deletionProtection"],
        "vpcConfig": config,
        "tags": outputs["tagsAll"],
    }


def _clusters(asking: Asking) -> dict[str, Any]:
    return {"names": [entry.id for entry in asking.records.all(tokens.CLUSTER, asking.region)]}


def _auth(asking: Asking) -> dict[str, Any]:
    """As the real one: a token is signed here, without asking whether there is such a cluster."""
    name = asking.arguments["name"]
    return {"id": name, "name": name, "token": bed.read(asking.folder).get("token") or "k8s-aws-v1.c3RhbmQtaW4"}


def _group(asking: Asking) -> dict[str, Any]:
    cluster, name = asking.arguments["clusterName"], asking.arguments["nodeGroupName"]
    found = asking.records.get(tokens.NODE_GROUP, f"{cluster}:{name}")
    if found is None or found.region != asking.region:
        raise _missing(f"EKS Node Group ({cluster}:{name})")
    outputs = found.outputs
    kept = ("amiType", "arn", "capacityType", "diskSize", "instanceTypes", "nodeRoleArn", "releaseVersion", "resources")
    template = outputs.get("launchTemplate")
    return {
        **{key: outputs[key] for key in kept},
        "id": found.id,
        "labels": outputs.get("labels", {}),
        "launchTemplates": [{"id": "", "name": "", **template}] if template else [],
        "remoteAccesses": [outputs["remoteAccess"]] if "remoteAccess" in outputs else [],
        "scalingConfigs": [outputs["scalingConfig"]],
        "status": outputs["status"],
        "subnetIds": outputs["subnetIds"],
        "tags": outputs["tagsAll"],
        "taints": outputs.get("taints", []),
        "updateConfigs": [outputs["updateConfig"]],
        "version": outputs["version"],
    }


def _groups(asking: Asking) -> dict[str, Any]:
    cluster = _cluster_named(asking, asking.arguments["clusterName"]).id
    there = asking.records.all(tokens.NODE_GROUP, asking.region)
    names = [entry.inputs["nodeGroupName"] for entry in there if entry.inputs["clusterName"] == cluster]
    return {"id": cluster, "names": names}


def _addon_version(asking: Asking) -> dict[str, Any]:
    number = asking.arguments["kubernetesVersion"].partition(".")[2]
    return {"id": asking.arguments["addonName"], "version": f"v1.{number}.0-eksbuild.1", "mostRecent": False} | {
        key: value for key, value in asking.arguments.items() if key == "mostRecent"
    }


def _role(asking: Asking) -> dict[str, Any]:
    name = asking.arguments["name"]
    found = asking.records.get(tokens.ROLE, name)
    if found is None:
        raise AwsError("NoSuchEntity", f"The role with name {name} cannot be found.")
    return {**described(found, "forceDetachPolicies"), "roleLastUseds": []}


def _policy_document(asking: Asking) -> dict[str, Any]:
    """The provider's own work: it asks nobody."""
    statements = [_statement(item) for item in asking.arguments.get("statements", [])]
    document = {"Version": asking.arguments.get("version", "2012-10-17"), "Statement": statements}
    text = json.dumps(document, indent=2)
    return {
        "id": hashlib.sha256(text.encode()).hexdigest()[:10],
        "json": text,
        "minifiedJson": json.dumps(document, separators=(",", ":")),
    }


def _statement(item: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"Effect": item.get("effect", "Allow")}
    found |= {"Sid": item["sid"]} if "sid" in item else {}
    for name, key in (
        ("actions", "Action"),
        ("notActions", "NotAction"),
        ("resources", "Resource"),
        ("notResources", "NotResource"),
    ):
        found |= {key: _single(item[name])} if item.get(name) else {}
    for name, key in (("principals", "Principal"), ("notPrincipals", "NotPrincipal")):
        people = {person["type"]: _single(person["identifiers"]) for person in item.get(name, [])}
        found |= {key: people} if people else {}
    tests: dict[str, Any] = {}
    for condition in item.get("conditions", []):
        tests.setdefault(condition["test"], {})[condition["variable"]] = _single(condition["values"])
    return {**found, "Condition": tests} if tests else found


def _single(values: list[str]) -> Any:
    return values[0] if len(values) == 1 else sorted(values)


ANSWERS: Mapping[str, Callable[[Asking], dict[str, Any]]] = {
    "aws:eks/getCluster:getCluster": _cluster,
    "aws:eks/getClusters:getClusters": _clusters,
    "aws:eks/getClusterAuth:getClusterAuth": _auth,
    "aws:eks/getNodeGroup:getNodeGroup": _group,
    "aws:eks/getNodeGroups:getNodeGroups": _groups,
    "aws:eks/getAddonVersion:getAddonVersion": _addon_version,
    "aws:iam/getRole:getRole": _role,
    "aws:iam/getPolicyDocument:getPolicyDocument": _policy_document,
}
