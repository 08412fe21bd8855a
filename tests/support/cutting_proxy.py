"""A TCP proxy on loopback that can cut its connections, for logs and calls that break in the middle."""

import contextlib
import socket
import threading


class CuttingProxy:
    """Forwards to the port `target`. `cut()` breaks every open connection, `refusing` accepts no new one."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.refusing = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            victims, self._open = self._open, set()
        for victim in victims:
            with contextlib.suppress(OSError):
                victim.shutdown(socket.SHUT_RDWR)
            victim.close()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                # What was accepted before a cut is not to be opened after it.
                refused = self.refusing
                self._open |= set() if refused else {client, server}
            if refused:
                client.close()
                server.close()
                continue
            threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
