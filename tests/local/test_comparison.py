"""A comparison on a real Ray cluster: real training and real all-reduces in two arms, each proven to be of its arm."""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from infra import local_nodes
from tests.local.conftest import head_of
from tests.support.project import QUICK, ROOT
from workload import job
from workload.arms import Arm, Arms, default_arms
from workload.compare_runs import Compared, carry_out
from workload.comparison_plan import Plan
from workload.errors import ReportedError
from workload.job_following import JobRequest
from workload.job_spec import JobSpec, training_digest
from workload.verdict import Wanted

pytestmark = pytest.mark.local


@pytest.fixture(scope="module", autouse=True)
def this_python() -> Iterator[None]:
    """The cluster's `python` is found on the PATH it was started with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield


def plan(
    cluster: local_nodes.LocalCluster, folder: Path, training: Path, *, arms: Arms, sizes: list[str] | None
) -> Plan:
    spec = JobSpec(
        training_digest=training_digest(training),
        arguments={"steps": 60, "seq_len": 64, "batch_size": 2, "checkpoint_every": 20},
        pip=[],
        pip_digests={},
        env={},
        secret_env={},
        image="local",
        cluster_spec_digest="digest",
        run_id="",
    )
    request = JobRequest(
        spec=spec,
        head=head_of(cluster),
        training=training,
        runs=folder / "runs",
        storage=str(folder / "shared"),
        deadline_s=240,
    )
    return Plan(
        request=request,
        wanted=Wanted(expect="gloo"),
        settings={},
        arms=arms,
        repeats=3,
        steps=12,
        sizes=sizes,
    )


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_two_gloo_settings_are_compared_with_both_proven_and_a_finite_interval(
    cluster: local_nodes.LocalCluster, tmp_path: Path
) -> None:
    what = plan(cluster, tmp_path, ROOT / "training", arms=default_arms("gloo"), sizes=["64K", "1M"])
    done = carry_out(what, say=print, interrupt=Event())
    comparison = done.comparison
    assert comparison.status == "complete", comparison.reasons
    assert [(run.arm, run.repeat) for run in comparison.runs] == [
        ("gloo", 1),
        ("gloo-lazy", 1),
        ("gloo-lazy", 2),
        ("gloo", 2),
        ("gloo", 3),
        ("gloo-lazy", 3),
    ]
    for run in comparison.runs:
        assert (run.verdict.value, run.hosts, run.ranks) == ("proven", 2, 4)
        record = json.loads(Path(run.record).read_text())
        assert len(record["losses"]) == 12 and record["checkpoint"] is None
        given = {name for rank in record["attempts"][-1]["ranks"] for name in rank["job_environment"]}
        assert ("TORCH_GLOO_LAZY_INIT" in given) == (run.arm == "gloo-lazy"), "the arm's setting reached the ranks"
    assert len({run.submission_id for run in comparison.runs}) == 6
    assert comparison.ratio is not None
    assert 0 < comparison.ratio.low <= comparison.ratio.value <= comparison.ratio.high < math.inf
    assert [one.size for one in comparison.size_ratios] == [64 << 10, 1 << 20]
    assert all(one.verdict.value == "proven" for one in comparison.all_reduces)
    print(done.report.with_name("comparison.txt").read_text())
    assert job.unfinished(what.request.head) == []


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_slowdown_that_is_really_there_is_found(cluster: local_nodes.LocalCluster, tmp_path: Path) -> None:
    """The second arm lets torch check each collective against the other ranks', which costs collectives of its own."""
    checked = (
        Arm(name="plain", expect="gloo", env={}),
        Arm(name="checked", expect="gloo", env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
    )
    what = plan(cluster, tmp_path, ROOT / "training", arms=checked, sizes=None)
    # Three repeats do not show it where something else takes the cores too.
    done = carry_out(dataclasses.replace(what, repeats=6, steps=30), say=print, interrupt=Event())
    assert done.comparison.status == "complete", done.comparison.reasons
    ratio = done.comparison.ratio
    assert ratio is not None and ratio.low > 1 and not ratio.inside_noise, ratio
    assert "plain is " in done.report.with_name("comparison.txt").read_text()


def quick(folder: Path) -> Path:
    training = folder / "training"
    training.symlink_to(QUICK)
    return training.resolve()


def in_background(action: Callable[[], Compared]) -> tuple[Thread, list[Compared]]:
    ended: list[Compared] = []
    thread = Thread(target=lambda: ended.append(action()))
    thread.start()
    return thread, ended


def test_an_interruption_stops_the_running_job_and_only_that(cluster: local_nodes.LocalCluster, tmp_path: Path) -> None:
    arms = tuple(Arm(name=name, expect="gloo", env={"QUICK_HOLD": "/nowhere/release"}) for name in "ab")
    what = plan(cluster, tmp_path, quick(tmp_path), arms=(arms[0], arms[1]), sizes=None)
    interrupt, stepped = Event(), Event()

    def say(line: str) -> None:
        print(line)
        if "step 1/12" in line:
            stepped.set()

    thread, ended = in_background(lambda: carry_out(what, say=say, interrupt=interrupt))
    assert stepped.wait(90)
    with pytest.raises(ReportedError, match="of other inputs, still runs"):
        job.run(what.request, say=print, interrupt=Event())
    refused = carry_out_elsewhere(what, tmp_path)
    assert refused.comparison.status == "failed", "beside a running job none is begun"
    assert len(job.unfinished(what.request.head)) == 1, "and that one is not stopped"
    interrupt.set()
    thread.join(60)
    assert ended[0].comparison.status == "interrupted"
    assert job.unfinished(what.request.head) == []


def carry_out_elsewhere(what: Plan, folder: Path) -> Compared:
    request = dataclasses.replace(what.request, runs=folder / "elsewhere")
    return carry_out(dataclasses.replace(what, request=request), say=print, interrupt=Event())


def test_a_job_that_fails_ends_it_with_its_error(cluster: local_nodes.LocalCluster, tmp_path: Path) -> None:
    arms = Arm(name="good", expect="gloo", env={}), Arm(name="bad", expect="gloo", env={"QUICK_END": "fail"})
    what = plan(cluster, tmp_path, quick(tmp_path), arms=arms, sizes=None)
    done = carry_out(what, say=print, interrupt=Event())
    assert done.comparison.status == "failed"
    assert [run.arm for run in done.comparison.runs] == ["good"]
    whole = json.loads(done.report.read_text())
    assert "--dataset: 'nowhere' does not exist" in whole["reasons"][0]
    assert job.unfinished(what.request.head) == []
