"""Free loopback ports for daemons that cannot be told to choose their own."""

import random
import socket

# Below Linux' range for outgoing connections, so that nothing takes a port between the choice and its use.
_FIRST, _LAST = 21_000, 31_000


def choose(count: int) -> list[int]:
    """`count` different ports that nobody listens on; at random, so that two beds at once seldom choose the same."""
    chosen: list[int] = []
    candidates = list(range(_FIRST, _LAST))
    random.SystemRandom().shuffle(candidates)
    for port in candidates:
        if len(chosen) == count:
            break
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            chosen.append(port)
    return chosen
