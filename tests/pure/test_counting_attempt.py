"""Which of a run's attempts is judged and timed, in all that reads a record."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import reports
from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from workload.counting_attempt import counting_attempt
from workload.transport import judge
from workload.transport_evidence import collect
from workload.verdict import Wanted

EFA = Wanted(expect="efa", hosts=2, ranks=4)
NOTHING = {"steps": 0, "sent": 0, "received": 0}


def attempt_of(run: MarkedRun, *, steps: int, resumed: int = 0) -> dict[str, Any]:
    (attempt,) = run.record()["attempts"]
    ranks = [rank | {"trained_steps": steps} for rank in attempt["ranks"]]
    return {**attempt, "ranks": ranks, "resumed_from_step": resumed}


def judged(folder: Path, *runs: tuple[MarkedRun, dict[str, Any]]) -> tuple[int, str]:
    """Which attempt the evidence is of, and the verdict on it, with all their lines in one log."""
    log = folder / "job.log"
    log.write_text("\n".join(line for run, _ in runs for line in run.log()) + "\n", encoding="utf-8")
    evidence = collect(reports.report(world_size=4, attempts=[attempt for _, attempt in runs]), log)
    return evidence["attempt"], judge(evidence, EFA).value


def test_an_attempt_that_only_reports_leaves_the_verdict_to_the_one_that_trained(tmp_path: Path) -> None:
    trained = MarkedRun(run=Run(first_pid=40, comm_id="0x11"))
    reports_only = MarkedRun(attempt=2, moved={"tx_bytes": 9, "rx_bytes": 9}, must_move=NOTHING)
    attempts = (trained, attempt_of(trained, steps=20)), (reports_only, attempt_of(reports_only, steps=0, resumed=20))
    assert judged(tmp_path, *attempts) == (1, "proven")
    over_sockets = MarkedRun(run=Run(network="missing", first_pid=40, comm_id="0x11"))
    assert judged(tmp_path, (over_sockets, attempt_of(over_sockets, steps=20)), attempts[1]) == (1, "refuted")


def test_an_attempt_that_went_on_training_is_judged_itself(tmp_path: Path) -> None:
    over_sockets = MarkedRun(run=Run(network="missing", first_pid=40, comm_id="0x11"))
    first, second = attempt_of(over_sockets, steps=10), attempt_of(MarkedRun(attempt=2), steps=10, resumed=10)
    assert judged(tmp_path, (over_sockets, first), (MarkedRun(attempt=2), second)) == (2, "proven")


def test_a_run_of_which_no_attempt_trained_is_not_proven(tmp_path: Path) -> None:
    run = MarkedRun(must_move=NOTHING)
    assert judged(tmp_path, (run, attempt_of(run, steps=0))) == (1, "unproven")


@pytest.mark.parametrize(
    ("attempts", "number"),
    [
        ([], None),
        ([{"attempt": 1}, {"attempt": 2, "ranks": []}], 2),
        ([{"attempt": 1, "ranks": [{"rank": 0}, {"rank": 1, "trained_steps": 3}]}, {"attempt": 2, "ranks": []}], 1),
        ([{"attempt": 1, "ranks": [{"trained_steps": "3"}, None]}, {"attempt": 2, "ranks": 7}], 2),
        ([{"attempt": 1, "ranks": [{"trained_steps": 3.0}]}, {"attempt": 2, "ranks": [{"trained_steps": 0}]}], 1),
    ],
)
def test_where_no_rank_says_that_it_trained_the_last_attempt_counts(attempts: Any, number: int | None) -> None:
    assert counting_attempt(attempts).get("attempt") == number
