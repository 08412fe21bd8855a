"""The tunnel to a Ray head: what it carries, what it says when it cannot, and that nothing is left of it."""

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlparse

import psutil
import pytest

from tests.support.fake_api_server import FakeApiServer, pod
from tests.support.pod_port import echo, pod_port
from workload import async_kubernetes_api, port_forward
from workload.kubernetes_access import KubernetesAccess, KubernetesError
from workload.port_forward import PortForward


@pytest.fixture
def api() -> Iterator[FakeApiServer]:
    """One head pod, `head-a`, whose port echoes."""
    server = FakeApiServer()
    try:
        with pod_port(echo) as port:
            server.pods = [pod("head-a")]
            server.targets = {"head-a": port}
            yield server
    finally:
        server.close()


@pytest.fixture
def kubeconfig(api: FakeApiServer, tmp_path: Path) -> Path:
    return api.kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def forward(kubeconfig: Path) -> Iterator[PortForward]:
    with tunnel(kubeconfig) as forward:
        yield forward


def tunnel(kubeconfig: Path, cluster: str = "ray") -> PortForward:
    return PortForward(KubernetesAccess(kubeconfig=str(kubeconfig)), namespace="team", cluster=cluster)


@contextlib.contextmanager
def connection(forward: PortForward, *, timeout: float = 15) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", urlparse(forward.url).port or 0), timeout=timeout) as client:
        yield client


def echoed(forward: PortForward, payload: bytes = b"hello") -> bytes:
    """What comes back of `payload`. Raises ConnectionError where the connection ends before."""
    with connection(forward) as client:
        client.sendall(payload)
        return received(client, len(payload))


def received(client: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        data = client.recv(1 << 16)
        if not data:
            raise ConnectionResetError(f"closed after {len(parts)} of {size} bytes")
        parts += data
    return bytes(parts)


def until(condition: Callable[[], bool], *, seconds: float = 60, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def pings_are_answered(api: FakeApiServer) -> None:
    """Two from here on: one may have been under way."""
    before = api.pongs
    until(lambda: api.pongs > before + 1, what="pings are answered")


def refused(forward: PortForward) -> str:
    """Tries once; the reason of the failure."""
    with pytest.raises(ConnectionError):
        echoed(forward)
    return forward.why_unreachable()


def test_bytes_arrive_whole_in_both_directions(forward: PortForward) -> None:
    payload = os.urandom(3_000_001)
    with connection(forward) as client, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.sendall, payload)
        assert received(client, len(payload)) == payload
        sent.result()
    assert forward.why_unreachable() == ""


def test_connections_do_not_wait_for_each_other_nor_mix(forward: PortForward) -> None:
    payloads = [bytes([number]) * 200_000 for number in range(40)]
    with connection(forward) as idle, ThreadPoolExecutor(40) as pool:
        assert list(pool.map(lambda payload: echoed(forward, payload), payloads)) == payloads
        idle.sendall(b"still here")
        assert received(idle, 10) == b"still here"


def test_a_large_upload_arrives_whole_without_growing_this_process(api: FakeApiServer, forward: PortForward) -> None:
    block, blocks = os.urandom(1 << 20), 100
    digest = hashlib.sha256()
    process = psutil.Process()
    most = before = process.memory_info().rss

    def slow_at_first(client: socket.socket) -> None:
        nonlocal most
        time.sleep(0.5)
        left = blocks << 20
        while left:
            data = client.recv(1 << 16)
            digest.update(data)
            left -= len(data)
            most = max(most, process.memory_info().rss) if left % (1 << 22) < (1 << 16) else most
        client.sendall(b"got it")

    with pod_port(slow_at_first) as port:
        api.targets["head-a"] = port
        with connection(forward, timeout=60) as client:
            for _ in range(blocks):
                client.sendall(block)
            assert received(client, 6) == b"got it"
    assert digest.hexdigest() == hashlib.sha256(block * blocks).hexdigest()
    assert most - before < 60 << 20, "what the pod does not take yet waits with the sender"


def test_a_client_that_has_sent_all_still_gets_its_answer(api: FakeApiServer, forward: PortForward) -> None:
    def answer_late(client: socket.socket) -> None:
        request = client.recv(100)
        time.sleep(port_forward.CLOSED_S * 1.5)
        client.sendall(b"answer to " + request)

    with pod_port(answer_late) as port:
        api.targets["head-a"] = port
        with connection(forward) as client:
            client.sendall(b"question")
            client.shutdown(socket.SHUT_WR)
            assert received(client, 18) == b"answer to question"
            assert client.recv(1) == b"", "and then the end"


def test_a_pod_that_closes_ends_the_connection_in_good_order(api: FakeApiServer, forward: PortForward) -> None:
    with pod_port(lambda client: client.sendall(b"x" * 500_000)) as port:
        api.targets["head-a"] = port
        with connection(forward) as client:
            assert received(client, 500_000) == b"x" * 500_000
            assert client.recv(1) == b""
    until(lambda: api.open_forwards == 0, what="the forward has ended too")


def test_a_client_that_leaves_ends_its_forward(api: FakeApiServer, forward: PortForward) -> None:
    assert echoed(forward) == b"hello"
    until(lambda: api.open_forwards == 0, what="the forward has ended")


def test_a_cut_breaks_open_connections_at_once_and_no_later_one(api: FakeApiServer, forward: PortForward) -> None:
    with connection(forward) as client:
        client.sendall(b"hello")
        assert received(client, 5) == b"hello"
        assert api.cut() == 1
        with pytest.raises(ConnectionError):
            received(client, 1)
    assert "the port-forward broke" in forward.why_unreachable()
    assert echoed(forward) == b"hello"
    assert forward.why_unreachable() == "", "a reason does not outlive the trouble"


def test_a_cut_in_the_middle_of_an_answer_is_no_end_of_it(api: FakeApiServer, forward: PortForward) -> None:
    sent = threading.Event()

    def half(client: socket.socket) -> None:
        client.sendall(b"half")
        sent.set()
        client.recv(1)

    with pod_port(half) as port:
        api.targets["head-a"] = port
        with connection(forward) as client:
            assert received(client, 4) == b"half"
            api.cut()
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_a_silent_far_end_is_given_up_while_a_quiet_one_is_kept(
    api: FakeApiServer, forward: PortForward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours pass, first whenever the far end has given a sign of life, then while it gives none."""
    now = 0.0
    monkeypatch.setattr(port_forward, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(port_forward, "PING_S", 0.1)
    monkeypatch.setattr(port_forward, "SILENT_S", 10 * 3600.0)
    with connection(forward) as client:
        client.sendall(b"hello")
        assert received(client, 5) == b"hello"
        for _ in range(6):
            now += 4 * 3600
            pings_are_answered(api)
        client.sendall(b"still here")
        assert received(client, 10) == b"still here"
        api.frozen = True
        client.settimeout(0.3)
        with pytest.raises(ConnectionError):
            for _ in range(200):
                now += 10 * 3600
                with contextlib.suppress(TimeoutError):
                    received(client, 1)
    assert "no sign of life" in forward.why_unreachable()
    api.frozen = False


def test_a_restarted_api_server_costs_only_the_open_connections(api: FakeApiServer, forward: PortForward) -> None:
    assert echoed(forward) == b"hello"
    api.stop()
    reason = refused(forward)
    assert f"the API server http://127.0.0.1:{api.port} cannot be reached" in reason
    api.start()
    assert echoed(forward) == b"hello"


def test_a_renewed_token_is_read_when_the_old_one_is_not_accepted(
    api: FakeApiServer, kubeconfig: Path, forward: PortForward
) -> None:
    assert echoed(forward) == b"hello"
    api.tokens = {"two"}
    assert refused(forward).startswith("401: the API server does not accept these credentials")
    api.kubeconfig(kubeconfig, token="two")
    assert echoed(forward) == b"hello"


def test_one_expired_token_is_renewed_once_for_all_connections(
    api: FakeApiServer, kubeconfig: Path, forward: PortForward, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[KubernetesAccess] = []
    client = KubernetesAccess.client

    def counted(access: KubernetesAccess) -> object:
        read.append(access)
        return client(access)

    monkeypatch.setattr(KubernetesAccess, "client", counted)
    api.tokens = {"two"}
    api.kubeconfig(kubeconfig, token="two")
    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(lambda _: echoed(forward), range(10))) == [b"hello"] * 10
    assert len(read) == 1


@pytest.mark.parametrize(
    ("call", "what"),
    [("list", "list pods in namespace team"), ("forward", "get and create pods/portforward in namespace team")],
)
def test_a_right_that_is_missing_is_named_and_ends_the_waiting(
    api: FakeApiServer, forward: PortForward, monkeypatch: pytest.MonkeyPatch, call: str, what: str
) -> None:
    api.forbidden = {call}
    reason = refused(forward)
    assert f"403: not permitted to {what}" in reason
    assert "docs/rbac" in reason
    monkeypatch.setattr(port_forward, "FORBIDDEN_S", 0.0)
    with pytest.raises(KubernetesError, match=what) as caught:
        forward.why_unreachable()
    assert caught.value.status == 403
    api.forbidden = set()
    assert echoed(forward) == b"hello", "a right given later is used"


def test_credentials_that_stay_refused_end_the_waiting(
    api: FakeApiServer, forward: PortForward, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.tokens = {"another"}
    assert "401: the API server does not accept these credentials" in refused(forward)
    monkeypatch.setattr(port_forward, "FORBIDDEN_S", 0.0)
    with pytest.raises(KubernetesError, match="renew them") as caught:
        forward.why_unreachable()
    assert caught.value.status == 401


def test_a_refusal_that_passes_does_not_end_the_waiting(api: FakeApiServer, forward: PortForward) -> None:
    """An API server that has just started knows no roles yet."""
    api.forbidden = {"list"}
    for _ in range(3):
        assert "403" in refused(forward)
    api.forbidden = set()
    assert echoed(forward) == b"hello"


@pytest.mark.parametrize("call", ["list", "forward"])
def test_an_api_server_that_says_when_to_ask_again_is_asked_again(
    api: FakeApiServer, forward: PortForward, call: str
) -> None:
    api.busy = {call: 2}
    assert echoed(forward) == b"hello"
    assert api.calls.count(call) == 3


def test_an_api_server_that_stays_busy_is_said(
    api: FakeApiServer, forward: PortForward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_kubernetes_api, "LATER_S", 0.25)
    api.busy = {"list": 50}
    assert "the API server answered 429 to list pods in namespace team" in refused(forward)
    assert api.calls.count("list") < 5


def test_a_head_pod_that_was_replaced_is_found(api: FakeApiServer, forward: PortForward) -> None:
    def other(client: socket.socket) -> None:
        client.recv(100)
        client.sendall(b"other")

    assert echoed(forward) == b"hello"
    with pod_port(other) as port:
        api.pods = [pod("head-a", terminating=True), pod("head-b")]
        api.targets = {"head-b": port}
        assert echoed(forward) == b"other"
        assert forward.why_unreachable() == ""


def test_the_head_pod_is_looked_up_once_as_long_as_it_is_there(api: FakeApiServer, forward: PortForward) -> None:
    for _ in range(5):
        assert echoed(forward) == b"hello"
    assert api.calls == ["list", *["forward"] * 5]


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([], "no head pod: namespace team has none of RayCluster ray"),
        ([pod("head-a", terminating=True)], "no head pod: head-a is being deleted"),
        (
            [
                pod(
                    "head-a",
                    phase="Pending",
                    conditions=[
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                    ],
                )
            ],
            "no head pod: head-a is Pending (Unschedulable: 0/3 nodes)",
        ),
        (
            [
                pod(
                    "head-a",
                    phase="Pending",
                    containerStatuses=[{"state": {"waiting": {"reason": "ImagePullBackOff"}}}],
                )
            ],
            "no head pod: head-a is Pending (ImagePullBackOff)",
        ),
    ],
)
def test_without_a_running_head_pod_the_reason_says_why(
    api: FakeApiServer, forward: PortForward, pods: list[dict[str, object]], reason: str
) -> None:
    api.pods = pods
    assert refused(forward) == reason


def test_another_clusters_head_is_not_taken(api: FakeApiServer, kubeconfig: Path) -> None:
    with tunnel(kubeconfig, cluster="other") as forward:
        assert refused(forward) == "no head pod: namespace team has none of RayCluster other"


def test_a_head_that_does_not_listen_is_said_as_the_node_says_it(api: FakeApiServer, forward: PortForward) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        api.targets["head-a"] = unused.getsockname()[1]
    assert "error forwarding port 8265 to pod: connection refused" in refused(forward)


def test_a_kubeconfig_that_cannot_be_used_is_said_before_anything_is_tried(tmp_path: Path) -> None:
    with pytest.raises(KubernetesError, match="no usable kubeconfig"), tunnel(tmp_path / "nowhere"):
        raise AssertionError("it was entered")


def test_nothing_is_left_of_a_tunnel(api: FakeApiServer, kubeconfig: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tunnel(kubeconfig) as warm:
        echoed(warm)
    process = psutil.Process()
    until(lambda: api.open_forwards == 0, what="the warm-up's forwards have ended")
    threads, files = set(threading.enumerate()), process.num_fds()
    with tunnel(kubeconfig) as forward:
        address = urlparse(forward.url)
        with contextlib.ExitStack() as open_ones:
            clients = [open_ones.enter_context(connection(forward)) for _ in range(5)]
            for client in clients:
                client.sendall(b"hello")
                assert received(client, 5) == b"hello"
            api.cut()
            fresh = open_ones.enter_context(connection(forward))
            fresh.sendall(b"hello")
            assert received(fresh, 5) == b"hello"
            forward.__exit__(None, None, None)
            with pytest.raises(ConnectionError):
                received(fresh, 1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", address.port or 0), timeout=5)
    until(lambda: api.open_forwards == 0, what="no forward is open")
    until(lambda: set(threading.enumerate()) - pod_threads() <= threads, what="no thread is left")
    until(lambda: process.num_fds() <= files, what=f"no file is left (there were {files})")
    assert not [record for record in caplog.records if record.name == "asyncio"], "nor does the event loop complain"


def pod_threads() -> set[threading.Thread]:
    """The pretended pod's own."""
    return {thread for thread in threading.enumerate() if thread.name.endswith("(one)")}


def test_the_end_does_not_wait_for_an_api_server_that_is_silent(api: FakeApiServer, kubeconfig: Path) -> None:
    api.frozen = True
    with tunnel(kubeconfig) as forward, connection(forward) as client:
        client.sendall(b"hello")
        until(lambda: api.open_forwards == 1, what="the forward is open")
    until(lambda: not forward._thread.is_alive(), what="the tunnel has ended")
    api.frozen = False
