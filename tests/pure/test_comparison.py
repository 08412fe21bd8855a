"""What a comparison's runs come to: a ratio only where each of them was proven to be of its arm."""

import dataclasses
import json
from typing import Any

import pytest

from tests.support.compared import GLOOS, all_reduce, arm_run, comparison, proven
from training.measure import WARM_UP_STEPS as LEFT_OUT_BY_TRAINING
from workload.comparison import WARM_UP_STEPS, Comparison, failures, result_of
from workload.comparison_report import as_json, in_words, lines
from workload.ratio import Ratio, paired_ratio
from workload.verdict import Verdict

LAZY = "gloo-lazy"


def text(one: Comparison, min_ratio: float | None = None) -> str:
    return "\n".join(lines(one, min_ratio))


def test_the_ratio_is_of_tokens_per_second_paired_by_repeat() -> None:
    one = comparison([200, 440, 180], [100, 200, 100])
    assert one.status == "complete" and one.reasons == ()
    assert one.ratio == paired_ratio([200, 440, 180], [100, 200, 100])
    assert one.median("gloo", lambda run: run.tokens_per_second) == 200
    assert one.median("gloo", lambda run: run.step_seconds) == 5


def test_the_order_in_which_runs_came_decides_nothing() -> None:
    one = comparison([200, 440, 180], [100, 200, 110])
    turned = dataclasses.replace(one, runs=one.runs[::-1])
    assert turned.ratio == one.ratio


def test_a_difference_inside_the_noise_is_not_claimed() -> None:
    one = comparison([1000, 1100, 1040], [1050, 1000, 1060])
    assert one.ratio is not None and one.ratio.inside_noise
    said = text(one)
    assert "no difference shown between gloo and gloo-lazy: the ratio is 1.009 (95 %: 0.835 to 1.219)" in said
    assert "inside the noise" in said
    assert "as fast as" not in said


def test_a_difference_is_told_with_the_faster_arm_first() -> None:
    assert "gloo is 2.000 (95 %: 2.000 to 2.000) times as fast as gloo-lazy" in text(
        comparison([200, 400, 600], [100, 200, 300])
    )
    slower = in_words(Ratio(value=0.5, low=0.4, high=0.625, pairs=()), "a", "b")
    assert slower == "b is 2.000 (95 %: 1.600 to 2.500) times as fast as a"


@pytest.mark.parametrize("value", ["refuted", "unproven"])
def test_a_run_that_is_not_proven_to_be_of_its_arm_leaves_no_ratio(value: Any) -> None:
    whole = comparison([200, 440, 180], [100, 200, 100])
    bad = Verdict(expect="gloo", value=value, reasons=("rank 1 on node n (pid 5) communicated through backend nccl",))
    one = dataclasses.replace(
        whole, runs=(*whole.runs[:4], dataclasses.replace(whole.runs[4], verdict=bad), whole.runs[5])
    )
    assert one.status == value and one.useless
    assert one.ratio is None and one.size_ratios == []
    assert one.reasons[0] == f"arm gloo-lazy, repeat 2 (job-gloo-lazy-2): transport {value}, expected gloo"
    assert "backend nccl" in one.reasons[1]
    assert "as fast as" not in text(one) and "no difference" not in text(one)
    assert as_json(one)["ratio"] is None
    assert failures(result_of(one), None) == list(one.reasons)


def test_a_refuted_run_counts_before_an_unproven_one_and_an_interruption() -> None:
    runs = (
        arm_run("gloo", 1, 100, verdict=Verdict(expect="gloo", value="unproven", reasons=("a",))),
        arm_run(LAZY, 1, 100, verdict=Verdict(expect="gloo", value="refuted", reasons=("b",))),
    )
    assert comparison([1] * 3, [1] * 3, runs=runs, interrupted=True).status == "refuted"


def test_a_bandwidth_run_that_is_not_proven_leaves_no_ratio_either() -> None:
    bad = Verdict(expect="gloo", value="unproven", reasons=tuple(f"reason {number}" for number in range(12)))
    one = comparison([200] * 3, [100] * 3, with_bandwidth=True, all_reduces=(all_reduce("gloo", 1, verdict=bad),))
    assert one.status == "unproven" and one.ratio is None
    assert one.reasons[0].startswith("arm gloo, repeat 1, all-reduce (bandwidth-gloo-1): transport unproven")
    assert one.reasons[-1] == "  ... and 4 more in runs/compare/bandwidth-gloo-1/record.json"


def test_fewer_runs_than_planned_are_no_comparison() -> None:
    whole = comparison([200] * 3, [100] * 3)
    one = dataclasses.replace(whole, runs=whole.runs[:5])
    assert (one.status, one.ratio, one.useless) == ("unfinished", None, False)
    assert one.reasons == ("5 of 6 jobs have been run",)
    without_bandwidth = dataclasses.replace(whole, with_bandwidth=True)
    assert without_bandwidth.status == "unfinished" and without_bandwidth.planned == 12


def test_what_ended_it_too_early_is_said() -> None:
    whole = comparison([200] * 3, [100] * 3)
    failed = dataclasses.replace(whole, runs=whole.runs[:2], error="job x ended as FAILED")
    assert (failed.status, failed.reasons, failed.useless) == ("failed", ("job x ended as FAILED",), True)
    interrupted = dataclasses.replace(failed, interrupted=True)
    assert (interrupted.status, interrupted.reasons) == ("interrupted", ("interrupted after 2 of 6 jobs",))
    assert ["1", "gloo", "5.0000", "200"] in [line.split()[:4] for line in lines(interrupted)], "what was measured"


def test_runs_on_another_number_of_nodes_are_not_compared() -> None:
    whole = comparison([200] * 3, [100] * 3)
    one = dataclasses.replace(whole, runs=(*whole.runs[:5], dataclasses.replace(whole.runs[5], hosts=1)))
    assert one.status == "failed" and one.ratio is None
    assert "gloo-lazy 3: 4 ranks on 1 nodes" in one.reasons[0]


MIB = 1 << 20


def with_bandwidth(**changes: Any) -> Comparison:
    measured = [
        all_reduce(arm, repeat, (MIB, 1.0 * factor + repeat / 100), (64 * MIB, 3.0 * factor + repeat / 100))
        for arm, factor in (("gloo", 2), (LAZY, 1))
        for repeat in (1, 2, 3)
    ]
    return comparison([200] * 3, [100] * 3, with_bandwidth=True, all_reduces=tuple(measured), **changes)


def test_bandwidth_has_a_ratio_for_each_size() -> None:
    small, large = with_bandwidth().size_ratios
    assert (small.size, large.size) == (MIB, 64 * MIB)
    assert small.medians == pytest.approx({"gloo": 2.02, LAZY: 1.02})
    assert large.ratio == paired_ratio([6.01, 6.02, 6.03], [3.01, 3.02, 3.03])
    rows = [line.split() for line in text(with_bandwidth()).splitlines()]
    assert ["64", "MiB", "6.020", "3.020", "1.993"] in [row[:5] for row in rows]


def test_a_size_that_was_measured_again_counts_with_the_slower_figure() -> None:
    assert all_reduce("gloo", 1, (MIB, 2.0), (MIB, 1.5), (MIB, 1.8)).bus_bandwidth == {MIB: 1.5}


def test_wrong_sums_leave_no_ratio() -> None:
    one = with_bandwidth()
    rows = ({"bytes": MIB, "busbw_gbs": 1.0, "wrong": 3},)
    one = dataclasses.replace(
        one, all_reduces=(dataclasses.replace(one.all_reduces[0], rows=rows), *one.all_reduces[1:])
    )
    assert one.status == "failed" and one.ratio is None
    assert "arm gloo, repeat 1 (bandwidth-gloo-1): 3 elements of the sums of 1048576 bytes are wrong" in one.reasons[0]


def test_without_a_minimum_any_ratio_passes() -> None:
    assert failures(result_of(comparison([1] * 3, [900] * 3)), None) == []


def test_a_minimum_counts_against_the_lower_end_of_the_interval() -> None:
    result = result_of(comparison([200, 440, 180], [100, 200, 100]))
    assert result["value"] == pytest.approx(1.993311, rel=1e-5)
    assert failures(result, 1.55) == []
    (reason,) = failures(result, 1.6)
    assert "tokens/s of gloo are 1.99 times those of gloo-lazy" in reason
    assert "at least 1.55: below compareMinSpeedup 1.6" in reason
    assert reason in text(comparison([200, 440, 180], [100, 200, 100]), 1.6)
    assert "at least 1.5, as demanded" in text(comparison([200, 440, 180], [100, 200, 100]), 1.5)


def test_the_json_holds_every_run_with_verdict_and_figures() -> None:
    whole = json.loads(json.dumps(as_json(with_bandwidth(), 1.5), allow_nan=False))
    assert whole["status"] == "complete" and whole["ratio"]["insideNoise"] is False
    assert whole["minRatio"] == {"min": 1.5, "reasons": []}
    assert [(run["arm"], run["repeat"]) for run in whole["runs"]] == [
        (arm, repeat) for arm in ("gloo", LAZY) for repeat in (1, 2, 3)
    ]
    assert whole["runs"][0]["verdict"] == {"expect": "gloo", "value": "proven", "reasons": list(proven().reasons)}
    assert whole["arms"][1] == {
        "name": LAZY,
        "expect": "gloo",
        "env": {"TORCH_GLOO_LAZY_INIT": "1"},
        "stepSeconds": 10,
        "tokensPerSecond": 100,
    }
    assert len(whole["allReduces"]) == 6 and whole["busBandwidth"][1]["bytes"] == 64 * MIB


def test_the_warm_up_is_what_training_leaves_out() -> None:
    assert WARM_UP_STEPS == LEFT_OUT_BY_TRAINING


def test_the_text_shows_each_run_and_the_arms_settings() -> None:
    said = text(comparison([200, 440, 180], [100, 200, 100]))
    assert "gloo-lazy: TORCH_GLOO_LAZY_INIT=1, expected gloo" in said
    assert "gloo: the job's own environment, expected gloo" in said
    table = [line.split() for line in said.splitlines()]
    assert ["2", "gloo", "2.2727", "440", "gloo", "proven", "job-gloo-2"] in table
    assert ["median", "gloo-lazy", "10.0000", "100"] in table
    assert [arm.name for arm in GLOOS] == ["gloo", LAZY]
