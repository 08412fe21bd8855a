"""What makes the stack that passes break each rule of the policy pack."""

import copy
from dataclasses import dataclass
from typing import Any

from tests.support.policy_stack import AMOUNTS, CONTAINER, GOOD, ITSELF, WORKER, Stack

_NOT_SET = object()


@dataclass(frozen=True)
class Break:
    """One value that makes a stack break `rule`; `says` is in the message, which is about `resource` unless `blames`
    names another."""

    rule: str
    resource: str
    path: tuple[str | int, ...]
    value: Any
    says: str
    blames: str = ""

    def apply(self, stack: Stack) -> None:
        *way, last = self.path
        place: Any = stack[self.resource]["props"]
        for step in way:
            place = place[step]
        if self.value is _NOT_SET:
            del place[last]
        else:
            place[last] = copy.deepcopy(self.value)

    @property
    def about(self) -> str:
        return self.blames or self.resource


# The first of each rule can all be applied together.
BREAKS = (
    Break(
        "efa-group-to-itself",
        "efa",
        ("egress",),
        [{"protocol": "-1", "fromPort": 0, "toPort": 0, "cidrBlocks": ["0.0.0.0/0"]}],
        "efa lacks egress): add that rule with self=True",
        "template",
    ),
    Break("efa-group-to-itself", "efa", ("ingress",), [], "efa lacks ingress", "template"),
    Break(
        "efa-group-to-itself",
        "template",
        ("networkInterfaces", 0, "securityGroups"),
        ["sg-0123"],
        "list no security group of this program",
    ),
    Break(
        "gpu-group-in-one-zone",
        "gpu",
        ("subnetIds",),
        [{"$id": "private"}, {"$id": "elsewhere"}],
        "give it the one subnet of the GPU zone",
    ),
    Break("taints-tolerated", "ray", (*WORKER, "tolerations"), [], "add a toleration of nvidia.com/gpu (NoSchedule"),
    Break(
        "taints-tolerated",
        "gpu",
        ("taints",),
        [{"key": "team", "value": "a", "effect": "NO_EXECUTE"}],
        "does not tolerate team=a:NoExecute of node group gpu",
        "pull",
    ),
    Break("taints-tolerated", "plugin", ("values",), {}, "chart nvidia-device-plugin (values) does not tolerate"),
    Break(
        "taints-tolerated",
        "pull",
        ("spec", "template", "spec", "tolerations"),
        [{"key": "nvidia.com/gpu", "value": "absent", "effect": "NoSchedule"}],
        "its pod template does not tolerate nvidia.com/gpu=present:NoSchedule",
    ),
    Break("nccl-fallback-closed", "ray", (*CONTAINER, "env", 0, "value"), "tcp", "FI_PROVIDER is tcp: set it to efa"),
    Break("nccl-fallback-closed", "ray", (*CONTAINER, "env", 1, "value"), "none", "set NCCL_NET_PLUGIN to ofi"),
    Break(
        "nccl-fallback-closed",
        "ray",
        (*CONTAINER, "env", 1),
        {"name": "NCCL_NET", "value": "Socket"},
        "NCCL_NET Socket: set",
    ),
    Break("nccl-fallback-closed", "ray", (*CONTAINER, "env"), [], "FI_PROVIDER is not set"),
    Break(
        "nodes-without-public-address",
        "template",
        ("networkInterfaces", 0, "associatePublicIpAddress"),
        "true",
        "set associatePublicIpAddress to false",
    ),
    Break(
        "nodes-in-private-subnets",
        "private",
        ("mapPublicIpOnLaunch",),
        True,
        "put the nodes in private subnets",
        "gpu",
    ),
    Break("no-open-ingress", "https", ("cidrIpv4",), "0.0.0.0/0", "it lets 0.0.0.0/0 in (ports 443-443, protocol tcp)"),
    Break("no-open-ingress", "https", ("cidrIpv6",), "::/0", "it lets ::/0 in"),
    Break(
        "no-open-ingress",
        "efa",
        ("ingress",),
        [ITSELF, {"protocol": "tcp", "fromPort": 22, "toPort": 22, "cidrBlocks": ["10.0.0.0/8", "128.0.0.0/1"]}],
        "it lets 128.0.0.0/1 in (ports 22-22",
    ),
    Break(
        "endpoint-not-open",
        "control-plane",
        ("vpcConfig", "publicAccessCidrs"),
        ["203.0.113.7/32", "0.0.0.0/0"],
        "open to 0.0.0.0/0: list the networks that need it (eksEndpointCidrs)",
    ),
    Break("endpoint-not-open", "control-plane", ("vpcConfig",), {}, "which means everybody"),
    Break("imdsv2-required", "template", ("metadataOptions", "httpTokens"), "optional", "set it to required (IMDSv2)"),
    Break("imdsv2-required", "template", ("metadataOptions",), _NOT_SET, "httpTokens is not set"),
    Break("ray-not-exposed", "ray", ("spec", "headGroupSpec", "serviceType"), "LoadBalancer", "make it ClusterIP"),
    Break("ray-not-exposed", "service", ("spec", "type"), "NodePort", "a service of type NodePort"),
    Break("ray-not-exposed", "service", ("spec", "externalIPs"), ["198.51.100.1"], "externalIPs: leave them out"),
    Break("ray-not-exposed", "ray", ("spec", "headGroupSpec", "enableIngress"), True, "enableIngress shows"),
    Break("ray-not-exposed", "ray", (*WORKER, "hostNetwork"), True, "pods of gpu-workers take ports of their node"),
    Break("ray-not-exposed", "service", ("metadata",), {}, "an Ingress shows a service"),
    Break(
        "ray-network-policy",
        "policy",
        ("spec", "podSelector", "matchLabels", "ray.io/cluster"),
        "other",
        "no NetworkPolicy for ingress selects its pods (ray.io/cluster=ray)",
        "ray",
    ),
    Break("ray-network-policy", "policy", ("metadata", "namespace"), "default", "no NetworkPolicy", "ray"),
    Break("ray-network-policy", "policy", ("spec", "policyTypes"), ["Egress"], "no NetworkPolicy", "ray"),
    Break("ray-network-policy", "policy", ("spec", "ingress"), [{}], "lets everybody in"),
    Break(
        "disks-encrypted",
        "template",
        ("blockDeviceMappings", 0, "ebs", "encrypted"),
        "false",
        "disk /dev/xvda is not encrypted: set ebs.encrypted to true",
    ),
    Break("disks-encrypted", "template", ("blockDeviceMappings",), _NOT_SET, "it declares no disk"),
    Break(
        "kubernetes-secrets-encrypted",
        "control-plane",
        ("encryptionConfig",),
        _NOT_SET,
        "set encryptionConfig with resources [secrets]",
    ),
    Break("file-system-encrypted", "lustre", ("deploymentType",), "PERSISTENT_1", "set it to PERSISTENT_2"),
    Break("buckets-closed", "bucket-block", ("blockPublicPolicy",), False, "public access is not blocked", "bucket"),
    Break("buckets-closed", "bucket-encryption", ("bucket",), "other", "its encryption is not declared", "bucket"),
    Break("charts-pinned", "plugin", ("version",), "^0.20", "has version ^0.20", ""),
    Break("charts-pinned", "plugin", ("version",), _NOT_SET, "chart nvidia-device-plugin has version not set"),
    Break("addons-pinned", "addon", ("addonVersion",), _NOT_SET, "add-on vpc-cni has no addonVersion"),
    Break("images-pinned", "ray", (*CONTAINER, "image"), "registry:5000/ray:latest", "moves with every release: name"),
    Break(
        "images-pinned", "pull", ("spec", "template", "spec", "containers", 0, "image"), "registry:5000/ray", "no tag"
    ),
    Break(
        "worker-requests-are-limits",
        "ray",
        (*CONTAINER, "resources", "requests"),
        {**AMOUNTS, "memory": "80Gi"},
        "memory 80Gi / 160Gi): set both to the same",
    ),
    Break("worker-requests-are-limits", "ray", (*CONTAINER, "resources"), {}, "requests other than its limits (cpu"),
    Break("reservation-has-an-end", "capacity", ("endDateType",), "unlimited", "bills until it is cancelled"),
    Break("reservation-has-an-end", "capacity", ("endDate",), _NOT_SET, "endDate not set"),
)


def broken(*breaks: Break) -> Stack:
    """The stack that passes, with these breaks."""
    stack = copy.deepcopy(GOOD)
    for one in breaks:
        one.apply(stack)
        if "an Ingress" in one.says:
            stack[one.resource]["type"] = "kubernetes:networking.k8s.io/v1:Ingress"
    return stack


def one_break_a_rule() -> list[Break]:
    found: dict[str, Break] = {}
    for one in BREAKS:
        found.setdefault(one.rule, one)
    return list(found.values())
