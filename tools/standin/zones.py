"""Regions and their availability zones, as the stand-in account sees them.

Names are one account's view: they do not follow the ids, which are the same for everyone.
https://docs.aws.amazon.com/ram/latest/userguide/working-with-az-ids.html
"""

from workload.errors import BadInputError

_ZONES = {
    "us-east-1": ("use1", (6, 1, 2, 4, 3, 5)),
    "us-east-2": ("use2", (1, 2, 3)),
    "us-west-1": ("usw1", (3, 1)),
    "us-west-2": ("usw2", (2, 1, 3, 4)),
    "ca-central-1": ("cac1", (1, 2, 4)),
    "eu-west-1": ("euw1", (3, 1, 2)),
    "eu-central-1": ("euc1", (2, 3, 1)),
    "ap-northeast-1": ("apne1", (4, 1, 2)),
}

# Where EKS does not put a control plane: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
NO_CONTROL_PLANE = ("use1-az3", "usw1-az2", "cac1-az3")


def zones(region: str) -> dict[str, str]:
    """Zone ids by zone name."""
    if region not in _ZONES:
        raise BadInputError(f"the stand-in account has no region '{region}'; it has {', '.join(_ZONES)}")
    prefix, numbers = _ZONES[region]
    return {f"{region}{letter}": f"{prefix}-az{number}" for letter, number in zip("abcdef", numbers, strict=False)}


def zone_id_of(region: str, name: str) -> str:
    return zones(region).get(name, "")


def regions() -> list[str]:
    return list(_ZONES)
