"""PURE: what reviewers are told of one stack, as plain JSON values: names, counts and prices, no values of properties.

The engine masks secrets; what else a property holds (addresses, account numbers, variables) is not a reviewer's need.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from tools.pull_request import run_due
from tools.pull_request.cost_change import cost_change
from tools.pull_request.events import Preview, Step
from workload.job_spec import digest_of

# What no reader gains from: the engine's own providers and the markers of what is in the state.
_INTERNAL = "pulumi:providers:"


def summary(
    stack: str,
    head: Preview,
    base: Preview | None,
    *,
    standin: bool,
    instead: str = "",
    clean: Callable[[str], str] = str,
) -> dict[str, Any]:
    """`standin`: both previews are of a stack that does not exist yet, so the two programs are held against each other;
    otherwise against the stack as it is. `base` None: the stack is new. `instead`: why it is a preview of stand-ins and
    not of the stack. `clean` takes secrets out of texts.
    """
    failed = bool([one for one in head.errors if not _policy_alone(one, head)])
    lacking = clean(base.errors[0]) if base is not None and base.errors else ""
    compared = None if lacking else base
    due = run_due.between(head, compared) if standin else run_due.against_state(head, compared)
    changes = between(head, compared) if standin and compared is not None else changes_of(head)
    if lacking and standin:
        due, changes = run_due.RunDue(due=None, reasons=()), []
    if failed:
        due = run_due.RunDue(due=None, reasons=("the preview failed",))
    cost = cost_change(None if compared is None else compared.outputs, head.outputs)
    lost = " (before: not known)" if lacking and cost.after is not None else ""
    return {
        "stack": stack,
        "standin": standin,
        "instead": clean(instead),
        "new": base is None,
        "base_error": lacking,
        "failed": failed,
        "errors": [clean(one) for one in head.errors] if failed else [],
        "counts": dict(sorted(Counter(change["operation"] for change in changes).items())),
        "changes": changes,
        "cost": asdict(cost) | {"text": cost.text() + lost},
        "policy": {
            "kept": len(head.kept),
            "broken": [
                {"rule": one.rule, "message": clean(one.message), "mandatory": one.mandatory} for one in head.broken
            ],
        },
        "run": {"due": due.due, "reasons": [clean(one) for one in due.reasons]},
    }


def passed(told: Mapping[str, Any]) -> bool:
    """Whether a summary lets the pull request pass: it came to its end, and no mandatory rule is broken."""
    return not told["failed"] and not any(one["mandatory"] for one in told["policy"]["broken"])


def changes_of(preview: Preview) -> list[dict[str, Any]]:
    """What an `up` would do to the stack."""
    return [_told(step, step.operation, step.changed) for step in preview.changes if _shown(step)]


def between(head: Preview, base: Preview) -> list[dict[str, Any]]:
    """What tells two programs' resources apart: of a stack that has both in turn, what the second would do."""
    before = {step.urn: step for step in base.steps if _shown(step)}
    after = {step.urn: step for step in head.steps if _shown(step)}
    told = [_told(step, "create", ()) for urn, step in after.items() if urn not in before]
    told += [_told(step, "delete", ()) for urn, step in before.items() if urn not in after]
    for urn, step in after.items():
        old = before.get(urn)
        if old is not None and (names := _differing(old.inputs, step.inputs)):
            told.append(_told(step, "change", names))
    return told


def _shown(step: Step) -> bool:
    return not step.type.startswith(_INTERNAL)


def _told(step: Step, operation: str, changed: tuple[str, ...]) -> dict[str, Any]:
    return {"operation": operation, "resource": step.name, "properties": list(changed)}


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    names = sorted({*before, *now})
    return tuple(name for name in names if digest_of(before.get(name)) != digest_of(now.get(name)))


def _policy_alone(error: str, preview: Preview) -> bool:
    """The engine ends a preview that a mandatory rule refuses with this, and with nothing else."""
    return error == "preview failed" and any(one.mandatory for one in preview.broken)
