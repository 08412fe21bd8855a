"""PURE: what one rank testifies of its transport, read from the plain values in which records and states hold it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["sent", "received"]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """NCCL's lines of one rank; `id` is what marks them in the job's log."""

    id: str
    count: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class DeviceBytes:
    """Of one EFA device over the training steps; None where its counters could not be read, for `reason`."""

    name: str
    sent: int | None
    received: int | None
    reason: str

    def moved(self, direction: Direction) -> int | None:
        return self.sent if direction == "sent" else self.received


@dataclass(frozen=True, kw_only=True)
class MustMove:
    """The least that `steps` training steps send from and receive on a rank's node, in bytes (training/traffic.py)."""

    steps: int
    sent: int
    received: int

    def moved(self, direction: Direction) -> int:
        return self.sent if direction == "sent" else self.received


@dataclass(frozen=True, kw_only=True)
class RankEvidence:
    """`lines` is what the rank says it handed back, `delivered` what the log holds of it; `devices` are its node's.

    None is what the rank did not say, or a version that knew nothing of it.
    """

    rank: int
    node: str
    host: str
    pid: int
    backend: str
    lines: Lines | None
    delivered: Lines | None
    devices: tuple[DeviceBytes, ...] | None
    must_move: MustMove | None

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "RankEvidence":
        devices, must_move = plain.get("efaDevices"), plain.get("mustMove")
        return cls(
            rank=int(plain["rank"]),
            node=str(plain["node"]),
            host=str(plain.get("host") or ""),
            pid=int(plain.get("pid") or 0),
            backend=str(plain.get("backend") or ""),
            lines=lines_of(plain.get("lines")),
            delivered=lines_of(plain.get("delivered")),
            devices=tuple(_device(device) for device in devices) if isinstance(devices, list) else None,
            must_move=must_move_of(must_move),
        )

    @property
    def process(self) -> tuple[str, int]:
        """Host and pid as NCCL writes them: it cuts a host's name at the first dot."""
        return self.host.partition(".")[0], self.pid

    @property
    def said(self) -> str:
        return f"rank {self.rank} on {self.host or short(self.node)} (pid {self.pid})"


def lines_of(plain: Any) -> Lines | None:
    if not isinstance(plain, Mapping):
        return None
    count, digest = whole(plain.get("count")), plain.get("sha256")
    if count is None or not isinstance(digest, str):
        return None
    return Lines(id=str(plain.get("id") or ""), count=count, sha256=digest)


def must_move_of(plain: Any) -> MustMove | None:
    if not isinstance(plain, Mapping):
        return None
    steps, sent, received = (whole(plain.get(key)) for key in ("steps", "sent", "received"))
    if steps is None or sent is None or received is None:
        return None
    return MustMove(steps=steps, sent=sent, received=received)


def _device(plain: Mapping[str, Any]) -> DeviceBytes:
    return DeviceBytes(
        name=str(plain.get("name")),
        sent=whole(plain.get("sent")),
        received=whole(plain.get("received")),
        reason=str(plain.get("reason") or ""),
    )


def whole(value: Any) -> int | None:
    """A number without its fraction, as states make floats of all of them; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value)


def short(node: str) -> str:
    """Enough of Ray's id of a node to know it by."""
    return node[:12]
