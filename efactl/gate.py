"""PURE: what the gate says of the run in a stack's state, for whoever does not have its record, and which gates an
`up` came to."""

from collections.abc import Iterable, Mapping
from typing import Any

from efactl.stack import COMPARISON_GATE_TYPE, GATE_TYPE, plain
from workload.judgement import judgement

_WANTED = ("expect", "nics", "gdr")
# What the engine says of a step that has ended.
_ENDED = {"resOutputsEvent": True, "resOpFailedEvent": False}
_JUDGING = ("create", "update", "create-replacement")


def judged_by_state(job: Mapping[str, Any], max_eval_loss: Any) -> dict[str, Any]:
    """The judgement of the job's resource, in the words of a status' last run; empty where the state does not tell.

    What is expected is in the job's inputs, which follow the settings of every `up` that comes to its gate
    (efactl/run_plan.py for one with targets); its outputs are of its own time.
    `max_eval_loss` is the setting `gateMaxEvalLoss`.
    """
    inputs, outputs = plain(job.get("inputs") or {}), plain(job.get("outputs") or {})
    asked = inputs if inputs.get("expect") else outputs
    if not asked.get("expect"):
        return {}
    wanted = {key: asked.get(key) for key in _WANTED}
    try:
        limit = float(max_eval_loss) if str(max_eval_loss or "").strip() else None
        verdict, quality = judgement({**outputs, **wanted, "max_eval_loss": limit})
    except ValueError:
        # A setting that no `up` takes: nothing is judged by it.
        return {}
    return {
        "expect": verdict.expect,
        "verdict": verdict.value,
        "verdictReasons": list(verdict.reasons),
        "qualityPassed": not quality,
    }


def outcomes(events: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Of each gate that an `up` came to, by its type, whether it passed; by the event log. An unchanged one is not
    asked."""
    found = {}
    for event in events:
        for kind, passed in _ENDED.items():
            step = (event.get(kind) or {}).get("metadata") or {}
            if step.get("type") in (GATE_TYPE, COMPARISON_GATE_TYPE) and step.get("op") in _JUDGING:
                found[step["type"]] = passed
    return found
