"""The comparison as resources: what makes it anew, what is only judged again, and what fails an `up`."""

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.compared import GLOOS, Cluster, comparison
from workload import compare_runs
from workload.comparison import result_of
from workload.comparison_gate import ComparisonGateProvider
from workload.errors import ReportedError, RunInterruptedError
from workload.transport_comparison import IDENTITY, TransportComparisonProvider

PROPS: dict[str, Any] = {
    "arms": [arm.as_json() for arm in GLOOS],
    "repeats": 3.0,
    "steps": 13.0,
    "bandwidth": False,
    "sizes": [],
    "head": {
        "kind": "local",
        "namespace": "",
        "cluster_name": "local",
        "ray_version": "2.58.0",
        "spec_digest": "d",
        "nodes": 2.0,
        "accelerators_per_node": 2.0,
        "worker_resource": "trainer",
    },
    "training_digest": "a" * 64,
    "arguments": {"steps": 60.0},
    "pip": [],
    "pip_digests": {},
    "env": {},
    "secret_env": {},
    "secret_env_names": [],
    "image": "image",
    "cluster_spec_digest": "d",
    "run_id": "",
    "storage": "runs",
    "deadline_seconds": 60.0,
    "expect": "gloo",
    "nics": None,
    "gdr": False,
    "rules": 2.0,
    "settings": {},
    "placement": [],
    "result": None,
    "report": None,
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The program's folder: a resource's paths are relative to it."""
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> TransportComparisonProvider:
    carry_out = functools.partial(compare_runs.carry_out, run=cluster.run, measure=cluster.measure, stop=cluster.stop)
    monkeypatch.setattr(compare_runs, "carry_out", carry_out)
    return TransportComparisonProvider()


def test_a_complete_comparison_is_stored_with_its_ratio_and_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tokens_per_second=lambda env: 500 if env else 1000)
    created = on(cluster, monkeypatch).create(PROPS)
    assert created.outs is not None
    result = created.outs["result"]
    assert result["status"] == "complete" and result["value"] == pytest.approx(2) and not result["insideNoise"]
    assert result["arms"] == ["gloo", "gloo-lazy"]
    assert json.loads((folder / created.outs["report"]).read_text())["status"] == "complete"
    assert created.id == Path(created.outs["report"]).parent.name
    assert cluster.requests[0].spec.arguments["steps"] == 13


def test_its_runs_and_its_report_are_copied_whatever_came_of_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created = on(Cluster(changed=refuting), monkeypatch).create({**PROPS, "records": {"path": "team"}})
    (copy,) = (folder / "team").iterdir()
    assert copy.name == created.id
    assert (copy / "comparison.json").read_text() == (folder / "runs" / copy.name / "comparison.json").read_text()
    assert [path.name for path in copy.glob("*/record.json")] == ["record.json"], "of the one job that it came to"


def refuting(number: int, whole: dict[str, Any]) -> None:
    whole["attempts"][0]["ranks"][0]["backend"] = "nccl"


def test_a_refuted_one_is_stored_too_so_that_it_is_not_run_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created = on(Cluster(changed=refuting), monkeypatch).create(PROPS)
    assert created.outs is not None
    assert created.outs["result"]["status"] == "refuted" and "value" not in created.outs["result"]
    with pytest.raises(ReportedError, match="the comparison is refuted") as caught:
        gate(created.outs["result"], created.outs["report"])
    assert "arm gloo, repeat 1" in str(caught.value)


def test_a_failed_one_leaves_nothing_in_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def before(number: int) -> None:
        raise ReportedError("job x, of other inputs, still runs")

    with pytest.raises(ReportedError, match=r"still runs\nso far: runs/compare-.*/comparison.json"):
        on(Cluster(before=before), monkeypatch).create(PROPS)


def test_an_interrupted_one_says_that_nothing_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def before(number: int) -> None:
        raise RunInterruptedError("goes on")

    with pytest.raises(RunInterruptedError, match=r"after 0 of 6 jobs: none of them runs on"):
        on(Cluster(before=before), monkeypatch).create(PROPS)


@pytest.mark.parametrize("key", IDENTITY)
def test_each_input_of_the_comparison_makes_it_anew(key: str) -> None:
    news = {**PROPS, key: ["other"] if isinstance(PROPS[key], list) else "other"}
    found = TransportComparisonProvider().diff("id", PROPS, news)
    assert found.changes and found.replaces == [key]


@pytest.mark.parametrize("key", ["settings", "deadline_seconds", "expect", "placement", "secret_env", "head"])
def test_nothing_else_does(key: str) -> None:
    found = TransportComparisonProvider().diff("id", PROPS, {**PROPS, key: {"other": 1}})
    assert not found.changes and not found.replaces


def gate(result: dict[str, Any], report: str = "absent.json", minimum: float | None = None) -> dict[str, Any]:
    created = ComparisonGateProvider().create(gated(result, report, minimum))
    assert created.outs is not None
    return dict(created.outs)


def gated(result: dict[str, Any], report: str = "absent.json", minimum: float | None = None) -> dict[str, Any]:
    return {"result": result, "report": report, "min_speedup": minimum, "passed": None}


TWICE = result_of(comparison([200, 440, 180], [100, 200, 100]))


def test_the_gate_passes_any_ratio_without_a_minimum(capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(result_of(comparison([1.0] * 3, [9.0] * 3)))["passed"] is True
    assert gate(result_of(comparison([1000, 1100, 1040], [1050, 1000, 1060])))["passed"] is True
    assert "times gloo-lazy's (95 %: 0.835 to 1.22), inside the noise" in capsys.readouterr().out


def test_the_gate_fails_below_its_minimum_and_the_same_result_passes_a_lower_one(tmp_path: Path) -> None:
    report = tmp_path / "comparison.json"
    report.write_text('{"status": "complete", "runs": [1]}')
    with pytest.raises(ReportedError, match=r"too slow: .*\n.*below compareMinSpeedup 1.6\nIt stays on record"):
        gate(TWICE, str(report), 1.6)
    held = json.loads(report.read_text())
    assert held["runs"] == [1] and held["judgement"]["minSpeedup"] == 1.6 and held["judgement"]["reasons"]
    assert gate(TWICE, str(report), 1.5)["passed"] is True
    assert json.loads(report.read_text())["judgement"]["reasons"] == []


def test_a_changed_minimum_is_a_change_of_the_gate_alone(tmp_path: Path) -> None:
    provider = ComparisonGateProvider()
    olds = gate(TWICE)
    assert provider.diff("id", olds, gated(TWICE)).changes is False
    found = provider.diff("id", olds, gated(TWICE, minimum=1.6))
    assert found.changes and not found.replaces


def test_going_back_to_a_minimum_that_passed_is_a_change_while_the_report_has_the_failure(tmp_path: Path) -> None:
    report = tmp_path / "comparison.json"
    report.write_text("{}")
    provider = ComparisonGateProvider()
    olds = gate(TWICE, str(report), 1.5)
    assert provider.diff("id", olds, gated(TWICE, str(report), 1.5)).changes is False
    with pytest.raises(ReportedError):
        provider.update("id", olds, gated(TWICE, str(report), 1.6))
    assert provider.diff("id", olds, gated(TWICE, str(report), 1.5)).changes is True
    provider.update("id", olds, gated(TWICE, str(report), 1.5))
    assert provider.diff("id", olds, gated(TWICE, str(report), 1.5)).changes is False
