"""Calls of an API server that is busy, or has just started, and says when to ask again."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.loopback_kubeconfig import kubeconfig_of
from workload import kubernetes_api
from workload.kubernetes_access import KubernetesAccess, KubernetesError
from workload.kubernetes_api import KubernetesApi, later

CLUSTERS = "/apis/ray.io/v1/rayclusters"
# What a kube-apiserver sends for a custom resource whose storage it is still opening.
STARTING = {"kind": "Status", "status": "Failure", "message": "storage is (re)initializing", "code": 429}


class Server:
    """Answers each request with the next of `answers` (status, Retry-After), and with 200 once they are used up."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = []
        self.asked: list[tuple[str, bytes]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def access(self) -> KubernetesAccess:
        url = f"http://127.0.0.1:{self._http.server_address[1]}"
        return KubernetesAccess(kubeconfig=json.dumps(kubeconfig_of(url, token="t")))

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Not on the test's output."""

            def do_GET(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server.asked.append((self.command, sent))
                status, when = server.answers.pop(0) if server.answers else (200, "")
                body = json.dumps(STARTING if status >= 400 else {"items": []}).encode()
                self.send_response(status)
                if when:
                    self.send_header("Retry-After", when)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

        return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.mark.parametrize("status", [429, 503])
def test_an_api_server_that_says_when_to_ask_again_is_asked_again(server: Server, status: int) -> None:
    server.answers = [(status, "0"), (status, "0")]
    api = KubernetesApi(server.access)
    assert api.get(CLUSTERS, doing="listing") == {"items": []}
    assert api.calls == len(server.asked) == 3


def test_what_is_to_be_made_is_sent_again_whole(server: Server) -> None:
    server.answers = [(429, "0")]
    KubernetesApi(server.access).create(CLUSTERS, {"a": 1}, doing="making")
    assert server.asked == [("POST", b'{"a": 1}')] * 2


def test_one_that_stays_busy_is_an_error_with_its_own_words(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(kubernetes_api, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    server.answers = [(429, "3")] * 50
    with pytest.raises(KubernetesError, match=r"^listing: storage is \(re\)initializing \(HTTP 429\)") as raised:
        KubernetesApi(server.access).get(CLUSTERS, doing="listing")
    assert raised.value.status == 429
    assert len(server.asked) == 4, f"for {kubernetes_api.LATER_S:.0f} s"


@pytest.mark.parametrize(("status", "when"), [(503, ""), (500, "1"), (403, "1"), (429, "3600"), (429, "tomorrow")])
def test_any_other_refusal_is_told_at_once(server: Server, status: int, when: str) -> None:
    server.answers = [(status, when)]
    with pytest.raises(KubernetesError):
        KubernetesApi(server.access).get(CLUSTERS, doing="listing")
    assert len(server.asked) == 1


def test_when_is_in_seconds() -> None:
    assert later(429, {"Retry-After": "2"}) == 2
    assert later(200, {"Retry-After": "2"}) is None
