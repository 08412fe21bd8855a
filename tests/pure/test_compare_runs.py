"""A comparison carried out on a cluster that is made up: what is asked of it, and how each way of ending ends."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.support.compared import GLOOS, SECRET, Cluster, plan
from tests.support.compared import request as job_request
from training.config import parse_arguments
from workload.arms import Arm
from workload.compare_runs import Compared, carry_out
from workload.comparison_plan import Plan
from workload.errors import BadInputError, ReportedError, RunInterruptedError
from workload.job_spec import command_line
from workload.verdict import Wanted

LAZY = "TORCH_GLOO_LAZY_INIT"


def carried(cluster: Cluster, what: Plan, interrupt: Event | None = None) -> Compared:
    return carry_out(
        what,
        say=lambda line: None,
        interrupt=interrupt or Event(),
        run=cluster.run,
        measure=cluster.measure,
        stop=cluster.stop,
    )


def report(done: Compared) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(done.report.read_text())
    return whole


def speeds(env: Mapping[str, str]) -> float:
    return 500 if LAZY in env else 1000


def test_arms_alternate_and_each_run_is_a_job_of_its_own(tmp_path: Path) -> None:
    cluster = Cluster(tokens_per_second=speeds)
    done = carried(cluster, plan(tmp_path))
    assert done.comparison.status == "complete"
    assert [LAZY in request.spec.env for request in cluster.requests] == [False, True, True, False, False, True]
    assert len({request.spec.digest() for request in cluster.requests}) == 6
    assert all(request.spec.env["A"] == "1" for request in cluster.requests), "the job's own environment stays"
    assert cluster.stopped == []
    assert done.comparison.ratio is not None and done.comparison.ratio.value == pytest.approx(2)


def test_whatever_the_job_is_asked_for_its_shortened_form_is_one_that_training_accepts(tmp_path: Path) -> None:
    asked = {
        "steps": 60,
        "warm_up_steps": 40,
        "lr_floor": 0.1,
        "checkpoint_every": 20,
        "keep_checkpoints": 2,
        "export_to": "/models/mine",
        "profile_steps": "50,51",
        "kill_at_step": 30,
        "eval_every": 10,
        "resume_from": "/shared/step-000020",
        "sharding": "hsdp",
        "accumulate": 4,
    }
    job = job_request(tmp_path)
    job = dataclasses.replace(job, spec=dataclasses.replace(job.spec, arguments=asked))
    arguments = plan(tmp_path, request=job).request_of(GLOOS[0], 1, name="compare").spec.arguments
    told = parse_arguments([*command_line(arguments), "--storage_path", "/shared", "--run_id", "one"])
    assert (told.steps, told.sharding, told.accumulate) == (13, "hsdp", 4), "what decides the speed stays"


def test_the_job_is_shortened_and_nothing_else_of_it_changes(tmp_path: Path) -> None:
    cluster = Cluster()
    done = carried(cluster, plan(tmp_path, steps=20))
    for request in cluster.requests:
        assert dict(request.spec.arguments) == {
            "steps": 20,
            "seq_len": 64,
            "checkpoint_every": 0,
            "eval_batches": 1,
            "max_failures": 0,
        }
        assert request.runs == done.report.parent == tmp_path / "runs" / done.report.parent.name
        assert request.storage == str(tmp_path / "shared" / done.report.parent.name)
    assert done.report.parent.name.startswith("compare-20")


def test_the_report_holds_arms_runs_and_the_job_and_no_secret(tmp_path: Path) -> None:
    done = carried(Cluster(tokens_per_second=speeds), plan(tmp_path, min_ratio=1.5))
    whole = report(done)
    assert whole["status"] == "complete"
    assert whole["ratio"]["value"] == pytest.approx(2)
    assert whole["minRatio"]["reasons"] == []
    assert [(run["arm"], run["repeat"]) for run in whole["runs"]] == [
        ("gloo", 1),
        ("gloo-lazy", 1),
        ("gloo-lazy", 2),
        ("gloo", 2),
        ("gloo", 3),
        ("gloo-lazy", 3),
    ]
    assert whole["job"]["secretEnvNames"] == ["HF_TOKEN"]
    record = json.loads(Path(whole["runs"][0]["record"]).read_text())
    assert record["verdict"]["value"] == "proven"
    assert record["submissionId"] == whole["runs"][0]["submissionId"]
    for file in done.report.parent.rglob("*"):
        if file.is_file():
            assert SECRET not in file.read_text() and "bearer_token" not in file.read_text()
    assert "gloo is 2.000" in done.report.with_name("comparison.txt").read_text()


def test_bandwidth_is_measured_in_each_arm_of_each_repeat(tmp_path: Path) -> None:
    cluster = Cluster()
    done = carried(cluster, plan(tmp_path, sizes=[]))
    assert [request.spec.env for request in cluster.measured] == [request.spec.env for request in cluster.requests]
    assert report(done)["busBandwidth"][0]["bytes"] == 1 << 20
    assert report(done)["busBandwidth"][0]["ratio"]["low"] > 0


def test_wrong_sums_end_it(tmp_path: Path) -> None:
    cluster = Cluster(wrong=7)
    done = carried(cluster, plan(tmp_path, sizes=[]))
    assert done.comparison.status == "failed" and len(cluster.measured) == 1
    assert "7 elements of the sums of 1048576 bytes are wrong" in report(done)["reasons"][0]


def on_nccl(number: int, whole: dict[str, Any]) -> None:
    if number == 3:
        whole["attempts"][0]["ranks"][2]["backend"] = "nccl"


def test_a_refuted_run_ends_it_at_once_without_a_ratio(tmp_path: Path) -> None:
    cluster = Cluster(tokens_per_second=speeds, changed=on_nccl)
    done = carried(cluster, plan(tmp_path, sizes=[]))
    assert done.comparison.status == "refuted" and done.comparison.ratio is None
    assert len(cluster.requests) == 3, "no more GPU time"
    assert len(cluster.measured) == 2, "the bandwidth of a run that counts for nothing is not measured"
    whole = report(done)
    assert whole["ratio"] is None and len(whole["runs"]) == 3
    assert whole["reasons"][0].startswith("arm gloo-lazy, repeat 2 (ray-train-fsdp-llm-")
    assert "rank 2 on node node1 (pid 1002) communicated through backend nccl" in whole["reasons"][1]


def one_node(number: int, whole: dict[str, Any]) -> None:
    for rank in whole["attempts"][0]["ranks"]:
        rank["node_id"] = "node0"


def test_a_run_that_crossed_no_host_is_unproven(tmp_path: Path) -> None:
    done = carried(Cluster(changed=one_node), plan(tmp_path))
    assert done.comparison.status == "unproven"
    assert "nothing crossed from host to host" in "\n".join(done.comparison.reasons)


def unheard(number: int, whole: dict[str, Any]) -> None:
    whole["attempts"][0]["ranks"][3]["job_environment"] = ["A"]


def test_a_rank_without_the_arms_environment_leaves_the_run_unproven(tmp_path: Path) -> None:
    done = carried(Cluster(changed=unheard), plan(tmp_path))
    assert done.comparison.status == "unproven"
    assert done.comparison.reasons[0].startswith("arm gloo-lazy, repeat 1 ")
    assert done.comparison.reasons[1] == f"  environment: rank 3 ran without {LAZY}"


def test_an_arm_is_judged_by_its_own_expectation(tmp_path: Path) -> None:
    arms = (Arm(name="efa", expect="efa", env={"NCCL_NET": "Libfabric"}), GLOOS[0])
    what = plan(tmp_path, arms=arms, wanted=Wanted(expect="socket", nics=4, gdr=True))
    assert what.wanted_of(arms[0]) == Wanted(expect="efa", nics=4, gdr=True)
    assert what.wanted_of(arms[1]) == Wanted(expect="gloo")
    done = carried(Cluster(), what)
    assert done.comparison.status == "refuted", "the ranks report gloo"
    assert "arm efa, repeat 1" in done.comparison.reasons[0]


@pytest.mark.parametrize("failing", [1, 4])
def test_a_failed_run_keeps_what_was_measured_and_leaves_nothing_running(tmp_path: Path, failing: int) -> None:
    def before(number: int) -> None:
        if number == failing:
            raise ReportedError("job x ended as FAILED\n  [error] out of memory")

    cluster = Cluster(before=before)
    done = carried(cluster, plan(tmp_path))
    whole = report(done)
    assert whole["status"] == "failed" and whole["reasons"] == ["job x ended as FAILED\n  [error] out of memory"]
    assert len(whole["runs"]) == failing - 1
    assert [request.runs for request in cluster.stopped] == [done.report.parent]
    assert len(cluster.requests) == failing


@pytest.mark.parametrize("sizes", [None, []])
def test_an_interruption_stops_the_running_job_and_keeps_the_result_so_far(
    tmp_path: Path, sizes: list[str] | None
) -> None:
    interrupt = Event()

    def before(number: int) -> None:
        if number == 4:
            interrupt.set()
            raise RunInterruptedError("interrupted: job x goes on")

    cluster = Cluster(before=before)
    done = carried(cluster, plan(tmp_path, sizes=sizes), interrupt)
    assert done.comparison.status == "interrupted"
    assert len(cluster.stopped) == 1
    whole = report(done)
    assert len(whole["runs"]) + len(whole["allReduces"]) == 3
    assert whole["reasons"] == [f"interrupted after 3 of {6 if sizes is None else 12} jobs"]
    assert "goes on" not in json.dumps(whole)


def test_an_interruption_between_two_jobs_begins_no_other(tmp_path: Path) -> None:
    interrupt = Event()
    cluster = Cluster(changed=lambda number, whole: interrupt.set())
    done = carried(cluster, plan(tmp_path, sizes=[]), interrupt)
    assert done.comparison.status == "interrupted"
    assert (len(cluster.requests), len(cluster.measured)) == (1, 0)


def test_a_second_interruption_keeps_the_result_too(tmp_path: Path) -> None:
    def before(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    cluster = Cluster(before=before)
    with pytest.raises(KeyboardInterrupt):
        carried(cluster, plan(tmp_path))
    assert len(cluster.stopped) == 1
    (file,) = (tmp_path / "runs").glob("compare-*/comparison.json")
    whole = json.loads(file.read_text())
    assert whole["status"] == "interrupted" and len(whole["runs"]) == 2


def no_steps(number: int, whole: dict[str, Any]) -> None:
    whole["step_seconds"], whole["tokens_per_second"] = None, None


def test_a_run_without_a_step_time_is_a_failure(tmp_path: Path) -> None:
    done = carried(Cluster(changed=no_steps), plan(tmp_path))
    assert done.comparison.status == "failed"
    assert "no step time above 0: null" in done.comparison.reasons[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"repeats": 2}, "2 repeats: fewer than 3"),
        ({"steps": 7}, "7 steps: at least 8"),
        (
            {"arms": (GLOOS[0], Arm(name="x", expect="gloo", env={"HF_TOKEN": "other"}))},
            "arm x: HF_TOKEN is a secret of the job",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInputError, match=said):
        plan(tmp_path, **changes)


def test_a_place_for_the_report_that_cannot_be_is_said_first(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    cluster = Cluster()
    with pytest.raises(ReportedError, match="for the comparison cannot be made"):
        carried(cluster, plan(tmp_path))
    assert cluster.requests == []
