"""Finding runs in folders and buckets: what is damaged, foreign or out of reach is told, and hides nothing else."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.recorded import NAME, changed, kept
from tests.training.s3_server import BUCKET, S3Server, serving
from workload.errors import BadInputError
from workload.run_choice import WHERE, belongs, last_good, selected
from workload.run_records import Found, find, the_one


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving() as server:
        yield server


def problems(found: Found) -> dict[str, str]:
    return {run.id: run.problem for run in found.runs if run.problem}


def test_runs_are_listed_newest_first_whatever_their_zone(tmp_path: Path) -> None:
    kept(tmp_path / "runs", "aaaa-1", minutes=5)
    kept(tmp_path / "runs", "bbbb-1", startedAt="2026-09-21T18:00:00+04:00")  # of 14:00 UTC, before 14:13
    kept(tmp_path / "runs", "cccc-1", minutes=9)
    found = find([str(tmp_path / "runs")])
    assert [run.short_id for run in found.runs] == ["cccc-1", "aaaa-1", "bbbb-1"]


def test_what_is_no_good_record_is_a_row_with_its_reason(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    kept(runs, "good-1")
    for name, text in {
        "cut": '{"schema": "ray-train-efa/run-rec',
        "list": "[1, 2]",
        "deep": "[" * 100_000,
        "foreign": '{"name": "somebody else\'s"}',
        "bandwidth": '{"schema": "ray-train-efa/bandwidth-run/1", "startedAt": "2026-11-30T00:00:00+00:00"}',
        "holes": '{"schema": "ray-train-efa/run-record/1", "submissionId": "holes", "image": 1}',
        "nameless": '{"schema": "ray-train-efa/run-record/1"}',
    }.items():
        (runs / name).mkdir()
        (runs / name / "record.json").write_text(text)
    (runs / "binary").mkdir()
    (runs / "binary" / "record.json").write_bytes(b"\xff\xfe\x00")
    (runs / "failed").mkdir()
    (runs / "failed" / "error.txt").write_text("job failed ended as FAILED\nfull log: x\n")
    (runs / "running").mkdir()
    (runs / "running" / "job.log").touch()
    (runs / "record").mkdir()
    (runs / "record" / "record.json").mkdir()
    (runs / "datasets").mkdir()
    (runs / "notes.txt").touch()
    found = find([str(runs)])
    told = problems(found)
    assert {name: reason.partition(":")[0] for name, reason in told.items()} == {
        "cut": "damaged",
        "list": "foreign",
        "deep": "damaged",
        "foreign": "foreign",
        "bandwidth": "no training run",
        "holes": "damaged",
        "nameless": "damaged",
        "binary": "damaged",
        "failed": "failed",
        "running": "no record",
        "record": "record.json cannot be read",
    }
    assert "image, code, cluster" in told["holes"]
    assert told["failed"] == "failed: job failed ended as FAILED"
    assert len(found.runs) == len(told) + 1


def test_a_record_of_a_newer_version_is_read_and_says_so(tmp_path: Path) -> None:
    kept(tmp_path / "runs", "aaaa-1", schema="ray-train-efa/run-record/3", more={"fields": 1})
    (run,) = find([str(tmp_path / "runs")]).runs
    assert (run.problem, run.verdict) == ("", "proven")
    assert run.notes == ("record of version 3; this program knows 1, and shows what it finds",)


@pytest.mark.parametrize("end", ["", "/", "/record.json"])
def test_one_run_s_folder_or_file_is_a_place_too(end: str, tmp_path: Path) -> None:
    folder = kept(tmp_path / "runs", "aaaa-1")
    kept(tmp_path / "runs", "bbbb-1")
    assert [run.short_id for run in find([f"{folder}{end}"]).runs] == ["aaaa-1"]


def test_a_failed_run_s_folder_and_a_record_of_another_name_are_places_too(tmp_path: Path) -> None:
    failed = tmp_path / "runs" / "failed-1"
    failed.mkdir(parents=True)
    (failed / "error.txt").write_text("job failed-1 ended as FAILED\n")
    assert problems(find([str(failed)])) == {"failed-1": "failed: job failed-1 ended as FAILED"}
    record = kept(tmp_path / "runs", "aaaa-1") / "record.json"
    shutil.copyfile(record, tmp_path / "sent by mail.json")
    (run,) = find([str(tmp_path / "sent by mail.json")]).runs
    assert (run.short_id, run.verdict) == ("aaaa-1", "proven")


def test_a_comparison_s_runs_are_reached_by_its_folder(tmp_path: Path) -> None:
    inner = tmp_path / "runs" / "compare-20261130T000000Z"
    kept(inner, "aaaa-1")
    found = find([str(tmp_path / "runs")])
    assert (found.runs, found.comparisons) == ((), (str(inner),))
    assert len(find([str(inner)]).runs) == 1


@pytest.mark.parametrize("place", ["", " ", "nowhere", "gs://bucket/runs", "s3://", "nowhere/record.json"])
def test_a_place_that_is_none_is_bad_input(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInputError, match=place.strip() or "names no folder"):
        find([place])


def test_a_run_in_two_places_is_one(tmp_path: Path) -> None:
    kept(tmp_path / "here", "aaaa-1")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    both = [str(tmp_path / "here"), str(tmp_path / "there")]
    (run,) = find(both).runs
    assert run.notes == ()
    changed(tmp_path / "there" / f"{NAME}-aaaa-1", quality__passed=False)
    (run,) = find(both).runs
    assert run.quality is True
    assert run.notes == (f"another record of it in {tmp_path / 'there' / f'{NAME}-aaaa-1'} differs",)
    (tmp_path / "here" / f"{NAME}-aaaa-1" / "record.json").write_text("{")
    (run,) = find(both).runs
    assert (run.problem, run.quality) == ("", False), "a record is better than a damaged one"


def test_runs_in_a_bucket_are_found_beside_those_here(s3: S3Server, tmp_path: Path) -> None:
    here, there = kept(tmp_path / "runs", "aaaa-1", minutes=1), kept(tmp_path / "s3", "bbbb-1", minutes=2)
    for name, body in {
        f"{there.name}/record.json": (there / "record.json").read_text(),
        f"{there.name}/checkpoints/step-1/x": "x",
        "broken/record.json": "{",
        "datasets/tokens": "x",
    }.items():
        s3.client.put_object(Bucket=BUCKET, Key=f"team/runs/{name}", Body=body.encode())
    found = find([str(tmp_path / "runs"), f"s3://{BUCKET}/team/runs/"])
    assert [run.id for run in found.runs] == [there.name, here.name, "broken"]
    assert found.runs[0].place == f"s3://{BUCKET}/team/runs/{there.name}"
    assert problems(found)["broken"].startswith("damaged: record.json is no JSON")
    only = find([f"s3://{BUCKET}/team/runs/{there.name}/record.json"])
    assert [run.id for run in only.runs] == [there.name]


def test_a_bucket_that_refuses_is_told_and_hides_no_other_place(s3: S3Server, tmp_path: Path) -> None:
    kept(tmp_path / "runs", "aaaa-1")
    found = find(["s3://no-such-bucket-of-the-test/runs", str(tmp_path / "runs")])
    assert [run.short_id for run in found.runs] == ["aaaa-1"]
    assert found.unread == ("s3://no-such-bucket-of-the-test/runs: there is nothing of that prefix, or no such bucket",)


def test_what_a_bucket_denies_is_told_with_what_to_do(s3: S3Server) -> None:
    with s3.denying("s3:ListBucket"):
        found = find([f"s3://{BUCKET}/denied"])
    assert found.runs == ()
    assert len(found.unread) == 1
    assert found.unread[0].startswith(f"s3://{BUCKET}/denied: ")


def test_the_beginning_of_an_id_is_enough_while_it_is_one_run_s(tmp_path: Path) -> None:
    for name in ("11a6-1", "11b7-1", "11b7-12"):
        kept(tmp_path / "runs", name)
    runs = find([str(tmp_path / "runs")]).runs
    assert the_one(runs, "11a").short_id == "11a6-1"
    assert the_one(runs, f"{NAME}-11a").short_id == "11a6-1"
    assert the_one(runs, "11b7-1").short_id == "11b7-1", "a whole id is no beginning"
    with pytest.raises(BadInputError, match="is the beginning of 3 runs") as several:
        the_one(runs, "11")
    assert str(several.value).count("\n") == 3
    with pytest.raises(BadInputError, match="no run begins with '22'"):
        the_one(runs, "22")


def test_runs_are_chosen_by_stack_verdict_and_number(tmp_path: Path) -> None:
    kept(tmp_path / "runs", "aaaa-1", minutes=1, stack="dev")
    kept(tmp_path / "runs", "bbbb-1", minutes=2, stack="prod")
    kept(tmp_path / "runs", "cccc-1", minutes=3, stack="dev", expect="efa")
    kept(tmp_path / "runs", "dddd-1", minutes=4, kind="local")
    runs = find([str(tmp_path / "runs")]).runs

    def ids(**asked: object) -> list[str]:
        return [run.short_id for run in selected(runs, **asked)]  # type: ignore[arg-type]

    assert ids(stack="dev") == ["cccc-1", "aaaa-1"]
    assert ids(stack="dev", verdict="proven") == ["aaaa-1"]
    assert ids(verdict="refuted") == ["cccc-1"]
    assert ids(stack="local") == ["dddd-1"], "the local platform's cluster is named after its stack"
    assert ids(limit=2) == ["dddd-1", "cccc-1"]


def test_a_record_without_its_stack_is_told_by_where_the_stack_is(tmp_path: Path) -> None:
    kept(tmp_path / "runs", "aaaa-1")
    (run,) = find([str(tmp_path / "runs")]).runs
    here = {**dict.fromkeys(WHERE, ""), "platform": "kubernetes", "kubeNamespace": "ray-train"}
    assert belongs(run, "dev", here)
    assert not belongs(run, "dev", {**here, "kubeNamespace": "another"})
    assert not belongs(run, "dev", None)


def test_the_last_good_run_is_proven_passed_and_has_a_digest(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    kept(runs, "aaaa-1", minutes=1)
    kept(runs, "good-1", minutes=2)
    kept(runs, "bbbb-1", minutes=3, expect="efa")
    kept(runs, "cccc-1", minutes=4, quality=("too high",))
    kept(runs, "dddd-1", minutes=5, quality=None)
    kept(runs, "eeee-1", minutes=6, digest="")
    good = last_good(find([str(runs)]).runs)
    assert good is not None
    assert good.short_id == "good-1"
    assert last_good([]) is None


def test_nothing_a_record_says_reaches_a_terminal_as_a_command(tmp_path: Path) -> None:
    folder = kept(tmp_path / "runs", "aaaa-1", image__reference="x/ray:\x1b]0;owned\x07", stack="\x1b[2Jdev")
    (run,) = find([str(folder)]).runs
    assert "\x1b" not in json.dumps([run.image, run.stack]).replace("\\u001b", "\x1b")
