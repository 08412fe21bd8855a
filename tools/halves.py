"""`make test`'s tests as two runs of pytest side by side. Those that start Ray or the Pulumi engine wait for other
processes most of their time; all the rest fits beside them.

The other run's output comes once the first has ended. The exit status is the first of the two that is not 0.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tools.setup import pins
from workload.signal_handlers import handled

SELECTED = "not full and not cluster"
# Each with a cache of its own: both write theirs at their end.
HALVES = (
    ("those that start Ray or the Pulumi engine", "engine or local", ".pytest_cache/started"),
    ("all others", "not engine and not local", ".pytest_cache/others"),
)
_LOOK_S = 0.2


def main(arguments: Sequence[str]) -> int:
    """`arguments` go to both runs. Interrupts, TERM and HUP go to each run, and their ends are waited for."""
    (first_name, first, first_cache), (other_name, other, other_cache) = HALVES
    running: list[subprocess.Popen[bytes]] = []
    came: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        came.append(number)
        for one in running:
            _tell(one, number)

    def start(half: str, cache: str, log: IO[bytes] | None) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "pytest", "-m", f"({half}) and {SELECTED}", "-o", f"cache_dir={cache}"]
        out = None if log is None else log.fileno()
        # Outside of the terminal's group: its interrupt comes to this process, which passes it on.
        begun = subprocess.Popen([*command, *arguments], cwd=pins.PROJECT, stdout=out, stderr=out, process_group=0)
        running.append(begun)
        for number in came[:1]:  # before there was this run
            _tell(begun, number)
        return begun

    with tempfile.NamedTemporaryFile() as log, handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), pass_on):
        print(f"two runs side by side: {first_name}, told here; {other_name}, told after them", flush=True)
        beside, here = start(other, other_cache, log), start(first, first_cache, None)
        codes = [here.wait()]
        print(f"\n{other_name}:", flush=True)
        codes.append(_told(beside, Path(log.name)))
    failed = next((code for code in codes if code != 0), 0)
    return failed if failed >= 0 else 128 - failed


def _tell(run: "subprocess.Popen[bytes]", number: int) -> None:
    """To all that it started in its group, as a terminal does it."""
    if run.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, number)


def _told(process: "subprocess.Popen[bytes]", log: Path) -> int:
    """Prints what it has written, and what it still writes, until it ends; returns its exit status."""
    with log.open("rb") as lines:
        while True:
            over = process.poll()
            while text := lines.read(65536):
                sys.stdout.buffer.write(text)
                sys.stdout.flush()
            if over is not None:
                return over
            time.sleep(_LOOK_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
