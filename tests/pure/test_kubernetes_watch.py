"""Watching a cluster: what is seen stays true through whatever an API server does to a watch."""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from infra import wait_loop
from infra.wait_loop import until
from infra.waiting import Failed, LogOf, Waiting
from tests.support.loopback_kubeconfig import kubeconfig_of
from workload import kubernetes_watch
from workload.errors import ReportedError, RunInterruptedError
from workload.kubernetes_access import KubernetesAccess, KubernetesError
from workload.kubernetes_api import KubernetesApi
from workload.kubernetes_watch import Watching

PODS = "/api/v1/namespaces/team/pods"
CUT = object()


class Server:
    """Lists `objects`, and sends each watch what is put into `events`: an event, or CUT to break the connection."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.events: queue.Queue[Any] = queue.Queue()
        self.refuse: int = 0
        self.log = "first\nlast words"
        self.requests: list[str] = []
        self.watched = threading.Event()
        self._version = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def access(self) -> KubernetesAccess:
        url = f"http://127.0.0.1:{self._http.server_address[1]}"
        return KubernetesAccess(kubeconfig=json.dumps(kubeconfig_of(url, token="t")))

    def close(self) -> None:
        self.events.put(CUT)
        self._http.shutdown()
        self._http.server_close()

    def made(self, name: str) -> dict[str, Any]:
        self._version += 1
        self.objects[name] = {"metadata": {"name": name, "uid": name, "resourceVersion": str(self._version)}}
        return dict(self.objects[name])

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Not on the test's output."""

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                server.requests.append(self.path)
                if server.refuse:
                    body = json.dumps({"message": "no"}).encode()
                    self._send(server.refuse, body)
                elif "watch" in parse_qs(url.query):
                    self._watch()
                elif url.path.endswith("/log"):
                    self._send(200, server.log.encode())
                else:
                    listed = {
                        "metadata": {"resourceVersion": str(server._version)},
                        "items": list(server.objects.values()),
                    }
                    self._send(200, json.dumps(listed).encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _watch(self) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                server.watched.set()
                while (event := server.events.get()) is not CUT:
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
                self.close_connection = True
                self.connection.close()

        return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def watching(server: Server) -> Iterator[Watching]:
    with Watching(KubernetesApi(server.access)) as running:
        yield running


def names(watching: Watching) -> list[str]:
    return sorted(found["metadata"]["name"] for found in watching.listing(PODS).objects)


def eventually(watching: Watching, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        watching.wait(0.2)


def test_one_list_and_then_only_changes(server: Server, watching: Watching) -> None:
    server.made("a")
    assert names(watching) == ["a"]
    server.events.put({"type": "ADDED", "object": server.made("b")})
    eventually(watching, lambda: names(watching) == ["a", "b"])
    server.events.put({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
    server.events.put({"type": "DELETED", "object": server.objects.pop("a")})
    eventually(watching, lambda: names(watching) == ["b"])
    assert len([path for path in server.requests if "watch" not in path]) == 1


def test_what_was_missed_while_a_watch_was_broken_is_listed_anew(server: Server, watching: Watching) -> None:
    server.made("a")
    assert names(watching) == ["a"]
    server.objects.pop("a")
    server.made("b")
    server.events.put(CUT)
    eventually(watching, lambda: names(watching) == ["b"])


def test_an_expired_version_is_listed_anew(server: Server, watching: Watching) -> None:
    assert names(watching) == []
    server.made("a")
    server.events.put({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
    eventually(watching, lambda: names(watching) == ["a"])
    assert watching.trouble() is None


def test_a_collection_that_may_not_be_seen_is_asked_for_once(server: Server, watching: Watching) -> None:
    server.refuse = 403
    assert "not permitted" in watching.listing(PODS).refused
    assert watching.listing(PODS).objects == ()
    assert len(server.requests) == 1


def test_what_was_seen_and_is_refused_for_a_moment_is_asked_for_again(server: Server, watching: Watching) -> None:
    server.made("a")
    assert names(watching) == ["a"]
    server.refuse = 403
    server.events.put(CUT)
    eventually(watching, lambda: watching.trouble() is not None)
    server.refuse = 0
    eventually(watching, lambda: watching.trouble() is None)
    assert names(watching) == ["a"], "an API server that starts has not read its roles yet"


def test_an_api_server_that_fails_is_trouble_until_it_answers_again(server: Server, watching: Watching) -> None:
    server.refuse = 503
    with pytest.raises(KubernetesError):
        watching.listing(PODS)
    trouble = watching.trouble()
    assert trouble is not None
    assert trouble.error.status == 503
    server.refuse = 0
    eventually(watching, lambda: watching.trouble() is None)
    assert names(watching) == []


def wait_for(
    watching: Watching,
    verdicts: Callable[[], str | Waiting | Failed],
    *,
    seconds: float = 20,
    said: list[str] | None = None,
    interrupt: threading.Event | None = None,
) -> str:
    lines = [] if said is None else said
    return until(
        verdicts,
        watching=watching,
        what="it",
        seconds=seconds,
        say=lines.append,
        interrupt=interrupt or threading.Event(),
    )


def test_a_wait_says_each_cause_once_and_ends_with_the_verdict(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_loop, "LOOK_S", 0.01)
    monkeypatch.setattr(wait_loop, "PASSING_S", 0)
    first, second = Waiting(reason="no node", code="node"), Waiting(reason="no image", code="image")
    verdicts: Iterator[Any] = iter([first, first, Waiting(reason="no node yet", code="node"), second, "done"])
    said: list[str] = []
    assert wait_for(watching, lambda: next(verdicts), said=said) == "done"
    assert said == ["it: no node", "it: no image"], "the same cause in other words is not news"


def test_a_wait_fails_with_the_reason_and_the_end_of_the_log(server: Server, watching: Watching) -> None:
    log = LogOf(namespace="team", pod="ray-head", container="ray-head", previous=True, hint="Look here.")
    with pytest.raises(ReportedError, match=r"(?s)it: crashed.*last words\nLook here"):
        wait_for(watching, lambda: Failed(reason="crashed", log=log))
    assert "previous=true" in server.requests[-1]


def test_a_cause_without_patience_lasts_until_the_wait_is_over(watching: Watching) -> None:
    with pytest.raises(ReportedError, match="not within 0 s"):
        wait_for(watching, lambda: Waiting(reason="no node", code="node"), seconds=0)
    with pytest.raises(ReportedError, match=r"^it: no node$"):
        wait_for(watching, lambda: Waiting(reason="no node", code="node", patience=0))


def test_an_interrupt_ends_a_wait_at_once(watching: Watching) -> None:
    interrupt = threading.Event()

    def look() -> Waiting:
        assert not interrupt.is_set(), "another look is a second later"
        interrupt.set()
        return Waiting(reason="no node", code="node")

    with pytest.raises(RunInterruptedError, match="no node"):
        wait_for(watching, look, seconds=600, interrupt=interrupt)


def test_a_silent_api_server_ends_a_wait_after_its_time(
    server: Server, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_loop, "PASSING_S", 0)
    now, said = 0.0, list[str]()
    monkeypatch.setattr(kubernetes_watch, "time", SimpleNamespace(monotonic=lambda: now))
    server.refuse = 503

    def say(line: str) -> None:
        nonlocal now
        said.append(line)
        now += wait_loop.SILENCE_S

    def look() -> str:
        watching.listing(PODS)
        return "seen"

    with pytest.raises(KubernetesError, match="for 60 s"):
        until(look, watching=watching, what="it", seconds=600, say=say, interrupt=threading.Event())
    assert said == ["it: listing pods: no (HTTP 503); trying for 60 s"]
