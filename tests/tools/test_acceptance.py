"""The acceptance gate's script around an `efactl` of its own: exit code, report, record, and an end to what bills."""

import json
import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tools.acceptance import __main__ as acceptance
from tools.acceptance.record import Kept, judged, run_among, text
from tools.setup import pins

EFACTL = """
import json, os, pathlib, signal, sys
command = sys.argv[1]
if os.environ.get("NOTHING"):
    sys.exit(0)
if command == "up":
    folder = pathlib.Path("runs/run-2")
    folder.mkdir(parents=True)
    if os.environ.get("WAITS"):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
        print("waiting", flush=True)
        signal.pause()
    code = int(os.environ["CODE"])
    if os.environ.get("FAILS"):
        failed = pathlib.Path("runs", os.environ["FAILS"])
        failed.mkdir(exist_ok=True)
        (failed / "error.txt").write_text("FAILED: rank 1 of 123456789012: <out of memory>\\n")
        (failed / "job.log").write_text("the last words")
    if code != 1:
        value = {0: "proven", 3: "refuted"}[code]
        record = {"submissionId": "run-2", "verdict": {"value": value, "reasons": ["rank 0: because"]}}
        (folder / "record.json").write_text(json.dumps(record))
        (folder / "job.log").write_text("log of run-2")
    sys.exit(code)
assert sys.argv[1:4] == ["report", os.environ.get("FAILS", "run-2"), "-s"] and sys.argv[5] == "-o", sys.argv
pathlib.Path(sys.argv[6]).write_text("<html>")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "efactl").mkdir()
    (tmp_path / "efactl/__main__.py").write_text(EFACTL)
    old = tmp_path / "runs/run-1"
    old.mkdir(parents=True)
    (old / "record.json").write_text(json.dumps({"submissionId": "run-1", "verdict": {"value": "proven"}}))
    config = {
        "ray-train-efa:platform": "eks",
        "ray-train-efa:capacityUntil": "2026-01-01T00:00:00Z",
        "ray-train-efa:gpuNodes": "2",
    }
    (tmp_path / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": config}))
    return tmp_path


def changed(project: Path, setting: dict[str, str]) -> Path:
    file = project / "Pulumi.dev.yaml"
    content = yaml.safe_load(file.read_text())
    content["config"] |= {f"ray-train-efa:{key}": value for key, value in setting.items()}
    file.write_text(yaml.safe_dump(content))
    return file


def gate(project: Path) -> int:
    return acceptance.main(["-s", "dev", "--hours", "3", "--out", str(project / "out")], project=project)


@pytest.mark.parametrize(("code", "verdict"), [(0, "proven"), (3, "refuted")])
def test_it_exits_by_the_verdict_and_keeps_report_and_record_of_this_run(
    project: Path, monkeypatch: pytest.MonkeyPatch, code: int, verdict: str
) -> None:
    monkeypatch.setenv("CODE", str(code))
    assert gate(project) == code
    assert json.loads((project / "out/record.json").read_text())["submissionId"] == "run-2"
    assert (project / "out/report.html").read_text() == "<html>"
    assert (project / "out/job.log").read_text() == "log of run-2"
    said = (project / "out/summary.md").read_text()
    assert f"ended with {code}" in said and f"**{verdict}**" in said and "rank 0: because" in said


def test_an_up_that_ran_nothing_is_no_green_gate(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stack that is up already and due no run, or one without GPU nodes: `efactl up` rightly ends with 0."""
    monkeypatch.setenv("NOTHING", "1")
    assert gate(project) == 4
    assert "no run of its own is on record as proven" in capsys.readouterr().err
    said = (project / "out/summary.md").read_text()
    assert "**The gate fails with 4: no run of its own" in said and "There was no run" in said
    assert "SUCCEEDED" not in said, "what an exit code of 0 means otherwise"


def test_a_run_that_no_verdict_calls_proven_is_no_green_gate() -> None:
    assert judged(0, Kept(run="r", record={"verdict": {"value": "proven"}})) == 0
    for record in (None, {}, {"verdict": None}, {"verdict": {"value": "unproven"}}):
        assert judged(0, Kept(run="r", record=record)) == 4
    assert judged(3, None) == 3, "what failed fails by its own code"


@pytest.mark.parametrize("setting", [{"train": "false", "jobRunId": "earlier"}, {"platform": "local"}])
def test_every_gate_asks_for_a_run_of_its_own(
    project: Path, monkeypatch: pytest.MonkeyPatch, setting: dict[str, str]
) -> None:
    monkeypatch.setenv("CODE", "0")
    file = changed(project, setting)
    asked = set()
    for run, attempt in [("77", "1"), ("77", "2"), ("78", "1")]:
        monkeypatch.setenv("GITHUB_RUN_ID", run)
        monkeypatch.setenv("GITHUB_RUN_ATTEMPT", attempt)
        shutil.rmtree(project / "runs/run-2", ignore_errors=True)
        assert gate(project) == 0
        config = yaml.safe_load(file.read_text())["config"]
        assert config["ray-train-efa:train"] is True
        asked.add(config["ray-train-efa:jobRunId"])
    assert asked == {"acceptance 77-1", "acceptance 77-2", "acceptance 78-1"}


def test_a_gate_by_hand_is_told_from_another_by_its_time() -> None:
    first, second = (acceptance.run_id({}, datetime(2026, 12, 1, 4, minute, tzinfo=UTC)) for minute in (1, 2))
    assert first != second


def test_a_run_without_a_record_is_not_told_by_an_earlier_ones(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "1")
    assert gate(project) == 1
    assert sorted(path.name for path in (project / "out").iterdir()) == ["summary.md"]
    assert "There was no run" in (project / "out/summary.md").read_text()


@pytest.mark.parametrize("run", ["run-2", "ray-train-bandwidth-2"])
def test_of_a_run_that_failed_its_error_its_log_and_a_report_are_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    monkeypatch.setenv("CODE", "1")
    monkeypatch.setenv("FAILS", run)
    assert gate(project) == 1
    kept = sorted(path.name for path in (project / "out").iterdir())
    assert kept == ["error.txt", "job.log", "report.html", "summary.md"]
    assert (project / "out/job.log").read_text() == "the last words"
    said = (project / "out/summary.md").read_text()
    assert f"- run `{run}`" in said and "`report.html`" in said
    account = "\\*" * 12
    assert f"- FAILED: rank 1 of {account}: &lt;out of memory>\n" in said, "no account, no markup"


def test_a_measurement_beside_the_run_is_not_the_run() -> None:
    assert run_among(["run-2", "run-2", "bandwidth-1"], failed=True) == "run-2"
    assert run_among(["bandwidth-1", "bandwidth-1"], failed=False) is None


def test_a_measurement_that_ended_the_up_is_kept() -> None:
    assert run_among(["bandwidth-1", "bandwidth-2"], failed=True) == "bandwidth-2"
    assert run_among([], failed=True) is None


def test_nodes_and_reservation_end_by_themselves_within_the_hours_given(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODE", "0")
    before = datetime.now(UTC)
    gate(project)
    config = yaml.safe_load((project / "Pulumi.dev.yaml").read_text())["config"]
    until = datetime.fromisoformat(config["ray-train-efa:ttlUntil"])
    assert 2.9 < (until - before).total_seconds() / 3600 < 3.1
    assert config["ray-train-efa:capacityUntil"] == config["ray-train-efa:ttlUntil"]
    assert config["ray-train-efa:gpuNodes"] == "2"


@pytest.mark.parametrize("capacity", ["none", "cr-0123456789abcdef0"])
def test_nodes_end_by_themselves_where_nothing_is_reserved_for_them(project: Path, capacity: str) -> None:
    file = changed(project, {"capacity": capacity})
    before = yaml.safe_load(file.read_text())["config"]
    acceptance.bound(file, datetime(2026, 12, 1, tzinfo=UTC))
    after = yaml.safe_load(file.read_text())["config"]
    assert after == {**before, "ray-train-efa:ttlUntil": "2026-12-01T00:00:00Z"}


@pytest.mark.parametrize("setting", [{"platform": "local"}, {"capacity": "none", "gpuExistingGroup": "gpus"}])
def test_a_stack_that_makes_no_gpu_nodes_is_left_as_it_is(project: Path, setting: dict[str, str]) -> None:
    file = changed(project, setting)
    content = yaml.safe_load(file.read_text())
    acceptance.bound(file, datetime.now(UTC))
    assert yaml.safe_load(file.read_text()) == content


def test_an_end_from_outside_is_passed_on_and_its_code_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAITS", "1")
    code = (
        "from tools.acceptance.__main__ import up; import pathlib, sys; sys.exit(up('dev', pathlib.Path(sys.argv[1])))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(project)], cwd=pins.PROJECT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130
    process.stdout.close()


def test_many_reasons_are_counted() -> None:
    record = {"submissionId": "r", "verdict": {"value": "unproven", "reasons": [f"rank {n}" for n in range(40)]}}
    assert "and 32 more" in text("dev", 4, Kept(run="r", record=record))
    assert "evidence is missing" in text("dev", 4, Kept(run="r", record=record))


def test_a_reason_is_text_in_the_job_s_page_whatever_a_log_has_put_there() -> None:
    record = {"verdict": {"value": "refuted", "reasons": ["<img src=x> @team\n# head `x`"]}}
    assert "  - &lt;img src=x> @&#8203;team \\# head \\`x\\`\n" in text("dev", 3, Kept(run="r", record=record))


def test_the_end_is_written_and_nothing_else_is_read_anew(project: Path) -> None:
    file = project / "Pulumi.dev.yaml"
    settings = "platform: eks\n  ray-train-efa:jobEnv: {A: yes, B: on}\n"
    file.write_text(f"config:\n  ray-train-efa:{settings}")
    acceptance.bound(file, datetime(2026, 12, 1, tzinfo=UTC))
    assert "A: yes" in file.read_text() and "B: on" in file.read_text()
    assert yaml.safe_load(file.read_text())["config"]["ray-train-efa:capacityUntil"] == "2026-12-01T00:00:00Z"
