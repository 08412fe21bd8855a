"""PURE: what a preview says, from the engine's event log.

The event log and not `pulumi preview --json`: that one has neither the stack's outputs nor the policy pack's findings.
Each line is an `apitype.EngineEvent` of Pulumi's SDK.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from efactl.event_log import in_lines

STACK_TYPE = "pulumi:pulumi:Stack"
_UNTOUCHED = ("same", "read", "refresh")
_REPLACING = ("replace", "create-replacement", "delete-replaced")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One resource. `operation` is create, update, replace, delete, import or same; `changed` are names of properties,
    never their values. `before` and `inputs` are its inputs, empty where there are none; secrets are masked.
    """

    urn: str
    type: str
    operation: str
    changed: tuple[str, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict, repr=False)
    inputs: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """`NodeGroup ray-gpu-group`."""
        kind, _, name = self.urn.rpartition("::")
        return f"{kind.rpartition(':')[2]} {name}"


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A rule of the policy pack that a resource breaks."""

    rule: str
    message: str
    mandatory: bool


@dataclass(frozen=True, kw_only=True)
class Preview:
    """`kept` has the rules that nothing breaks; `errors` is empty for a preview that came to its end."""

    steps: tuple[Step, ...]
    outputs: Mapping[str, Any]
    kept: frozenset[str]
    broken: tuple[Broken, ...]
    errors: tuple[str, ...]

    def of_type(self, token: str) -> Step | None:
        return next((step for step in self.steps if step.type == token), None)

    @property
    def changes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.operation != "same")


def read(lines: Iterable[str]) -> Preview:
    """Lines that are no events, of a log that was cut say, are passed over; without an end that counts as an error."""
    steps: dict[str, Step] = {}
    outputs: Mapping[str, Any] = {}
    kept: set[str] = set()
    broken: list[Broken] = []
    errors: list[str] = []
    ended = False
    for event in in_lines(lines):
        if before := event.get("resourcePreEvent"):
            step = _step(before["metadata"])
            if step is not None:
                steps[step.urn] = _joined(steps.get(step.urn), step)
        elif (after := event.get("resOutputsEvent")) and after["metadata"].get("type") == STACK_TYPE:
            outputs = (after["metadata"].get("new") or {}).get("outputs") or outputs
        elif said := event.get("policyEvent"):
            broken.append(_broken(said))
        elif summary := event.get("policyAnalyzeSummaryEvent") or event.get("policyAnalyzeStackSummaryEvent"):
            kept |= set(summary.get("passed") or ())
        elif (said := event.get("diagnosticEvent")) and said.get("severity") == "error":
            errors.append(without_colours(said.get("message", "")).strip())
        elif "summaryEvent" in event:
            ended = True
    if not ended and not errors:
        errors.append("the preview did not come to its end")
    return Preview(
        steps=tuple(steps.values()),
        outputs=outputs,
        kept=frozenset(kept - {one.rule for one in broken}),
        broken=tuple(dict.fromkeys(broken)),
        errors=tuple(dict.fromkeys(filter(None, errors))),
    )


def without_colours(text: str) -> str:
    """Neither the engine's colour marks (<{%reset%}>) nor a terminal's."""
    return re.sub(r"<\{%.*?%\}>|\x1b\[[0-9;]*m", "", text)


def _step(metadata: Mapping[str, Any]) -> Step | None:
    operation = str(metadata["op"])
    if operation in _REPLACING:
        operation = "replace"
    elif operation in ("read", "refresh", "read-replacement", "discard"):
        return None
    old, new = metadata.get("old") or {}, metadata.get("new") or {}
    detailed = metadata.get("detailedDiff") or {}
    names = dict.fromkeys(metadata.get("keys") or ())
    names |= dict.fromkeys(metadata.get("diffs") or ()) or dict.fromkeys(_top(path) for path in detailed)
    return Step(
        urn=metadata["urn"],
        type=metadata["type"],
        operation=operation,
        changed=() if operation in ("create", "delete", "same") else tuple(sorted(names)),
        before=old.get("inputs") or {},
        inputs=new.get("inputs") or {},
    )


def _top(path: str) -> str:
    """The property that a path of a detailed diff begins with."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _joined(seen: Step | None, step: Step) -> Step:
    """A replacement comes as several steps of one resource."""
    if seen is None or seen.operation == "same":
        return step
    return Step(
        urn=step.urn,
        type=step.type,
        operation="replace" if "replace" in (seen.operation, step.operation) else step.operation,
        changed=tuple(sorted({*seen.changed, *step.changed})),
        before=step.before or seen.before,
        inputs=step.inputs or seen.inputs,
    )


def _broken(said: Mapping[str, Any]) -> Broken:
    message = " ".join(without_colours(str(said.get("message", ""))).split())
    return Broken(
        rule=str(said.get("policyName", "")),
        message=message,
        mandatory=said.get("enforcementLevel") != "advisory",
    )
