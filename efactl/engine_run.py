"""One `pulumi up`, followed by its events: told as it goes, and ended where its wait cannot end well."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from capacity.cause import Cause, Sorted
from capacity.causes import in_text
from capacity.launches import Trouble
from capacity.phases import Progress
from capacity.pulumi_cli import pulumi_command, pulumi_environment
from efactl.stack import FOLDER
from workload.signal_handlers import handled

# How often a line is said although nothing began or ended.
LINE_S = 30.0
_LOOK_S = 0.25
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Say = Callable[[str], None]


class Watch(Protocol):
    """Beside the run; `trouble` is why it is not worth waiting for."""

    trouble: Trouble | None

    def start(self) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Ended:
    """`errors` are the engine's; `trouble` is what the watch ended it for; `interrupted`: the user did."""

    status: int
    errors: tuple[str, ...]
    trouble: Trouble | None
    interrupted: bool
    seconds: float

    @property
    def refused(self) -> Sorted | None:
        """Why it failed: what the watch saw, else what the engine's errors say."""
        if self.trouble is not None:
            return self.trouble.sorted
        if self.status == 0:
            return None
        unknown = Sorted(cause=Cause.UNKNOWN, retry="stop", what_to_do="read what the engine said, and run it again")
        return in_text("\n".join(self.errors)) or unknown


def run_up(stack: str, options: Sequence[str], *, log: Path, watch: Watch | None, say: Say) -> Ended:
    """Runs to the end. The engine writes into `log`, a file of this user's: it goes on should this process be gone."""
    command = [pulumi_command(), "up", "--yes", "--skip-preview", "--non-interactive", "--json", *options, "-s", stack]
    log.parent.mkdir(parents=True, exist_ok=True)
    aside = log.with_suffix(".err")
    began = time.monotonic()
    progress = Progress(began=began)
    with _private(log) as events, _private(aside) as errors, _interruptions(say) as interruptions:
        process = subprocess.Popen(
            command,
            cwd=FOLDER,
            env=pulumi_environment(),
            stdin=subprocess.DEVNULL,
            stdout=events,
            stderr=errors,
            # A terminal's Ctrl-C comes to this process alone, which passes it on: twice would lose what is under way.
            start_new_session=True,
        )
        interruptions.pass_on_to(process)
        with log.open(encoding="utf-8") as lines:
            trouble = _follow(process, lines, progress, watch, say)
    if process.returncode and not progress.errors:
        progress.errors.append(aside.read_text(encoding="utf-8").strip()[-1500:])
    return Ended(
        status=process.returncode,
        errors=tuple(dict.fromkeys(progress.errors)),
        trouble=trouble,
        interrupted=interruptions.came and process.returncode != 0,
        seconds=time.monotonic() - began,
    )


def _follow(
    process: "subprocess.Popen[bytes]", lines: TextIO, progress: Progress, watch: Watch | None, say: Say
) -> Trouble | None:
    trouble, said, rest = None, time.monotonic(), ""
    if watch is not None:
        watch.start()
    try:
        while True:
            over = process.poll() is not None
            # A line is whole once its end is there.
            *whole, rest = (rest + lines.read()).split("\n")
            now = time.monotonic()
            for line in (told for one in whole for told in _told(one, progress, now)):
                say(line)
                said = now
            if over:
                return trouble
            if trouble is None and watch is not None and (trouble := watch.trouble) is not None:
                say(f"waiting for nodes is hopeless, so it ends now: {trouble.text}")
                process.send_signal(signal.SIGINT)
            if now - said >= LINE_S:
                said = now
                say(progress.line(now))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_LOOK_S)
    finally:
        if watch is not None:
            watch.stop()


def _told(line: str, progress: Progress, now: float) -> list[str]:
    try:
        event = json.loads(line)
    except ValueError:
        return []
    return progress.read(event, now) if isinstance(event, dict) else []


class _Interruptions:
    """The engine ends in order after one; a second one ends it at once."""

    def __init__(self, say: Say) -> None:
        self.came = False
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None

    def pass_on_to(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        if self.came:
            process.send_signal(signal.SIGINT)

    def note(self, _number: int, _frame: object) -> None:
        first, self.came = not self.came, True
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
        # A terminal that was closed takes no more words.
        with contextlib.suppress(OSError):
            if first:
                self._say("interrupted: what is under way ends in order; run the same command again to go on")


@contextlib.contextmanager
def _interruptions(say: Say) -> Iterator[_Interruptions]:
    noted = _Interruptions(say)
    with handled(_PASSED_ON, noted.note):
        yield noted


def _private(path: Path) -> TextIO:
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
