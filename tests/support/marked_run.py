"""A job over NCCL as its record and its log tell of it: each rank's lines handed back under its mark."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import reports
from tests.support.nccl_run import Process, Run, through_ray
from workload.transport_evidence import collect

NEEDED = {"steps": 20, "sent": 1_000_000, "received": 2_000_000}
PLENTY = {"tx_bytes": 1_500_000, "rx_bytes": 2_500_000}


@dataclass(frozen=True, kw_only=True)
class MarkedRun:
    """`moved` is what each host's EFA device counts over the steps, None where a host has none.

    `besides` is a rank, a place among its lines and a line that it has there too.
    """

    run: Run = field(default_factory=Run)
    attempt: int = 1
    moved: dict[str, int] | None = field(default_factory=lambda: dict(PLENTY))
    must_move: dict[str, int] | None = field(default_factory=lambda: dict(NEEDED))
    besides: tuple[int, int, str] | None = None

    def identity(self, rank: int) -> str:
        """New in each attempt, as random digits would be."""
        return hashlib.sha256(f"{self.attempt} {rank}".encode()).hexdigest()[:8]

    def mark(self, rank: int) -> str:
        return f"[nccl rank {rank} #{self.identity(rank)}] "

    def lines(self, rank: int) -> list[str]:
        text = self.run.processes()[rank].text()
        if self.besides and self.besides[0] == rank:
            text.insert(*self.besides[1:])
        return text

    def streams(self) -> list[list[str]]:
        """Of each rank, what it prints, behind Ray's prefix."""
        return [
            [through_ray(process, number=rank, colour=False) + self.mark(rank) + line for line in self.lines(rank)]
            for rank, process in enumerate(self.run.processes())
        ]

    def printed(self) -> list[str]:
        """All of it, one rank after the other."""
        return [line for stream in self.streams() for line in stream]

    def log(self) -> list[str]:
        """Line by line in turns, among what else a job prints."""
        remaining = self.streams()
        lines = ["2026-11-29 10:00:00 INFO job_manager.py:1 -- Runtime env is set up."]
        while any(remaining):
            lines += [one.pop(0) for one in remaining if one]
            lines.append("(RayTrainWorker pid=70) [train] step 1/20 loss 5.1")
        return lines

    def ranks(self) -> list[dict[str, Any]]:
        """As they testify."""
        return [self._rank(rank, process) for rank, process in enumerate(self.run.processes())]

    def _rank(self, rank: int, process: Process) -> dict[str, Any]:
        text = self.lines(rank)
        testimony = {
            **reports.rank(rank, node=f"{process.host}-id", backend="nccl"),
            "hostname": f"{process.host}.ec2.internal",
            "pid": process.pid,
            "device": f"cuda:{process.device}",
            "transport_lines": {
                "id": self.identity(rank),
                "count": len(text),
                "sha256": hashlib.sha256("\n".join(text).encode()).hexdigest(),
            },
        }
        if self.must_move is not None:
            testimony["must_move"] = dict(self.must_move)
        if self.moved is not None and rank % self.run.gpus == 0:
            before = dict.fromkeys(self.moved, 7_000)
            after = {name: count + 7_000 for name, count in self.moved.items()}
            testimony["efa_devices"] = [{"name": "rdmap0s31", "before": before, "after": after}]
        return testimony

    def record(self, **changes: Any) -> dict[str, Any]:
        attempts = [{"attempt": self.attempt, "resumed_from_step": 0, "started_at": "x", "ranks": self.ranks()}]
        return reports.report(**{"world_size": self.run.ranks, "attempts": attempts, **changes})

    def collected(self, folder: Path, lines: list[str] | None = None, **changes: Any) -> dict[str, Any]:
        """The evidence of this record and its log, or of other `lines` as its log."""
        log = folder / "job.log"
        log.write_text("\n".join(self.log() if lines is None else lines) + "\n", encoding="utf-8")
        return collect(self.record(**changes), log)
