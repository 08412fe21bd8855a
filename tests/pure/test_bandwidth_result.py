"""What is made of a measurement: whether log and record agree, and what keeps a job from starting."""

from typing import Any

import pytest

from training.bandwidth_table import table
from training.bus_bandwidth import Row
from workload.bandwidth_result import disagreements, failures, largest, preflight_message
from workload.nccl_tests import parse
from workload.verdict import Verdict

MIB = 1 << 20
PROVEN = Verdict(expect="gloo", value="proven", reasons=("4 of 4 ranks on 2 nodes report backend gloo",))
REFUTED = Verdict(expect="efa", value="refuted", reasons=("rank 2 on node b chose Socket",))


def rows(*, seconds: float = 0.5, wrong: int = 0) -> list[dict[str, Any]]:
    """1 GiB at `seconds`, after a small size that is as slow."""
    return [
        Row(size=MIB, ranks=4, seconds=0.0123456, wrong=0).as_json(),
        Row(size=1 << 30, ranks=4, seconds=seconds, wrong=wrong).as_json(),
    ]


def log(measured: list[dict[str, Any]]) -> list[str]:
    return table(measured, backend="gloo", ranks=4, iterations=20, warm_up=5)


@pytest.mark.parametrize("seconds", [1e-5, 0.0004321, 0.5, 77.7])
@pytest.mark.parametrize("wrong", [0, 12_345_678])
def test_a_record_agrees_with_its_own_table(seconds: float, wrong: int) -> None:
    measured = rows(seconds=seconds, wrong=wrong)
    assert disagreements(measured, parse(log(measured))) == []


@pytest.mark.parametrize(
    ("key", "value"), [("busbw_gbs", 9.0), ("algbw_gbs", 9.0), ("time_us", 1.0), ("count", 1), ("bytes", 4 * MIB)]
)
def test_a_figure_that_differs_is_told_from_both_sides(key: str, value: float) -> None:
    changed = rows()
    changed[1][key] = value
    (problem,) = disagreements(changed, parse(log(rows())))
    assert "the record says" in problem and "the log 1073741824 bytes, 268435456 float sum" in problem


def test_wrong_elements_that_only_one_side_has_are_told() -> None:
    problems = disagreements(rows(), parse(log(rows(wrong=3))))
    assert len(problems) == 2, problems
    assert problems[1] == "the record counts 0 wrong elements, the end of the log's table 3"


def test_a_row_or_the_end_of_the_table_that_the_log_lacks_is_told() -> None:
    lines = log(rows())
    cut = [line for line in lines if not line.lstrip().startswith("1073741824")]
    assert disagreements(rows(), parse(cut)) == ["the record holds 2 rows, the log 1"]
    assert disagreements(rows(), parse(lines[:-3])) == [
        "the record counts 0 wrong elements, the end of the log's table None"
    ]
    assert "the record holds no row" in disagreements([], parse([]))
    half = [line[:60] if line.lstrip().startswith("1073741824") else line for line in lines]
    assert disagreements(rows(), parse(half))[0].startswith("a row of the log is cut: 1073741824 ")


def test_out_of_place_figures_in_the_log_are_not_the_job_s_own() -> None:
    lines = [line.replace("N/A     N/A     N/A     N/A", "1.0     1.0     1.0       0") for line in log(rows())]
    assert len(disagreements(rows(), parse(lines))) == 2


def test_right_sums_at_any_bandwidth_are_good_enough_where_none_is_demanded() -> None:
    assert failures(rows(), None) == []
    assert failures(rows(), 3.2) == [], "3.22 GB/s at the largest size; the mean is 1.67"


def test_the_bandwidth_of_the_largest_size_is_compared_with_what_is_demanded() -> None:
    (reason,) = failures(rows(), 10.0)
    assert reason.startswith("bus bandwidth 3.22 GB/s at 1024 MiB is below preflightMinBusBandwidth 10: ")
    assert failures([], None) == ["no size was measured"]


def test_one_wrong_element_is_one_too_many() -> None:
    (reason,) = failures(rows(wrong=1), None)
    assert reason.startswith("1 elements of the sums of 1024 MiB are wrong (#wrong must be 0): ")


def test_the_engine_s_floats_change_nothing() -> None:
    floats = [{key: float(value) if isinstance(value, int) else value for key, value in row.items()} for row in rows()]
    assert failures(floats, 10.0) == failures(rows(), 10.0)
    best = largest(floats)
    assert best is not None and best["bytes"] == 1 << 30


def test_the_message_of_a_failure_has_verdict_reasons_and_log() -> None:
    message = preflight_message(REFUTED, ["too slow"], "run-1", "runs/run-1/job.log", measured_now=True)
    assert message == (
        "bandwidth preflight failed, so the job is not started: run run-1\n"
        "transport refuted: expected efa\n"
        "  rank 2 on node b chose Socket\n"
        "measurement refused:\n"
        "  too slow\n"
        "The next `pulumi up` measures anew; `preflightBandwidth: false` leaves the preflight out.\n"
        "full log: runs/run-1/job.log"
    )
    assert preflight_message(PROVEN, [], "run-1", "log", measured_now=True) is None
    judged_anew = preflight_message(PROVEN, ["too slow"], "run-1", "log", measured_now=False)
    assert judged_anew is not None
    assert "transport" not in judged_anew, "it is as wanted"
    assert "a new `jobRunId` measures anew" in judged_anew
