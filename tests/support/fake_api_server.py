"""An API server on loopback: lists pods, forwards ports by WebSocket (v4.channel.k8s.io), and can be made to fail."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import yaml
from aiohttp import WSMsgType, web

from tests.support.loopback_kubeconfig import kubeconfig_of

T = TypeVar("T")

PROTOCOL = "v4.channel.k8s.io"


def pod(name: str, *, phase: str = "Running", terminating: bool = False, **status: Any) -> dict[str, Any]:
    """A head pod of the RayCluster `ray`, as the API server lists it."""
    metadata: dict[str, Any] = {"name": name, "labels": {"ray.io/cluster": "ray", "ray.io/node-type": "head"}}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "status": {"phase": phase, **status}}


class FakeApiServer:
    """`targets` says which local port a pod's every port is; a pod without one is listed but not forwarded to.

    `tokens` are accepted; a call in `forbidden` ("list", "forward") gets 403, one in `busy` gets 429 so many times.
    While `frozen` nothing that arrives on a WebSocket is read, pings included, as behind a cable that was pulled.
    """

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.targets: dict[str, int] = {}
        self.tokens = {"one"}
        self.forbidden: set[str] = set()
        self.busy: dict[str, int] = {}
        self.frozen = False
        self.calls: list[str] = []
        self.pongs = 0
        self._forwards: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = 0
        self.start()

    def start(self) -> None:
        """Listens; again on the port of before after `stop`."""

        async def start() -> web.AppRunner:
            app = web.Application()
            app.router.add_get("/api/v1/namespaces/{namespace}/pods", self._list)
            app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/portforward", self._forward)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", self.port)
            await site.start()
            self.port = runner.addresses[0][1]
            return runner

        self._runner = self._in_loop(start)

    def stop(self) -> None:
        self.cut()
        self._in_loop(self._runner.cleanup)

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> int:
        """Breaks every open forward without a farewell; returns how many there were."""

        async def cut() -> int:
            for transport in self._forwards:
                transport.abort()
            return len(self._forwards)

        return self._in_loop(cut)

    @property
    def open_forwards(self) -> int:
        return len(self._forwards)

    def kubeconfig(self, path: Path, *, token: str = "one") -> Path:
        path.write_text(yaml.safe_dump(kubeconfig_of(f"http://127.0.0.1:{self.port}", token=token)))
        return path

    def _in_loop(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(20)

    def _refusal(self, request: web.Request, call: str) -> web.Response | None:
        self.calls.append(call)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        if call in self.forbidden:
            return web.json_response({"kind": "Status", "message": "forbidden"}, status=403)
        if self.busy.get(call):
            self.busy[call] -= 1
            told = {"kind": "Status", "message": "storage is (re)initializing"}
            return web.json_response(told, status=429, headers={"Retry-After": "0"})
        return None

    async def _list(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request, "list"):
            return refusal
        asked = dict(pair.split("=") for pair in request.query["labelSelector"].split(","))
        found = [one for one in self.pods if asked.items() <= one["metadata"]["labels"].items()]
        return web.json_response({"kind": "PodList", "items": found})

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refusal(request, "forward"):
            return refusal
        target = self.targets.get(request.match_info["pod"])
        if target is None:
            return web.json_response({"kind": "Status", "message": "pods not found"}, status=404)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,), autoping=False, max_msg_size=0)
        await socket.prepare(request)
        assert socket.ws_protocol == PROTOCOL, "a client that speaks another protocol"
        transport = request.transport
        assert transport is not None
        self._forwards.add(transport)
        try:
            await self._forwarded(socket, int(request.query["ports"]), target)
        finally:
            self._forwards.discard(transport)
        return socket

    async def _forwarded(self, socket: web.WebSocketResponse, asked: int, target: int) -> None:
        port = asked.to_bytes(2, "little")
        await socket.send_bytes(b"\0" + port)
        await socket.send_bytes(b"\1" + port)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            await socket.send_bytes(b"\1error forwarding port 8265 to pod: connection refused")
            await socket.close()
            return
        up = asyncio.create_task(self._up(socket, writer))
        down = asyncio.create_task(self._down(socket, reader))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            writer.close()
            await socket.close()

    async def _up(self, socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
        while True:
            message = await socket.receive()
            while self.frozen:
                await asyncio.sleep(0.05)
            if message.type is WSMsgType.PING:
                await socket.pong(message.data)
                self.pongs += 1
            elif message.type is WSMsgType.BINARY:
                assert message.data[0] == 0, "data goes to channel 0"
                writer.write(message.data[1:])
                await writer.drain()
            elif message.type is not WSMsgType.PONG:
                return

    async def _down(self, socket: web.WebSocketResponse, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(32 * 1024):
            await socket.send_bytes(b"\0" + data)
