"""Who can reach what: no node, port, control plane, Ray head or instance credential is open to those it is not for."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .resources import (
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    RAY_CLUSTER,
    SECURITY_GROUP,
    SUBNET,
    UNKNOWN,
    Resource,
    ResourceRule,
    StackRule,
    at,
    mapping,
    mappings,
    of_type,
    true,
)

_CLUSTER, _INSTANCE = "aws:eks/cluster:Cluster", "aws:ec2/instance:Instance"
_RULE, _INGRESS_RULE = (
    "aws:ec2/securityGroupRule:SecurityGroupRule",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
)
_SERVICE, _INGRESS = "kubernetes:core/v1:Service", "kubernetes:networking.k8s.io/v1:Ingress"
_NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
_RAY_LABEL = "ray.io/cluster"
# A network this wide is the internet, whatever it is called.
_WIDEST = 8


def no_public_address(template: Resource) -> Iterator[str]:
    interfaces = mappings(template.props.get("networkInterfaces"))
    for index, interface in enumerate(interfaces):
        if true(interface.get("associatePublicIpAddress")):
            yield (
                f"networkInterfaces[{index}] gives its nodes a public address: set associatePublicIpAddress to false, "
                "and let nodes out through NAT or endpoints"
            )
    if true(template.props.get("associatePublicIpAddress")):
        yield "it has a public address: set associatePublicIpAddress to false"


def nodes_in_private_subnets(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str]]:
    for group in of_type(resources, NODE_GROUP):
        for subnet in group.feeding("subnetIds", SUBNET):
            if true(subnet.props.get("mapPublicIpOnLaunch")):
                yield (
                    group,
                    f"its subnet {subnet.name} gives every node a public address (mapPublicIpOnLaunch): put the nodes "
                    "in private subnets",
                )


def no_open_ingress(group: Resource) -> Iterator[str]:
    props = group.props
    if group.type == SECURITY_GROUP:
        rules = mappings(props.get("ingress"))
    elif group.type == _RULE:
        rules = [props] if props.get("type") == "ingress" else []
    else:
        rules = [props]
    for rule in rules:
        for network in _networks(rule):
            if _open(network):
                ports = f"{_number(rule.get('fromPort'))}-{_number(rule.get('toPort'))}"
                yield (
                    f"it lets {network} in (ports {ports}, protocol {rule.get('protocol') or rule.get('ipProtocol')}): "
                    "list the networks or security groups that need it"
                )


def _networks(rule: Mapping[str, Any]) -> Iterator[str]:
    for name in ("cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6"):
        value = rule.get(name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield one


def _open(network: str) -> bool:
    try:
        return ipaddress.ip_network(network, strict=False).prefixlen < _WIDEST
    except ValueError:
        return False


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "all"


def endpoint_is_not_open(cluster: Resource) -> Iterator[str]:
    access, networks = (at(cluster.props, "vpcConfig", name) for name in ("endpointPublicAccess", "publicAccessCidrs"))
    if access is False or networks is UNKNOWN:
        return
    if not networks:
        yield (
            "its API endpoint is public and vpcConfig.publicAccessCidrs is not set, which means everybody: list the "
            "networks that need it (eksEndpointCidrs), or set endpointPublicAccess to false"
        )
    for network in networks or []:
        if isinstance(network, str) and _open(network):
            yield f"its API endpoint is open to {network}: list the networks that need it (eksEndpointCidrs)"


def credentials_want_a_token(template: Resource) -> Iterator[str]:
    tokens = at(template.props, "metadataOptions", "httpTokens")
    if tokens not in ("required", UNKNOWN):
        yield (
            f"metadataOptions.httpTokens is {tokens or 'not set'}, so a forwarded request reads a node's credentials: "
            "set it to required (IMDSv2)"
        )


def ray_is_not_exposed(resource: Resource) -> Iterator[str]:
    """Whoever reaches a Ray head runs what they like on the cluster."""
    if resource.type == _INGRESS:
        yield "an Ingress shows a service to the outside: reach Ray through the API server (port-forward) instead"
        return
    services = [("spec", mapping(resource.props.get("spec")))]
    if resource.type == RAY_CLUSTER:
        head = mapping(at(resource.props, "spec", "headGroupSpec"))
        kind = head.get("serviceType")
        services = [
            ("spec.headGroupSpec.serviceType", {"type": kind} if kind else {}),
            ("spec.headGroupSpec.headService.spec", mapping(at(head, "headService", "spec"))),
        ]
        if true(head.get("enableIngress")):
            yield "spec.headGroupSpec.enableIngress shows the Ray head to the outside: leave it out"
        yield from _host_network(resource, head)
    for where, service in services:
        kind = service.get("type") or "ClusterIP"
        if kind not in ("ClusterIP", UNKNOWN):
            yield f"{where} makes a service of type {kind}, reachable from outside the cluster: make it ClusterIP"
        if service.get("externalIPs"):
            yield f"{where} has externalIPs: leave them out"


def _host_network(cluster: Resource, head: Mapping[str, Any]) -> Iterator[str]:
    for group in (head, *mappings(at(cluster.props, "spec", "workerGroupSpecs"))):
        pod = mapping(at(group, "template", "spec"))
        ports = [port for container in mappings(pod.get("containers")) for port in mappings(container.get("ports"))]
        if true(pod.get("hostNetwork")) or any(port.get("hostPort") for port in ports):
            name = group.get("groupName", "head")
            yield f"pods of {name} take ports of their node (hostNetwork or hostPort): no NetworkPolicy covers those"


def ray_has_a_network_policy(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str]]:
    policies = list(of_type(resources, _NETWORK_POLICY))
    for cluster in of_type(resources, RAY_CLUSTER):
        name = at(cluster.props, "metadata", "name")
        namespace = at(cluster.props, "metadata", "namespace")
        around = [policy for policy in policies if _covers(policy, name, namespace)]
        if not around:
            yield (
                cluster,
                f"no NetworkPolicy for ingress selects its pods ({_RAY_LABEL}={name}): let only them in",
            )
        for policy in around:
            if any(_lets_all_in(rule) for rule in mappings(at(policy.props, "spec", "ingress"))):
                yield policy, "an ingress rule without a from, or from everywhere, lets everybody in: name the pods"


def _covers(policy: Resource, cluster: Any, namespace: Any) -> bool:
    spec = mapping(policy.props.get("spec"))
    place = at(policy.props, "metadata", "namespace")
    labels = mapping(at(spec, "podSelector", "matchLabels"))
    if UNKNOWN not in (place, namespace) and place != namespace:
        return False
    only_labels = not at(spec, "podSelector", "matchExpressions")
    return (
        only_labels and "Ingress" in (spec.get("policyTypes") or ["Ingress"]) and labels in ({}, {_RAY_LABEL: cluster})
    )


def _lets_all_in(rule: Mapping[str, Any]) -> bool:
    peers = mappings(rule.get("from"))
    return not peers or any(_open(str(at(peer, "ipBlock", "cidr"))) for peer in peers)


RESOURCE_RULES = (
    ResourceRule(
        name="nodes-without-public-address",
        description="No node has a public address.",
        types=(LAUNCH_TEMPLATE, _INSTANCE),
        check=no_public_address,
    ),
    ResourceRule(
        name="no-open-ingress",
        description="No security group lets the whole internet in.",
        types=(SECURITY_GROUP, _RULE, _INGRESS_RULE),
        check=no_open_ingress,
    ),
    ResourceRule(
        name="endpoint-not-open",
        description="The EKS API endpoint is limited to listed networks.",
        types=(_CLUSTER,),
        check=endpoint_is_not_open,
    ),
    ResourceRule(
        name="imdsv2-required",
        description="Nodes serve credentials only to who holds a token (IMDSv2).",
        types=(LAUNCH_TEMPLATE, _INSTANCE),
        check=credentials_want_a_token,
    ),
    ResourceRule(
        name="ray-not-exposed",
        description="Services are ClusterIP; Ray's ports are not shown outside the cluster.",
        types=(RAY_CLUSTER, _SERVICE, _INGRESS),
        check=ray_is_not_exposed,
    ),
)
STACK_RULES = (
    StackRule(
        name="nodes-in-private-subnets",
        description="No subnet gives nodes a public address.",
        check=nodes_in_private_subnets,
    ),
    StackRule(
        name="ray-network-policy",
        description="A NetworkPolicy lets only a Ray cluster's own pods reach its ports.",
        check=ray_has_a_network_policy,
    ),
)
