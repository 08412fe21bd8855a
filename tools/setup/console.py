"""What set-up prints, and running a long command so that one sees it work."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

HEARTBEAT_SECONDS = 15.0


class SetupError(Exception):
    """Set-up cannot go on; the message says what is wrong and what to do."""


def say(topic: str, message: str) -> None:
    print(f"set-up: {topic:<8} {message}", flush=True)


def elapsed(since: float) -> str:
    seconds = round(time.monotonic() - since)
    return f"{seconds // 60} min {seconds % 60:02d} s" if seconds >= 60 else f"{seconds} s"


def answer(command: Sequence[str | Path], seconds: float = 20) -> str | None:
    """What a quick command prints, or None if it does not start, fails or hangs."""
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=environment, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def run_visibly(
    topic: str,
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    progress: Callable[[str], str] = lambda _: "",
) -> None:
    """Runs a command to its end, saying every 15 seconds how long it has run; `progress` words its output so far.

    Its output goes to a file, of which a failure shows the last lines. Whatever ends set-up ends the command too.
    """
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process: subprocess.Popen[bytes] | None = None
        try:
            # An interrupt while it is started would leave it to itself.
            with _held((signal.SIGINT, signal.SIGTERM)):
                process = subprocess.Popen(
                    command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            while True:
                try:
                    code = process.wait(HEARTBEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    log.seek(0)
                    say(topic, f"  {elapsed(began)} {progress(log.read())}".rstrip())
        except BaseException:
            if process is not None:
                _end(process)
            raise
        if code != 0:
            log.seek(0)
            last = "\n".join(f"    {line}" for line in log.read().splitlines()[-20:])
            raise SetupError(
                f"`{' '.join(map(str, command))}` failed with exit code {code} after {elapsed(began)}:\n{last}"
            )


@contextlib.contextmanager
def _held(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """Signals that come meanwhile come at the end, but for those that this process ignores."""
    came: list[int] = []
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in heeded}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
    for one in dict.fromkeys(came):
        signal.raise_signal(one)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
            return
