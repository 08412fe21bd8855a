"""PURE: what the evidence says about the transport: proven, refuted or unproven, each with its reasons."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from workload.verdict import EXPECTATIONS, Verdict

# What torch.distributed calls the backend that can carry each transport.
_BACKEND = {"efa": "nccl", "socket": "nccl", "gloo": "gloo"}


def judge(transport: Mapping[str, Any] | None, expect: str) -> Verdict:
    """Judges the ranks of the attempt that counts (`workload.job_record.transport_of`) against what was expected.

    A rank on another backend refutes; a rank that is missing, or all ranks on one node, leaves it unproven.
    """
    if expect not in EXPECTATIONS:
        raise ValueError(f"expect: '{expect}' is none of {', '.join(EXPECTATIONS)}")
    if not transport or not transport.get("ranks"):
        return Verdict(expect=expect, value="unproven", reasons=("no rank reported how it communicated",))
    ranks = sorted(transport["ranks"], key=lambda rank: int(rank["rank"]))

    refuted = [
        _contradiction(rank, expect) for rank in ranks if rank["backend"] and rank["backend"] != _BACKEND[expect]
    ]
    if refuted:
        return Verdict(expect=expect, value="refuted", reasons=tuple(refuted))
    missing = _missing(ranks, int(transport["worldSize"]))
    if _BACKEND[expect] == "nccl":
        missing.append(f"NCCL's own transport lines are not judged by this version, so {expect} cannot be proven")
    if missing:
        return Verdict(expect=expect, value="unproven", reasons=tuple(missing))
    nodes = sorted({rank["node"] for rank in ranks})
    proof = f"{len(ranks)} of {len(ranks)} ranks on {len(nodes)} nodes report backend {expect}"
    return Verdict(expect=expect, value="proven", reasons=(proof,))


def _contradiction(rank: Mapping[str, Any], expect: str) -> str:
    backend = rank["backend"]
    carries = {"gloo": "gloo moves bytes over TCP sockets", "nccl": "NCCL is not gloo"}.get(backend, "")
    where = f"rank {int(rank['rank'])} on node {_short(rank['node'])} (pid {int(rank['pid'])})"
    return f"{where} communicated through backend {backend}, expected {expect}" + (f": {carries}" if carries else "")


def _missing(ranks: Sequence[Mapping[str, Any]], world_size: int) -> list[str]:
    counts = Counter(int(rank["rank"]) for rank in ranks)
    reasons = []
    if silent := [str(rank) for rank in range(world_size) if rank not in counts]:
        reasons.append(f"rank {', '.join(silent)} of {world_size} reported nothing")
    if doubled := [str(rank) for rank, count in sorted(counts.items()) if count > 1]:
        reasons.append(f"rank {', '.join(doubled)} reported more than once")
    if beyond := [str(rank) for rank in sorted(counts) if not 0 <= rank < world_size]:
        reasons.append(f"rank {', '.join(beyond)} is outside a world of {world_size}")
    if nameless := [str(int(rank["rank"])) for rank in ranks if not rank["backend"]]:
        reasons.append(f"rank {', '.join(nameless)} named no backend")
    if placeless := [str(int(rank["rank"])) for rank in ranks if not rank["node"]]:
        reasons.append(f"rank {', '.join(placeless)} named no node")
    nodes = {rank["node"] for rank in ranks if rank["node"]}
    if len(nodes) == 1:
        reasons.append(f"all ranks ran on one node ({_short(next(iter(nodes)))}): nothing crossed from host to host")
    return reasons


def _short(node: str) -> str:
    return str(node)[:12]
