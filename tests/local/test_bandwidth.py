"""The bandwidth job on a real Ray cluster of a head and two worker nodes, over gloo. Sizes are small."""

import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from infra import local_nodes
from tests.local.test_job import Runner, in_background, until
from workload import nccl_tests
from workload.bandwidth import BandwidthOutcome, measure
from workload.bandwidth_preflight import BandwidthPreflightProvider
from workload.errors import ReportedError, RunInterruptedError
from workload.job_following import JobRequest
from workload.transport import judge
from workload.verdict import RULES, Wanted

pytestmark = pytest.mark.local

PROJECT = Path(__file__).parents[2]
SIZES = ["64K", "1M"]


@pytest.fixture(scope="module", autouse=True)
def this_python() -> Iterator[None]:
    """The cluster's `python` is found on the PATH it was started with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield


@pytest.fixture
def runner(cluster: local_nodes.LocalCluster, tmp_path: Path) -> Runner:
    (tmp_path / "training").symlink_to(PROJECT / "training")
    return Runner(cluster, tmp_path)


def measured(
    runner: Runner, request: JobRequest, *, iterations: int = 3, interrupt: Event | None = None
) -> BandwidthOutcome:
    return measure(
        request,
        sizes=SIZES,
        iterations=iterations,
        warm_up=1,
        say=runner.said.append,
        interrupt=interrupt or Event(),
    )


def test_a_measurement_has_plausible_rows_a_verdict_and_a_folder_of_its_own(runner: Runner) -> None:
    outcome = measured(runner, runner.request("plain", deadline_s=400))
    assert outcome.submission_id.startswith("ray-train-bandwidth-")
    assert outcome.log == runner.folder / "runs" / outcome.submission_id / "job.log"
    assert [(row["bytes"], row["count"], row["wrong"]) for row in outcome.rows] == [
        (65536, 16384, 0),
        (1048576, 262144, 0),
    ]
    for row in outcome.rows:
        assert 0 < row["time_us"] < 60e6
        assert row["algbw_gbs"] == pytest.approx(row["bytes"] / row["time_us"] / 1000)
        assert row["busbw_gbs"] == pytest.approx(row["algbw_gbs"] * 2 * 3 / 4)
    verdict = judge(outcome.transport, Wanted(expect="gloo"))
    assert verdict.value == "proven", verdict.reasons
    assert judge(outcome.transport, Wanted(expect="efa")).value == "refuted"

    record = json.loads(outcome.record.read_text())
    assert record["rows"] == outcome.rows
    assert record["arguments"]["sizes"] == SIZES
    assert {"torch", "ray", "python"} <= record["versions"].keys()
    moved = [rank["must_move"] for rank in record["attempts"][0]["ranks"]]
    assert moved == [{"steps": 10, "sent": 5 * 1114112, "received": 5 * 1114112}] * 4, "3 timed, 1 before, 1 compared"

    lines = outcome.log.read_text().splitlines()
    table = nccl_tests.parse(lines)
    assert table.largest is not None and table.largest.size == 1048576
    assert (table.out_of_bounds, table.passed) == (0, True)
    assert any(re.match(r"all_reduce 1M: .* GB/s, 0 wrong", line) for line in runner.said), "seen while it goes on"


def test_an_interrupted_measurement_goes_on_keeps_others_away_and_is_followed_to_its_end(runner: Runner) -> None:
    request = runner.request("interrupted", deadline_s=400)
    interrupt = Event()
    thread, raised = in_background(lambda: measured(runner, request, interrupt=interrupt))
    until(lambda: "submitted" in runner.lines(), seconds=60, what="the submission")
    interrupt.set()
    thread.join(60)
    assert isinstance(raised[0], RunInterruptedError)
    assert re.search(r"job ray-train-bandwidth-\S+ goes on", str(raised[0]))
    with pytest.raises(ReportedError, match=r"job ray-train-bandwidth-\S+, of other inputs, still runs"):
        runner.run(runner.request("training"))
    outcome = measured(runner, request)
    assert "already running: following it" in runner.lines()
    assert [row["wrong"] for row in outcome.rows] == [0, 0]
    # Nobody has judged it, so that the engine may never have stored it.
    again = measured(runner, request)
    assert (again.submission_id, again.rows) == (outcome.submission_id, outcome.rows)
    assert "finished while nobody followed it: collecting its result" in runner.lines()


@pytest.mark.full
def test_a_measurement_that_takes_too_long_is_ended_by_its_own_deadline(runner: Runner) -> None:
    with pytest.raises(ReportedError, match=r"--deadline_s 90: the deadline passed before the run ended") as caught:
        measured(runner, runner.request("late", deadline_s=90), iterations=100_000_000)
    assert "full log: " in str(caught.value)


def inputs(runner: Runner, **changes: Any) -> dict[str, Any]:
    return {
        "head": dataclasses.asdict(runner.head),
        "sizes": SIZES,
        "min_busbw_gbs": None,
        "expect": "gloo",
        "nics": None,
        "gdr": False,
        "rules": RULES,
        "backend": "auto",
        "num_workers": 0,
        "pip": [],
        "pip_digests": {},
        "env": {},
        "secret_env": {},
        "secret_env_names": [],
        "image": "test",
        "cluster_spec_digest": "c",
        "run_id": "",
        "storage": "runs",
        "deadline_seconds": 400,
        **changes,
    }


def test_a_preflight_passes_as_wanted_and_fails_where_more_is_demanded(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runner.folder)
    provider = BandwidthPreflightProvider()
    outs = provider.create(inputs(runner)).outs
    assert outs is not None
    assert outs["verdict"] == "proven" and outs["busbw_gbs"] > 0
    assert json.loads(Path(outs["record"]).read_text())["verdict"]["value"] == "proven"
    with pytest.raises(ReportedError, match="below preflightMinBusBandwidth 100000"):
        provider.update("id", outs, inputs(runner, min_busbw_gbs=100_000))
    assert len(list(Path("runs").iterdir())) == 1, "judged by what was measured"
