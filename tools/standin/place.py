"""Where a stack's stand-in keeps everything: a folder of its own under the project's .state."""

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.setup import pins
from workload.errors import ReportedError


@dataclass(frozen=True, kw_only=True)
class Place:
    """`account` is the stand-in account ($RAY_TRAIN_EFA_STANDIN), `home` a Pulumi home of its own."""

    folder: Path
    stack: str

    @classmethod
    def of(cls, stack: str, project: Path = pins.PROJECT) -> "Place":
        return cls(folder=project / ".state" / "standin" / stack, stack=stack)

    @property
    def account(self) -> Path:
        return self.folder / "account"

    @property
    def backend(self) -> Path:
        return self.folder / "backend"

    @property
    def bed(self) -> Path:
        return self.folder / "bed"

    @property
    def bed_log(self) -> Path:
        return self.folder / "bed.log"

    @property
    def bed_process(self) -> Path:
        return self.folder / "bed-process.json"

    @property
    def commands(self) -> Path:
        return self.folder / "bin"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def settings(self) -> Path:
        return self.folder / f"Pulumi.{self.stack}.yaml"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def state(self) -> Path:
        return self.backend / ".pulumi" / "stacks" / "ray-train-efa" / f"{self.stack}.json"

    def has_resources(self) -> bool:
        """Whether the stack's state has anything in it."""
        try:
            content = json.loads(self.state.read_text())
        except FileNotFoundError:
            return False
        return bool((content["checkpoint"].get("latest") or {}).get("resources"))

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """For one command at a time, which then also clears the locks that a killed CLI has left on the state.

        Raises ReportedError where another one runs.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.folder.with_name(f"{self.stack}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ReportedError(f"another command of the stand-in runs for stack {self.stack}") from None
            for left in (self.backend / ".pulumi" / "locks").rglob("*.json"):
                left.unlink()
            yield

    def make(self) -> None:
        """Readable for its owner alone: the bed's tokens are here, and a state with an empty passphrase."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.account, self.backend, self.commands, self.home, self.temporary):
            folder.mkdir(exist_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
