"""The API server's JSON as it is: dicts in, dicts out, without the typed models that refuse what they do not know."""

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from workload.kubernetes_access import ANSWER_S, CONNECT_S, KubernetesAccess, explained

HTTP_ERRORS = 400
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, GONE = 401, 403, 404, 410
# One that has just started ("storage is (re)initializing"), or is busy; it has done nothing of what was asked.
TOO_MANY_REQUESTS, UNAVAILABLE = 429, 503
LATER_S = 10.0


class KubernetesApi:
    """One user's calls to one API server; `calls` counts them. Threads may share it.

    Every method asks again for LATER_S where the server says when to, and raises KubernetesError, which names what was
    being done.
    """

    def __init__(self, access: KubernetesAccess) -> None:
        self._access = access
        self._client = access.client()
        self._counting = threading.Lock()
        self.calls = 0

    @property
    def server(self) -> str:
        return str(self._client.configuration.host)

    @property
    def identity(self) -> str:
        """A name for the cluster that stays when a token, a user, or the address of a tunnel to it changes.

        Its certificate authority's fingerprint, where the kubeconfig has one.
        """
        certificates = self._client.configuration.ssl_ca_cert
        if certificates:
            return f"ca-{hashlib.sha256(Path(certificates).read_bytes()).hexdigest()[:16]}"
        return self.server

    def renew(self) -> None:
        """Reads the credentials anew: a token may have been replaced since."""
        self._client = self._access.client()

    def get(self, path: str, *, doing: str, **query: str) -> dict[str, Any]:
        with explained(doing), self._answer("GET", path, query, None, ANSWER_S) as answer:
            found: dict[str, Any] = json.loads(answer.data)
            return found

    def create(self, path: str, body: Mapping[str, Any], *, doing: str) -> dict[str, Any]:
        with explained(doing), self._answer("POST", path, {}, body, ANSWER_S) as answer:
            created: dict[str, Any] = json.loads(answer.data)
            return created

    def text(self, path: str, *, doing: str, **query: str) -> str:
        with explained(doing), self._answer("GET", path, query, None, ANSWER_S) as answer:
            return bytes(answer.data).decode(errors="replace")

    @contextlib.contextmanager
    def stream(self, path: str, *, doing: str, silence_s: float, **query: str) -> Iterator[Any]:
        """Yields the open response; reading it raises when nothing arrives for `silence_s`."""
        with explained(doing), self._answer("GET", path, query, None, silence_s) as answer:
            yield answer

    @contextlib.contextmanager
    def _answer(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None, silence_s: float
    ) -> Iterator[Any]:
        import urllib3
        from kubernetes.client import ApiException

        client = self._client
        _, url, headers, _, _ = client.param_serialize(
            method, path, query_params=list(query.items()), header_params={}, auth_settings=["BearerToken"]
        )
        headers |= {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})

        def ask() -> Any:
            with self._counting:
                self.calls += 1
            return client.rest_client.pool_manager.request(
                method,
                url,
                headers=headers,
                body=None if body is None else json.dumps(body).encode(),
                timeout=urllib3.Timeout(connect=CONNECT_S, read=silence_s),
                retries=False,
                preload_content=False,
            )

        answer = asked_again(ask)
        whole = False
        try:
            if answer.status >= HTTP_ERRORS:
                refusal = ApiException(status=answer.status, reason=answer.reason)
                refusal.body = bytes(answer.data)
                raise refusal
            yield answer
            whole = answer.isclosed()
        finally:
            # A stream left half-way must not go back to the pool: its rest would be the next call's answer.
            answer.release_conn() if whole else answer.close()


def asked_again(ask: Callable[[], Any]) -> Any:
    """The answer of urllib3's that stands, or the last within LATER_S."""
    deadline = time.monotonic() + LATER_S
    while True:
        answer = ask()
        pause = later(answer.status, answer.headers)
        if pause is None or time.monotonic() + pause > deadline:
            return answer
        answer.drain_conn()
        answer.release_conn()
        time.sleep(pause)


def later(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds after which the API server wants to be asked again, as client-go has it; None where its answer stands."""
    said = headers.get("Retry-After", "")
    if status not in (TOO_MANY_REQUESTS, UNAVAILABLE) or not said.isdecimal():
        return None
    return max(0.1, float(said))
