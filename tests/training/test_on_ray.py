"""The job on a real Ray cluster of a head and two worker nodes. Runs are as short as what they show allows."""

import json
import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest

from infra.local_nodes import LocalCluster
from tests.training.job import Finished, submit
from tests.training.s3_server import BUCKET, S3Server
from tests.training.test_packages import wheel

pytestmark = pytest.mark.local

STEPS = ["--steps", "8", "--checkpoint_every", "3"]


@pytest.fixture(scope="module")
def undisturbed(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """With a package and two variables of its own, one of them secret."""
    folder = tmp_path_factory.mktemp("undisturbed")
    wheel(folder / "links", "efaprobe", "1.0")
    finished = submit(
        cluster,
        folder,
        [*STEPS, "--pip", "efaprobe==1.0"],
        env={"EFA_SHOWN": "shown", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "links")},
        secrets={"EFA_SECRET": "do-not-tell"},
    )
    assert finished.status == "SUCCEEDED", "\n".join(finished.lines[-40:])
    return finished


@pytest.fixture(scope="module")
def killed(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Loses a rank at step 5, after the checkpoint of step 3."""
    finished = submit(
        cluster, tmp_path_factory.mktemp("killed"), [*STEPS, "--kill_at_step", "5", "--max_failures", "1"]
    )
    assert finished.status == "SUCCEEDED", "\n".join(finished.lines[-40:])
    return finished


def test_four_ranks_on_two_nodes_train_and_learn(undisturbed: Finished) -> None:
    record = undisturbed.record
    assert record["status"] == "succeeded" and record["error"] is None
    assert record["world_size"] == 4
    assert [step for step, _ in record["losses"]] == list(range(1, 9))
    assert record["eval"]["after"]["loss"] < record["eval"]["before"]["loss"] - 1
    assert record["tokens_per_step"] == 4 * 2 * 64
    assert record["tokens_per_second"] > 0
    assert record["checkpoint"]["step"] == 8, "the last step makes a checkpoint too"
    assert (Path(record["checkpoint"]["path"]) / "COMPLETE.json").is_file()


def test_each_rank_testifies_where_it_ran_and_on_what(undisturbed: Finished) -> None:
    (attempt,) = undisturbed.record["attempts"]
    ranks = attempt["ranks"]
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert [rank["node_rank"] for rank in ranks] == [0, 0, 1, 1], "ranks fill a node before the next"
    assert [rank["local_rank"] for rank in ranks] == [0, 1, 0, 1]
    assert len({rank["node_id"] for rank in ranks}) == 2
    assert len({rank["pid"] for rank in ranks}) == 4
    assert {(rank["backend"], rank["device"]) for rank in ranks} == {("gloo", "cpu")}
    assert all("nccl" not in rank["versions"] for rank in ranks), "what is absent is not told as zero"
    assert all(rank["peak_memory_bytes"] > 0 for rank in ranks)
    assert undisturbed.record["peak_memory_bytes"].keys() == {"0", "1", "2", "3"}


def test_a_run_over_gloo_has_none_of_nccl_s_lines_and_no_devices_but_says_what_had_to_move(
    undisturbed: Finished,
) -> None:
    ranks = undisturbed.record["attempts"][0]["ranks"]
    assert {str(rank["transport_lines"]) for rank in ranks} == {"None"}
    assert not any("efa_devices" in rank for rank in ranks), "what is absent is not told as zero"
    assert not any("[nccl rank" in line for line in undisturbed.lines)
    must_move = [rank["must_move"] for rank in ranks]
    assert must_move[0] == must_move[1] and must_move[2] == must_move[3], "it is the node's"
    assert all(one["steps"] == 8 and one["sent"] > 8e6 and one["received"] > 8e6 for one in must_move)


def test_packages_and_variables_of_the_job_reach_every_rank_and_the_secret_stays_one(undisturbed: Finished) -> None:
    for rank in undisturbed.record["attempts"][0]["ranks"]:
        assert rank["packages"] == {"efaprobe": "1.0"}
        assert {"EFA_SHOWN", "EFA_SECRET"} <= set(rank["job_environment"])
    assert not any("do-not-tell" in line for line in undisturbed.lines)


def test_a_step_is_one_line_of_rank_0(undisturbed: Finished) -> None:
    steps = undisturbed.said("] step ")
    assert len(steps) == 8
    assert all(re.search(r"\[train\] step \d+/8 loss \d+\.\d{4} tokens/s \d+ ", line) for line in steps)
    assert len(undisturbed.said("worker group up: 4 ranks on 2 nodes")) == 1
    assert len(undisturbed.said("checkpoint step 3 -> checkpoints/step-000003")) == 1


def test_a_run_that_loses_a_rank_goes_on_from_its_checkpoint_with_the_same_losses(
    undisturbed: Finished, killed: Finished
) -> None:
    attempts = killed.record["attempts"]
    assert [(attempt["attempt"], attempt["resumed_from_step"]) for attempt in attempts] == [(1, 0), (2, 3)]
    assert [attempt["ranks"][0].get("trained_steps") for attempt in attempts] == [None, 5]
    assert killed.said("resumed from step 3 (attempt 2)")
    assert killed.record["losses"] == undisturbed.record["losses"], "to the last bit"
    assert killed.record["eval"] == undisturbed.record["eval"]


def test_a_run_that_is_done_is_told_again_and_trains_nothing(
    undisturbed: Finished, cluster: LocalCluster, tmp_path: Path
) -> None:
    own = Path(undisturbed.record["checkpoint"]["path"]).parents[2]
    again = ["--storage_path", str(own.parent), "--run_id", own.name]
    finished = submit(cluster, tmp_path, [*STEPS, *again])
    assert finished.status == "SUCCEEDED", "\n".join(finished.lines[-40:])
    assert finished.said("resumed from step 8") and finished.said("all steps are done already: nothing is trained")
    record, before = finished.record, undisturbed.record
    assert record["attempts"][-1]["resumed_from_step"] == 8
    assert (record["losses"], record["eval"]) == (before["losses"], before["eval"])
    assert record["checkpoint"] == before["checkpoint"]
    for figure in ("step_seconds", "tokens_per_second", "checkpoints", "peak_memory_bytes"):
        assert record[figure] == before[figure], "of the attempt that trained"
    moves = {"steps": 0, "sent": 0, "received": 0}
    told = [(rank["trained_steps"], rank["must_move"]) for rank in record["attempts"][-1]["ranks"]]
    assert told == [(0, moves)] * 4


@pytest.mark.parametrize("loses_a_rank", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_run_in_a_bucket_ends_with_all_of_it_there(
    cluster: LocalCluster, s3: S3Server, tmp_path: Path, loses_a_rank: bool
) -> None:
    location = f"s3://{BUCKET}/on-ray"
    arguments = f"--storage_path {location} --steps 4 --checkpoint_every 2 --num_workers 2"
    if loses_a_rank:
        arguments += " --kill_at_step 3 --max_failures 1"
    finished = submit(
        cluster,
        tmp_path,
        arguments.split(),
        env={"AWS_ENDPOINT_URL": s3.url, "AWS_REGION": "us-east-1"},
        secrets={"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"},
    )
    assert finished.status == "SUCCEEDED", "\n".join(finished.lines[-40:])
    attempts = finished.record["attempts"]
    expected = [(1, 0), (2, 2)] if loses_a_rank else [(1, 0)]
    assert [(attempt["attempt"], attempt["resumed_from_step"]) for attempt in attempts] == expected
    assert {len(attempt["ranks"]) for attempt in attempts} == {2}
    run = f"on-ray/{tmp_path.name}/ray-train-fsdp-llm"
    checkpoint = f"{run}/checkpoints/step-000004"
    assert finished.record["checkpoint"] == {"path": f"s3://{BUCKET}/{checkpoint}", "step": 4}
    assert [step for step, _ in finished.record["losses"]] == [1, 2, 3, 4]
    assert {f"{checkpoint}/COMPLETE.json", f"{run}/result.json"} <= set(s3.keys(run))


def test_a_second_run_starts_at_its_own_beginning(undisturbed: Finished, killed: Finished) -> None:
    assert killed.record["attempts"][0]["resumed_from_step"] == 0


def test_more_ranks_than_the_cluster_has_are_refused_with_both_numbers(cluster: LocalCluster, tmp_path: Path) -> None:
    finished = submit(cluster, tmp_path, ["--num_workers", "6"])
    assert finished.status == "FAILED"
    assert [error.startswith("--num_workers 6: the cluster has 4 'trainer'") for error in finished.errors] == [True]


def test_the_deadline_ends_a_run_that_hangs_and_its_ranks(cluster: LocalCluster, tmp_path: Path) -> None:
    endless = ["--steps", "1000000", "--num_workers", "2", "--checkpoint_every", "0"]
    for deadline in ("40", "160"):
        folder = tmp_path / deadline
        finished = submit(cluster, folder, [*endless, "--deadline_s", deadline], meanwhile=_stop_both_ranks)
        pids = [rank["pid"] for attempt in finished.record["attempts"][:1] for rank in attempt["ranks"]]
        if len(pids) == 2:
            break
        # A machine that is busy had not started the ranks by then.
    assert len(pids) == 2, "the deadline was too short to show anything"
    assert finished.status == "FAILED"
    assert finished.errors == [f"--deadline_s {deadline}: the deadline passed before the run ended"]
    give_up = time.monotonic() + 60
    while alive := [pid for pid in pids if psutil.pid_exists(pid)]:
        assert time.monotonic() < give_up, f"ranks {alive} outlived their run"
        time.sleep(0.2)


@pytest.mark.full
def test_what_every_attempt_would_meet_ends_the_first_with_one_readable_line(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    finished = submit(cluster, tmp_path, [*STEPS, "--num_workers", "2", "--lr", "1e30", "--max_failures", "2"])
    assert finished.status == "FAILED"
    assert len(finished.record["attempts"]) == 1 and not finished.said("start anew")
    (error,) = finished.errors
    assert error.endswith("lower --lr")
    assert any("Traceback" in line for line in finished.lines), "the whole story must stand above"


def _stop_both_ranks(runs: Path) -> bool:
    """As if they hung: a stopped process answers nothing, and does not tire of waiting for its peer either."""
    files = list(runs.glob("*/*/evidence/attempt-1/rank-[01].json"))
    for file in files if len(files) == 2 else []:
        os.kill(json.loads(file.read_text())["pid"], signal.SIGSTOP)
    return len(files) == 2
