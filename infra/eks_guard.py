"""What an eks stack cannot change while it is up, held against what it was made with."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from infra.aws_facts import AwsFacts
from infra.eks_settings import EksSettings
from infra.existing_network import ExistingNetwork
from infra.zones import ZonePlan
from workload.errors import ReportedError
from workload.provider_process import differing, reported


def fixed_settings(
    settings: EksSettings, facts: AwsFacts, *, zones: ZonePlan | None, subnets: ExistingNetwork | None
) -> dict[str, str]:
    """By setting, as text. AWS takes each of them once: a change is refused there half-way, ignored (the key of
    Secrets, which would then be deleted in use), or deletes what holds checkpoints."""
    fixed = {
        "aws account": facts.account,
        "aws:region": settings.aws.region,
        "eksName": settings.name,
        "eksExistingCluster": settings.cluster.existing,
    }
    if not settings.cluster.existing:
        network = settings.network
        fixed |= {
            "eksSecretsKey": settings.cluster.secrets_key,
            "vpcId": network.vpc_id,
            "vpcCidr": "" if network.vpc_id else network.cidr,
            "the zones of the control plane (vpcZones)": ", ".join(zones.control_plane) if zones else "",
            "the subnets of the control plane (vpcPrivateSubnets)": (
                ", ".join(subnets.control_plane_subnets) if subnets else ""
            ),
        }
    if settings.storage.kind == "fsx":
        fixed["gpuZone (of the file system)"] = settings.gpu.zone
    return fixed


class EksGuardProvider(ResourceProvider):
    """Pickled by reference: do not rename module or class."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=str(props["fixed"]["eksName"]), outs=props)

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        was, now = olds["fixed"], news["fixed"]
        changed = differing(was, now, sorted(set(was) & set(now)))
        if changed:
            what = "; ".join(f"{key} was '{was[key]}' and is '{now[key]}'" for key in changed)
            raise ReportedError(
                f"this stack cannot change under way: {what}. Set it back; or take another stack for it; or `efactl "
                "down` first, which deletes this one's cluster and, unless storageKeep is true, its checkpoints"
            )
        return DiffResult(changes=set(was) != set(now))

    @reported
    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=news)


class EksGuard(Resource, module="infra", name="EksGuard"):
    """Fails a preview or `up`; a component that depends on it declares nothing before it has passed."""

    def __init__(self, name: str, fixed: Mapping[str, str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(EksGuardProvider(), name, {"fixed": dict(fixed)}, opts)
