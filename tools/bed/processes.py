"""The bed's daemons: started so that they end with the bed's owner, recorded by pid and start time, ended by pid."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import psutil

from tools.bed.errors import BedError

NO_EXTRA: Mapping[str, str] = MappingProxyType({})
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class Daemons:
    """The daemons of one bed. `folder` gets a log per daemon (logs/NAME.log) and processes.json."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, float] = {}
        # A parent-death signal follows the *thread* that started the process: this one lives as long as the bed.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bed-daemons")
        (folder / "logs").mkdir(parents=True, exist_ok=True)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        on_owner_death: str = "KILL",
        environment: Mapping[str, str] = NO_EXTRA,
    ) -> None:
        """Starts `command`, which gets the signal `on_owner_death` when this process dies, however it dies."""
        inherited = {key: value for key, value in os.environ.items() if key not in _PROXIES}
        process = self._starter.submit(
            self._popen, name, ["setpriv", "--pdeathsig", on_owner_death, *command], {**inherited, **environment}
        ).result()
        self._running[name] = process
        with contextlib.suppress(psutil.NoSuchProcess):
            self._started[name] = psutil.Process(process.pid).create_time()
        self._record()

    def _popen(self, name: str, command: list[str | Path], env: dict[str, str]) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd=self._folder,
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        return self._folder / "logs" / f"{name}.log"

    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._running.items() if process.poll() is None}

    def check(self) -> None:
        """Raises BedError with the last lines of its log when a daemon has ended by itself."""
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                last = "\n".join(self.log(name).read_text(errors="replace").splitlines()[-15:])
                raise BedError(f"{name} ended with exit code {process.returncode}; {self.log(name)} ends with:\n{last}")

    def end(self, name: str, *, grace: float) -> None:
        """TERM, then KILL after `grace` seconds; `grace` 0 kills at once. No-op when it does not run."""
        process = self._running.pop(name, None)
        if process is None:
            return
        if grace and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        if process.poll() is None:
            process.kill()
        process.wait()
        self._started.pop(name, None)
        self._record()

    def close(self) -> None:
        self._starter.shutdown()

    def _record(self) -> None:
        records = {
            name: {"pid": process.pid, "started": self._started.get(name, 0.0)}
            for name, process in self._running.items()
        }
        partial = self._folder / "processes.json.partial"
        partial.write_text(json.dumps(records, indent=1))
        partial.replace(self._folder / "processes.json")


def end_recorded(folder: Path, *, grace: float = 10.0) -> list[int]:
    """Ends what processes.json in `folder` names and still runs: what a killed owner left. Returns the pids."""
    try:
        records = json.loads((folder / "processes.json").read_text())
    except (OSError, ValueError):
        return []
    found = []
    for record in records.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(record["pid"]))
            # A pid that was given to another process since has another start time.
            if abs(process.create_time() - float(record["started"])) < 0.5:
                found.append(process)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, stubborn = psutil.wait_procs(found, timeout=grace)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=grace)
    return [process.pid for process in found]
