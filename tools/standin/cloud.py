"""What the provider does with AWS: create, update, delete and read, against an account in a folder."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.standin import calls, durations, faults, planning, references, scenario, schedules, schema, tokens
from tools.standin.account import Account, Entry, Records
from tools.standin.catalogue import KINDS
from tools.standin.clock import CancelledError, Clock, Moment
from tools.standin.errors import AwsError, PartialError
from tools.standin.kinds import Call, Kind
from tools.standin.outcome import pass_time, refusal, refused_late, with_status
from workload.errors import ReportedError

_ROLLS = ("launchTemplate.version", "version", "releaseVersion")


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The provider's."""

    region: str = ""
    default_tags: Mapping[str, str] = field(default_factory=dict)


class Cloud:
    """One provider on an account. `folder` holds scenario.json, the account, calls.jsonl."""

    def __init__(self, folder: Path, configuration: Configuration, cancelled: threading.Event) -> None:
        self.folder, self.configuration = folder, configuration
        self.account = Account(folder)
        self._cancelled = cancelled

    @property
    def scenario(self) -> scenario.Scenario:
        # Read anew each time: what goes wrong may change while the provider runs.
        return scenario.read(self.folder)

    def clock(self) -> Clock:
        scenario = self.scenario
        return Clock(self.account, scenario.scale, self._cancelled, scenario.ahead)

    def create(self, token: str, urn: str, inputs: Mapping[str, Any], timeout: float = 0) -> Entry:
        """Raises AwsError, or PartialError where something was made that is not right. `timeout` 0: the provider's."""
        kind = KINDS[token]
        with self._operation(token, "create", urn) as (done, clock):
            refused = self._meets(clock, token, "create", urn)
            inputs = self._named(kind, inputs)
            faults.lagging(kind, inputs, self.scenario, self.account, clock, urn)
            moment = clock.moment()
            with self.account.open() as records:
                call = self._call(records, moment, token, urn, inputs)
                references.refuse_dangling(kind, call)
                refused = refused or refusal(kind, call)
                call.id = kind.new_id(call)
                if kind.exists and records.get(token, call.id):
                    raise AwsError(kind.exists, f"{tokens.kind_of(token)} '{call.id}' already exists")
                entry = self._made(kind, call)
                entry = refused_late(entry, refused, moment.now) if refused else entry
                records.put(entry)
            done["id"] = entry.id
            timeout = timeout or durations.timeout(token)
            if refused:
                pass_time(clock, entry, refused.slow, timeout)
                raise PartialError(entry, refused.code, refused.message)
            gateway = not entry.outputs.get("networkInterfaceIds")
            pass_time(clock, entry, durations.seconds(token, "create", gateway=gateway), timeout)
            return self._settled(kind, clock, urn, entry)

    def update(self, token: str, urn: str, id: str, inputs: Mapping[str, Any]) -> Entry:
        """Raises AwsError; what an earlier step did stays done, and one that failed late leaves what the kind says."""
        kind = KINDS[token]
        with self._operation(token, "update", urn, id) as (_, clock):
            self._meets(clock, token, "update", urn)
            inputs = self._named(kind, inputs)
            faults.lagging(kind, inputs, self.scenario, self.account, clock, urn)
            moment = clock.moment()
            with self.account.open() as records:
                entry = records.get(token, id)
                if entry is None:
                    raise AwsError("ResourceNotFoundException", f"{tokens.kind_of(token)} '{id}' does not exist")
                steps = kind.steps(self._call(records, moment, token, urn, inputs, entry))
            for step in steps:
                entry = self._step(kind, clock, urn, entry, step)
            return entry

    def _step(self, kind: Kind, clock: Clock, urn: str, old: Entry, inputs: Mapping[str, Any]) -> Entry:
        moment = clock.moment()
        with self.account.open() as records:
            call = self._call(records, moment, kind.token, urn, inputs, old)
            references.refuse_dangling(kind, call)
            refused = refusal(kind, call)
            entry = (kind.failed(call) or old) if refused else self._changed(kind, call)
            records.put(entry)
        if refused:
            if entry != old:
                kind.joined(self.folder, entry)
            clock.wait(refused.slow)
            raise AwsError(refused.code, refused.message)
        try:
            seconds = durations.seconds(kind.token, "update", resize=not call.changed(*_ROLLS))
            pass_time(clock, entry, seconds, float("inf"))
            return self._settled(kind, clock, urn, entry)
        except PartialError as failed:
            with self.account.open() as records:
                records.put(old)
            raise AwsError(failed.code, failed.message) from None

    def delete(self, token: str, urn: str, id: str) -> None:
        """What is not there is deleted."""
        kind = KINDS[token]

        with self._operation(token, "delete", urn, id) as (_, clock):

            def keep(records: Records, entry: Entry) -> None:
                kind.keep(self._call(records, moment, token, urn, entry.inputs, entry))

            moment = clock.moment()
            self._meets(clock, token, "delete", urn)
            if not references.wait_until_unused(self.account, clock, kind, id, keep):
                return
            clock.wait(durations.seconds(token, "delete"))
            moment = clock.moment()
            with self.account.open() as records:
                old = records.get(token, id)
                if old is None:
                    return
                records.remove(token, id)
                kind.deleted(self._call(records, moment, token, urn, old.inputs, old))
            kind.parted(self.folder, old)

    def read(self, token: str, urn: str, id: str) -> Entry | None:
        with self._operation(token, "read", urn, id) as (_, clock):
            self._meets(clock, token, "read", urn)
            moment = clock.moment()
            with self.account.open() as records:
                entry = records.get(token, id)
                if entry and KINDS[token].ended(entry, moment.date):
                    # Nobody asks for it again, and it costs nothing.
                    records.remove(token, id)
                    return None
                return entry

    @contextmanager
    def _operation(self, token: str, operation: str, urn: str, id: str = "") -> Iterator[tuple[dict[str, str], Clock]]:
        """Writes the call down, however it ends."""
        clock = self.clock()
        for group in schedules.fire(self.account, clock.moment().date):
            KINDS[group.token].joined(self.folder, group)
        start, done, error = clock.now(), {"id": id}, ""
        try:
            yield done, clock
        except (AwsError, PartialError) as failed:
            error = failed.code
            raise
        except CancelledError:
            error = "Cancelled"
            raise
        finally:
            times = {"at": round(start, 3), "seconds": round(clock.spent, 3)}
            calls.write(self.folder, type=token, operation=operation, urn=urn, **done, **times, error=error)

    def _meets(self, clock: Clock, token: str, operation: str, urn: str) -> AwsError | None:
        """Raises what the scenario has for this call; returns it where the thing is made all the same."""
        try:
            faults.before(self.account, self.scenario, clock, token=token, operation=operation, urn=urn)
        except AwsError as refused:
            if refused.partial and operation == "create":
                return refused
            raise
        return None

    def _named(self, kind: Kind, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """A name from its beginning, as the provider completes it when it creates."""
        prefix = planning.prefix_of(kind)
        if not kind.named or kind.named in inputs or prefix not in inputs:
            return planning.plain(inputs)
        with self.account.open() as records:
            return {**planning.plain(inputs), kind.named: f"{inputs[prefix]}{int(records.add('names')):026d}"}

    def _call(
        self,
        records: Records,
        moment: Moment,
        token: str,
        urn: str,
        inputs: Mapping[str, Any],
        old: Entry | None = None,
    ) -> Call:
        return Call(
            token=token,
            urn=urn,
            inputs=inputs,
            region=inputs.get("region") or (old.region if old else self.configuration.region),
            records=records,
            scenario=self.scenario,
            folder=self.folder,
            moment=moment,
            id=old.id if old else "",
            old=old,
            hidden=dict(old.hidden) if old else {},
        )

    def said(self, token: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs that come from the provider's own settings: the region, and all tags."""
        shape = schema.resource(token)
        assert shape is not None, "checked before"
        region = {"region": inputs.get("region") or self.configuration.region}
        there = region if "region" in shape.outputs and KINDS[token].regional else {}
        return {**there, **planning.tags_all(shape, inputs, self.configuration.default_tags)}

    def _made(self, kind: Kind, call: Call) -> Entry:
        outputs = {**kind.defaults, **call.inputs, **kind.outputs(call), **self.said(call.token, call.inputs)}
        return Entry(
            token=call.token,
            id=call.id,
            region=call.region,
            inputs=dict(call.inputs),
            outputs=outputs,
            hidden=call.hidden,
        )

    def _changed(self, kind: Kind, call: Call) -> Entry:
        assert call.old is not None, "an update has something to update"
        kept = planning.kept(kind, call.old.outputs, call.old.inputs, call.inputs)
        outputs = {**kept, **call.inputs, **kind.updated(call), **self.said(call.token, call.inputs)}
        return replace(call.old, inputs=dict(call.inputs), outputs=outputs, hidden=call.hidden)

    def _settled(self, kind: Kind, clock: Clock, urn: str, entry: Entry) -> Entry:
        """The entry as it is when its time has passed."""
        moment = clock.moment()
        try:
            with self.account.open() as records:
                kind.settle(self._call(records, moment, entry.token, urn, entry.inputs, entry))
        except AwsError as failed:
            entry = with_status(entry, failed.partial)
            with self.account.open() as records:
                records.put(entry)
            clock.wait(failed.slow)
            raise PartialError(entry, failed.code, failed.message) from None
        try:
            kind.joined(self.folder, entry)
        except ReportedError as failed:
            raise PartialError(entry, "NodeCreationFailure", str(failed)) from None
        return entry
