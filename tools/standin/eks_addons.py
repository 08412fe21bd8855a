"""The add-ons that pulumi-eks installs by itself unless it is told not to."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

# What VpcCniAddon always sets, in the add-on's configuration: (option, variable, value when not given).
_ENVIRONMENT = (
    ("warmEniTarget", "WARM_ENI_TARGET", "1"),
    ("logLevel", "AWS_VPC_K8S_CNI_LOGLEVEL", "DEBUG"),
    ("logFile", "AWS_VPC_K8S_CNI_LOG_FILE", "/host/var/log/aws-routed-eni/ipamd.log"),
    ("vethPrefix", "AWS_VPC_K8S_CNI_VETHPREFIX", "eni"),
    ("eniMtu", "AWS_VPC_ENI_MTU", "9001"),
    ("pluginLogLevel", "AWS_VPC_K8S_PLUGIN_LOG_LEVEL", "DEBUG"),
    ("pluginLogFile", "AWS_VPC_K8S_PLUGIN_LOG_FILE", "/var/log/aws-routed-eni/plugin.log"),
    ("enablePodEni", "ENABLE_POD_ENI", "false"),
    ("cniCustomNetworkCfg", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", "false"),
    ("cniExternalSnat", "AWS_VPC_K8S_CNI_EXTERNALSNAT", "false"),
    ("externalSnat", "AWS_VPC_K8S_CNI_EXTERNALSNAT", "false"),
    # Only where they are given.
    ("nodePortSupport", "AWS_VPC_CNI_NODE_PORT_SUPPORT", None),
    ("customNetworkConfig", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", None),
    ("warmIpTarget", "WARM_IP_TARGET", None),
    ("warmPrefixTarget", "WARM_PREFIX_TARGET", None),
    ("enablePrefixDelegation", "ENABLE_PREFIX_DELEGATION", None),
    ("eniConfigLabelDef", "ENI_CONFIG_LABEL_DEF", None),
    ("cniConfigureRpfilter", "AWS_VPC_K8S_CNI_CONFIGURE_RPFILTER", None),
)


def plain(
    name: str, addon: str, options: Mapping[str, Any], cluster: Any, tags: Any, opts: pulumi.ResourceOptions
) -> aws.eks.Addon:
    """kube-proxy or coredns."""
    return aws.eks.Addon(
        f"{name}-{addon}",
        cluster_name=cluster.name,
        addon_name=addon,
        preserve=True,
        tags=tags,
        resolve_conflicts_on_create=options.get("resolveConflictsOnCreate") or "OVERWRITE",
        resolve_conflicts_on_update=options.get("resolveConflictsOnUpdate") or "OVERWRITE",
        addon_version=options.get("version") or _latest(addon, cluster, opts.parent),
        configuration_values=_text(options["configurationValues"]) if options.get("configurationValues") else None,
        opts=opts,
    )


class VpcCniAddon(pulumi.ComponentResource):
    def __init__(
        self, name: str, options: Mapping[str, Any], cluster: Any, tags: Any, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("eks:index:VpcCniAddon", name, None, opts)
        addon = aws.eks.Addon(
            name,
            cluster_name=cluster.name,
            addon_name="vpc-cni",
            addon_version=options.get("addonVersion") or _latest("vpc-cni", cluster, self),
            resolve_conflicts_on_create=options.get("resolveConflictsOnCreate") or "OVERWRITE",
            resolve_conflicts_on_update=options.get("resolveConflictsOnUpdate") or "OVERWRITE",
            preserve=True,
            configuration_values=_text(pulumi.Output.from_input(options).apply(configuration)),
            service_account_role_arn=options.get("serviceAccountRoleArn"),
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"addon": addon})


def configuration(options: Mapping[str, Any]) -> dict[str, Any]:
    """PURE: the add-on's configuration; what the user gives in `configurationValues` wins."""
    values: dict[str, Any] = dict(options.get("configurationValues") or {})
    if "enableNetworkPolicy" not in values and options.get("enableNetworkPolicy") is not None:
        values["enableNetworkPolicy"] = _word(options["enableNetworkPolicy"])
    environment = {name: default for _, name, default in _ENVIRONMENT if default is not None}
    environment |= {name: _word(options[option]) for option, name, _ in _ENVIRONMENT if options.get(option)}
    values["env"] = {**environment, **values.get("env", {})}
    initial = {"DISABLE_TCP_EARLY_DEMUX": _word(options.get("disableTcpEarlyDemux") or False)}
    init = values.get("init") or {}
    values["init"] = {**init, "env": {**initial, **init.get("env", {})}}
    return values


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) else str(value)


def _latest(addon: str, cluster: Any, parent: pulumi.Resource | None) -> pulumi.Output[str]:
    found = aws.eks.get_addon_version_output(
        addon_name=addon,
        kubernetes_version=cluster.version,
        most_recent=True,
        opts=pulumi.InvokeOutputOptions(parent=parent),
    )
    return found.version


def _text(values: Any) -> pulumi.Output[str]:
    return pulumi.Output.json_dumps(values, sort_keys=True, separators=(",", ":"))
