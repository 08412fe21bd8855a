"""PURE: what pulumi-eks's Cluster does with its arguments, read from its source (nodejs/eks/cluster, 2026-08-12).

Refused by the real component, and so here:

| rule | source |
|---|---|
| `aws` must be on PATH, at least 1.24.0 or 2.7.0 | dependencies.ts |
| authenticationMode is CONFIG_MAP, API_AND_CONFIG_MAP or API | authenticationMode.ts |
| with API: no roleMappings, userMappings, instanceRoles | authenticationMode.ts |
| accessEntries and autoMode want API or API_AND_CONFIG_MAP | authenticationMode.ts, createCore |
| instanceRole or instanceRoles, not both | createCore |
| subnetIds, or publicSubnetIds and privateSubnetIds | createCore |
| nodeGroupOptions, or single options of the default node group | createCore |
| publicAccessCidrs want endpointPublicAccess (unset counts as true) | createCore |
| creationRoleProvider is for Node.js programs alone | Cluster's constructor |
| vpcCniOptions: cniExternalSnat or externalSnat | addons/cni-addon.ts |

An explicit aws provider does not call for providerCredentialOpts: that check looks at `opts.provider`, which a
component made for another language never has. Its children take the provider from the component.

The real component drops an argument it does not know without a word; here it is refused. So is what `UNMODELLED` lists,
with the reason, which says that the stand-in ends there and not that EKS does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
_DEFAULT_GROUP_OPTIONS = (
    "nodeSubnetIds",
    "nodeAssociatePublicIpAddress",
    "instanceType",
    "instanceProfileName",
    "nodePublicKey",
    "nodeRootVolumeSize",
    "nodeUserData",
    "minSize",
    "maxSize",
    "desiredCapacity",
    "nodeAmiId",
    "gpu",
)
UNMODELLED = {
    "autoMode": "EKS Auto Mode brings its own nodes",
    "fargate": "Fargate has no GPUs",
    "nodeGroupOptions": "the default node group is not made here",
    "storageClasses": "storage classes are the program's own",
    "instanceRole": "the default node group is not made here",
    "instanceRoles": "the default node group is not made here",
}
_OLDEST_CLI = {1: (1, 24, 0), 2: (2, 7, 0)}


class ArgumentError(Exception):
    """One argument of the component (its wire name, empty for none in particular) and why it is refused."""

    def __init__(self, argument: str, reason: str) -> None:
        super().__init__(f"{argument}: {reason}" if argument else reason)
        self.argument = argument
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Children:
    """Which optional children the arguments ask for."""

    service_role: bool
    security_groups: bool
    kube_proxy: bool
    vpc_cni: bool
    coredns: bool
    oidc_provider: bool


def check(arguments: Mapping[str, Any]) -> None:
    """Raises ArgumentError. Keys are wire names; values may be outputs, which are taken as set."""
    mode = arguments.get("authenticationMode")
    if mode is not None and mode not in MODES:
        raise ArgumentError("authenticationMode", f"invalid value {mode}; allowed are {', '.join(MODES)}")
    entries = mode in ("API", "API_AND_CONFIG_MAP")
    if mode == "API":
        for name in ("roleMappings", "userMappings", "instanceRoles"):
            if arguments.get(name):
                raise ArgumentError(name, "does not support non-empty values when 'authenticationMode' is 'API'")
    if _given(arguments, "accessEntries") and not entries:
        what = f"set to '{mode}'" if mode else "not set"
        raise ArgumentError("accessEntries", f"is not supported when 'authenticationMode' is {what}")
    if _given(arguments, "instanceRole") and _given(arguments, "instanceRoles"):
        raise ArgumentError("instanceRole", "excludes instanceRoles")
    if _given(arguments, "subnetIds") and (
        _given(arguments, "publicSubnetIds") or _given(arguments, "privateSubnetIds")
    ):
        raise ArgumentError("subnetIds", "excludes publicSubnetIds and privateSubnetIds")
    single = [name for name in _DEFAULT_GROUP_OPTIONS if _given(arguments, name)]
    if _given(arguments, "nodeGroupOptions") and single:
        raise ArgumentError("nodeGroupOptions", f"excludes {', '.join(single)}")
    if (arguments.get("autoMode") or {}).get("enabled") and not entries:
        raise ArgumentError("autoMode", "needs authenticationMode API or API_AND_CONFIG_MAP")
    if _given(arguments, "creationRoleProvider"):
        raise ArgumentError("creationRoleProvider", "is for Node.js programs alone; use providerCredentialOpts")
    if _given(arguments, "publicAccessCidrs") and arguments.get("endpointPublicAccess") is False:
        raise ArgumentError("publicAccessCidrs", "can only be set when endpointPublicAccess is true")
    cni = arguments.get("vpcCniOptions") or {}
    if not arguments.get("useDefaultVpcCni") and cni.get("cniExternalSnat") and cni.get("externalSnat"):
        raise ArgumentError("vpcCniOptions", "takes one of cniExternalSnat and externalSnat")


def check_modelled(arguments: Mapping[str, Any]) -> None:
    """Raises ArgumentError for what the real component would do and this stand-in does not."""
    for name, reason in UNMODELLED.items():
        if arguments.get(name):
            raise ArgumentError(name, f"is not modelled by the stand-in: {reason}")
    if not arguments.get("skipDefaultNodeGroup"):
        raise ArgumentError("skipDefaultNodeGroup", "must be true: the stand-in models no default node group")
    if arguments.get("createInstanceRole"):
        raise ArgumentError("createInstanceRole", "is not modelled by the stand-in: no default node group is made")
    if arguments.get("authenticationMode") != "API":
        raise ArgumentError("authenticationMode", "must be API: the stand-in models no aws-auth ConfigMap")
    if not arguments.get("vpcId"):
        raise ArgumentError("vpcId", "must be given: the stand-in's account has no default VPC")
    if not any(arguments.get(name) for name in ("subnetIds", "publicSubnetIds", "privateSubnetIds")):
        raise ArgumentError("subnetIds", "must be given: a cluster without subnets is refused by EKS")
    if (arguments.get("vpcCniOptions") or {}).get("securityContextPrivileged"):
        raise ArgumentError("vpcCniOptions", "securityContextPrivileged is not modelled by the stand-in")


def check_known(arguments: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raises ArgumentError for the first argument that is not among `known`."""
    if found := unknown(arguments, known):
        raise ArgumentError(found[0], "is no argument of eks.Cluster in this version")


def unknown(arguments: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    """Paths of the arguments that `known` does not have: wire name -> {names below it} or None where all goes."""
    found: list[str] = []
    for name, value in arguments.items():
        if name not in known:
            found.append(name)
        elif isinstance(value, Mapping) and isinstance(known[name], Mapping):
            below = known[name]
            if "*" in below:
                for key, one in value.items():
                    inside = unknown(one, below["*"]) if isinstance(one, Mapping) else []
                    found += [f"{name}.{key}.{path}" for path in inside]
            else:
                found += [f"{name}.{path}" for path in unknown(value, below)]
    return found


def _given(arguments: Mapping[str, Any], name: str) -> bool:
    """As JavaScript takes it: an empty list or object is something."""
    value = arguments.get(name)
    return value is not None and value is not False and value != "" and value != 0


def children(arguments: Mapping[str, Any]) -> Children:
    coredns = arguments.get("corednsAddonOptions") or {}
    default_group = not arguments.get("skipDefaultNodeGroup")
    wanted = coredns.get("enabled") is True or bool(coredns.get("configurationValues"))
    return Children(
        service_role=not arguments.get("serviceRole"),
        security_groups=not arguments.get("skipDefaultSecurityGroups"),
        kube_proxy=(arguments.get("kubeProxyAddonOptions") or {}).get("enabled", True) is not False,
        vpc_cni=not arguments.get("useDefaultVpcCni"),
        coredns=wanted or (default_group and coredns.get("enabled", True) is not False),
        oidc_provider=bool(arguments.get("createOidcProvider")),
    )


def check_cli(answer: str | None) -> None:
    """`answer` is what `aws --version` printed, None where there is no `aws`. Raises ArgumentError."""
    if answer is None:
        raise ArgumentError("", "could not find aws CLI for EKS: it gives the tokens of the cluster's kubeconfig")
    found = re.match(r"aws-cli/(\d+)\.(\d+)\.(\d+)", answer)
    if not found:
        raise ArgumentError("", f"`aws --version` says '{answer.strip()[:60]}', which is no version of aws-cli")
    version = tuple(int(part) for part in found.groups())
    oldest = _OLDEST_CLI[1 if version[0] == 1 else 2]
    if version < oldest:
        at_least, current = (".".join(map(str, one)) for one in (oldest, version))
        raise ArgumentError("", f"at least v{at_least} of aws-cli is required; current version is {current}")
