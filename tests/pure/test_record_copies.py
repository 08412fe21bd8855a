"""Copies of judged runs where a team finds them: complete, made up for where they failed, and no run's trouble."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config  # type: ignore[import-untyped]

from capacity import aws
from tests.pure.test_transport import transport
from tests.support import report_runs
from tests.support.recorded import kept
from tests.training.s3_server import BUCKET, S3Server, serving, set_environment
from workload import job, record_copies
from workload.errors import ReportedError
from workload.record_copies import RecordsPlace, copied, copy_comparison
from workload.run_gate import RunGateProvider
from workload.run_records import find
from workload.verdict import RULES

RUN = "ray-train-fsdp-llm-1111aaaa11-aaaaaa-1"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving() as server:
        aws.forget()
        yield server
    aws.forget()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run, with checkpoints beside its record."""
    folder = report_runs.gloo(tmp_path / "runs", RUN)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "weights").write_text("x")
    return folder


def gate(run: Path, records: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "submission_id": run.name,
        "record": str(run / "record.json"),
        "transport": transport(),
        "eval_loss_after": 2.0,
        "expect": "gloo",
        "nics": None,
        "gdr": False,
        "rules": RULES,
        "max_eval_loss": None,
        "records": records or {},
        **changes,
    }


def in_folder(tmp_path: Path) -> dict[str, Any]:
    return {"path": str(tmp_path / "team" / "records"), "profile": "", "region": "", "role_arn": ""}


def in_bucket(prefix: str, **changes: str) -> dict[str, Any]:
    """Beside what other tests have there: the server's buckets are this process's."""
    return {"path": f"s3://{BUCKET}/copies/{prefix}", "profile": "", "region": "us-west-2", "role_arn": "", **changes}


def created(inputs: dict[str, Any]) -> dict[str, Any]:
    """The state after a first `up`."""
    return dict(RunGateProvider().create(inputs).outs or {})


def changes(olds: dict[str, Any], news: dict[str, Any]) -> bool:
    return bool(RunGateProvider().diff("gate", olds, news).changes)


def updated(olds: dict[str, Any], news: dict[str, Any]) -> dict[str, Any]:
    return dict(RunGateProvider().update("gate", olds, news).outs or {})


def warning(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: ")]
    return line


def test_a_judged_run_lies_in_the_folder_with_its_judgement_and_its_log(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = created(gate(run, in_folder(tmp_path)))
    copy = tmp_path / "team" / "records" / RUN
    assert state["copy"] == str(copy)
    assert f"run {RUN} copied to {copy}" in capsys.readouterr().out
    assert sorted(path.name for path in copy.iterdir()) == ["job.log", "record.json"], "checkpoints stay where they are"
    assert (copy / "record.json").read_bytes() == (run / "record.json").read_bytes()
    assert json.loads((copy / "record.json").read_text())["quality"]["passed"] is True


def test_a_run_that_the_gate_fails_is_copied_with_the_failure(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportedError, match="gateMaxEvalLoss"):
        RunGateProvider().create(gate(run, in_folder(tmp_path), max_eval_loss=1.5))
    record = json.loads((tmp_path / "team" / "records" / RUN / "record.json").read_text())
    assert record["quality"]["passed"] is False


def test_a_run_in_a_bucket_is_found_by_the_commands_that_read_runs(run: Path, s3: S3Server) -> None:
    state = created(gate(run, in_bucket("team/runs")))
    assert state["copy"] == f"s3://{BUCKET}/copies/team/runs/{RUN}"
    assert sorted(s3.keys("copies/team/runs/")) == [
        f"copies/team/runs/{RUN}/{name}" for name in ("job.log", "record.json")
    ]
    (found,) = find([f"s3://{BUCKET}/copies/team/runs"]).runs
    assert (found.id, found.quality) == (RUN, True)


def test_a_judgement_anew_replaces_the_copy_also_in_a_bucket_that_keeps_versions(run: Path, s3: S3Server) -> None:
    place = f"s3://{BUCKET}-versions"
    s3.client.create_bucket(Bucket=f"{BUCKET}-versions")
    s3.client.put_bucket_versioning(Bucket=f"{BUCKET}-versions", VersioningConfiguration={"Status": "Enabled"})
    records = {"path": place}
    state = created(gate(run, records))
    anew = gate(run, records, max_eval_loss=1.5)
    assert changes(state, anew)
    with pytest.raises(ReportedError, match="gateMaxEvalLoss"):
        RunGateProvider().update("gate", state, anew)
    (found,) = find([place]).runs
    assert found.quality is False
    assert changes(state, gate(run, records)), "the copy has the failure too: going back copies it again"
    updated(state, gate(run, records))
    (found,) = find([place]).runs
    assert found.quality is True


def test_an_unchanged_up_is_no_change_and_asks_nobody(run: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    state = created(gate(run, in_bucket("once")))
    before_copies = created(gate(run))

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("an unchanged up asks S3 nothing")

    monkeypatch.setattr(aws, "client", never)
    assert not changes(state, gate(run, in_bucket("once")))
    assert not changes(state, gate(run)), "what is copied stays where it is"
    assert not changes({**before_copies, "copy": ""}, gate(run))
    older = {key: value for key, value in before_copies.items() if key not in ("records", "copy")}
    assert not changes(older, gate(run)), "a state of a version without copies"
    whose = in_bucket("once", profile="another", role_arn="arn:aws:iam::123456789012:role/x")
    assert not changes(state, gate(run, whose)), "as whom a copy was made is no part of it"


def test_a_place_that_is_set_later_gets_the_run_that_is_there(run: Path, tmp_path: Path) -> None:
    state = created(gate(run))
    assert state["copy"] == ""
    assert changes(state, gate(run, in_folder(tmp_path)))
    state = updated(state, gate(run, in_folder(tmp_path)))
    assert (tmp_path / "team" / "records" / RUN / "record.json").exists()
    assert not changes(state, gate(run, in_folder(tmp_path)))
    assert changes(state, gate(run, in_bucket("elsewhere"))), "another place is another copy"


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (
            {"path": "s3://no-such-bucket-of-the-test/runs"},
            "NoSuchBucket: The specified bucket does not exist: make the bucket, or correct recordsPath",
        ),
        ({"path": f"s3://{BUCKET}/x", "profile": "nobody"}, "The config profile (nobody) could not be found"),
        ({"path": "/dev/null/records"}, "Not a directory: make /dev/null/records writable for whoever runs pulumi"),
        ({"path": f"s3://{BUCKET}/x", "role_arn": "admin"}, "'admin' of aws:assumeRoles is no role's ARN"),
        ({"path": "/tmp/a\0b"}, "embedded null byte: correct recordsPath"),
    ],
)
def test_a_copy_that_fails_is_one_line_and_no_failure(
    records: dict[str, Any], words: str, run: Path, s3: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    state = created(gate(run, records))
    said = warning(capsys)
    assert said.startswith(f"warning: run {RUN} was not copied to {records['path']}/{RUN}: ")
    assert words in said
    assert said.endswith(f". It is kept in {run}; the next `pulumi up` tries it again")
    assert (state["verdict"], state["copy"]) == ("proven", "")


def test_what_failed_is_made_up_for_by_the_next_up(run: Path, s3: S3Server, capsys: pytest.CaptureFixture[str]) -> None:
    with s3.denying("s3:PutObject"):
        state = created(gate(run, in_bucket("denied")))
        said = warning(capsys)
        assert "Forbidden" in said and "docs/iam/records.json" in said
        assert changes(state, gate(run, in_bucket("denied")))
        state = updated(state, gate(run, in_bucket("denied")))
        assert changes(state, gate(run, in_bucket("denied")))
    assert s3.keys("copies/denied/") == []
    state = updated(state, gate(run, in_bucket("denied")))
    assert len(s3.keys("copies/denied/")) == 2
    assert not changes(state, gate(run, in_bucket("denied")))


def test_nobody_that_answers_at_the_endpoint_is_said_within_its_patience(
    run: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(aws, "_PATIENCE", aws._PATIENCE.merge(Config(retries={"total_max_attempts": 1})))
    set_environment(monkeypatch, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    aws.forget()
    try:
        assert created(gate(run, in_bucket("nowhere")))["copy"] == ""
    finally:
        aws.forget()
    said = warning(capsys)
    assert "127.0.0.1:9" in said and "check the network" in said


def test_an_endpoint_that_is_none_is_a_warning_and_no_failure_of_the_run(
    run: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_environment(monkeypatch, {"AWS_ENDPOINT_URL": "minio:9000"})
    aws.forget()
    try:
        assert created(gate(run, in_bucket("nowhere")))["copy"] == ""
    finally:
        aws.forget()
    assert "Invalid endpoint: minio:9000" in warning(capsys)


def test_a_reader_never_sees_a_record_without_its_log(run: Path, tmp_path: Path) -> None:
    (tmp_path / "team" / "records" / RUN / "job.log").mkdir(parents=True)
    assert created(gate(run, in_folder(tmp_path)))["copy"] == ""
    left = sorted(path.name for path in (tmp_path / "team" / "records" / RUN).iterdir())
    assert left == ["job.log"], "no record, and nothing half written"


def test_the_record_is_the_last_to_be_uploaded(run: Path, s3: S3Server) -> None:
    asked: list[str] = []
    client = aws.client("s3", "us-west-2")
    client.meta.events.register_last(
        "before-parameter-build.s3", lambda params, **_: asked.append(params["Key"].rpartition("/")[2])
    )
    created(gate(run, in_bucket("order")))
    assert asked == ["job.log", "record.json"]
    aws.forget()


def test_a_record_of_another_machine_is_not_touched_and_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = in_folder(tmp_path)
    state = created(gate(run, records))
    capsys.readouterr()
    (run / "record.json").unlink()
    assert not changes(state, gate(run, records))
    assert not changes({**state, "copy": ""}, gate(run, records)), "it cannot be copied from here"
    anew = updated(state, gate(run, records, nics=None, max_eval_loss=3.0))
    assert anew["copy"] == state["copy"]
    assert f"the one in {state['copy']} keeps its former judgement" in warning(capsys)


def test_a_run_that_ends_with_an_error_is_copied_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.pure.test_providers import job_inputs
    from workload.ray_train_job import RayTrainJobProvider

    monkeypatch.chdir(tmp_path)
    head = {
        "kind": "local",
        "namespace": "",
        "cluster_name": "local",
        "ray_version": "2.58.0",
        "spec_digest": "c",
        "nodes": 1,
        "accelerators_per_node": 1,
        "worker_resource": "trainer",
        "address": "http://127.0.0.1:1",
        "token": "tok",
    }

    def fails(request: Any, **_: Any) -> None:
        folder = request.runs / RUN
        folder.mkdir(parents=True)
        (folder / "job.log").write_text("all of it\n")
        raise request.settle(folder, f"job {RUN} ended as FAILED")

    monkeypatch.setattr(job, "run", fails)
    with pytest.raises(ReportedError, match="ended as FAILED"):
        RayTrainJobProvider().create(job_inputs(head=head, records=in_folder(tmp_path)))
    copy = tmp_path / "team" / "records" / RUN
    assert sorted(path.name for path in copy.iterdir()) == ["error.txt", "job.log"]
    assert [run.problem for run in find([str(copy.parent)]).runs] == [f"failed: job {RUN} ended as FAILED"]
    other = in_folder(tmp_path) | {"path": "/dev/null/x"}
    (tmp_path / "runs" / RUN / "job.log").unlink()
    (tmp_path / "runs" / RUN / "error.txt").unlink()
    (tmp_path / "runs" / RUN).rmdir()
    capsys.readouterr()
    with pytest.raises(ReportedError, match="ended as FAILED"):
        RayTrainJobProvider().create(job_inputs(head=head, records=other))
    assert "copy its job.log and error.txt by hand: no `pulumi up` comes back to it" in warning(capsys)


def test_a_comparison_s_runs_and_its_report_are_copied_one_folder_deeper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = tmp_path / "runs" / "compare-20261130T085310Z"
    kept(comparison, "aaaa-1")
    kept(comparison, "bbbb-1")
    for name in ("comparison.json", "comparison.txt", "comparison.json.new"):
        (comparison / name).write_text("{}")
    said: list[str] = []
    own: Sequence[str] = ("comparison.txt", "comparison.json")
    copy_comparison({"records": in_folder(tmp_path)}, comparison, said.append, own=own)
    copy = tmp_path / "team" / "records" / comparison.name
    assert said == [f"comparison {comparison.name} copied to {copy}"]
    assert sorted(path.name for path in copy.iterdir() if path.is_file()) == ["comparison.json", "comparison.txt"]
    assert find([str(copy.parent)]).comparisons == (str(copy),)
    assert len(find([str(copy)]).runs) == 2
    copy_comparison({"records": {"path": "/dev/null/x"}}, comparison, said.append, own=own)
    assert said[1].endswith(f"It is kept in {comparison}; copy it by hand: it is not tried again")
    copy_comparison({}, comparison, said.append, own=own)
    assert len(said) == 2


def test_a_large_log_arrives_whole_by_what_the_policy_allows(run: Path, s3: S3Server) -> None:
    (run / "job.log").write_bytes(b"a line of it\n" * (9 << 20 >> 3))
    calls: set[str] = set()
    aws.forget()
    client = aws.client("s3")
    client.meta.events.register_last("before-call.s3", lambda model, **_: calls.add(model.name))
    assert copied(RecordsPlace(path=f"s3://{BUCKET}/copies/large"), run, print, again="")
    assert calls == {"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "PutObject"}
    stored = s3.client.get_object(Bucket=BUCKET, Key=f"copies/large/{RUN}/job.log")["Body"].read()
    assert stored == (run / "job.log").read_bytes()
    aws.forget()


def test_the_policy_of_records_writes_and_reads_there_and_nothing_else() -> None:
    policy = json.loads((Path(__file__).parents[2] / "docs/iam/records.json").read_text())
    by_action = {action: one["Resource"] for one in policy["Statement"] for action in one["Action"]}
    # Parts of an upload are s3:PutObject too.
    below, bucket = "arn:aws:s3:::my-records/ray-train-efa/*", "arn:aws:s3:::my-records"
    assert by_action == {
        "s3:PutObject": below,
        "s3:AbortMultipartUpload": below,
        "s3:GetObject": below,
        "s3:ListBucket": bucket,
    }


def test_a_place_is_only_what_the_settings_hand_over() -> None:
    from infra.records_settings import RecordsSettings

    handed = RecordsSettings(path="s3://b/p", profile="p", region="r", role_arn="a")
    assert record_copies.place_in({"records": handed.inputs()}) == RecordsPlace(**handed.inputs())
    nowhere = RecordsSettings(path="", profile="", region="", role_arn="")
    assert record_copies.place_in({"records": nowhere.inputs()}) is None
    assert record_copies.place_in({}) is None, "as a resource of an older version has it"
