"""Where one run keeps what must outlive its processes."""

import re
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from training.errors import TrainingError
from training.job_config import JobConfig
from training.measure import RESULT, STEPS
from training.storage import Folder, open_folder, storage_errors

_EVIDENCE, _ATTEMPT, _START, _KILLED = "evidence", "attempt-", "start.json", "killed"


@dataclass(frozen=True)
class RunDirectory:
    """Ray's own directory of the run (storage path / name): a checkpoint elsewhere Ray would insist on copying."""

    storage: Folder
    run_id: str
    name: str

    @classmethod
    def of(cls, config: JobConfig) -> "RunDirectory":
        return cls(open_folder(config.storage_path), config.run_id, config.run_name)

    @property
    def parent(self) -> Folder:
        return self.storage / self.run_id

    @property
    def folder(self) -> Folder:
        return self.parent / self.name

    @property
    def checkpoints(self) -> Folder:
        return self.folder / "checkpoints"

    def result(self) -> dict[str, Any] | None:
        """Rank 0's figures but those of the steps, written at the end of a run; None before that."""
        try:
            figures: dict[str, Any] = self.folder.read_json(RESULT)
        except FileNotFoundError:
            return None
        return figures

    def has_finished(self) -> bool:
        return self.folder.has(RESULT)

    def steps(self, number: int) -> dict[str, Any]:
        """Rank 0's figures of an attempt's steps, written when it has done the last; {} before that."""
        try:
            figures: dict[str, Any] = self.attempt(number).read_json(STEPS)
        except FileNotFoundError:
            return {}
        return figures

    def attempt(self, number: int) -> Folder:
        return self.folder / _EVIDENCE / f"{_ATTEMPT}{number}"

    def attempts(self) -> list[int]:
        names = (self.folder / _EVIDENCE).names()
        return sorted(int(name.removeprefix(_ATTEMPT)) for name in names if name.startswith(_ATTEMPT))

    def testimonies(self, number: int) -> list[dict[str, Any]]:
        """What the ranks of an attempt wrote, in the order of ranks; of those that got so far."""
        attempt = self.attempt(number)
        found = [attempt.read_json(name) for name in attempt.names() if re.fullmatch(r"rank-\d+\.json", name)]
        return sorted(found, key=lambda testimony: int(testimony["rank"]))

    def hosts(self) -> dict[int, str]:
        """Where the ranks of the last attempt ran, as far as they got to say so and storage can be read."""
        try:
            told = self.testimonies(max(self.attempts(), default=0))
            return {int(testimony["rank"]): str(testimony["hostname"]) for testimony in told}
        except (OSError, ValueError):
            return {}

    def begin_attempt(self, worker_group_s: float) -> int:
        """Claim the next attempt's number, durably: a count in memory would not survive what attempts are for.

        `worker_group_s` is the time from the driver's request to this call, so it says something of the first only.
        """
        with storage_errors(self.folder):
            if not self.folder.exists():
                raise self._not_shared("the driver")
            number = max(self.attempts(), default=0) + 1
            (self.folder / _EVIDENCE).add(f"{_ATTEMPT}{number}")
            self.folder.delete(RESULT)
            start = {
                "started_at": datetime.now(UTC).isoformat(),
                "worker_group_s": worker_group_s if number == 1 else None,
            }
            self.attempt(number).write_json(_START, start)
        return number

    def check_shared(self, number: int) -> None:
        """For every rank, once the attempt has begun. Raises TrainingError naming a node that sees nothing of it."""
        with storage_errors(self.folder, "cannot be read"):
            if not self.attempt(number).exists():
                raise self._not_shared("rank 0")

    def _not_shared(self, writer: str) -> TrainingError:
        return TrainingError(
            f"--storage_path {self.storage}: node {socket.gethostname()} does not see what {writer} wrote there: "
            "name storage that all nodes share"
        )

    def attempt_start(self, number: int) -> dict[str, Any]:
        start: dict[str, Any] = self.attempt(number).read_json(_START)
        return start

    def claim_kill(self) -> bool:
        """True for the first caller of this run only."""
        with storage_errors(self.folder):
            return self.folder.claim(_KILLED)

    def create(self) -> None:
        """Raises TrainingError naming --storage_path where nothing can be written."""
        try:
            self.folder.make()
            self.folder.probe()
        except OSError as error:
            raise TrainingError(f"--storage_path {self.storage}: cannot be written: {error}") from error
