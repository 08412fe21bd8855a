"""`efactl transport`: the verdict on any NCCL log, with a matrix of hosts; no stack, no Ray, no Pulumi."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from efactl.exit_codes import ExitCode
from workload.errors import BadInputError
from workload.nccl.log import NcclLog
from workload.nccl.report import Attempt, TransportReport
from workload.nccl.rule import judge_report
from workload.transport_matrix import channels
from workload.verdict import Verdict, Wanted

_BY_VERDICT = {"proven": ExitCode.OK, "refuted": ExitCode.REFUTED, "unproven": ExitCode.UNPROVEN}
_CHUNK_BYTES = 1 << 20
# Wider than this a matrix is no longer read.
_MOST_HOSTS = 8
_MOST_WARNINGS = 5


def transport(files: Sequence[str], wanted: Wanted, *, as_json: bool) -> ExitCode:
    """Reads the files in their order, `-` being standard input."""
    log = NcclLog()
    for file in files:
        try:
            _read(log, file)
        except OSError as error:
            raise BadInputError(f"{file}: {error.strerror or error}") from None
    report = log.report()
    verdict = judge_report(report, wanted)
    if as_json:
        said = {"expect": verdict.expect, "verdict": verdict.value, "reasons": verdict.reasons}
        print(json.dumps(said | {"report": report.as_dict()}, indent=2))
    else:
        for line in _lines(report, verdict):
            print(line)
    return _BY_VERDICT[verdict.value]


def _read(log: NcclLog, file: str) -> None:
    if file == "-":
        log.read("standard input", _chunks(sys.stdin.buffer))
        return
    with Path(file).open("rb") as stream:
        log.read(file, _chunks(stream))


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def _lines(report: TransportReport, verdict: Verdict) -> Iterator[str]:
    for index in report.counting:
        attempt = report.attempts[index]
        number = f"attempt {index + 1} of {len(report.attempts)}"
        ranks = max((one.ranks for one in attempt.communicators), default=0)
        yield (
            f"{number}: {_counted(len(attempt.hosts), 'host')}, {_counted(len(attempt.processes), 'process')}, "
            f"{_counted(len(attempt.communicators), 'communicator')} of up to {_counted(ranks, 'rank')}, "
            f"from {attempt.processes[0].first}"
        )
        yield from _versions(attempt)
        yield from _matrix(attempt)
        yield ""
    if report.warned:
        yield f"{_counted(report.warned, 'warning')} of NCCL:"
        for one in report.warnings[:_MOST_WARNINGS]:
            yield f"  {one.host} pid {one.pid}: {one.text} ({one.place})"
        yield ""
    yield f"{verdict.value}: expected {verdict.expect}"
    for reason in verdict.reasons:
        yield f"  {reason}"


def _versions(attempt: Attempt) -> Iterator[str]:
    nccl = sorted({one.nccl for one in attempt.processes if one.nccl})
    ofi = sorted({one.ofi for one in attempt.processes if one.ofi})
    if nccl or ofi:
        yield f"NCCL {', '.join(nccl) or 'unknown'}; aws-ofi-nccl {', '.join(ofi) or 'not named'}"


def _matrix(attempt: Attempt) -> Iterator[str]:
    """Rows send to columns; a cell names each transport with how many channels are seen."""
    cells = channels([attempt])
    hosts = list(attempt.hosts)
    if not cells:
        yield "no channel between ranks of known hosts"
        return
    shown = {pair: _cell(ways) for pair, ways in cells.items()}
    if len(hosts) > _MOST_HOSTS:
        yield from (f"{start} -> {end}: {cell}" for (start, end), cell in sorted(shown.items()))
        return
    rows = [["from \\ to", *hosts], *([start, *(shown.get((start, end), "-") for end in hosts)] for start in hosts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(ways: Mapping[str, int]) -> str:
    return ", ".join(f"{way} x{count}" for way, count in sorted(ways.items()))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}{'es' if what.endswith('s') else 's'}"
