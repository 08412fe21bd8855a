"""PURE: who may go through the dashboard's local proxy, and what of a request and an answer passes on.

The proxy gives whoever comes through the rights of Ray's token: other users of this machine must not come, nor a page
elsewhere in the browser (by name rebinding or by a forged request).
"""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# RFC 9110, section 7.6.1, and what each side's HTTP library sets by itself.
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer")
) | {"transfer-encoding", "upgrade"}
# Cookies of a browser on loopback are those of every program there; Ray's own would be the token.
_NOT_UP = frozenset(("host", "cookie", "authorization", "x-ray-authorization", "content-length", "expect"))
_NOT_DOWN = frozenset(("set-cookie", "date", "server"))


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One session's: `key` opens it, `port` is where it listens on loopback."""

    key: str = field(repr=False)
    port: int

    @property
    def cookie(self) -> str:
        # Browsers keep one jar for all ports of a host.
        return f"efactl-ui-{self.port}"

    @property
    def hosts(self) -> tuple[str, str]:
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    def enters(self, method: str, path: str, host: str) -> bool:
        """Whether a request opens the session: it gets the cookie and goes to the dashboard."""
        return method == "GET" and host in self.hosts and _same(path, f"/{self.key}")

    def refusal(self, headers: Mapping[str, str], cookie: str) -> str:
        """Why a request may not pass; empty where it may. `headers` finds names in any case."""
        host = headers.get("Host", "")
        if host not in self.hosts:
            return "this address answers under its own name only"
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return "this page may not use the dashboard"
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return "this page may not use the dashboard"
        if not _same(cookie, self.key):
            return "open the address that `efactl ui` printed"
        return ""


def _same(told: str, key: str) -> bool:
    # A request's bytes that are no text come as surrogates, which plain UTF-8 has no place for.
    return hmac.compare_digest(told.encode(errors="surrogatepass"), key.encode())


def passed_up(headers: Iterable[tuple[str, str]], authorising: Mapping[str, str]) -> list[tuple[str, str]]:
    """A request's headers as Ray gets them."""
    kept = _without(headers, _NOT_UP | {name.lower() for name in authorising})
    return [*kept, *authorising.items()]


def passed_down(headers: Iterable[tuple[str, str]], upstream: str) -> list[tuple[str, str]]:
    """An answer's headers as the browser gets them; a redirection to `upstream` stays here."""
    kept = _without(headers, _NOT_DOWN)
    kept = [(name, value.removeprefix(upstream) if name.lower() == "location" else value) for name, value in kept]
    return [*kept, ("Content-Security-Policy", "frame-ancestors 'self'")]


def _without(headers: Iterable[tuple[str, str]], names: frozenset[str]) -> list[tuple[str, str]]:
    headers = list(headers)
    connection = [value for name, value in headers if name.lower() == "connection"]
    dropped = _HOP_BY_HOP | names | {word.strip().lower() for value in connection for word in value.split(",")}
    return [(name, value) for name, value in headers if name.lower() not in dropped]
