"""PURE: whether the model a run produced is good enough, and what a gate says when something is not."""

import math
from collections.abc import Sequence

from workload.verdict import Verdict

SHOWN = 16


def quality_failures(eval_loss_after: float | None, max_eval_loss: float | None) -> list[str]:
    """Why the model is not good enough; empty when it is. A transport can be proven by a model that learnt nothing."""
    if max_eval_loss is None:
        return []
    if eval_loss_after is None or not math.isfinite(eval_loss_after):
        return [f"the run reported no finite held-out loss; gateMaxEvalLoss asks for at most {max_eval_loss:g}"]
    if eval_loss_after > max_eval_loss:
        return [f"held-out loss {eval_loss_after:.4f} is above gateMaxEvalLoss {max_eval_loss:g}"]
    return []


def gate_message(verdict: Verdict, quality: Sequence[str], submission_id: str) -> str | None:
    """The error that fails the `up`, or None when both gates pass."""
    lines = []
    if not verdict.passes:
        lines.append(f"transport {verdict.value}: expected {verdict.expect}, run {submission_id}")
        lines += [f"  {reason}" for reason in verdict.reasons[:SHOWN]]
        if len(verdict.reasons) > SHOWN:
            lines.append(f"  ... and {len(verdict.reasons) - SHOWN} more in the run record")
    if quality:
        lines.append(f"quality gate failed, run {submission_id}")
        lines += [f"  {reason}" for reason in quality]
    if not lines:
        return None
    lines.append("The run stays on record and is not repeated; change `expect`, a gate setting or the job to move on.")
    return "\n".join(lines)
