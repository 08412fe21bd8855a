"""The dashboard's local proxy: who comes through, with what, and what a browser gets to see."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from efactl.__main__ import main
from efactl.stack import Stack
from efactl.ui import opens_browser
from efactl.ui_gate import Gate, passed_down, passed_up
from efactl.ui_proxy import DashboardProxy
from tests.support.fake_dashboard import TOKEN, FakeDashboard
from workload.errors import BadInputError, ReportedError
from workload.head import Endpoint

ROOT = Path(__file__).parents[2]
KEY = "a-key-of-this-session"


class Visit:
    """A browser at a proxy before a fake dashboard."""

    def __init__(self, dashboard: FakeDashboard, proxy: DashboardProxy, browser: aiohttp.ClientSession) -> None:
        self.dashboard, self.proxy, self.browser = dashboard, proxy, browser
        self.base = proxy.url.removesuffix(f"/{KEY}")

    async def enter(self) -> str:
        async with self.browser.get(self.proxy.url) as answer:
            assert answer.status == 200
            return await answer.text()


def visiting(test: Callable[[Visit], Awaitable[None]]) -> None:
    async def visit() -> None:
        dashboard = FakeDashboard()
        jar = aiohttp.CookieJar(unsafe=True)
        async with (
            dashboard.serving() as endpoint,
            DashboardProxy(endpoint, key=KEY).serving() as proxy,
            aiohttp.ClientSession(cookie_jar=jar) as browser,
        ):
            await test(Visit(dashboard, proxy, browser))

    asyncio.run(asyncio.wait_for(visit(), 30))


def test_a_browser_that_enters_by_the_address_gets_the_dashboard_and_never_the_token() -> None:
    async def test(visit: Visit) -> None:
        said = [await visit.enter()]
        for path in ("/", "/api/authenticate", "/api/jobs/?a=%2Fb&c=1"):
            async with visit.browser.get(URL(visit.base + path, encoded=True)) as answer:
                assert answer.status == 200
                said += [await answer.text(), str(answer.headers)]
        assert "page" in said
        assert TOKEN not in "".join(said)
        paths = [path for path, _ in visit.dashboard.asked]
        assert paths == ["/", "/api/authenticate", "/api/jobs/?a=%2Fb&c=1"], "as written, and the key goes nowhere"
        for _, headers in visit.dashboard.asked:
            assert headers["Authorization"] == f"Bearer {TOKEN}"
            assert "Cookie" not in headers

    visiting(test)


def test_without_having_entered_nothing_is_shown_and_ray_is_not_asked() -> None:
    async def test(visit: Visit) -> None:
        for path in ("/", "/api/version", f"/{KEY}x", f"/{KEY[:-1]}"):
            async with visit.browser.get(visit.base + path) as answer:
                assert answer.status == 403
                assert "open the address that `efactl ui` printed" in await answer.text()
        async with visit.browser.post(visit.proxy.url) as answer:
            assert answer.status == 403
        assert visit.dashboard.asked == []

    visiting(test)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://attacker.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_page_in_the_same_browser_is_refused(headers: dict[str, str]) -> None:
    async def test(visit: Visit) -> None:
        await visit.enter()
        jar = visit.browser.cookie_jar.filter_cookies(URL(visit.base))
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in jar.items())
        assert cookie
        for method in ("GET", "POST", "DELETE"):
            sent = {"Cookie": cookie, **headers}
            async with visit.browser.request(method, f"{visit.base}/api/jobs/", headers=sent) as answer:
                assert answer.status == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await visit.browser.ws_connect(f"{visit.base}/tail", headers={"Cookie": cookie, **headers})
        assert visit.dashboard.asked == []

    visiting(test)


def test_a_name_that_was_rebound_to_loopback_does_not_even_enter() -> None:
    async def test(visit: Visit) -> None:
        async with visit.browser.get(visit.proxy.url, headers={"Host": "attacker.example"}) as answer:
            assert answer.status == 403
            assert "Set-Cookie" not in answer.headers

    visiting(test)


@pytest.mark.parametrize(
    ("request_line", "header", "status"),
    [
        ("GET /", b"Cookie: efactl-ui-PORT=\xff\xed\r\n", 403),
        ("GET /", b"Origin: \xff\r\n", 403),
        ("GET http://127.0.0.1:1/", b"Cookie: efactl-ui-PORT=KEY\r\n", 400),
        ("OPTIONS *", b"Cookie: efactl-ui-PORT=KEY\r\n", 400),
        ("CONNECT host:80", b"Cookie: efactl-ui-PORT=KEY\r\n", 400),
        ("GET /", b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", 400),
    ],
)
def test_a_request_that_no_browser_makes_is_refused_and_prints_nothing(
    request_line: str, header: bytes, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    async def test(visit: Visit) -> None:
        port = URL(visit.base).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        sent = header.replace(b"PORT", str(port).encode()).replace(b"KEY", KEY.encode())
        writer.write(f"{request_line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode() + sent + b"\r\n")
        assert (await reader.readline()).split()[1] == str(status).encode()
        writer.close()
        assert visit.dashboard.asked == []

    visiting(test)
    assert capfd.readouterr() == ("", "")


def test_bodies_status_and_redirections_pass() -> None:
    async def test(visit: Visit) -> None:
        await visit.enter()
        payload = bytes(range(256)) * 4096
        async with visit.browser.post(f"{visit.base}/upload", data=payload) as answer:
            assert await answer.read() == payload
            assert answer.headers["X-Of-Ray"] == "yes"
        async with visit.browser.get(f"{visit.base}/moved", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (302, "/elsewhere")

    visiting(test)


def test_websockets_pass_both_ways_and_close_together() -> None:
    async def test(visit: Visit) -> None:
        await visit.enter()
        async with visit.browser.ws_connect(f"{visit.base}/tail", protocols=["log"]) as tail:
            assert tail.protocol == "log"
            await tail.send_str("line")
            assert await tail.receive_str() == "LINE"
            await tail.send_bytes(b"abc")
            assert await tail.receive_bytes() == b"cba"
            await tail.send_str("end")
            assert (await tail.receive()).type is aiohttp.WSMsgType.CLOSE
            assert tail.close_code == 4001

    visiting(test)


def test_when_it_ends_its_port_is_closed_and_so_are_open_websockets() -> None:
    async def test() -> None:
        dashboard = FakeDashboard()
        async with (
            dashboard.serving() as endpoint,
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as b,
        ):
            async with DashboardProxy(endpoint, key=KEY).serving() as proxy:
                base = proxy.url.removesuffix(f"/{KEY}")
                await (await b.get(proxy.url)).read()
                tail = await b.ws_connect(f"{base}/tail")
                assert dashboard.sockets == 1
            assert (await tail.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
            with pytest.raises(aiohttp.ClientConnectorError):
                await b.get(base)

    asyncio.run(asyncio.wait_for(test(), 30))


@contextlib.asynccontextmanager
async def proxy_of(url: str, **changes: Any) -> AsyncIterator[DashboardProxy]:
    async with DashboardProxy(Endpoint(url=url, headers={}, **changes), key=KEY).serving() as proxy:
        yield proxy


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_head_that_is_gone_is_said_before_and_shown_in_the_browser() -> None:
    async def test() -> None:
        async with proxy_of(nobody(), why_unreachable=lambda: "no head pod") as proxy:
            with pytest.raises(ReportedError, match=r"no Ray head answers at http://127\.0\.0\.1:.*: no head pod"):
                await proxy.ask()
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
                await (await browser.get(proxy.url)).read()
                async with browser.get(proxy.url.removesuffix(KEY)) as answer:
                    assert answer.status == 502
                    assert "no head pod" in await answer.text()

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_token_that_ray_does_not_take_is_said() -> None:
    async def test() -> None:
        async with FakeDashboard().serving() as endpoint, proxy_of(endpoint.url) as proxy:
            with pytest.raises(ReportedError, match="answers 401 when asked for its version"):
                await proxy.ask()

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_port_that_is_taken_is_bad_input() -> None:
    async def test(port: int) -> None:
        async with DashboardProxy(Endpoint(url="http://127.0.0.1:1", headers={}), key=KEY).serving(port):
            raise AssertionError("it listens where somebody else does")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInputError, match=f"--port {port} cannot be used"):
            asyncio.run(test(port))
    with pytest.raises(BadInputError, match="--port 70000 cannot be used"):
        asyncio.run(test(70000))


def test_it_listens_on_loopback_alone() -> None:
    async def test() -> None:
        async with proxy_of("http://127.0.0.1:1") as proxy:
            assert proxy.url.startswith("http://127.0.0.1:")
            port = int(proxy.url.split(":")[2].split("/")[0])
            with socket.create_server(("127.0.0.2", port)):
                pass

    asyncio.run(test())


def test_what_belongs_to_one_connection_or_to_somebody_else_does_not_pass() -> None:
    sent = [
        ("Host", "127.0.0.1:1"),
        ("Connection", "keep-alive, X-Private"),
        ("X-Private", "1"),
        ("Cookie", "session=of-another-program"),
        ("Authorization", "Bearer of-the-browser"),
        ("X-Ray-Authorization", "Bearer other"),
        ("Accept", "text/html"),
    ]
    up = passed_up(sent, {"Authorization": "Bearer ours"})
    assert up == [("Accept", "text/html"), ("Authorization", "Bearer ours")]
    down = dict(passed_down([("Set-Cookie", "t=1"), ("Transfer-Encoding", "chunked"), ("ETag", "x")], "http://ray"))
    assert down == {"ETag": "x", "Content-Security-Policy": "frame-ancestors 'self'"}


def test_the_key_is_not_in_what_python_shows_of_the_gate() -> None:
    assert KEY not in repr(Gate(key=KEY, port=1))


@pytest.mark.parametrize(
    ("environment", "platform", "terminal", "opens"),
    [
        ({"DISPLAY": ":0"}, "linux", True, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True, True),
        ({"BROWSER": "firefox"}, "linux", True, True),
        ({}, "darwin", True, True),
        ({"DISPLAY": ""}, "linux", True, False),
        ({}, "linux", True, False),
        ({"DISPLAY": ":0"}, "linux", False, False),
    ],
)
def test_a_browser_is_opened_where_there_is_one_and_somebody_looks(
    environment: dict[str, str], platform: str, terminal: bool, opens: bool
) -> None:
    assert opens_browser(environment, platform, terminal=terminal) is opens


# `efactl ui` in a process of its own, on a head that stands in for the stack's.
COMMAND = """
import sys
from efactl import __main__, stack
from workload.head import Head
head = Head(kind="local", namespace="", cluster_name="x", ray_version="", spec_digest="", nodes=2,
            accelerators_per_node=2, worker_resource="trainer", address=sys.argv[1], token=sys.argv[2])
stack.Stack.head = lambda self: head if head.address else None
sys.exit(__main__.main(["ui", "--no-browser", "--json"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_well_when_it_is_told_to_and_shows_no_token(number: int) -> None:
    async def test() -> None:
        async with FakeDashboard().serving() as endpoint:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", COMMAND, endpoint.url, TOKEN),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=ROOT,
            )
            try:
                assert process.stdout and process.stderr
                url = json.loads(await process.stdout.readline())["url"]
                async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
                    await (await browser.get(url)).read()
                    async with browser.get(URL(url).origin() / "page") as answer:
                        assert await answer.text() == "page"
                    process.send_signal(number)
                    assert await process.wait() == 0
                    with pytest.raises(aiohttp.ClientConnectorError):
                        await browser.get(url)
                said = (await process.stdout.read() + await process.stderr.read()).decode()
                assert TOKEN not in said and "Traceback" not in said
                assert "jobs and training runs are there" in said
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_stack_without_a_head_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Stack, "head", lambda _self: None)
    assert main(["ui", "--no-browser"]) == 1
    assert "stack local has no Ray head: `efactl up -s local` brings one up" in capsys.readouterr().err
