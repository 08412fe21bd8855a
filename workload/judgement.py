"""PURE: how a gate judges a run: its transport by what was expected, its model by the limit on its loss."""

from collections.abc import Mapping
from typing import Any

from workload.quality import quality_failures
from workload.transport import judge
from workload.verdict import Verdict, wanted_of


def judgement(props: Mapping[str, Any]) -> tuple[Verdict, list[str]]:
    """The verdict, and why the model is not good enough; `props` are the inputs of `workload.run_gate.RunGate`."""
    quality = quality_failures(props.get("eval_loss_after"), props.get("max_eval_loss"))
    return judge(props.get("transport"), wanted_of(props)), quality
