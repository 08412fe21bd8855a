"""The run record: complete, valid, and nothing secret in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import reports
from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from workload.errors import ReportedError
from workload.head import Head
from workload.job_following import JobOutcome, JobRequest
from workload.job_record import RecordCollector
from workload.job_spec import JobSpec
from workload.run_record import schema_problems, write_run_record, write_verdict
from workload.transport import judge
from workload.transport_evidence import collect
from workload.verdict import Wanted

SECRET = "hf_very_secret"


def request(tmp_path: Path) -> JobRequest:
    return JobRequest(
        spec=JobSpec(
            training_digest="a" * 64,
            arguments={"steps": 2},
            pip=["six==1.16.0"],
            pip_digests={},
            env={"A": "1"},
            secret_env={"HF_TOKEN": SECRET},
            image="image:1",
            cluster_spec_digest="c",
            run_id="",
        ),
        head=Head(
            kind="local",
            namespace="",
            cluster_name="local",
            ray_version="2.58.0",
            spec_digest="c",
            nodes=2,
            accelerators_per_node=2,
            worker_resource="trainer",
            token="bearer_token",
        ),
        training=tmp_path / "training",
        runs=tmp_path / "runs",
        storage=str(tmp_path / "runs"),
        deadline_s=60,
        stack="mine",
        hourly_usd=9.7,
    )


def outcome(tmp_path: Path, whole: dict[str, Any]) -> JobOutcome:
    (tmp_path / "runs" / "run-1").mkdir(parents=True, exist_ok=True)
    return JobOutcome(
        submission_id="run-1",
        attempt=1,
        session_name="session_x",
        ray_version="2.58.0",
        started_at=1_790_000_000.0,
        ended_at=1_790_000_060.0,
        log=tmp_path / "runs" / "run-1" / "job.log",
        log_connections=1,
        record=whole,
    )


def written(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    path, _ = write_run_record(
        request(tmp_path),
        outcome(tmp_path, reports.report(**changes)),
        wanted=Wanted(expect="gloo"),
        settings={"platform": "local"},
    )
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_a_good_report_makes_a_valid_record(tmp_path: Path) -> None:
    record = written(tmp_path)
    assert schema_problems(record) == []
    assert record["verdict"]["value"] == "proven"
    assert record["quality"]["passed"] is None, "no gate has judged yet"
    assert record["cluster"]["nodes"] == [
        {"id": "node0", "host": "here", "ranks": [0, 1]},
        {"id": "node1", "host": "here", "ranks": [2, 3]},
    ]
    assert record["evaluation"]["lossAfter"] == 5.2


def test_a_record_holds_which_files_the_model_was_read_from(tmp_path: Path) -> None:
    record = written(tmp_path, model={"identity": "a" * 40})
    assert record["model"] == {"identity": "a" * 40}
    assert schema_problems(record) == []
    assert schema_problems({name: value for name, value in record.items() if name != "model"}) == [], "an older one"
    assert written(tmp_path)["model"] is None, "the job made it, or its code is older"


def test_a_record_says_whose_run_it_was_and_what_an_hour_costs(tmp_path: Path) -> None:
    record = written(tmp_path)
    assert record["stack"] == "mine"
    assert record["cost"] == {"hourlyUsd": 9.7}


def test_a_record_of_a_run_over_efa_holds_its_evidence_and_can_be_judged_again(tmp_path: Path) -> None:
    marked = MarkedRun(run=Run(nics=4))
    outcome_ = outcome(tmp_path, marked.record(run_id="run-1"))
    outcome_.log.write_text("\n".join(marked.log()) + "\n")
    wanted = Wanted(expect="efa", nics=4)
    path, _ = write_run_record(request(tmp_path), outcome_, wanted=wanted, settings={})
    outcome_.log.unlink()
    record = json.loads(path.read_text())
    assert schema_problems(record) == []
    assert record["verdict"]["value"] == "proven"
    assert record["transport"]["matrix"][1] == {"from": "node-a", "to": "node-b", "via": {"NET/Libfabric": 2}}
    again = judge(record["transport"], Wanted(expect="socket"))
    assert again.value == "refuted"
    assert "(job.log:" in again.reasons[0]


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (lambda transport: transport.update(extra=1), "$.transport"),
        (lambda transport: transport["ranks"][0].update(lines={"count": 1}), "$.transport.ranks[0].lines"),
        (lambda transport: transport["ranks"][0].update(pid="70"), "$.transport.ranks[0].pid"),
        (lambda transport: transport["matrix"].append({"from": "a"}), "$.transport.matrix[0]"),
    ],
)
def test_evidence_of_another_shape_is_no_valid_record(tmp_path: Path, spoil: Any, where: str) -> None:
    record = written(tmp_path)
    spoil(record["transport"])
    assert any(problem.strip().startswith(where) for problem in schema_problems(record)), schema_problems(record)


def test_no_secret_is_in_the_record(tmp_path: Path) -> None:
    text = json.dumps(written(tmp_path))
    assert SECRET not in text
    assert "bearer_token" not in text
    assert "HF_TOKEN" in text, "which secrets a run had is part of what ran"


def test_a_gate_brings_verdict_and_quality_up_to_date(tmp_path: Path) -> None:
    record = written(tmp_path)
    path = tmp_path / "runs" / "run-1" / "record.json"
    write_verdict(path, judge(record["transport"], Wanted(expect="efa")), ["loss is too high"])
    again = json.loads(path.read_text())
    assert schema_problems(again) == []
    assert (again["verdict"]["value"], again["verdict"]["expect"]) == ("refuted", "efa")
    assert again["quality"] == {"passed": False, "reasons": ["loss is too high"]}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"tokens_per_second": "fast"}, "$.throughput.tokensPerSecond"),
        ({"losses": [[1]]}, "$.losses[0]"),
        ({"attempts": []}, "$.attempts"),
        ({"timings": {"total_s": "long"}}, "$.timings.total_s"),
    ],
)
def test_a_report_with_holes_is_refused_naming_the_place(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    with pytest.raises(ReportedError, match="makes no valid run record") as caught:
        written(tmp_path, **changes)
    assert where in str(caught.value)
    assert "full log: " in str(caught.value)


def test_the_last_complete_record_line_counts() -> None:
    collector = RecordCollector("run-1")
    collector.line("RAY_TRAIN_EFA_RECORD is mentioned in passing")
    assert collector.record is None
    collector.line(reports.line(reports.report()))
    collector.line(reports.line(reports.report(tokens_per_second=2000.0)))
    assert collector.record is not None
    assert collector.record["tokens_per_second"] == 2000.0


def test_a_rank_cannot_speak_for_the_driver() -> None:
    collector = RecordCollector("run-1")
    collector.line(f"(RayTrainWorker pid=12, ip=127.0.0.1) {reports.line(reports.report())}")
    assert collector.record is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (reports.line(reports.report())[:200], "is not JSON"),
        (reports.line({"schema": "ray-train-efa/job-record/1"}), "lacks run_id, status"),
        (reports.line(reports.report(schema="ray-train-efa/job-record/9")), "has schema 'ray-train-efa/job-record/9'"),
        (reports.line(reports.report(run_id="run-0")), "is that of run 'run-0'"),
        (reports.line(reports.report(status="failed", error="lost a rank")), "says 'failed': lost a rank"),
        (reports.line([1, 2]), "lacks schema"),  # type: ignore[arg-type]
    ],
)
def test_a_record_that_cannot_be_read_says_why(line: str, problem: str) -> None:
    collector = RecordCollector("run-1")
    collector.line(line)
    assert collector.record is None
    assert problem in collector.problem


def test_the_transport_is_that_of_the_last_attempt(tmp_path: Path) -> None:
    first = {"attempt": 1, "resumed_from_step": 0, "ranks": [reports.rank(n, backend="gloo") for n in range(4)]}
    last = {"attempt": 2, "resumed_from_step": 1, "ranks": [reports.rank(n, backend="nccl") for n in range(4)]}
    transport = collect(reports.report(attempts=[first, last]), tmp_path / "job.log")
    assert transport["attempt"] == 2
    assert {rank["backend"] for rank in transport["ranks"]} == {"nccl"}
