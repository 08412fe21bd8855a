"""What a job's record and its log tell of the transport, gathered so that it can be judged without either."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workload.counting_attempt import counting_attempt
from workload.errors import ReportedError
from workload.marked_lines import MarkedLines
from workload.nccl.log import NcclLog
from workload.nccl.report import TransportReport
from workload.rank_evidence import Lines, lines_of, must_move_of, whole
from workload.report_text import packed
from workload.transport_matrix import hosts, matrix

# No line of NCCL's is as long; what is longer comes in parts, of which none is the line that its rank wrote.
_LONGEST_LINE = 1 << 20
# AWS does not say whether tx_bytes and rx_bytes have RDMA's bytes in them: what is more, they or the sum, was moved.
_SENT = ("tx_bytes", ("send_bytes", "rdma_write_bytes", "rdma_read_resp_bytes"))
_RECEIVED = ("rx_bytes", ("recv_bytes", "rdma_write_recv_bytes", "rdma_read_bytes"))


def collect(record: Mapping[str, Any], log: Path) -> dict[str, Any]:
    """The evidence of the ranks of the attempt that counts: what each testifies, and what the log holds of NCCL's lines
    of each.

    `report` is `report_text.packed` of those lines alone, "" where no rank handed any back; `matrix` and `hosts` are
    that report for readers. Raises ReportedError where there are lines to look for and the log cannot be read.
    """
    counting = {"attempt": 0, "ranks": [], **counting_attempt(record["attempts"])}
    lines = [_handed(rank) for rank in counting["ranks"]]
    marked = MarkedLines({one.id: None for one in lines if one})
    report = _report(marked, log) if any(lines) else None
    return {
        "attempt": counting["attempt"],
        "worldSize": record["world_size"],
        "ranks": [
            _rank(rank, handed, marked.delivered(handed.id) if handed else None)
            for rank, handed in zip(counting["ranks"], lines, strict=True)
        ],
        "report": packed(report) if report else "",
        "matrix": matrix(report) if report else [],
        "hosts": hosts(report) if report else [],
    }


def _report(marked: MarkedLines, log: Path) -> TransportReport:
    nccl = NcclLog()
    try:
        with log.open("rb") as stream:
            lines: Iterator[bytes] = iter(functools.partial(stream.readline, _LONGEST_LINE), b"")
            nccl.read(log.name, marked.alone(lines))
    except OSError as error:
        why = error.strerror or str(error)
        raise ReportedError(f"{log}, which holds the evidence of the transport, cannot be read: {why}") from error
    return nccl.report()


def _handed(rank: Mapping[str, Any]) -> Lines | None:
    lines = lines_of(rank.get("transport_lines"))
    return lines if lines and lines.id else None


def _rank(rank: Mapping[str, Any], handed: Lines | None, delivered: Lines | None) -> dict[str, Any]:
    must_move = must_move_of(rank.get("must_move"))
    devices = rank.get("efa_devices")
    return {
        "rank": rank["rank"],
        "node": rank["node_id"],
        "host": rank.get("hostname") or "",
        "pid": rank.get("pid") or 0,
        "backend": rank.get("backend") or "",
        "device": rank.get("device") or "",
        "lines": {"id": handed.id, "count": handed.count, "sha256": handed.sha256} if handed else None,
        "delivered": {"count": delivered.count, "sha256": delivered.sha256} if delivered else None,
        "efaDevices": _devices(devices) if isinstance(devices, list) else None,
        "mustMove": (
            {"steps": must_move.steps, "sent": must_move.sent, "received": must_move.received} if must_move else None
        ),
    }


def _devices(devices: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": str(device.get("name")),
            "sent": _moved(device, *_SENT),
            "received": _moved(device, *_RECEIVED),
            **({"reason": str(device["reason"])} if device.get("reason") else {}),
        }
        for device in devices
        if isinstance(device, Mapping)
    ]


def _moved(device: Mapping[str, Any], total: str, parts: Sequence[str]) -> int | None:
    """Between the two readings; negative where a counter went backwards, None where the total was not read twice."""
    moved = {name: _difference(device, name) for name in (total, *parts)}
    in_total = moved.pop(total)
    if in_total is None:
        return None
    known = [bytes_ for bytes_ in moved.values() if bytes_ is not None]
    lowest = min(in_total, *known, 0)
    return lowest if lowest < 0 else max(in_total, sum(known))


def _difference(device: Mapping[str, Any], counter: str) -> int | None:
    before, after = (
        whole(reading.get(counter)) if isinstance(reading, Mapping) else None
        for reading in (device.get("before"), device.get("after"))
    )
    return None if before is None or after is None else after - before
