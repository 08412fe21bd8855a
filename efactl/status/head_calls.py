"""Asking a Ray head over one tunnel, made when it is first asked; without Ray's client, whose import takes a second."""

import contextlib
import json
import threading
from typing import Any

from workload.errors import ReportedError
from workload.head import Endpoint, Head, reach

UNAUTHORIZED = (401, 403)
CLOSE_S = 1.0


class HeadCalls:
    """Threads may share it. Every call raises ReportedError where the head refuses or cannot be reached."""

    def __init__(self, head: Head, *, limit_s: float) -> None:
        self._head, self._limit_s = head, limit_s
        self._tunnel = contextlib.ExitStack()
        self._making = threading.Lock()
        self._endpoint: Endpoint | None = None

    def get(self, path: str) -> Any:
        """The JSON that the head answers."""
        import urllib3

        endpoint = self._made()
        try:
            answer = urllib3.request(
                "GET", f"{endpoint.url}{path}", headers=dict(endpoint.headers), timeout=self._limit_s, retries=False
            )
            if answer.status in UNAUTHORIZED:
                raise ReportedError(f"the Ray head at {endpoint.url} refuses this stack's token")
            if answer.status >= 400:
                raise ReportedError(f"the Ray head at {endpoint.url} answers {answer.status} to {path}")
            return json.loads(answer.data)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            # The tunnel knows better than its user what is wrong.
            raise ReportedError(endpoint.unreachable()) from error
        except ValueError:
            raise ReportedError(f"what answers at {endpoint.url}{path} is no Ray head") from None

    def close(self) -> None:
        """Waits a moment: a tunnel that is still being made is closed once it is."""
        closing = threading.Thread(target=self._close, name="head-closing", daemon=True)
        closing.start()
        closing.join(CLOSE_S)

    def _close(self) -> None:
        with self._making:
            self._tunnel.close()

    def _made(self) -> Endpoint:
        with self._making:
            if self._endpoint is None:
                self._endpoint = self._tunnel.enter_context(reach(self._head))
            return self._endpoint
