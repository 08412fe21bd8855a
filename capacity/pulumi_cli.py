"""The Pulumi CLI, asked about the stacks of a project folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capacity import file_backend
from workload.errors import ReportedError
from workload.signal_handlers import handled


def found_pulumi() -> str | None:
    """The CLI that set-up put beside this interpreter, else the one on PATH."""
    beside = Path(sys.executable).with_name("pulumi")
    return str(beside) if beside.exists() else shutil.which("pulumi")


def pulumi_command() -> str:
    """The same. Raises ReportedError where there is none."""
    found = found_pulumi()
    if found is None:
        raise ReportedError("no pulumi here: `make setup` brings it")
    return found


def pulumi_environment() -> dict[str, str]:
    """This process's, for a run of the CLI."""
    return {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}


def _raises_interrupts() -> bool:
    """Whether Ctrl-C would be raised here: in another thread it is not, nor where somebody else answers it."""
    main = threading.current_thread() is threading.main_thread()
    return main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


class PulumiCli:
    """Runs `pulumi_command()` in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = pulumi_command()

    def run(self, *arguments: str) -> str:
        """Its standard output. Raises ReportedError with what it said on failure. No argument may be a secret."""
        done = self._done(*arguments)
        if done.returncode != 0:
            raise ReportedError(f"pulumi {' '.join(arguments)}: {done.stderr.strip()[-800:]}")
        return done.stdout

    def resources(self, stack: str) -> list[Mapping[str, Any]] | None:
        """What the stack's state holds, secrets encrypted; None where the backend has no such stack."""
        backend = file_backend.of_stack(self._folder, stack)
        done = file_backend.read(lambda: self._done("stack", "export", "--stack", stack), backend)
        if done.returncode != 0:
            if "no stack named" in done.stderr:
                return None
            raise ReportedError(f"pulumi stack export --stack {stack}: {done.stderr.strip()[-800:]}")
        return (json.loads(done.stdout).get("deployment") or {}).get("resources") or []

    def _done(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Ctrl-C is passed on once, and raised when pulumi has ended: killed, it would forget what is under way."""
        process: subprocess.Popen[str] | None = None
        interrupted = owed = False

        def pass_on(_number: int, _frame: object) -> None:
            nonlocal interrupted, owed
            if interrupted:
                raise KeyboardInterrupt
            interrupted = True
            if process is None:
                owed = True
            else:
                process.send_signal(signal.SIGINT)

        # From before it runs: a KeyboardInterrupt while it is started would leave it to itself.
        with handled([signal.SIGINT] if _raises_interrupts() else [], pass_on):
            process = subprocess.Popen(
                [self._command, *arguments, "--non-interactive"],
                cwd=self._folder,
                env=pulumi_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            if owed:
                process.send_signal(signal.SIGINT)
            out, errors = process.communicate()
        if interrupted:
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)
