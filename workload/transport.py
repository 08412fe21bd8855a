"""PURE: what the evidence says about the transport: proven, refuted or unproven, each with its reasons."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from workload.byte_counters import counters
from workload.nccl.rule import judge_report
from workload.rank_evidence import RankEvidence, short
from workload.rank_lines import delivery, processes
from workload.report_text import ReportUnreadableError, unpacked
from workload.verdict import EXPECTATIONS, Findings, Verdict, Wanted, concluded

# What torch.distributed calls the backend that can carry each transport.
_BACKEND = {"efa": "nccl", "socket": "nccl", "gloo": "gloo"}


def judge(transport: Mapping[str, Any] | None, wanted: Wanted) -> Verdict:
    """Judges the ranks of the attempt that counts (`workload.transport_evidence.collect`) against what was expected.

    A rank on another backend refutes; a rank that is missing, or all ranks on one node, leaves it unproven. Over NCCL
    all of it must hold together: the lines each rank handed back are in the log, unchanged; they prove the transport
    by NCCL's rules (`workload.nccl.rule`); they are these ranks' and nobody else's; and, for efa, the devices moved
    what training had to move. Hosts and ranks are those of the evidence unless `wanted` has others.
    """
    expect = wanted.expect
    if expect not in EXPECTATIONS:
        raise ValueError(f"expect: '{expect}' is none of {', '.join(EXPECTATIONS)}")
    if not transport or not transport.get("ranks"):
        return Verdict(expect=expect, value="unproven", reasons=("no rank reported how it communicated",))
    ranks = sorted((RankEvidence.of(rank) for rank in transport["ranks"]), key=lambda rank: rank.rank)
    world_size = int(transport["worldSize"])
    backends = _backends(ranks, world_size, wanted)
    # Of ranks that do not talk through NCCL it has nothing to say.
    if _BACKEND[expect] != "nccl" or backends.against:
        return concluded(expect, [backends])
    lines = _lines(str(transport.get("report") or ""), ranks, world_size, wanted)
    return concluded(expect, [backends, delivery(ranks), *lines, counters(ranks, expect)])


def _lines(text: str, ranks: Sequence[RankEvidence], world_size: int, wanted: Wanted) -> list[Findings]:
    """What NCCL's own lines say, and of whom."""
    if not text:
        return [Findings(missing=("report: there is none of NCCL's lines in the evidence",))]
    try:
        report = unpacked(text)
    except ReportUnreadableError as error:
        return [Findings(missing=(f"report: what the evidence holds of NCCL's lines is damaged ({error})",))]
    nameless = tuple(f"hosts: {rank.said} named no host" for rank in ranks if not rank.host)
    verdict = judge_report(
        report,
        dataclasses.replace(
            wanted,
            hosts=wanted.hosts if wanted.hosts is not None else len({rank.host for rank in ranks}),
            ranks=world_size,
            # What NCCL's sockets never have.
            gdr=wanted.gdr and wanted.expect == "efa",
        ),
    )
    found = {
        "refuted": Findings(against=verdict.reasons),
        "unproven": Findings(missing=verdict.reasons),
        "proven": Findings(seen=verdict.reasons),
    }
    return [found[verdict.value], Findings(missing=nameless), processes(ranks, report)]


def _backends(ranks: Sequence[RankEvidence], world_size: int, wanted: Wanted) -> Findings:
    backend = _BACKEND[wanted.expect]
    nodes = {rank.node for rank in ranks}
    return Findings(
        against=tuple(
            _contradiction(rank, wanted.expect) for rank in ranks if rank.backend and rank.backend != backend
        ),
        missing=tuple(_missing(ranks, world_size, wanted)),
        seen=(f"{len(ranks)} of {world_size} ranks on {len(nodes)} nodes report backend {backend}",),
    )


def _contradiction(rank: RankEvidence, expect: str) -> str:
    carries = {"gloo": "gloo moves bytes over TCP sockets", "nccl": "NCCL is not gloo"}.get(rank.backend, "")
    where = f"rank {rank.rank} on node {short(rank.node)} (pid {rank.pid})"
    return f"{where} communicated through backend {rank.backend}, expected {expect}" + (
        f": {carries}" if carries else ""
    )


def _missing(ranks: Sequence[RankEvidence], world_size: int, wanted: Wanted) -> list[str]:
    counts = Counter(rank.rank for rank in ranks)
    reasons = []
    if silent := [str(rank) for rank in range(world_size) if rank not in counts]:
        reasons.append(f"rank {', '.join(silent)} of {world_size} reported nothing")
    if doubled := [str(rank) for rank, count in sorted(counts.items()) if count > 1]:
        reasons.append(f"rank {', '.join(doubled)} reported more than once")
    if beyond := [str(rank) for rank in sorted(counts) if not 0 <= rank < world_size]:
        reasons.append(f"rank {', '.join(beyond)} is outside a world of {world_size}")
    if nameless := [str(rank.rank) for rank in ranks if not rank.backend]:
        reasons.append(f"rank {', '.join(nameless)} named no backend")
    if placeless := [str(rank.rank) for rank in ranks if not rank.node]:
        reasons.append(f"rank {', '.join(placeless)} named no node")
    nodes = {rank.node for rank in ranks if rank.node}
    if len(nodes) == 1:
        reasons.append(f"all ranks ran on one node ({short(next(iter(nodes)))}): nothing crossed from host to host")
    if wanted.ranks is not None and wanted.ranks != world_size:
        reasons.append(f"{world_size} ranks ran, wanted {wanted.ranks}")
    # Where NCCL talks, it tells of hosts itself.
    if _BACKEND[wanted.expect] != "nccl" and wanted.hosts not in (None, len(nodes)):
        reasons.append(f"ranks ran on {len(nodes)} nodes, wanted {wanted.hosts}")
    return reasons
