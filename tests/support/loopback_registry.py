"""An image registry on loopback: OCI's distribution API with anonymous tokens, and the ways in which it can refuse."""

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
REPOSITORY, TOKEN = "team/ray", "for-nobody"


@dataclass
class Registry:
    """`answers` are statuses with headers, by method, in place of what there is; `asked` are the requests so far.

    With `tokens` each request for a manifest needs the token that `/token` gives to nobody. Without `headers` the
    digest is in no header, and with `heads` False HEAD is not known. While `silent` no request is answered.
    """

    port: int = 0
    tokens: bool = True
    headers: bool = True
    heads: bool = True
    challenge: str = ""
    realm_status: int = 200
    silent: threading.Event | None = None
    answers: dict[str, tuple[int, Mapping[str, str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    _bodies: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    @property
    def image(self) -> str:
        return f"127.0.0.1:{self.port}/{REPOSITORY}"

    def push(self, tag: str, content: str) -> str:
        """An image of one platform; returns its digest."""
        return self._keep(tag, json.dumps({"config": content}), MANIFEST)

    def push_index(self, tag: str, *contents: str) -> tuple[str, list[str]]:
        """An image of amd64, arm64, ... with a signature beside them; the index's digest, and each platform's."""
        digests = [self.push("", content) for content in contents]
        members: list[dict[str, Any]] = [
            {"digest": digest, "platform": {"os": "linux", "architecture": name}}
            for digest, name in zip(digests, ("amd64", "arm64"), strict=False)
        ]
        signature = self.push("", f"signature of {contents}")
        members.append({"digest": signature, "platform": {"os": "unknown", "architecture": "unknown"}})
        return self._keep(tag, json.dumps({"manifests": members}), INDEX), digests

    def spoil(self, digest: str) -> None:
        """Sends another body under the digest."""
        body, media_type = self._bodies[digest]
        self._bodies[digest] = (body + b" ", media_type)

    def _keep(self, tag: str, text: str, media_type: str) -> str:
        body = text.encode()
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        self._bodies[digest] = (body, media_type)
        if tag:
            self._bodies[tag] = (body, media_type)
        return digest

    def manifest(self, named: str) -> tuple[bytes, str] | None:
        return self._bodies.get(named)


@contextmanager
def serving() -> Iterator[Registry]:
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing on a test's output."""

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            registry.asked.append(f"{self.command} {self.path}")
            if registry.silent is not None:
                registry.silent.wait()
                return
            url = urlsplit(self.path)
            if url.path == "/token":
                right = parse_qs(url.query) == {"service": ["here"], "scope": [f"repository:{REPOSITORY}:pull"]}
                self._send(registry.realm_status if right else 400, json.dumps({"token": TOKEN}).encode())
            elif self.command in registry.answers:
                status, headers = registry.answers[self.command]
                self._send(status, b"", headers)
            elif registry.tokens and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                usual = (
                    f'Bearer realm="http://127.0.0.1:{registry.port}/token",service="here",'
                    f'scope="repository:{REPOSITORY}:pull"'
                )
                self._send(401, b"", {"WWW-Authenticate": registry.challenge or usual})
            elif self.command == "HEAD" and not registry.heads:
                self._send(405, b"")
            else:
                self._send_manifest(url.path)

        def _send_manifest(self, path: str) -> None:
            found = registry.manifest(path.removeprefix(f"/v2/{REPOSITORY}/manifests/"))
            if found is None:
                self._send(404, b"")
                return
            body, media_type = found
            assert media_type in self.headers["Accept"], "what is not accepted may come in another form"
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            told = {"Docker-Content-Digest": digest} if registry.headers else {}
            self._send(200, body, {"Content-Type": media_type, **told})

        def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        if registry.silent is not None:
            registry.silent.set()
        server.shutdown()
        server.server_close()
        thread.join()
