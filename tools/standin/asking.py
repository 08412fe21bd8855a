"""One question to AWS, and how its filters work."""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.standin.account import Entry, Records
from tools.standin.errors import AwsError
from tools.standin.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Asking:
    """`records` is the account within the question's transaction."""

    arguments: Mapping[str, Any]
    region: str
    records: Records
    scenario: Scenario
    folder: Path

    def filters(self) -> dict[str, list[str]]:
        return {item["name"]: item["values"] for item in self.arguments.get("filters", [])}

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.scenario.account}:{resource}"


def matching(things: Sequence[Any], filters: Mapping[str, list[str]], facts: Callable[[Any], Mapping[str, Any]]) -> Any:
    """The things whose `facts` (EC2's filter names and their values) fit every filter; * and ? as EC2 has them."""
    return [thing for thing in things if all(_fits(facts(thing), name, values) for name, values in filters.items())]


def _fits(facts: Mapping[str, Any], name: str, values: Sequence[str]) -> bool:
    if name not in facts:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    value = facts[name]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return any(fnmatch.fnmatchcase(text, str(pattern)) for pattern in values)


def tag_facts(entry: Entry) -> dict[str, Any]:
    return {f"tag:{key}": value for key, value in entry.outputs.get("tagsAll", {}).items()}


def described(entry: Entry, *without: str) -> dict[str, Any]:
    """What a resource's data source says of it: its outputs, those left out that only the resource has."""
    outputs = {name: value for name, value in entry.outputs.items() if name not in ("tagsAll", *without)}
    return {**outputs, "id": entry.id, "tags": entry.outputs["tagsAll"]}


def with_tags(entries: Sequence[Entry], tags: Mapping[str, str]) -> list[Entry]:
    return [entry for entry in entries if tags.items() <= entry.outputs.get("tagsAll", {}).items()]


def only_one(entries: Sequence[Entry], what: str) -> Entry:
    """As the provider's data sources have it: exactly one must match."""
    if not entries:
        raise AwsError("NotFound", f"no matching {what} found", own=True)
    if len(entries) > 1:
        raise AwsError(
            "TooManyResults", f"multiple {what}s matched; use additional constraints to reduce matches to one", own=True
        )
    return entries[0]
