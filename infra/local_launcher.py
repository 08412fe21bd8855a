"""Starts the Ray processes of a local cluster: `python -m infra.local_launcher FD`, a process in a session of its own.

FD is one end of a socket pair. The starter sends one line of JSON (an Order) and gets lines of JSON back, {"say": text}
and then {"ready": state} or {"error": text}. It answers "keep". If it goes away before that, by whatever cause,
everything that carries the cluster's mark ends.
"""

import contextlib
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from infra import local_directory, local_processes
from infra.local_cluster import Order


class Starter:
    """The other end of the socket pair."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("r")

    def order(self) -> Order:
        return Order(**json.loads(self._lines.readline()))

    def tell(self, **message: Any) -> None:
        """Send a line; if nobody is there to read it, `wait_for_keep` knows too."""
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def wait_for_keep(self) -> bool:
        """True once the starter said so; False when it went away."""
        try:
            return self._lines.readline().strip() == "keep"
        except OSError:
            return False


def main() -> None:
    began = time.monotonic()
    starter = Starter(socket.socket(fileno=int(sys.argv[1])))
    order = starter.order()
    spawning = threading.Lock()
    threading.Thread(target=_end_with_starter, args=(starter, order, spawning), daemon=True).start()
    try:
        from infra.local_ray_nodes import RayNodes

        nodes = RayNodes(order, spawning=spawning, began=began)
        starter.tell(say=f"Ray is loaded ({time.monotonic() - began:.1f} s)")
        starter.tell(ready=nodes.start())
    except BaseException as error:
        starter.tell(error=f"{type(error).__name__}: {error}")
    threading.Event().wait()  # the other thread ends this process


def _end_with_starter(starter: Starter, order: Order, spawning: threading.Lock) -> None:
    kept = starter.wait_for_keep()
    try:
        if not kept:
            spawning.acquire(timeout=10)  # held from here on: nothing more is started while the rest is ended
            local_processes.end_marked(Path(order.directory))
            local_directory.clear(Path(order.directory), keep_token=order.keep_token)
    finally:
        os._exit(0 if kept else 1)


if __name__ == "__main__":
    main()
