"""PURE: through which endpoints nodes reach AWS without leaving the VPC."""

from collections.abc import Sequence
from dataclasses import dataclass

_REGISTRY = ("ecr.api", "ecr.dkr")
# What nodes call besides (EKS user guide, "Deploy private clusters with limited internet access"): the CNI and the EBS
# driver ec2, Pod Identity's agent eks-auth, tokens sts.
_NODES = ("ec2", "eks", "eks-auth", "sts")


@dataclass(frozen=True, kw_only=True)
class EndpointPlan:
    """Names of services without their prefix. Gateway endpoints are free, interface endpoints bill by the hour."""

    gateway: tuple[str, ...]
    interface: tuple[str, ...]


def plan_endpoints(*, nat: str, asked: Sequence[str]) -> EndpointPlan:
    """For `asked`, of s3 and ecr; without a NAT gateway also all else that a node needs to come up.

    ECR keeps image layers in S3, so without NAT that is never left out.
    """
    alone = nat == "none"
    registry = _REGISTRY if "ecr" in asked or alone else ()
    return EndpointPlan(
        gateway=("s3",) if "s3" in asked or alone else (), interface=(*registry, *(_NODES if alone else ()))
    )
