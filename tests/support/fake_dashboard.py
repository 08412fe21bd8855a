"""A Ray dashboard as far as a proxy sees it: token, pages, a stream, a WebSocket, and what it was asked."""

import contextlib
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

from workload.head import Endpoint

TOKEN = "0f" * 32


class FakeDashboard:
    """`asked` has every request's path and headers, as they arrived."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.sockets = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Endpoint]:
        runner = web.ServerRunner(web.Server(self._answered, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            host, port = runner.addresses[0][:2]
            yield Endpoint(url=f"http://{host}:{port}", headers={"Authorization": f"Bearer {TOKEN}"})
        finally:
            await runner.cleanup()

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append((request.raw_path, dict(request.headers)))
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401, text="Unauthorized: Missing authentication token")
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._echoing(request)
        if request.path == "/api/authenticate":
            answer = web.Response(text="ok")
            answer.set_cookie("ray-authentication-token", TOKEN)
            return answer
        if request.path == "/moved":
            raise web.HTTPFound(f"http://{request.headers['Host']}/elsewhere")
        return web.Response(body=await request.read() or b"page", headers={"X-Of-Ray": "yes"})

    async def _echoing(self, request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["log"])
        await socket.prepare(request)
        self.sockets += 1
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT and message.data == "end":
                await socket.close(code=4001)
            elif message.type is aiohttp.WSMsgType.TEXT:
                await socket.send_str(message.data.upper())
            elif message.type is aiohttp.WSMsgType.BINARY:
                await socket.send_bytes(message.data[::-1])
        self.sockets -= 1
        return socket
