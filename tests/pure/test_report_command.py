"""`efactl report`: which run is meant, where its page goes, what is said where there is none."""

import json
import shutil
from pathlib import Path

import pytest

import efactl.run_sources
import efactl.stack
from efactl.__main__ import main
from efactl.exit_codes import ExitCode
from tests.support import report_runs


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("dev", "local"):
        (project / f"Pulumi.{name}.yaml").touch()
    monkeypatch.setattr(efactl.run_sources, "FOLDER", project)
    monkeypatch.chdir(tmp_path)
    return project / "runs"


def test_a_run_is_found_by_its_id_its_beginning_or_its_record(runs: Path, tmp_path: Path) -> None:
    folder = report_runs.gloo(runs)
    for asked in (folder.name, "ray-train-fsdp-llm-1111", "1111", str(folder), str(folder / "record.json")):
        assert main(["report", asked]) == ExitCode.OK
        assert f"<title>Report on {folder.name}</title>" in (folder / "report.html").read_text()
        (folder / "report.html").unlink()
    copied = tmp_path / "elsewhere.json"
    shutil.copyfile(folder / "record.json", copied)
    assert main(["report", str(copied), "-o", "page.html"]) == ExitCode.OK
    assert "there is no job.log beside the record" in (tmp_path / "page.html").read_text()


def test_a_run_of_a_comparison_is_found_too(runs: Path) -> None:
    folder = report_runs.gloo(runs / "compare-20261130T085310Z")
    assert main(["report", "1111aaaa"]) == ExitCode.OK
    assert (folder / "report.html").exists()


def test_two_runs_make_one_page_beside_the_first(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = report_runs.efa(runs), report_runs.sockets(runs)
    assert main(["report", "2222", "3333", "--json"]) == ExitCode.OK
    page = first / f"report-with-{second.name}.html"
    assert json.loads(capsys.readouterr().out) == {
        "report": str(page),
        "runs": [
            {"submissionId": first.name, "verdict": "proven"},
            {"submissionId": second.name, "verdict": "refuted"},
        ],
    }
    assert "Two runs side by side" in page.read_text()


def test_a_page_goes_to_standard_output_alone(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = report_runs.gloo(runs)
    assert main(["report", "1111", "-o", "-"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert out.startswith("<!doctype html>")
    assert out.isascii(), "a pipe may have any encoding"
    assert not (folder / "report.html").exists()


def test_a_failed_run_has_a_page_too(runs: Path) -> None:
    folder = report_runs.failed(runs)
    assert main(["report", "4444"]) == ExitCode.OK
    assert "CUDA out of memory" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["9999"], "no run '9999' in "),
        (["9999"], "there are ray-train-fsdp-llm-1111aaaa11-aaaaaa-1, ray-train-fsdp-llm-2222bbbb22-bbbbbb-1"),
        (["ray-train"], "'ray-train' is the beginning of 2 runs"),
        ([""], "no run ''"),
        (["1111", "-o", "-", "--json"], "both ask for standard output"),
        (["notes.txt"], "notes.txt is no run record: it is not JSON"),
        (["other.json"], "other.json is no run record: its schema is 'x'"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_what_to_do(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    report_runs.gloo(runs)
    report_runs.efa(runs)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "other.json").write_text('{"schema": "x"}')
    assert main(["report", *arguments]) == ExitCode.BAD_INPUT
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


def test_without_any_run_it_says_how_to_make_one(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "1"]) == ExitCode.BAD_INPUT
    assert "there is none yet: `efactl up` makes one" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_an_error(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report_runs.gloo(runs)
    assert main(["report", "1111", "-o", "missing/page.html"]) == ExitCode.FAILED
    assert "the page missing/page.html cannot be written: No such file or directory" in capsys.readouterr().err


def test_a_stack_tells_how_it_was_brought_up_and_only_of_its_own_run(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = report_runs.efa(runs)
    cluster = "urn:pulumi:dev::p::aws:eks/cluster:Cluster::ray-cluster-eks"
    made = [
        {"type": "t", "urn": "urn:pulumi:dev::p::t::first", "created": "2026-11-30T10:00:00Z"},
        {"type": "aws:eks/cluster:Cluster", "urn": cluster, "created": "2026-11-30T10:09:00Z"},
    ]
    monkeypatch.setattr(efactl.stack.Stack, "resources", lambda _: made)
    assert main(["report", str(whole), "-s", "dev", "-o", "-"]) == ExitCode.OK
    page = capsys.readouterr().out
    assert "control plane" in page
    assert "Bring-up of the stack against its model" in page
    assert main(["report", str(whole), "-s", "local", "-o", "-"]) == ExitCode.BAD_INPUT
    assert "is of stack dev, not local" in capsys.readouterr().err
