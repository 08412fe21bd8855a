"""A proxy on loopback that lets one browser into a Ray dashboard and adds the token that it asks for."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from http import HTTPStatus

import aiohttp
from aiohttp import web
from yarl import URL

from efactl.ui_gate import Gate, passed_down, passed_up
from workload.errors import BadInputError, ReportedError
from workload.head import LOOPBACK, Endpoint

_CONNECT_S, _ASK_S, _CLOSE_S = 10.0, 20.0, 1.0
_CHUNK = 64 * 1024
# Whoever is on this machine can send what is no HTTP: it is answered with 400, and the terminal is not theirs.
_QUIET = logging.getLogger("efactl.ui")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
_WEBSOCKET_HEADERS = ("sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions")
_ENTER = '<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>Ray dashboard</title>'


class DashboardProxy:
    """Requests and WebSockets of a browser that has entered by `url` go to the endpoint with its headers."""

    def __init__(self, endpoint: Endpoint, *, key: str) -> None:
        self._endpoint, self._key = endpoint, key

    @property
    def url(self) -> str:
        """It opens the dashboard: whoever has it may use Ray for as long as the proxy runs."""
        return f"http://{LOOPBACK}:{self._gate.port}/{self._key}"

    @contextlib.asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator["DashboardProxy"]:
        """Listens while the context lasts; port 0 takes a free one. Raises BadInputError where it is taken."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False, cookie_jar=jar) as session:
            self._session = session
            server = web.Server(self._answered, access_log=None, logger=_QUIET)
            runner = web.ServerRunner(server, shutdown_timeout=_CLOSE_S)
            await runner.setup()
            try:
                try:
                    await web.TCPSite(runner, LOOPBACK, port).start()
                except (OSError, OverflowError) as error:
                    raise BadInputError(f"--port {port} cannot be used: {error}; 0 takes a free one") from None
                self._gate = Gate(key=self._key, port=runner.addresses[0][1])
                yield self
            finally:
                await runner.cleanup()

    async def ask(self) -> None:
        """Raises ReportedError unless Ray answers and takes the token."""
        try:
            async with (
                asyncio.timeout(_ASK_S),
                self._session.get(f"{self._endpoint.url}/api/version", headers=self._endpoint.headers) as answer,
            ):
                if answer.status != HTTPStatus.OK:
                    said = f"answers {answer.status} when asked for its version: is it this stack's?"
                    raise ReportedError(f"the Ray head at {self._endpoint.url} {said}")
        except (aiohttp.ClientError, OSError):
            raise ReportedError(self._endpoint.unreachable()) from None

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        gate = self._gate
        if gate.enters(request.method, request.path, request.headers.get("Host", "")):
            page = web.Response(text=_ENTER, content_type="text/html", headers={"Referrer-Policy": "no-referrer"})
            page.headers["Cache-Control"] = "no-store"
            page.set_cookie(gate.cookie, self._key, httponly=True, samesite="Strict", path="/")
            return page
        if refusal := gate.refusal(request.headers, request.cookies.get(gate.cookie, "")):
            return web.Response(status=HTTPStatus.FORBIDDEN, text=f"{refusal}\n")
        # "*", or the whole address of somewhere else: RFC 9112, section 3.2.
        if not request.raw_path.startswith("/"):
            return web.Response(status=HTTPStatus.BAD_REQUEST, text="ask for a path of the dashboard\n")
        try:
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._websocket(request)
            return await self._exchange(request)
        except (aiohttp.ClientError, OSError):
            try:
                reason = self._endpoint.unreachable()
            except ReportedError as error:
                reason = str(error)
            return web.Response(status=HTTPStatus.BAD_GATEWAY, text=f"{reason}\n")

    def _upstream(self, request: web.BaseRequest) -> URL:
        return URL(self._endpoint.url + request.raw_path, encoded=True)

    async def _exchange(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = passed_up(request.headers.items(), self._endpoint.headers)
        body = request.content if request.body_exists else None
        async with self._session.request(
            request.method, self._upstream(request), headers=headers, data=body, allow_redirects=False
        ) as answer:
            passed = web.StreamResponse(status=answer.status, reason=answer.reason)
            for name, value in passed_down(answer.headers.items(), self._endpoint.url):
                passed.headers.add(name, value)
            await passed.prepare(request)
            async for chunk in answer.content.iter_chunked(_CHUNK):
                await passed.write(chunk)
            await passed.write_eof()
            return passed

    async def _websocket(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = passed_up(request.headers.items(), self._endpoint.headers)
        headers = [(name, value) for name, value in headers if name.lower() not in _WEBSOCKET_HEADERS]
        offered = request.headers.get("Sec-WebSocket-Protocol", "")
        protocols = [protocol.strip() for protocol in offered.split(",") if protocol.strip()]
        headers = [(name, value) for name, value in headers if name.lower() != "sec-websocket-protocol"]
        async with self._session.ws_connect(
            self._upstream(request), headers=headers, protocols=protocols, max_msg_size=0
        ) as upstream:
            browser = web.WebSocketResponse(protocols=[upstream.protocol] if upstream.protocol else [], max_msg_size=0)
            await browser.prepare(request)
            ends = {
                asyncio.create_task(_passed_on(upstream, browser)),
                asyncio.create_task(_passed_on(browser, upstream)),
            }
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
                await browser.close(code=upstream.close_code or aiohttp.WSCloseCode.OK)
            return browser


_End = aiohttp.ClientWebSocketResponse | web.WebSocketResponse


async def _passed_on(source: _End, sink: _End) -> None:
    async for message in source:
        if message.type is aiohttp.WSMsgType.TEXT:
            await sink.send_str(message.data)
        elif message.type is aiohttp.WSMsgType.BINARY:
            await sink.send_bytes(message.data)
