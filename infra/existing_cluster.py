"""An EKS cluster that is there already, as its own answer has it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ExistingCluster:
    """`certificate_authority` is base64; `security_group` the one EKS made for the cluster."""

    name: str
    arn: str
    endpoint: str
    certificate_authority: str
    version: str
    status: str
    vpc_id: str
    subnet_ids: tuple[str, ...]
    security_group: str
