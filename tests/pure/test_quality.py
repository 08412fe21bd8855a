"""Quality is judged apart from transport, and a gate says everything at once."""

import pytest

from workload.quality import gate_message, quality_failures
from workload.verdict import Verdict

PROVEN = Verdict(expect="gloo", value="proven", reasons=("4 of 4 ranks",))
REFUTED = Verdict(expect="efa", value="refuted", reasons=tuple(f"rank {rank} used gloo" for rank in range(64)))


@pytest.mark.parametrize(("loss", "limit", "passes"), [(2.0, 2.0, True), (2.01, 2.0, False), (9.0, None, True)])
def test_the_limit_is_the_last_loss_that_passes(loss: float, limit: float | None, passes: bool) -> None:
    assert (quality_failures(loss, limit) == []) is passes


@pytest.mark.parametrize("loss", [None, float("nan"), float("inf")])
def test_a_run_without_a_finite_loss_passes_no_limit(loss: float | None) -> None:
    assert "gateMaxEvalLoss asks for at most 2" in quality_failures(loss, 2.0)[0]


def test_both_passing_says_nothing() -> None:
    assert gate_message(PROVEN, [], "run-1") is None


def test_a_bad_model_fails_the_gate_although_the_transport_is_proven() -> None:
    message = gate_message(PROVEN, quality_failures(3.0, 2.0), "run-1")
    assert message is not None
    assert "held-out loss 3.0000 is above gateMaxEvalLoss 2" in message
    assert "transport" not in message


def test_many_reasons_are_cut_and_counted() -> None:
    message = gate_message(REFUTED, [], "run-1")
    assert message is not None
    assert "transport refuted: expected efa, run run-1" in message
    assert "and 48 more in the run record" in message
    assert "not repeated" in message
