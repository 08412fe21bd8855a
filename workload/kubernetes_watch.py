"""What a cluster holds, kept current by watches: one list a collection, then only what changes."""

import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from workload.kubernetes_access import KubernetesError
from workload.kubernetes_api import FORBIDDEN, GONE, NOT_FOUND, UNAUTHORIZED, KubernetesApi

# A watch that lives less than a minute needs no other sign of life: a dead connection is noticed with its end.
WATCH_S, SILENCE_S = 50, 65.0
RETRY_S, LONGEST_RETRY_S = 0.5, 4.0


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The objects of one collection; `refused` says why they may not be seen or are not served, and is empty else."""

    objects: Sequence[Mapping[str, Any]] = ()
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """The API server has given no answer for `seconds`."""

    seconds: float
    error: KubernetesError


class Watching:
    """Collections of an API server, each watched from the first time it is asked for until the context ends.

    Survives expired resource versions, ended watches and a restarted API server by listing anew; `trouble()` tells.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self.api = api
        self.changed = threading.Condition()
        self.ended = threading.Event()
        self._collections: dict[tuple[str, tuple[tuple[str, str], ...]], _Collection] = {}

    def __enter__(self) -> "Watching":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.ended.set()
        for collection in self._collections.values():
            collection.hang_up()

    def listing(self, path: str, **query: str) -> Listing:
        """The collection as last seen. The first call for it waits for its list; KubernetesError if none comes."""
        key = (path, tuple(sorted(query.items())))
        if key not in self._collections:
            self._collections[key] = _Collection(self, path, query)
        collection = self._collections[key]
        with self.changed:
            self.changed.wait_for(lambda: collection.listing is not None or collection.failing is not None)
            if collection.listing is not None:
                return collection.listing
            assert collection.failing is not None
            raise collection.failing[1]

    def wait(self, seconds: float) -> bool:
        """Returns True as soon as something changes, False after `seconds`."""
        with self.changed:
            return self.changed.wait(seconds)

    def trouble(self) -> Trouble | None:
        """The longest lasting failure to get an answer; None while all is well."""
        failing = [collection.failing for collection in list(self._collections.values()) if collection.failing]
        if not failing:
            return None
        since, error = min(failing, key=lambda failure: failure[0])
        return Trouble(seconds=time.monotonic() - since, error=error)


class _Collection:
    """One path and its query, followed by a thread of its own."""

    def __init__(self, owner: Watching, path: str, query: Mapping[str, str]) -> None:
        self.listing: Listing | None = None
        self.failing: tuple[float, KubernetesError] | None = None
        self._owner = owner
        self._path = path
        self._query = dict(query)
        self._doing = f"watching {path.rpartition('/')[2]}"
        self._objects: dict[str, Mapping[str, Any]] = {}
        self._answer: Any = None
        threading.Thread(target=self._follow, daemon=True, name=self._doing).start()

    def hang_up(self) -> None:
        """Wakes the thread that reads the watch."""
        with contextlib.suppress(Exception):
            self._answer.shutdown()

    def _follow(self) -> None:
        pause = RETRY_S
        while not self._owner.ended.is_set():
            try:
                version = self._list()
                pause = RETRY_S
                while version and not self._owner.ended.is_set():
                    version = self._watch(version)
            except Exception as raised:
                # Reading a connection that another thread hangs up raises whatever it likes.
                error = raised if isinstance(raised, KubernetesError) else KubernetesError(f"{self._doing}: {raised!r}")
                if error.status in (FORBIDDEN, NOT_FOUND) and self._is_final():
                    self._set(Listing(refused=str(error)))
                    return
                if error.status == GONE or self._owner.ended.is_set():
                    continue
                self._fail(error)
                self._owner.ended.wait(pause)
                pause = min(2 * pause, LONGEST_RETRY_S)

    def _is_final(self) -> bool:
        """An API server that has just started refuses, for a moment, what it will grant: its roles are not read yet."""
        return self.listing is None and self._owner.trouble() is None

    def _list(self) -> str:
        listed = self._owner.api.get(self._path, doing=self._doing.replace("watching", "listing"), **self._query)
        self._objects = {item["metadata"]["uid"]: item for item in listed["items"]}
        self._publish()
        return str(listed["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        """Follows the changes after `version`; returns the version to go on from, empty where that needs a new list."""
        query = {**self._query, "watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        query["timeoutSeconds"] = str(WATCH_S)
        with self._owner.api.stream(self._path, doing=self._doing, silence_s=SILENCE_S, **query) as answer:
            self._answer = answer
            for line in answer:
                try:
                    event = json.loads(line)
                except ValueError:
                    # The connection was cut within a line.
                    return ""
                if event["type"] == "ERROR":
                    return ""
                found = event["object"]
                version = str(found["metadata"]["resourceVersion"])
                if event["type"] == "BOOKMARK":
                    continue
                if event["type"] == "DELETED":
                    self._objects.pop(found["metadata"]["uid"], None)
                else:
                    self._objects[found["metadata"]["uid"]] = found
                self._publish()
        return version

    def _publish(self) -> None:
        self._set(Listing(objects=tuple(self._objects.values())))

    def _set(self, listing: Listing) -> None:
        with self._owner.changed:
            self.listing, self.failing = listing, None
            self._owner.changed.notify_all()

    def _fail(self, error: KubernetesError) -> None:
        if error.status == UNAUTHORIZED:
            with contextlib.suppress(KubernetesError):
                self._owner.api.renew()
        with self._owner.changed:
            self.failing = (self.failing[0] if self.failing else time.monotonic(), error)
            self._owner.changed.notify_all()
