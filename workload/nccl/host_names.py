"""PURE: what the host of a process is called, where records may begin within its name."""

# The name stands behind a piece that may be its beginning, or the end of another line; at its record's start, where its
# beginning may be lost; behind a mark or a time.
BEHIND_A_PIECE, AT_THE_START, BEHIND_A_BRACKET = 0, 1, 2
_MOST = 20_000


class HostNames:
    """By Ray's prefix, which is that of one process: of two names of which one is the end of the other, one is kept."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, int]] = {}

    def may_change(self, key: bytes) -> bool:
        """Whether the same name said again would be surer."""
        return self._known.get(key, ("", AT_THE_START))[1] == BEHIND_A_PIECE

    def take(self, key: bytes, host: str, sure: int) -> tuple[str, str | None]:
        """The name to go by, and the one that it takes the place of."""
        known, was = self._known.get(key, (host, sure))
        replaced = None
        if known == host:
            sure = max(sure, was)
        elif known.endswith(host) or host.endswith(known):
            if sure > was or (sure == was and _better(host, known, sure)):
                replaced = known
            else:
                host, sure = known, was
        if key in self._known or len(self._known) < _MOST:
            self._known[key] = (host, sure)
        return host, replaced


def _better(host: str, known: str, sure: int) -> bool:
    """Behind a bracket none is cut, but the longer has another line's end before it. Behind a piece any may be cut. At
    the start it may be either."""
    if sure == BEHIND_A_BRACKET:
        return len(host) < len(known)
    return sure == BEHIND_A_PIECE and len(host) > len(known)
