"""`efactl runs`: what it prints, its JSON, its exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from efactl import run_sources
from efactl import runs as module
from efactl.__main__ import main
from tests.support.recorded import NAME, NEW, OLD, STARTED, kept
from workload.run_folder import begin, settle

ROOT = Path(__file__).parents[2]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's own, empty but for what a test puts there."""
    monkeypatch.setattr(run_sources, "FOLDER", tmp_path)
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def efactl(*words: str) -> int:
    return main(["runs", *words])


def facts(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert efactl(*words, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_disk_that_is_full_is_said_in_one_line(tmp_path: Path) -> None:
    kept(tmp_path, "aaaa-1")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "efactl", "runs", "list", "--from", str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "efactl runs: [Errno 28] No space left on device\n"


def test_a_package_that_is_missing_is_said_with_what_installs_it(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(asked: Any) -> None:
        raise ModuleNotFoundError("No module named 'psutil'", name="psutil")

    monkeypatch.setattr(module, "runs", missing)
    assert efactl("list") == 1
    assert "the package psutil is not installed here: `make setup`" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["record.json", "error.txt", "begun.json", "job.log"])
@pytest.mark.parametrize("command", [("runs", "list"), ("report", "odd")])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, name: str, command: tuple[str, ...]) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "error.txt").write_text("job odd ended as FAILED\n")
    (tmp_path / "odd" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "odd" / name)
    words = [sys.executable, "-m", "efactl", *command, "--from", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    assert "odd" in done.stdout + done.stderr


def test_what_is_no_number_in_a_record_is_none_in_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = kept(runs, "aaaa-1") / "record.json"
    whole = json.loads(record.read_text()) | {"losses": [[1, float("nan")], [2, float("inf")]]}
    record.write_text(json.dumps(whole).replace("Infinity", "1e999"))
    assert facts(capsys, "show", "aaaa-1")["losses"] == [[1, None], [2, None]]


def test_the_list_has_a_line_a_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(runs, "aaaa-1", stack="dev", digest=NEW)
    kept(runs, "bbbb-1", minutes=5, expect="efa", quality=None, kind="local")
    (runs / "cccc-1").mkdir()
    (runs / "cccc-1" / "error.txt").write_text("job cccc-1 ended as FAILED\n")
    assert efactl("list") == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "started", "(UTC)", "stack", "platform", "transport", *head.split()[6:]]
    assert len(lines) == 3
    assert lines[0].endswith("failed: job cccc-1 ended as FAILED"), "it is the newest, by its folder"
    assert lines[1].split()[:7] == ["bbbb-1", "2026-09-21", "14:18", "local", "local", "refuted", "efa"]
    assert "not judged" in lines[1]
    assert lines[2].split() == [
        *("aaaa-1", "2026-09-21", "14:13", "dev", "kubernetes", "proven", "gloo", "passed", "10,000"),
        *("2", "x", "g6.12xlarge", "4", "x", "cpu", "ray:v1", "sha256:bbbbbbbbbbbb"),
    ]
    assert "\x1b" not in "".join(lines)


def test_a_run_without_a_record_is_its_stack_s_from_its_beginning_on(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(runs, "aaaa-1", minutes=30, stack="local")
    for name, stack, minutes in (("bbbb-1", "local", 20), ("cccc-1", "dev", 40)):
        begin(runs / name, stack=stack, started_at=STARTED + 60 * minutes)
        settle(runs / name, f"job {name} ended as FAILED")
        (runs / name / "job.log").touch()
    (runs / "eeee-1").mkdir()
    (runs / "eeee-1" / "job.log").touch()
    # A page about it is written much later.
    (runs / "bbbb-1" / "report.html").touch()
    assert [one["id"] for one in facts(capsys, "list", "-s", "local")["runs"]] == [f"{NAME}-aaaa-1", "bbbb-1"]
    assert efactl("list", "-s", "local", "--verdict", "none") == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[1].split()[:3] == ["bbbb-1", "2026-09-21", "14:33"]
    assert told.err == "not listed: 1 run of which nothing tells the stack\n"


def test_a_page_about_a_run_does_not_make_it_a_newer_one(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of an older version, which says nothing of its beginning."""
    ended = STARTED + 60
    (runs / "bbbb-1").mkdir()
    settle(runs / "bbbb-1", "job bbbb-1 ended as FAILED")
    os.utime(runs / "bbbb-1" / "error.txt", (ended, ended))
    (runs / "bbbb-1" / "report.html").touch()
    kept(runs, "aaaa-1", minutes=30)
    first, second = facts(capsys, "list")["runs"]
    assert (first["id"], second["id"]) == (f"{NAME}-aaaa-1", "bbbb-1")
    assert second["startedAt"].startswith("2026-09-21T14:14:20")


def test_where_no_place_could_be_read_nobody_is_told_to_make_a_run(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "file").touch()
    assert efactl("list", "--from", str(runs / "file" / "below")) == 1
    told = capsys.readouterr()
    assert told.out == "no runs where it could be looked\n"
    assert "Not a directory" in told.err


def test_the_list_is_filtered(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(runs, "aaaa-1", stack="dev")
    kept(runs, "bbbb-1", minutes=5, stack="gone", expect="efa")
    kept(runs, "cccc-1", minutes=9, stack="gone")
    told = facts(capsys, "list", "-s", "gone", "--verdict", "proven")
    assert [run["id"] for run in told["runs"]] == [f"{NAME}-cccc-1"], "of a stack that is no more, too"
    assert [run["id"] for run in facts(capsys, "list", "--limit", "1")["runs"]] == [f"{NAME}-cccc-1"]
    assert efactl("list", "--verdict", "none") == 0
    assert capsys.readouterr().out == "none of 3 runs is asked for\n"


def test_no_runs_are_no_failure(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert efactl("list") == 0
    assert capsys.readouterr().out == "no runs: `efactl up` makes one\n"
    runs.rmdir()
    assert facts(capsys, "list") == {"runs": [], "unread": [], "comparisons": []}


def test_a_place_out_of_reach_fails_after_the_rest_was_told(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(runs, "aaaa-1")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("training.s3.S3Folder.names", denied)
    assert efactl("list", "--from", "s3://bucket/runs", "--from", str(runs)) == 1
    told = capsys.readouterr()
    assert told.err == "not read: s3://bucket/runs: Permission denied\n"
    assert "aaaa-1" in told.out


def test_one_run_is_shown_for_readers(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(runs, "aaaa-1", settings={"rayShmSize": "8Gi", "rayTmpSize": "50Gi"}, model={"identity": "a" * 40})
    assert efactl("show", "aa") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"run {NAME}-aaaa-1"
    assert "transport proven, expected gloo" in lines
    assert "  stepSeconds      median 0.4096, p90 0.45056, first 1" in lines
    assert "  ranks [2, 3]  aaaa-1-machine-1, aaaa-1-pod-1, g6.12xlarge, us-west-2b" in lines
    assert lines[lines.index("model") + 1] == f"  identity  {'a' * 12}..."
    assert any(line.split() == ["rayShmSize", "8Gi"] for line in lines)
    assert not any("rayTmpSize" in line for line in lines), "that is the default"


def test_json_is_the_record_itself(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = kept(runs, "aaaa-1", more={"unknown": [1, None]})
    assert facts(capsys, "show", "aaaa") == json.loads((folder / "record.json").read_text())


@pytest.mark.parametrize("words", [("show", "damaged"), ("diff", "damaged", "aaaa"), ("diff", "aaaa", "damaged")])
def test_a_damaged_record_fails_with_its_reason(
    words: tuple[str, ...], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(runs, "aaaa-1")
    (runs / "damaged").mkdir()
    (runs / "damaged" / "record.json").write_text("{")
    assert efactl(*words) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("efactl runs: run damaged has no record to read: damaged: record.json is no JSON")


@pytest.mark.parametrize("words", [("show", "zzzz"), ("show", "aa"), ("diff", "aaaa", "aaaa"), ("diff", "aaaa", "")])
def test_an_id_that_is_none_or_several_is_bad_input(
    words: tuple[str, ...], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(runs, "aaaa-1")
    kept(runs, "aabb-1")
    assert efactl(*words) == 2
    assert capsys.readouterr().err.startswith("efactl runs: ")


def test_what_did_the_image_update_do(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(runs, "aaaa-1", versions={"nccl": "2.28.9"})
    kept(runs, "bbbb-1", minutes=9, digest=NEW, versions={"nccl": "2.29.3"}, tokens=12_000, loss=2.1)
    assert efactl("diff", "aaaa", "bbbb") == 0
    text = capsys.readouterr().out
    assert "\none kind of change separates the runs: image (image.digest)\n" in text
    assert "    image.digest: sha256:aaaaaaaaaaaa... -> sha256:bbbbbbbbbbbb...\n" in text
    assert "    versions.nccl: 2.28.9 -> 2.29.3  (follows from the image)\n" in text
    assert "(11 of 13 kinds)" in text
    figures = {line.split("  ")[0]: line.split()[-3:] for line in text.splitlines()}
    assert figures["tokens/s"] == ["10,000", "12,000", "1.200"]
    assert figures["held-out loss after"] == ["2.2", "2.1", "0.955"]
    assert "\nspeed: B is 1.200 (95 %: " in text
    assert "times as fast as A; noise from step to step within the two runs" in text
    assert "aaaa-1-pod" not in text, "hosts are new with every run"
    told = facts(capsys, "diff", "aaaa", "bbbb")
    assert (told["causes"], told["unknown"]) == (["image"], [])
    assert told["movements"][0]["ratio"] == pytest.approx(1.2)
    assert {"kind": "image", "path": "image.digest", "role": "cause", "a": OLD, "b": NEW} in told["differences"]


def test_repetitions_in_the_same_places_are_the_noise(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, tokens in enumerate((10_000, 10_400, 9_700)):
        kept(runs, f"a{number}-1", minutes=number, tokens=tokens)
        kept(runs, f"b{number}-1", minutes=9 + number, tokens=tokens * 1.01, digest=NEW)
    assert efactl("diff", "a0", "b0") == 0
    text = capsys.readouterr().out
    assert "\nspeed: no difference shown between B and A" in text
    assert text.rstrip().endswith("noise from 3 runs like A and 3 like B")


def test_a_verdict_that_turned_says_why(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(runs, "aaaa-1")
    kept(runs, "bbbb-1", minutes=9, expect="efa", quality=("held-out loss 9 is above 3",))
    assert efactl("diff", "aaaa", "bbbb") == 0
    text = capsys.readouterr().out
    assert "\ntransport: proven (gloo) -> refuted (efa): rank 0 on node" in text
    assert "\nquality: passed -> failed: held-out loss 9 is above 3\n" in text
