"""PURE: whether NCCL's lines in a job's log are those that its ranks handed back, all of them and nobody else's."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from workload.nccl.report import TransportReport
from workload.rank_evidence import RankEvidence
from workload.verdict import Findings

_SHOWN_DIGITS = 12


def delivery(ranks: Sequence[RankEvidence]) -> Findings:
    """Each rank's count and hash against those of what the log holds of it."""
    if missing := tuple(_not_delivered(ranks)):
        return Findings(missing=missing)
    lines = sum(rank.lines.count for rank in ranks if rank.lines)
    return Findings(seen=(f"delivery: all {lines:,} lines that NCCL wrote on {len(ranks)} ranks are in the log",))


def _not_delivered(ranks: Sequence[RankEvidence]) -> Iterator[str]:
    by_id: dict[str, list[RankEvidence]] = defaultdict(list)
    for rank in ranks:
        handed, delivered = rank.lines, rank.delivered
        if handed is None or delivered is None or handed.count == 0:
            yield f"delivery: {rank.said} handed back none of NCCL's lines: NCCL_DEBUG may be less than INFO there"
            continue
        by_id[handed.id].append(rank)
        if handed.count != delivered.count:
            yield f"delivery: {rank.said} handed back {handed.count} lines, the log has {delivered.count}"
        elif handed.sha256 != delivered.sha256:
            yield (
                f"delivery: the log's {delivered.count} lines of {rank.said} are not those it handed back (SHA-256 "
                f"{delivered.sha256[:_SHOWN_DIGITS]}, it says {handed.sha256[:_SHOWN_DIGITS]}): some were folded, cut "
                "or changed (as a secret of the job is that stands in them)"
            )
    for one, same in by_id.items():
        if len(same) > 1:
            yield f"delivery: ranks {_numbers(same)} share the mark #{one}, so that their lines cannot be told apart"


def processes(ranks: Sequence[RankEvidence], report: TransportReport) -> Findings:
    """Each rank is one of the processes whose lines count, and there are no others."""
    said: dict[tuple[str, int], list[RankEvidence]] = defaultdict(list)
    for rank in ranks:
        said[rank.process].append(rank)
    seen = {
        (process.host, process.pid): process
        for index in report.counting
        for process in report.attempts[index].processes
    }
    missing = [
        f"processes: ranks {_numbers(same)} say that they are one, pid {pid} on {host}"
        for (host, pid), same in sorted(said.items())
        if len(same) > 1
    ]
    missing += [
        f"processes: {rank.said} is none of those whose lines count" for rank in ranks if rank.process not in seen
    ]
    missing += [
        f"processes: pid {pid} on {host}, whose lines count, is no rank of this attempt ({seen[host, pid].first})"
        for host, pid in sorted(seen.keys() - said.keys())
    ]
    return Findings(missing=tuple(missing))


def _numbers(ranks: Sequence[RankEvidence]) -> str:
    return ", ".join(str(rank.rank) for rank in ranks)
