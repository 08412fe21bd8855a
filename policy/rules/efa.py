"""EFA that works: what must be there for NCCL to find it, and what would make NCCL fall back in silence."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .pods import worker_containers, worker_pods
from .resources import (
    DAEMON_SET,
    HELM_RELEASE,
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    RAY_CLUSTER,
    SECURITY_GROUP,
    SUBNET,
    Resource,
    ResourceRule,
    StackRule,
    at,
    mapping,
    mappings,
    of_type,
    true,
)

EFA, GPU = "vpc.amazonaws.com/efa", "nvidia.com/gpu"
_RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
_RULES = {
    "ingress": "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "egress": "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
}
_ALL = ("-1", "all", -1)
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute"}
# aws-ofi-nccl calls itself by either name, older and newer.
_LIBFABRIC = ("AWS Libfabric", "Libfabric", "OFI")


def group_to_itself(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str]]:
    """A rule for addresses, 0.0.0.0/0 included, does not cover EFA."""
    for template in of_type(resources, LAUNCH_TEMPLATE):
        interfaces = mappings(template.props.get("networkInterfaces"))
        if not any(str(one.get("interfaceType", "")).startswith("efa") for one in interfaces):
            continue
        groups = template.feeding("networkInterfaces", SECURITY_GROUP)
        lacking = {group.name: _directions_lacking(group, resources) for group in groups}
        if not groups:
            yield (
                template,
                "its EFA interfaces list no security group of this program, so nothing shows that EFA may pass: add "
                "one with ingress and egress of all protocols to itself (self) to each interface's securityGroups",
            )
        elif all(lacking.values()):
            what = "; ".join(f"{name} lacks {' and '.join(sides)}" for name, sides in lacking.items())
            yield (
                template,
                f"no security group of its EFA interfaces allows all protocols to and from itself ({what}): add that "
                'rule with self=True and protocol "-1"; a rule for 0.0.0.0/0 does not cover EFA',
            )


def _directions_lacking(group: Resource, resources: Sequence[Resource]) -> list[str]:
    return [direction for direction in ("ingress", "egress") if not _to_itself(group, direction, resources)]


def _to_itself(group: Resource, direction: str, resources: Sequence[Resource]) -> bool:
    if any(one.get("protocol") in _ALL and true(one.get("self")) for one in mappings(group.props.get(direction))):
        return True
    for rule in of_type(resources, _RULES[direction], _RULE):
        if group not in rule.refs.get("securityGroupId", ()):
            continue
        props = rule.props
        if rule.type == _RULE:
            source = true(props.get("self")) or group in rule.refs.get("sourceSecurityGroupId", ())
            if props.get("type") == direction and props.get("protocol") in _ALL and source:
                return True
        elif props.get("ipProtocol") in _ALL and group in rule.refs.get("referencedSecurityGroupId", ()):
            return True
    return False


def gpu_group_in_one_zone(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str]]:
    for group in of_type(resources, NODE_GROUP):
        subnets = group.props.get("subnetIds")
        if not _for_gpus(group) or not isinstance(subnets, list) or len(subnets) < 2:
            continue
        zones = [subnet.props.get("availabilityZone") for subnet in group.feeding("subnetIds", SUBNET)]
        if len(zones) < len(subnets) or len(set(map(str, zones))) > 1:
            yield (
                group,
                f"subnetIds has {len(subnets)} subnets, which are not shown to be in one zone: EFA does not leave a "
                "zone, and a reservation is of one; give it the one subnet of the GPU zone",
            )


def _for_gpus(group: Resource) -> bool:
    taints = {taint.get("key") for taint in mappings(group.props.get("taints"))}
    return (
        GPU in taints
        or "NVIDIA" in str(group.props.get("amiType"))
        or "nvidia.com/gpu.present" in mapping(group.props.get("labels"))
    )


def taints_are_tolerated(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str]]:
    """By the workers, by the device plugins without which a node has nothing to offer, and by what pulls the image."""
    for group in of_type(resources, NODE_GROUP):
        labels = mapping(group.props.get("labels"))
        for taint in mappings(group.props.get("taints")):
            effect = _EFFECTS.get(str(taint.get("effect")))
            if effect is None:
                continue
            text = f"{taint.get('key')}={taint.get('value') or ''}:{effect}"
            for resource, where, pod in _tainted_pods(resources):
                tolerations = mappings(pod.get("tolerations"))
                if _belongs(pod, labels) and not any(_tolerates(one, taint, effect) for one in tolerations):
                    yield (
                        resource,
                        f"{where} does not tolerate {text} of node group {group.name}, so no pod of it starts there: "
                        f"add a toleration of {taint.get('key')} ({effect}, operator Exists)",
                    )


def _tainted_pods(resources: Sequence[Resource]) -> Iterator[tuple[Resource, str, Mapping[str, Any]]]:
    for cluster in of_type(resources, RAY_CLUSTER):
        for name, pod in worker_pods(cluster):
            yield cluster, f"worker group {name}", pod
    for release in of_type(resources, HELM_RELEASE):
        if "device-plugin" in str(release.props.get("chart")):
            values = mapping(release.props.get("values"))
            yield release, f"chart {release.props.get('chart')} (values)", {"tolerations": values.get("tolerations")}
    for daemons in of_type(resources, DAEMON_SET):
        pod = mapping(at(daemons.props, "spec", "template", "spec"))
        if pod.get("nodeSelector"):
            yield daemons, "its pod template", pod


def _belongs(pod: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a pod's selector lets it onto a group's nodes, as far as the group's own labels tell."""
    return all(labels[name] == value for name, value in mapping(pod.get("nodeSelector")).items() if name in labels)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any], effect: str) -> bool:
    if toleration.get("effect") and toleration["effect"] != effect:
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    same = (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(toleration["key"] == taint.get("key") and (exists or same))


def nccl_has_no_way_back(cluster: Resource) -> Iterator[str]:
    for where, container in worker_containers(cluster):
        if not at(container, "resources", "limits", EFA):
            continue
        env = {one.get("name"): one.get("value") for one in mappings(container.get("env"))}
        if env.get("FI_PROVIDER") != "efa":
            yield (
                f"{where} asks for {EFA}, and its FI_PROVIDER is {env.get('FI_PROVIDER') or 'not set'}: set it to efa, "
                "or libfabric may take tcp in silence"
            )
        plugin, net = env.get("NCCL_NET_PLUGIN"), env.get("NCCL_NET")
        if (net and net not in _LIBFABRIC) or plugin == "none" or not (plugin or net):
            yield (
                f"{where} asks for {EFA} with NCCL_NET_PLUGIN {plugin or 'not set'} and NCCL_NET {net or 'not set'}: "
                "set NCCL_NET_PLUGIN to ofi (or NCCL_NET to Libfabric), or NCCL may take sockets in silence"
            )


RESOURCE_RULES = (
    ResourceRule(
        name="nccl-fallback-closed",
        description="Workers with EFA interfaces name EFA to libfabric and NCCL: nothing else is taken in silence.",
        types=(RAY_CLUSTER,),
        check=nccl_has_no_way_back,
    ),
)
STACK_RULES = (
    StackRule(
        name="efa-group-to-itself",
        description="EFA interfaces have a security group that allows everything to and from itself.",
        check=group_to_itself,
    ),
    StackRule(
        name="gpu-group-in-one-zone",
        description="The GPU nodes are in one zone, which EFA does not leave.",
        check=gpu_group_in_one_zone,
    ),
    StackRule(
        name="taints-tolerated",
        description="Workers, device plugins and the image's pull tolerate every taint of their nodes.",
        check=taints_are_tolerated,
    ),
)
