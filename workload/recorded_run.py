"""PURE: a run's record as its readers see it, whatever became of it: damaged, foreign, of an older or newer version."""

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workload.counting_attempt import counting_attempt
from workload.job_spec import RUN_NAME

SCHEMA_NAME, KNOWN_VERSION = "ray-train-efa/run-record/", 1
_VERSION = re.compile(re.escape(SCHEMA_NAME) + r"([1-9]\d{0,5})")
# What a record must have to be one; the rest may be missing.
_OBJECTS = ("image", "code", "cluster", "verdict", "quality", "throughput", "evaluation")
_LONGEST_TEXT = 200


def at(value: Any, *keys: str) -> Any:
    """What lies under the keys, one below the other; None where there is no such thing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def number(value: Any) -> float | None:
    """Finite, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        finite = float(value)
    except OverflowError:
        return None
    return finite if math.isfinite(finite) else None


def text(value: Any) -> str | None:
    """In one line that no terminal takes for anything but text; None where it is no text or empty."""
    if not isinstance(value, str) or not value:
        return None
    return "".join(one if one.isprintable() else "?" for one in value)


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Those of a list that are objects."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """`place` is the folder it lies in. Where `problem` is not empty it says why there is no record to go by.

    `record` is what could be read all the same. `notes` are what a reader should know of it. `seen` is when the run
    last wrote in its folder, for those of which nothing tells when they began.
    """

    id: str
    place: str
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str = ""
    notes: tuple[str, ...] = ()
    seen: datetime.datetime | None = None

    @property
    def short_id(self) -> str:
        """Without the name that all runs have in common."""
        return self.id.removeprefix(f"{RUN_NAME}-")

    @property
    def started(self) -> datetime.datetime | None:
        """In UTC."""
        return moment(at(self.record, "startedAt")) or self.seen

    @property
    def ended(self) -> datetime.datetime | None:
        return moment(at(self.record, "endedAt"))

    @property
    def stack(self) -> str | None:
        """None where the record does not tell."""
        told = text(at(self.record, "stack"))
        local = at(self.record, "cluster", "kind") == "local"
        return told or (text(at(self.record, "cluster", "name")) if local else None)

    @property
    def platform(self) -> str | None:
        return text(at(self.record, "settings", "platform")) or text(at(self.record, "cluster", "kind"))

    @property
    def expect(self) -> str | None:
        return None if self.problem else text(at(self.record, "verdict", "expect"))

    @property
    def verdict(self) -> str | None:
        return None if self.problem else text(at(self.record, "verdict", "value"))

    @property
    def reasons(self) -> list[str]:
        return texts(at(self.record, "verdict", "reasons"))

    @property
    def quality(self) -> bool | None:
        """None where no gate has judged."""
        passed = at(self.record, "quality", "passed")
        return passed if isinstance(passed, bool) and not self.problem else None

    @property
    def good(self) -> bool:
        """Whether the transport is proven and the model good enough."""
        return self.verdict == "proven" and self.quality is True

    @property
    def tokens_per_second(self) -> float | None:
        return number(at(self.record, "throughput", "tokensPerSecond"))

    @property
    def image(self) -> str | None:
        return text(at(self.record, "image", "reference"))

    @property
    def image_digests(self) -> list[str]:
        """Several where pods ran several."""
        told = text(at(self.record, "image", "digest")) or ""
        return [one for one in told.split(", ") if one]

    @property
    def ranks(self) -> list[Mapping[str, Any]]:
        """What those of the attempt that counts testified."""
        return mappings(counting_attempt(mappings(at(self.record, "attempts"))).get("ranks"))

    @property
    def nodes(self) -> list[Mapping[str, Any]]:
        return mappings(at(self.record, "cluster", "nodes"))

    @property
    def node_types(self) -> Counter[str]:
        """How many nodes of each instance type; "" where no type is on record."""
        return Counter(text(node.get("instanceType")) or "" for node in self.nodes)

    @property
    def devices(self) -> Counter[str]:
        """How many ranks on each kind of device: a GPU's name, or cpu."""
        return Counter(_device(rank) for rank in self.ranks)

    def as_json(self) -> dict[str, Any]:
        """The facts of a list's row."""
        return {
            "id": self.id,
            "place": self.place,
            "problem": self.problem or None,
            "notes": list(self.notes),
            "startedAt": self.started.isoformat() if self.started else None,
            "stack": self.stack,
            "platform": self.platform,
            "expect": self.expect,
            "verdict": self.verdict,
            "qualityPassed": self.quality,
            "evalLossAfter": number(at(self.record, "evaluation", "lossAfter")),
            "tokensPerSecond": self.tokens_per_second,
            "nodes": [
                {"instanceType": name or None, "count": count} for name, count in sorted(self.node_types.items())
            ],
            "devices": [{"device": name, "ranks": count} for name, count in sorted(self.devices.items())],
            "image": {"reference": self.image, "digests": self.image_digests},
        }


def texts(value: Any) -> list[str]:
    return [one for item in value if (one := text(item))] if isinstance(value, list) else []


def moment(value: Any) -> datetime.datetime | None:
    """A record's time in UTC; None where it is none."""
    if not isinstance(value, str):
        return None
    try:
        told = datetime.datetime.fromisoformat(value)
        return (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


def recorded(content: str, *, folder: str, place: str) -> RecordedRun:
    """A run of a record's text, lying in the folder of that name; never raises."""
    try:
        # Neither is JSON, or a number to go by: what is shown of a record is.
        record = json.loads(content, parse_constant=lambda _: None, parse_float=lambda told: number(float(told)))
    except (ValueError, RecursionError) as error:
        return RecordedRun(id=folder, place=place, problem=f"damaged: record.json is no JSON ({shortened(str(error))})")
    problem = _problem(record)
    own = text(at(record, "submissionId"))
    notes = []
    if not problem and (version := version_of(record) or 0) > KNOWN_VERSION:
        notes.append(f"record of version {version}; this program knows {KNOWN_VERSION}, and shows what it finds")
    if not problem and own != folder:
        notes.append(f"lies in a folder of another name, {shortened(folder)}")
    return RecordedRun(
        id=own if own and not problem else folder,
        place=place,
        record=record if isinstance(record, Mapping) else {},
        problem=problem,
        notes=tuple(notes),
    )


def version_of(record: Any) -> int | None:
    """The version of a training run's record; None of anything else."""
    found = _VERSION.fullmatch(str(at(record, "schema")))
    return int(found[1]) if found else None


def shortened(value: str) -> str:
    line = text(value) or ""
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}..."


def _problem(record: Any) -> str:
    if not isinstance(record, Mapping):
        return "foreign: record.json holds no record"
    if version_of(record) is None:
        told = text(record.get("schema"))
        return f"no training run: {shortened(told)}" if told else "foreign: record.json names no schema"
    if text(record.get("submissionId")) is None:
        return "damaged: the record has no submissionId"
    missing: Sequence[str] = [name for name in _OBJECTS if not isinstance(record.get(name), Mapping)]
    return f"damaged: the record lacks {', '.join(missing)}" if missing else ""


def _device(rank: Mapping[str, Any]) -> str:
    device = text(rank.get("device")) or "unknown"
    kind = device.partition(":")[0]
    return kind if kind == "cpu" else text(rank.get("device_name")) or kind
