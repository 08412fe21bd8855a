"""Ports for the parts of a local cluster that can't choose their own in time.

A raylet whose agents choose their ports waits 15 s at most for them and then aborts: too little on a busy machine. So
they get ports from a block, and the block is held by the GCS, which listens on its first port as long as it lives.
"""

import random
import socket
from collections.abc import Iterator

_LOOPBACK = "127.0.0.1"
# Below Linux' range for outgoing connections, above the range Ray reserves for workers.
_FIRST, _LAST = 20_000, 32_700
_BLOCK = 128
_PER_NODE = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")


class NoPortsError(Exception):
    """Every block of ports is in use."""


class PortBlock:
    """The ports of one cluster: `gcs`, and four for each node, by RayParams' names."""

    def __init__(self, first: int) -> None:
        self.gcs = first
        self._next = iter(range(first + 1, first + _BLOCK))

    def node(self) -> dict[str, int]:
        return {name: next(port for port in self._next if _is_free(port)) for name in _PER_NODE}


def choose_block() -> PortBlock:
    """A block that no cluster holds, at random, so that two starts at once seldom want the same."""
    for first in _shuffled_blocks():
        if _is_free(first):
            return PortBlock(first)
    raise NoPortsError(f"no free block of ports between {_FIRST} and {_LAST}: stop another cluster")


def _shuffled_blocks() -> Iterator[int]:
    blocks = list(range(_FIRST, _LAST - _BLOCK, _BLOCK))
    random.SystemRandom().shuffle(blocks)
    yield from blocks


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            return False
    return True
