"""One AWS account's state in a folder, shared by every plugin process that is started for it."""

import contextlib
import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# What AWS itself makes, which no program asked for: never listed as left behind.
INTERNAL = "internal:"
_TABLES = """
create table if not exists entries (token text, id text, region text, content text, primary key (token, id));
create table if not exists numbers (name text primary key, value real);
"""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One thing in the account. `outputs` is what AWS would say of it; `hidden` what only AWS knows."""

    token: str
    id: str
    region: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    hidden: dict[str, Any] = field(default_factory=dict)


class Records:
    """The account within one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, token: str, id: str) -> Entry | None:
        query = "select token, id, region, content from entries where token = ? and id = ?"
        row = self._connection.execute(query, (token, id)).fetchone()
        return _entry(row) if row else None

    def all(self, token: str, region: str = "") -> list[Entry]:
        """Every entry of that type, oldest first; of every region where none is named."""
        query = "select token, id, region, content from entries where token = ? order by rowid"
        entries = [_entry(row) for row in self._connection.execute(query, (token,))]
        return [entry for entry in entries if region in ("", entry.region)]

    def everything(self) -> list[Entry]:
        query = "select token, id, region, content from entries order by rowid"
        return [_entry(row) for row in self._connection.execute(query)]

    def put(self, entry: Entry) -> None:
        content = json.dumps({"inputs": entry.inputs, "outputs": entry.outputs, "hidden": entry.hidden})
        statement = (
            "insert into entries values (?, ?, ?, ?) on conflict (token, id) do update set content = excluded.content"
        )
        self._connection.execute(statement, (entry.token, entry.id, entry.region, content))

    def set(self, entry: Entry, **outputs: Any) -> Entry:
        """Stores the entry with these outputs changed."""
        changed = replace(entry, outputs={**entry.outputs, **outputs})
        self.put(changed)
        return changed

    def remove(self, token: str, id: str) -> None:
        self._connection.execute("delete from entries where token = ? and id = ?", (token, id))

    def number(self, name: str) -> float:
        row = self._connection.execute("select value from numbers where name = ?", (name,)).fetchone()
        return float(row[0]) if row else 0.0

    def add(self, name: str, amount: float = 1) -> float:
        """Adds to a number that starts at 0, and returns the sum."""
        statement = "insert into numbers values (?, ?) on conflict (name) do update set value = value + excluded.value"
        self._connection.execute(statement, (name, amount))
        return self.number(name)


class Account:
    """The store in `folder`. Every change is a transaction that locks out all others, across processes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "account.sqlite"
        # Threads queue here: sqlite's own waiting sleeps between looks.
        self._turn = threading.Lock()
        with contextlib.closing(self._connect()) as connection:
            connection.executescript(_TABLES)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=60, isolation_level=None)
        # A power cut may take the stand-in with it.
        connection.execute("pragma synchronous = off")
        return connection

    @contextlib.contextmanager
    def open(self) -> Iterator[Records]:
        """Nothing that was changed within stays changed if an exception leaves it."""
        with self._turn, contextlib.closing(self._connect()) as connection:
            connection.execute("begin immediate")
            try:
                yield Records(connection)
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")

    def remaining(self) -> list[Entry]:
        """What a destroy has left behind, in every region."""
        with self.open() as records:
            return [entry for entry in records.everything() if not entry.token.startswith(INTERNAL)]


def new_id(prefix: str) -> str:
    """Like EC2's: `vpc-` and 17 hexadecimal digits."""
    return f"{prefix}-0{secrets.token_hex(8)}"


def _entry(row: tuple[str, str, str, str]) -> Entry:
    token, id, region, content = row
    return Entry(token=token, id=id, region=region, **json.loads(content))
