"""PURE: which EC2 quota a type counts against, on demand and on spot, and which other types count against it too.

Codes and families: docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html. All are in vCPUs.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class QuotaFamily:
    """`patterns` are the instance types that count, as DescribeInstances' filter takes them."""

    code: str
    name: str
    patterns: tuple[str, ...]

    def counts(self, instance_type: str) -> bool:
        return any(instance_type.startswith(pattern.removesuffix("*")) for pattern in self.patterns)


_G_AND_VT = ("g*", "vt*")
_ON_DEMAND = {
    "g": QuotaFamily(code="L-DB2E81BA", name="Running On-Demand G and VT instances", patterns=_G_AND_VT),
    "p": QuotaFamily(code="L-417A185B", name="Running On-Demand P instances", patterns=("p*",)),
}
# By generation, since spot counts them apart; of P6 no quota of its own is documented.
_SPOT = {
    "g": QuotaFamily(code="L-3819A6DF", name="All G and VT Spot Instance Requests", patterns=_G_AND_VT),
    "p5": QuotaFamily(code="L-C4BD4855", name="All P5 Spot Instance Requests", patterns=("p5*",)),
    **{
        f"p{number}": QuotaFamily(
            code="L-7212CCBC", name="All P4, P3 and P2 Spot Instance Requests", patterns=("p2*", "p3*", "p4*")
        )
        for number in (2, 3, 4)
    },
}


def quota_of(instance_type: str, *, spot: bool) -> QuotaFamily | None:
    """None for a family that has no quota known here."""
    found = re.match(r"([a-z]+)([0-9]+)", instance_type)
    if found is None:
        return None
    letters, number = found.groups()
    # gr6 is one of the G family.
    letters = "g" if letters in ("gr", "vt") else letters
    table = _SPOT if spot else _ON_DEMAND
    return table.get(f"{letters}{number}") or table.get(letters)
