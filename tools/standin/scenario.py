"""What goes wrong in a stand-in account, and what it offers: scenario.json in its folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tools.standin.tokens import kind_of
from workload.errors import BadInputError

OPERATIONS = ("create", "update", "delete", "read", "use", "invoke")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One refusal. It meets the calls number `skip` + 1 to `skip` + `times` that match (0: every later one).

    `type` is a type's last word (NodeGroup), an invoke's name (getCallerIdentity), or * for any. `match` is a part of
    the URN. `use` is the moment in which something else refers to a thing of that type: AWS has not caught up with its
    creation yet. `silence` modelled seconds pass before AWS says it. `partial` leaves the thing behind in that status.
    """

    type: str
    operation: str
    code: str
    message: str = ""
    times: int = 1
    skip: int = 0
    match: str = ""
    silence: float = 0
    partial: str = ""

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise BadInputError(f"scenario: operation '{self.operation}' of a fault is none of {', '.join(OPERATIONS)}")

    def meets(self, *, token: str, operation: str, urn: str) -> bool:
        return self.type in ("*", token, kind_of(token)) and self.operation == operation and self.match in urn


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Every setting has a default: an account where nothing goes wrong and no time passes.

    `scale` is real seconds per modelled second (0: no waiting). `offerings` is, by region and instance type, the zones
    that have it; `capacity` how many instances a zone still has; `quotas` vCPUs by quota code. `linger` is how many
    modelled seconds network interfaces outlive what used them. After `expire_after` calls the credentials expire.
    `gone` are types (last words) whose things were deleted outside Pulumi: they are away from the next operation on.
    `ahead` is how many seconds the account's date is later than it would be. With `late_logs` a cluster's last lines
    come when its log group has been deleted, and make it anew.
    """

    scale: float = 0
    account: str = "123456789012"
    principal: str = "user/standin"
    offerings: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    quotas: Mapping[str, float] = field(default_factory=dict)
    linger: float = 0
    expire_after: int = 0
    gone: tuple[str, ...] = ()
    ahead: float = 0
    late_logs: bool = False
    faults: tuple[Fault, ...] = ()

    @property
    def caller(self) -> str:
        """The ARN of who asks."""
        return f"arn:aws:iam::{self.account}:{self.principal}"


def read(folder: Path) -> Scenario:
    """The scenario of that folder, or one in which all goes well. Raises BadInputError for what it cannot mean."""
    path = folder / "scenario.json"
    return parse(json.loads(path.read_text())) if path.exists() else Scenario()


def parse(content: Mapping[str, Any]) -> Scenario:
    given = dict(content)
    _only(given, Scenario, "the scenario")
    for fault in given.get("faults", []):
        _only(fault, Fault, "a fault")
    faults = tuple(Fault(**fault) for fault in given.pop("faults", []))
    return Scenario(**{**given, "gone": tuple(given.get("gone", [])), "faults": faults})


def _only(given: Mapping[str, Any], cls: type, what: str) -> None:
    known = [item.name for item in fields(cls)]
    for key in given:
        if key not in known:
            raise BadInputError(f"scenario.json: {what} has no '{key}'; it has {', '.join(known)}")
