"""What a bring-up of an environment has begun and was refused, kept under .state until it is over.

It says less than the stacks' own states, and may be lost: then nothing is destroyed that this one did not begin.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from capacity.cause import Cause, Sorted
from capacity.failover import Attempt, is_open
from capacity.place import Place

# Capacity that was not there then may be there again.
_FRESH = timedelta(minutes=30)


# What was asked for, by setting: another number, type or market is another question, with another answer.
Asked = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """An attempt, its time, and what it asked for."""

    attempt: Attempt
    at: datetime
    asked: Asked


@dataclass(frozen=True, kw_only=True)
class Closed:
    """A place is not asked again before `until`."""

    why: Sorted
    until: datetime


@dataclass(kw_only=True)
class Journal:
    """`mine` are regions in the order in which they were begun, `tried` what happened in them, in its order."""

    file: Path
    mine: list[str] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)

    @property
    def attempts(self) -> list[Attempt]:
        return [one.attempt for one in self.tried]

    @classmethod
    def read(cls, folder: Path, env: str, asked: Callable[[str], Asked]) -> "Journal":
        """Without refusals that are too old to be still true, or of what is not `asked` for in their region any more;
        empty where there is none, or none to be read."""
        journal = cls(file=folder / f"up-{env}.json")
        try:
            content = json.loads(journal.file.read_text(encoding="utf-8"))
            journal.mine = [str(region) for region in content["mine"]]
            for one in content["refused"]:
                at = datetime.fromisoformat(one["at"])
                place = Place(**one["place"])
                same = one["asked"] == asked(place.region)
                if same and datetime.now(UTC) - at < _FRESH and one["sorted"]["retry"] != "stop":
                    why = Sorted(**{**one["sorted"], "cause": Cause(one["sorted"]["cause"])})
                    kept = Tried(attempt=Attempt(place=place, refused=why), at=at, asked=one["asked"])
                    journal.tried.append(kept)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return journal

    def begin(self, region: str) -> None:
        self.mine = [*(one for one in self.mine if one != region), region]
        self._write()

    def add(self, attempt: Attempt, asked: Asked) -> None:
        self.tried.append(Tried(attempt=attempt, at=datetime.now(UTC), asked=asked))
        self._write()

    def closed(self, place: Place) -> "Closed | None":
        """Why a place is passed over, and until when; None for one that is tried."""
        if is_open(place, self.attempts):
            return None
        for number, one in enumerate(self.tried, start=1):
            # Oldest first they are forgotten, until too few are left to keep it shut.
            if is_open(place, self.attempts[number:]) and one.attempt.refused is not None:
                return Closed(why=one.attempt.refused, until=one.at + _FRESH)
        return None

    def close(self, *, left: Sequence[str] = ()) -> None:
        """It is over; `left` are regions whose stacks are still to be destroyed."""
        self.mine = list(left)
        self.tried = []
        if left:
            self._write()
        else:
            self.file.unlink(missing_ok=True)

    def _write(self) -> None:
        refused = [
            {
                "place": asdict(one.attempt.place),
                "sorted": asdict(one.attempt.refused),
                "at": one.at.isoformat(),
                "asked": dict(one.asked),
            }
            for one in self.tried
            if one.attempt.refused is not None
        ]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"mine": self.mine, "refused": refused}), encoding="utf-8")
        new.replace(self.file)
