"""What a bring-up of an environment has begun and was refused, kept under .state until it is over.

It says less than the stacks' own states, and may be lost: then nothing is destroyed that this one did not begin.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from capacity.cause import Cause, Sorted
from capacity.failover import Attempt
from capacity.place import Place

# Capacity that was not there then may be there again.
_FRESH = timedelta(minutes=30)


@dataclass(kw_only=True)
class Journal:
    """`mine` are regions in the order in which they were begun, `attempts` what happened in them."""

    file: Path
    mine: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path, env: str) -> "Journal":
        """Without refusals that are too old to be still true, and empty where there is none, or none to be read."""
        journal = cls(file=folder / f"up-{env}.json")
        try:
            kept = json.loads(journal.file.read_text(encoding="utf-8"))
            journal.mine = [str(region) for region in kept["mine"]]
            for one in kept["refused"]:
                at = datetime.fromisoformat(one["at"])
                if datetime.now(UTC) - at < _FRESH and one["sorted"]["retry"] != "stop":
                    why = Sorted(**{**one["sorted"], "cause": Cause(one["sorted"]["cause"])})
                    journal.attempts.append(Attempt(place=Place(**one["place"]), refused=why))
                    journal.times.append(at)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return journal

    def begin(self, region: str) -> None:
        self.mine = [*(one for one in self.mine if one != region), region]
        self._write()

    def add(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        self.times.append(datetime.now(UTC))
        self._write()

    def close(self, *, left: Sequence[str] = ()) -> None:
        """It is over; `left` are regions whose stacks are still to be destroyed."""
        self.mine = list(left)
        self.attempts, self.times = [], []
        if left:
            self._write()
        else:
            self.file.unlink(missing_ok=True)

    def _write(self) -> None:
        refused = [
            {"place": asdict(one.place), "sorted": asdict(one.refused), "at": at.isoformat()}
            for one, at in zip(self.attempts, self.times, strict=True)
            if one.refused is not None
        ]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"mine": self.mine, "refused": refused}), encoding="utf-8")
        new.replace(self.file)
