"""Every type that a stand-in account has."""

from tools.standin import clusters, compute, iam, network, node_groups, schedules, storage
from tools.standin.kinds import Kind, Refers

KINDS: dict[str, Kind] = {
    kind.token: kind
    for module in (network, compute, iam, storage, clusters, node_groups, schedules)
    for kind in module.KINDS
}


def dependents(token: str) -> list[tuple[str, Refers]]:
    """The types that can refer to one of that type and then keep it from being deleted."""
    return [
        (kind.token, refers)
        for kind in KINDS.values()
        for refers in kind.refers
        if refers.token == token and refers.blocks
    ]
