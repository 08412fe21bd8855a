"""What of a job's log a person watching `pulumi up` gets to see."""

import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType

STEP = "[train] step "
PHASES = ("[train] ", "[bandwidth] ")
ERROR = "[error] "

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RAY_PREFIX = re.compile(r"^\((?P<actor>[\w.:]+) pid=(?P<pid>\d+)(?:, ip=(?P<ip>[0-9a-fA-F.:]+))?\) ?")
_ADDRESS = re.compile(r"\b\d+(?:\.\d+){3}\b")
_DISK = re.compile(
    r"^\(raylet(?:, ip=(?P<ip>[\w.:]+))?\).*: (?P<what>/\S+ is over \d+% full, available space: [\d.]+ \wB)"
)


def plain(line: str) -> str:
    """The line without colour codes and without the `(Actor pid=..., ip=...)` that Ray puts before it."""
    return _RAY_PREFIX.sub("", _COLOUR.sub("", line.rstrip("\r\n")))


def _unmarked(text: str) -> str:
    return text.partition("] ")[2]


class Progress:
    """Shows phases and errors at once, step lines at most every `every_s` seconds, and remembers how a log ended."""

    def __init__(
        self,
        show: Callable[[str], None],
        *,
        pods: Mapping[str, str] = MappingProxyType({}),
        every_s: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        """`pods`: names by address, for what Ray tells of a node by its address."""
        self._show = show
        self._pods = pods
        self._every_s = every_s
        self._clock = clock
        self._shown_at = float("-inf")
        self._held_step: str | None = None
        self._tail: deque[str] = deque(maxlen=12)
        self._last_step: tuple[str, float] | None = None
        self._told_step: tuple[str, float] | None = None
        self.errors: list[str] = []
        self._full_disks: dict[str, str] = {}

    def line(self, line: str) -> None:
        text = plain(line)
        if not text.strip():
            return
        if text.startswith(ERROR):
            message = self._with_pods(text.removeprefix(ERROR))
            if message not in self.errors:
                self.errors.append(message)
        elif full := _DISK.match(text):
            self._full_disk(full["ip"] or "of the head", full["what"])
        elif text.startswith(STEP):
            self._step(_unmarked(text))
        elif text.startswith(PHASES):
            self._release()
            self._show(_unmarked(text))
        else:
            self._tail.append(text)

    def _with_pods(self, message: str) -> str:
        """Addresses with the names of their pods."""
        return _ADDRESS.sub(
            lambda found: f"{found[0]} ({self._pods[found[0]]})" if found[0] in self._pods else found[0], message
        )

    def _full_disk(self, address: str, what: str) -> None:
        """Ray repeats it every ten seconds, and does not say it in the error that follows from it."""
        node = self._pods.get(address, f"node {address}")
        self._full_disks.setdefault(node, f"{node}: {what}" + (" (rayTmpSize sets its size)" if self._pods else ""))

    def finish(self) -> None:
        """At the end of the log: the last step is shown, whenever it came."""
        self._release()

    def last_useful_lines(self) -> list[str]:
        """The job's own error lines where it printed any, else the log's end; then the nodes whose disk is full."""
        return [*(self.errors[-5:] or self._tail), *self._full_disks.values()]

    def silent_for(self, seconds: float) -> str:
        """As `last_step`, once, when no step has ended for so long; else empty."""
        step = self._last_step
        if step is None or step is self._told_step or self._clock() - step[1] < seconds:
            return ""
        self._told_step = step
        return self.last_step()

    def last_step(self) -> str:
        """Where training stood, and since when; empty where no step has ended."""
        if self._last_step is None:
            return ""
        text, came_at = self._last_step
        return f"the last step that was seen, {self._clock() - came_at:.0f} s ago: {text.removeprefix('step ')}"

    def _step(self, text: str) -> None:
        self._last_step = (text, self._clock())
        if self._clock() - self._shown_at >= self._every_s:
            self._shown_at = self._clock()
            self._held_step = None
            self._show(text)
        else:
            self._held_step = text

    def _release(self) -> None:
        """Before a phase line, the last step that was held back: the reader sees where training stood."""
        if self._held_step is not None:
            self._show(self._held_step)
            self._held_step = None
