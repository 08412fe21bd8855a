"""A port of this machine that leads to a Ray head inside a Kubernetes cluster, through the API server alone."""

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import aiohttp

from workload.async_kubernetes_api import AsyncKubernetesApi, Credentials
from workload.head_pod import head_pod, selector, why_no_head
from workload.kubernetes_access import KubernetesAccess, KubernetesError

LOOPBACK = "127.0.0.1"
DASHBOARD_PORT = 8265
# A data and an error channel a port, each begun by a frame with the port's number; a frame's first byte is the channel.
PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = 0, 1
CHUNK = 128 * 1024
PING_S, SILENT_S = 5.0, 20.0
# An API server that has just started answers 403 until it has read its roles, 401 until it has its service accounts.
FORBIDDEN_S = 10.0
HALF_CLOSED_S, CLOSED_S = 60.0, 1.0
SEND_BUFFER = 512 * 1024


class _BrokenError(Exception):
    """The connection ended otherwise than by the pod's closing it."""


class _LocalEndGoneError(Exception):
    """Nobody is there to receive any more."""


class PortForward:
    """Listens on `url` while its context lasts; every connection made to it is one port-forward of its own.

    So a cut forward, a restarted API server or a replaced head costs the connections that were open: they are closed,
    and the next one is made anew, to the head pod there is then. Entering raises KubernetesError where the kubeconfig
    cannot be used.
    """

    def __init__(self, access: KubernetesAccess, *, namespace: str, cluster: str, port: int = DASHBOARD_PORT) -> None:
        self._access, self._namespace, self._cluster, self._port = access, namespace, cluster, port
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"port-forward-{cluster}", daemon=True)
        self._pod: str | None = None
        self._trouble: tuple[str, int, float] | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._local_port}"

    def why_unreachable(self) -> str:
        """Why the last connection failed, empty where it did not. Raises KubernetesError where waiting is in vain."""
        trouble = self._trouble
        if trouble is None:
            return ""
        reason, status, since = trouble
        if status in (401, 403) and time.monotonic() - since > FORBIDDEN_S:
            raise KubernetesError(f"the Ray head of RayCluster {self._cluster} cannot be reached: {reason}", status)
        return reason

    def __enter__(self) -> "PortForward":
        self._credentials = Credentials.read(self._access)
        self._loop = asyncio.new_event_loop()
        self._listener = socket.create_server((LOOPBACK, 0), backlog=128)
        self._local_port = self._listener.getsockname()[1]
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._listen())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._listener.close()
            # Unlike asyncio.run, this does not wait for a name look-up or a credential plugin that hangs.
            self._loop.close()

    async def _listen(self) -> None:
        api = AsyncKubernetesApi(self._access, self._credentials)
        connections: set[asyncio.Task[None]] = set()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            # Python 3.11 logs a cancelled connection as an error of its own.
            with contextlib.suppress(asyncio.CancelledError):
                await self._connection(api, reader, writer)
            connections.discard(task)

        server = await asyncio.start_server(accepted, sock=self._listener, limit=CHUNK)
        try:
            await self._stop.wait()
        finally:
            server.close()
            ending = list(connections)
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            await api.close()
            # A transport that was closed lets go of its socket in the loop's next turns.
            await asyncio.sleep(0.05)

    async def _connection(
        self, api: AsyncKubernetesApi, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            websocket = await self._opened(api)
            try:
                await _Exchange(websocket, reader, writer, self._reached).run()
            except BaseException:
                _shut(websocket.get_extra_info("socket"))
                raise
            finally:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSED_S):
                        await websocket.close()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        except (KubernetesError, _BrokenError) as error:
            self._failed(str(error), error.status if isinstance(error, KubernetesError) else 0)
        finally:
            _reset(writer)

    async def _opened(self, api: AsyncKubernetesApi) -> aiohttp.ClientWebSocketResponse:
        known = self._pod
        if known is not None:
            try:
                return await self._forward(api, known)
            except KubernetesError as error:
                if error.status in (0, 401, 403):
                    raise
                self._pod = None
        self._pod = await self._look_up(api)
        return await self._forward(api, self._pod)

    async def _look_up(self, api: AsyncKubernetesApi) -> str:
        answer = await api.get(
            f"/api/v1/namespaces/{self._namespace}/pods",
            {"labelSelector": selector(self._cluster)},
            doing=f"list pods in namespace {self._namespace}",
        )
        pods = answer.get("items") or []
        pod = head_pod(pods)
        if pod is None:
            raise KubernetesError(why_no_head(pods, namespace=self._namespace, cluster=self._cluster))
        return pod

    async def _forward(self, api: AsyncKubernetesApi, pod: str) -> aiohttp.ClientWebSocketResponse:
        return await api.websocket(
            f"/api/v1/namespaces/{self._namespace}/pods/{pod}/portforward",
            {"ports": str(self._port)},
            protocol=PROTOCOL,
            doing=f"get and create pods/portforward in namespace {self._namespace} (pod {pod})",
        )

    def _reached(self) -> None:
        self._trouble = None

    def _failed(self, reason: str, status: int) -> None:
        self._pod = None
        before = self._trouble
        since = before[2] if before and before[1] == status else time.monotonic()
        self._trouble = (reason, status, since)


class _Exchange:
    """One local connection and its WebSocket, until either end has closed."""

    def __init__(
        self,
        websocket: aiohttp.ClientWebSocketResponse,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        reached: Callable[[], None],
    ) -> None:
        self._websocket, self._reader, self._writer, self._reached = websocket, reader, writer, reached
        self._moved = self._carried = time.monotonic()
        self._answer_due = False
        # Bytes that wait in this machine's buffer for a slow line look like silence: let there be few.
        sock = websocket.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    async def run(self) -> None:
        """Raises _BrokenError when the WebSocket ends without the pod's having closed the connection."""
        sending, receiving = asyncio.create_task(self._send()), asyncio.create_task(self._receive())
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                # A WebSocket that fails to send has mostly received why.
                await (asyncio.wait({receiving}, timeout=CLOSED_S) if sending.exception() else self._outlast(receiving))
            for task in (receiving, sending):
                if task.done():
                    task.result()
        except _LocalEndGoneError:
            pass
        except (OSError, aiohttp.ClientError) as error:
            raise _BrokenError(f"the port-forward broke: {str(error) or type(error).__name__}") from None
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _send(self) -> None:
        while True:
            try:
                data = await self._reader.read(CHUNK)
            except OSError:
                raise _LocalEndGoneError from None
            if not data:
                return
            self._answer_due = True
            await self._websocket.send_bytes(bytes([DATA]) + data)
            self._moved = self._carried = time.monotonic()

    async def _receive(self) -> None:
        begun: set[int] = set()
        while True:
            message = await self._next_message()
            if message.type is aiohttp.WSMsgType.BINARY and message.data:
                channel = message.data[0]
                if channel not in begun:
                    begun.add(channel)
                elif channel == ERROR:
                    raise _BrokenError(message.data[1:].decode(errors="replace")[:400])
                else:
                    await self._deliver(memoryview(message.data)[1:])
            elif message.type is aiohttp.WSMsgType.PING:
                await self._websocket.pong(message.data)
            elif message.type is aiohttp.WSMsgType.CLOSE and message.data in (0, aiohttp.WSCloseCode.OK):
                return
            elif message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.PONG):
                raise _BrokenError("the port-forward broke: the API server or the node ended it")

    async def _next_message(self) -> aiohttp.WSMessage:
        """Asks a silent far end for a sign of life, and gives it up where none comes."""
        while True:
            try:
                message = await self._websocket.receive(timeout=PING_S)
            except TimeoutError:
                if time.monotonic() - self._moved >= SILENT_S:
                    raise _BrokenError(f"the port-forward broke: no sign of life for {SILENT_S:.0f} s") from None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSED_S):
                        await self._websocket.ping()
            else:
                self._moved = time.monotonic()
                return message

    async def _deliver(self, data: memoryview) -> None:
        # Before the local end can know of it.
        self._reached()
        self._answer_due = False
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            raise _LocalEndGoneError from None
        self._moved = self._carried = time.monotonic()

    async def _outlast(self, receiving: asyncio.Task[None]) -> None:
        """The local end sends no more: it may have gone, or wait for an answer; the protocol cannot tell the pod."""
        while not receiving.done():
            left = self._carried + (HALF_CLOSED_S if self._answer_due else CLOSED_S) - time.monotonic()
            if left <= 0:
                return
            await asyncio.wait({receiving}, timeout=min(left, CLOSED_S))


def _shut(sock: Any) -> None:
    """Ends a connection at once: what still waits in it for a line that is dead would keep it open."""
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection, where it has not ended, so that its other end cannot take what it has got for everything."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
