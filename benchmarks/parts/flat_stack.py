"""PURE: the resources of a preview, as a program without components would register them, and that program."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

# What the engine shows of a value that is known only once its resource is there.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SECRET = "[secret]"
CLUSTER, EKS_CLUSTER, VPC = "eks:index:Cluster", "aws:eks/cluster:Cluster", "aws:ec2/vpc:Vpc"
OUTPUT_OF = "outputOf"

# Reads resources.json beside it.
PROGRAM = """
import importlib
import json

import pulumi
import pulumi_aws
import pulumi_eks
import pulumi_kubernetes

resources, outputs = [], []


def value(given):
    if isinstance(given, list):
        return [value(item) for item in given]
    if isinstance(given, dict):
        if list(given) == ["outputOf"]:
            return outputs[given["outputOf"]]
        return {key: value(item) for key, item in given.items()}
    return given


def made(each, opts):
    given = {key: value(item) for key, item in each["arguments"].items()}
    package, module, name = each["type"].split(":")
    if package == "eks":
        return pulumi_eks.Cluster(each["name"], **given, opts=opts)
    if package == "pulumi":
        return importlib.import_module(f"pulumi_{name}").Provider(each["name"], **given, opts=opts)
    if package == "pulumi-python":
        return pulumi.CustomResource(each["type"], each["name"], given, opts)
    group, _, version = module.partition("/")
    place = f"pulumi_{package}.{group.partition('.')[0]}" + (f".{version}" if package == "kubernetes" else "")
    if group.endswith("ray.io"):
        place, name = "pulumi_kubernetes.apiextensions", "CustomResource"
    return getattr(importlib.import_module(place), name)(each["name"], **given, opts=opts)


for each in json.load(open("resources.json")):
    provider = each["provider"]
    opts = pulumi.ResourceOptions(
        provider=None if provider is None or each["type"].startswith("eks:") else resources[provider],
        providers=[resources[provider]] if provider is not None and each["type"].startswith("eks:") else None,
        depends_on=[resources[before] for before in each["after"]],
    )
    resources.append(made(each, opts))
    outputs.append(resources[-1].eks_cluster.name if each["type"].startswith("eks:") else resources[-1].id)
"""
TRIVIAL = """
import pulumi_aws as aws

aws.ec2.Vpc("vpc", cidr_block="10.20.0.0/16")
"""


def flattened(preview: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each resource's type, name, arguments, provider and what it comes after, these two as places in the list.

    pulumi-eks's Cluster stays one, as its plugin makes what is in it; its arguments are read off its cluster. A value
    that the preview does not know is {OUTPUT_OF: place} of the resource it comes from.
    """
    states = [step["newState"] for step in preview["steps"] if step.get("newState")]
    kept = [state for state in states if _stays(state)]
    places = {state["urn"]: place for place, state in enumerate(kept)}
    for state in states:
        cluster, inside, _ = state["urn"].partition(f"{CLUSTER}$")
        if inside:
            owner = next(urn for urn in places if urn.startswith(f"{cluster}{CLUSTER}::"))
            places[state["urn"]] = places[owner]
    eks = next((state for state in states if state["type"] == EKS_CLUSTER), None)
    return [_flat(state, places, eks) for state in kept]


def _stays(state: Mapping[str, Any]) -> bool:
    return f"{CLUSTER}$" not in state["urn"] and (bool(state.get("custom")) or state["type"] == CLUSTER)


def _flat(state: Mapping[str, Any], places: Mapping[str, int], eks: Mapping[str, Any] | None) -> dict[str, Any]:
    provider = str(state.get("provider") or "").rpartition("::")[0]
    after = sorted({places[urn] for urn in state.get("dependencies") or () if urn in places})
    if state["type"] == CLUSTER:
        assert eks is not None, "the component has a cluster in it"
        provider = str(eks["provider"]).rpartition("::")[0]
        vpc = next(urn for urn in state["dependencies"] if f"{VPC}::" in urn)
        arguments = _cluster_arguments(eks, places, places[vpc])
    else:
        arguments = _arguments(state, places)
    return {
        "type": state["type"],
        "name": state["urn"].rpartition("::")[2],
        "arguments": arguments,
        "provider": places.get(provider),
        "after": after,
    }


def _arguments(state: Mapping[str, Any], places: Mapping[str, int]) -> dict[str, Any]:
    """What a program passes: names as the SDKs have them in Python, without what the SDK or the provider fills in."""
    kind, inputs = str(state["type"]), dict(state.get("inputs") or {})
    filled = {"__defaults", "__internal", *inputs.get("__defaults", ())}
    if kind.startswith("kubernetes:") and not kind.startswith("kubernetes:ray.io"):
        filled |= {"apiVersion", "kind", "compat"}
    if kind.startswith("pulumi:providers:"):
        filled.add("version")
    by_property = state.get("propertyDependencies") or {}
    given = {
        name: _value(value, [places[urn] for urn in by_property.get(name) or () if urn in places])
        for name, value in inputs.items()
        if name not in filled
    }
    # A provider gets its settings as JSON texts; a dynamic resource has the names that its own class gave it.
    if kind.startswith("pulumi:providers:"):
        given = {name: _plain(value) for name, value in given.items()}
    return given if kind.startswith("pulumi-python:") else {_snake(name): value for name, value in given.items()}


def _cluster_arguments(eks: Mapping[str, Any], places: Mapping[str, int], vpc: int) -> dict[str, Any]:
    given = _arguments(eks, places)
    network, access = given["vpc_config"], given["access_config"]
    return {
        "name": given["name"],
        "version": given["version"],
        "vpc_id": {OUTPUT_OF: vpc},
        "subnet_ids": network["subnetIds"],
        "endpoint_private_access": network["endpointPrivateAccess"],
        "endpoint_public_access": network["endpointPublicAccess"],
        "public_access_cidrs": network.get("publicAccessCidrs"),
        "authentication_mode": access["authenticationMode"],
        "create_oidc_provider": True,
        "enabled_cluster_log_types": given.get("enabled_cluster_log_types"),
        "encryption_config_key_arn": given["encryption_config"]["provider"]["keyArn"],
        "upgrade_policy": given["upgrade_policy"],
        "skip_default_node_group": True,
        "skip_default_security_groups": True,
        "bootstrap_self_managed_addons": False,
        "use_default_vpc_cni": True,
        "kube_proxy_addon_options": {"enabled": False},
        "coredns_addon_options": {"enabled": False},
        "provider_credential_opts": {},
    }


def _value(value: Any, sources: Sequence[int]) -> Any:
    """With two sources in one value it is the first that is waited for here; `after` has both."""
    if value in (UNKNOWN, _SECRET) and sources:
        return {OUTPUT_OF: sources[0]}
    if isinstance(value, Mapping):
        return {key: _value(item, sources) for key, item in value.items()}
    if isinstance(value, list):
        return [_value(item, sources) for item in value]
    return value


def _plain(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)
