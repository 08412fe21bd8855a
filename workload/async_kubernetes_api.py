"""Calls of a Kubernetes API server in an event loop: a WebSocket, and a call, that ends at once when told to."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp

from workload.kubernetes_access import KubernetesAccess, KubernetesError, tls
from workload.kubernetes_api import LATER_S, later

T = TypeVar("T")

CONNECT_S, ANSWER_S = 5.0, 15.0


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """A kubeconfig as read at one moment: where the API server is, and how this user shows who it is."""

    url: str
    options: Mapping[str, Any] = field(repr=False)
    anonymous: bool

    @classmethod
    def read(cls, access: KubernetesAccess) -> "Credentials":
        """May run a credential plugin. Raises KubernetesError where the kubeconfig cannot be used."""
        client = access.client()
        try:
            configuration = client.configuration
            bearer = (configuration.auth_settings().get("BearerToken") or {}).get("value")
            options: dict[str, Any] = {"headers": {"Authorization": bearer} if bearer else {}}
            if configuration.host.startswith("https:"):
                options["ssl"] = tls(configuration)
                options["server_hostname"] = configuration.tls_server_name or None
            if configuration.proxy and not _bypassed(configuration):
                options["proxy"] = configuration.proxy
                options["proxy_headers"] = configuration.proxy_headers
            anonymous = not bearer and not configuration.cert_file
            return cls(url=configuration.host.rstrip("/"), options=options, anonymous=anonymous)
        except (OSError, ValueError) as error:
            raise KubernetesError(f"the certificates of {access.named} cannot be used: {error}") from None
        finally:
            client.close()


class _LaterError(KubernetesError):
    """A refusal of the moment: the server wants to be asked again after `pause` seconds."""

    pause = 0.0


class AsyncKubernetesApi:
    """One user's calls to one API server, within an event loop. Raises KubernetesError, with status 0 for no answer.

    Asks again for LATER_S where the server says when to. Credentials are read anew once where it does not accept them.
    """

    def __init__(self, access: KubernetesAccess, credentials: Credentials) -> None:
        self._access, self._credentials = access, credentials
        self._renewing = asyncio.Lock()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        )

    async def close(self) -> None:
        await self._session.close()

    async def get(self, path: str, query: Mapping[str, str], *, doing: str) -> Any:
        """The JSON that `path` answers."""

        async def call(credentials: Credentials) -> Any:
            async with self._session.get(credentials.url + path, params=query, **credentials.options) as answer:
                if answer.status != 200:
                    raise _refused(answer.status, answer.headers, doing, credentials)
                return await answer.json(content_type=None)

        return await self._authorised(call)

    async def websocket(
        self, path: str, query: Mapping[str, str], *, protocol: str, doing: str
    ) -> aiohttp.ClientWebSocketResponse:
        """Open, with pings and pongs left to the caller."""

        async def call(credentials: Credentials) -> aiohttp.ClientWebSocketResponse:
            try:
                opened: aiohttp.ClientWebSocketResponse = await self._session.ws_connect(
                    credentials.url + path,
                    params=query,
                    protocols=(protocol,),
                    autoping=False,
                    max_msg_size=0,
                    timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
                    **credentials.options,
                )
            except aiohttp.WSServerHandshakeError as error:
                raise _refused(error.status, error.headers or {}, doing, credentials) from None
            else:
                return opened

        return await self._authorised(call)

    async def _authorised(self, call: Callable[[Credentials], Awaitable[T]]) -> T:
        tried = self._credentials
        try:
            try:
                return await _answered(call, tried)
            except KubernetesError as error:
                if error.status != 401:
                    raise
            return await _answered(call, await self._renewed(tried))
        except TimeoutError:
            raise KubernetesError(f"the API server {tried.url} does not answer") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise KubernetesError(f"the API server {tried.url} cannot be reached: {reason[:300]}") from None

    async def _renewed(self, tried: Credentials) -> Credentials:
        async with self._renewing:
            if self._credentials is tried:
                loop = asyncio.get_running_loop()
                self._credentials = await loop.run_in_executor(None, Credentials.read, self._access)
            return self._credentials


async def _answered(call: Callable[[Credentials], Awaitable[T]], credentials: Credentials) -> T:
    deadline = time.monotonic() + LATER_S
    while True:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await call(credentials)
        except _LaterError as error:
            if time.monotonic() + error.pause > deadline:
                raise
            pause = error.pause
        await asyncio.sleep(pause)


def _refused(status: int, headers: Mapping[str, str], doing: str, credentials: Credentials) -> KubernetesError:
    what = {
        401: "401: the API server does not accept these credentials (expired?); renew them",
        403: f"403: not permitted to {doing}; docs/rbac has the rights that are needed",
        404: f"404: not found, to {doing}",
    }.get(status, f"the API server answered {status} to {doing}")
    if credentials.anonymous and status in (401, 403):
        what += " (no credentials were sent: does the kubeconfig's credential plugin work?)"
    pause = later(status, headers)
    if pause is None:
        return KubernetesError(what, status)
    busy = _LaterError(what, status)
    busy.pause = pause
    return busy


def _bypassed(configuration: Any) -> bool:
    from requests.utils import should_bypass_proxies

    return bool(should_bypass_proxies(configuration.host, configuration.no_proxy or ""))
