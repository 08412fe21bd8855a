"""What a stand-in knows of one resource type beyond its schema."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tools.standin.account import Entry, Records
from tools.standin.clock import Moment
from tools.standin.scenario import Scenario
from tools.standin.wire import pick


@dataclass(kw_only=True)
class Call:
    """One create, update or delete, within a transaction. `inputs` are the new ones, `old` what is there."""

    token: str
    urn: str
    inputs: Mapping[str, Any]
    region: str
    records: Records
    scenario: Scenario
    folder: Path
    moment: Moment
    id: str = ""
    old: Entry | None = None
    hidden: dict[str, Any] = field(default_factory=dict)

    @property
    def account(self) -> str:
        return self.scenario.account

    def arn(self, service: str, resource: str, *, region: bool = True) -> str:
        return f"arn:aws:{service}:{self.region if region else ''}:{self.account}:{resource}"

    def entry(self, token: str, path: str) -> Entry | None:
        """The entry whose id stands at `path` of the inputs."""
        ids = pick(self.inputs, path)
        return self.records.get(token, ids[0]) if ids else None

    def changed(self, *paths: str) -> bool:
        """Whether an update brings another value at one of these paths."""
        return self.old is not None and any(pick(self.old.inputs, path) != pick(self.inputs, path) for path in paths)


@dataclass(frozen=True, kw_only=True)
class Refers:
    """`path` of the inputs names a thing of type `token` by its id, or by one of its outputs.

    Missing: refused with `missing`. While it refers, deleting the other one is refused with `blocks` (empty: it isn't).
    `patient` pairs are those where the provider waits for AWS to catch up with the other's creation.
    """

    path: str
    token: str
    missing: str
    by: str = "id"
    blocks: str = ""
    patient: bool = False


def nothing(call: Call) -> dict[str, Any]:
    return {}


def allowed(call: Call) -> None:
    return None


def unseen(folder: Path, entry: Entry) -> None:
    return None


def at_once(call: Call) -> list[Mapping[str, Any]]:
    return [call.inputs]


def unchanged(call: Call) -> Entry | None:
    return call.old


def stays(entry: Entry, date: datetime) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One type. Every output of the SDK that is no input is AWS's to decide and comes from `outputs`.

    `computed` are inputs that AWS fills in where they are left out, `defaults` those with a fixed value then;
    `within` names, by input, parts of it that AWS adds; `changing` are outputs that an update changes. A change at or
    below one of the paths in `fixed` (list positions left out) replaces, and so does taking out an input in `lasting`.
    `named` is the input that the provider makes from the resource's name. `exists` is the code for an id that is there
    already; empty: it is overwritten.
    `refuse` is asked before anything is done, `settle` when the operation's time has passed, `keep` before a deletion.
    An update goes through `steps`: the inputs as AWS has them after each, which may be others than the program's.
    `failed` is what a step leaves that failed late, `ended` says whether a thing is there no longer although nobody
    deleted it.
    `joined` and `parted` tell the test bed, outside the transaction, what came or changed, and what went.
    """

    token: str
    service: str
    new_id: Callable[[Call], str]
    outputs: Callable[[Call], dict[str, Any]] = nothing
    updated: Callable[[Call], dict[str, Any]] = nothing
    refuse: Callable[[Call], None] = allowed
    settle: Callable[[Call], None] = allowed
    keep: Callable[[Call], None] = allowed
    deleted: Callable[[Call], None] = allowed
    steps: Callable[[Call], list[Mapping[str, Any]]] = at_once
    failed: Callable[[Call], Entry | None] = unchanged
    ended: Callable[[Entry, datetime], bool] = stays
    joined: Callable[[Path, Entry], None] = unseen
    parted: Callable[[Path, Entry], None] = unseen
    computed: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()
    within: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    lasting: tuple[str, ...] = ()
    named: str = ""
    exists: str = "ResourceInUseException"
    refers: tuple[Refers, ...] = ()
    regional: bool = True
