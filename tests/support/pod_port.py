"""A TCP port of a pretended pod: each connection is handed to a function in a thread of its own."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def pod_port(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Yields the port number; ends the connections that are open when the context ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            serve(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(connection)
            threads.append(threading.Thread(target=one, args=(connection,), daemon=True))
            threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in accepted:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in [accepting, *threads]:
            thread.join(5)


def echo(connection: socket.socket) -> None:
    while data := connection.recv(65536):
        connection.sendall(data)
