"""A server on loopback that answers with JSON by path, hangs or refuses: an API server's objects, a Ray head."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.support.loopback_kubeconfig import kubeconfig_of


class JsonServer:
    """`answers` by path, without its query; what is not there is 404. Paths in `hanging` are answered at the end only.

    `refused` answers a status by path. A call without the bearer token `token` gets 401, where one is set.
    """

    def __init__(self, answers: dict[str, Any], *, token: str = "") -> None:
        self.answers, self.token = answers, token
        self.refused: dict[str, int] = {}
        self.hanging: set[str] = set()
        self.calls: list[str] = []
        self._ending = threading.Event()

    def __enter__(self) -> "JsonServer":
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kubeconfig(self, path: Path) -> Path:
        """As of an API server whose token is `token`."""
        path.write_text(yaml.safe_dump(kubeconfig_of(self.url, token=self.token)))
        return path

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        self.calls.append(path)
        if path in self.hanging:
            self._ending.wait(60)
        status, body = 200, self.answers.get(path)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            status, body = 401, {"message": "Unauthorized"}
        elif path in self.refused:
            status, body = self.refused[path], {"message": f"{path} is forbidden"}
        elif body is None:
            status, body = 404, {"message": "not found"}
        content = json.dumps(body).encode()
        try:
            request.send_response(status)
            request.send_header("Content-Length", str(len(content)))
            request.end_headers()
            request.wfile.write(content)
        except OSError:
            pass
