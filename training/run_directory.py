"""Where one run keeps what must outlive its processes."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training.checkpoint_files import storage_errors, write_atomically
from training.config import TrainConfig
from training.errors import TrainingError

RUN_NAME = "ray-train-fsdp-llm"


@dataclass(frozen=True)
class RunDirectory:
    """Ray's own directory of the run (storage path / name): a checkpoint elsewhere Ray would insist on copying."""

    path: Path

    @classmethod
    def of(cls, config: TrainConfig) -> "RunDirectory":
        return cls(Path(config.storage_path) / config.run_id / RUN_NAME)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def result(self) -> Path:
        """Rank 0's figures, rewritten at every checkpoint and at the end."""
        return self.path / "result.json"

    def attempt(self, number: int) -> Path:
        return self.path / "evidence" / f"attempt-{number}"

    def attempts(self) -> list[int]:
        return sorted(int(path.name.removeprefix("attempt-")) for path in self.path.glob("evidence/attempt-*"))

    def testimonies(self, number: int) -> list[dict[str, Any]]:
        """What the ranks of an attempt wrote, in the order of ranks; of those that got so far."""
        found = [json.loads(path.read_text()) for path in self.attempt(number).glob("rank-*.json")]
        return sorted(found, key=lambda testimony: int(testimony["rank"]))

    def begin_attempt(self, worker_group_s: float) -> int:
        """Claim the next attempt's number, durably: a count in memory would not survive what attempts are for.

        `worker_group_s` is the time from the driver's request to this call, so it says something of the first only.
        """
        number = max(self.attempts(), default=0) + 1
        with storage_errors(self.path):
            self._start_attempt(number, worker_group_s)
        return number

    def _start_attempt(self, number: int, worker_group_s: float) -> None:
        self.attempt(number).mkdir(parents=True)
        self.result.unlink(missing_ok=True)
        start = {
            "started_at": datetime.now(UTC).isoformat(),
            "worker_group_s": worker_group_s if number == 1 else None,
        }
        write_atomically(self.attempt(number) / "start.json", json.dumps(start))

    def attempt_start(self, number: int) -> dict[str, Any]:
        start: dict[str, Any] = json.loads((self.attempt(number) / "start.json").read_text())
        return start

    def claim_kill(self) -> bool:
        """True for the first caller of this run only."""
        try:
            (self.path / "killed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def create(self) -> None:
        """Raises TrainingError naming --storage_path where nothing can be written."""
        probe = self.path / ".writable"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.write_text("probe")
            probe.unlink()
        except OSError as error:
            raise TrainingError(f"--storage_path {self.path.parents[1]}: cannot be written: {error}") from error
