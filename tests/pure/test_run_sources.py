"""Where the commands that read runs find them: places that are told, the project's own, a stack's; here and in S3."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs
import pytest

import efactl.run_sources
import efactl.stack
from capacity import aws
from efactl.__main__ import main
from efactl.exit_codes import ExitCode
from tests.support import report_runs
from tests.support.recorded import NAME, kept
from tests.training.s3_server import BUCKET, S3Server, serving, set_environment
from training import s3 as s3_storage
from training.storage import LocalFolder
from workload.errors import BadInputError

ROOT = Path(__file__).parents[2]
DENIED = "ListObjectsV2 denied with the credentials of AWS_ACCESS_KEY_ID"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving() as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a stack `dev` whose records are nowhere yet, and another folder to be in."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
    for module in (efactl.run_sources, efactl.stack):
        monkeypatch.setattr(module, "FOLDER", folder)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    set_stack(folder)
    return folder


def set_stack(project: Path, **settings: str) -> None:
    lines = [f"  {name.replace('__', ':')}: {value}" for name, value in settings.items()]
    (project / "Pulumi.dev.yaml").write_text("\n".join(["config:", "  ray-train-efa:platform: kubernetes", *lines]))


def records_in(project: Path, place: str, **settings: str) -> None:
    set_stack(project, **{"ray-train-efa__recordsPath": place, **settings})


def put(s3: S3Server, folder: Path, prefix: str) -> None:
    for path in folder.iterdir():
        s3.client.put_object(Bucket=BUCKET, Key=f"{prefix}/{folder.name}/{path.name}", Body=path.read_bytes())


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["runs", "list", *words, "--json"]) == ExitCode.OK
    return [run["id"].removeprefix(f"{NAME}-") for run in json.loads(capsys.readouterr().out)["runs"]]


def test_the_runs_of_a_stack_are_those_of_the_project_and_of_its_records_path(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records_in(project, "team/records")
    assert listed(capsys, "-s", "dev") == [], "neither place is there yet, and that is no mistake"
    kept(project / "runs", "aaaa-1", minutes=1, stack="dev")
    kept(project / "team" / "records", "aaaa-1", minutes=1, stack="dev")
    kept(project / "team" / "records", "bbbb-1", minutes=2, stack="dev")
    kept(project / "team" / "records", "cccc-1", minutes=3, stack="prod")
    assert listed(capsys, "-s", "dev") == ["bbbb-1", "aaaa-1"]
    assert listed(capsys) == ["aaaa-1"], "without a stack nobody knows of its place"
    assert listed(capsys, "-s", "dev", "--from", str(project / "runs")) == ["aaaa-1"]
    assert main(["runs", "show", "bbbb", "-s", "dev"]) == ExitCode.OK
    assert main(["runs", "diff", "aaaa", "bbbb", "-s", "dev"]) == ExitCode.OK
    assert main(["runs", "show", "bbbb"]) == ExitCode.BAD_INPUT


def test_a_bucket_of_records_is_looked_in_and_an_empty_one_is_no_failure(
    project: Path, s3: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records_in(project, f"s3://{BUCKET}/sources/team/records/")
    assert listed(capsys, "-s", "dev") == []
    put(s3, kept(tmp_path / "other", "aaaa-1", stack="dev"), "sources/team/records")
    assert listed(capsys, "-s", "dev") == ["aaaa-1"]


def test_a_bucket_out_of_reach_is_told_and_the_rest_is_listed(
    project: Path, s3: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(project / "runs", "aaaa-1", stack="dev")
    records_in(project, "s3://no-such-bucket-of-the-test/records")
    assert main(["runs", "list", "-s", "dev"]) == ExitCode.FAILED
    said = capsys.readouterr()
    assert "not read: s3://no-such-bucket-of-the-test/records: there is nothing of that prefix" in said.err
    assert "aaaa-1" in said.out


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gs://bucket/records", "is neither a folder"),
        ("s3://", "is not s3://bucket/prefix"),
        ("team.json", "has a record's name"),
    ],
)
def test_a_setting_that_is_no_place_is_told_by_its_name(
    place: str, words: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(project / "runs", "aaaa-1", stack="dev")
    records_in(project, place)
    assert main(["runs", "list", "-s", "dev"]) == ExitCode.FAILED
    said = capsys.readouterr()
    assert f"not read: recordsPath of stack dev: '{place}' {words}" in said.err
    assert "aaaa-1" in said.out


@pytest.mark.parametrize("content", [b"config: [", b"hello", b"config: [1]", b"\xff\xfe"])
def test_a_stack_s_file_that_is_damaged_is_told_and_no_traceback(
    content: bytes, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(project / "runs", "aaaa-1", stack="dev")
    (project / "Pulumi.dev.yaml").write_bytes(content)
    for words in (["runs", "list"], ["runs", "show", "aaaa"], ["report", "aaaa"]):
        assert main([*words, "-s", "dev"]) == ExitCode.BAD_INPUT
        assert str(project / "Pulumi.dev.yaml") in capsys.readouterr().err


def test_a_role_is_read_from_a_list_and_from_its_json() -> None:
    role = "arn:aws:iam::123456789012:role/x"
    told: list[object] = [[{"roleArn": role}], json.dumps([{"roleArn": role}])]
    for roles in told:
        assert aws.access_of({"aws:assumeRoles": roles}.get).role_arn == role
    nothing: object
    for nothing in (None, [], [{}]):
        assert aws.access_of({"aws:assumeRoles": nothing}.get).role_arn == ""
    for wrong in (role, {"roleArn": role}, "5"):
        with pytest.raises(BadInputError, match="aws:assumeRoles"):
            aws.access_of({"aws:assumeRoles": wrong}.get)


def test_s3_is_reached_as_the_stack_s_profile_says(
    project: Path,
    s3: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(s3, kept(tmp_path / "other", "prof-1", stack="dev"), "sources/profiled")
    kept(project / "runs", "aaaa-1", minutes=9, stack="dev")
    credentials = tmp_path / "credentials"
    credentials.write_text("[team]\naws_access_key_id = of-the-team\naws_secret_access_key = x\n")
    set_environment(
        monkeypatch,
        {"AWS_SHARED_CREDENTIALS_FILE": str(credentials), "AWS_ACCESS_KEY_ID": "mine", "AWS_SESSION_TOKEN": "mine"},
    )
    aws.forget()
    seen: set[tuple[str | None, str | None]] = set()
    names = s3_storage.S3Folder.names

    def noted(folder: s3_storage.S3Folder) -> list[str]:
        seen.add((os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SESSION_TOKEN")))
        return names(folder)

    monkeypatch.setattr(s3_storage.S3Folder, "names", noted)
    records_in(project, f"s3://{BUCKET}/sources/profiled", aws__profile="team")
    assert listed(capsys, "-s", "dev") == ["aaaa-1", "prof-1"]
    assert seen == {("of-the-team", None)}
    assert (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SESSION_TOKEN"]) == ("mine", "mine")
    records_in(project, f"s3://{BUCKET}/sources/profiled", aws__profile="nobody")
    assert main(["runs", "list", "-s", "dev"]) == ExitCode.FAILED
    said = capsys.readouterr()
    assert f"not read: s3://{BUCKET}/sources/profiled: " in said.err and "nobody" in said.err
    assert "aaaa-1" in said.out
    aws.forget()


@pytest.mark.parametrize("by_stack", [True, False])
def test_a_bucket_is_asked_in_its_own_region_whatever_the_shells_is(
    by_stack: bool, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an endpoint, so that pyarrow's own question to AWS is replaced here: it cannot be reached."""
    asked: list[str] = []

    def bucket_region(bucket: str) -> str:
        asked.append(bucket)
        return "eu-central-1"

    def file_system(**options: object) -> None:
        raise OSError(f"this is {options['region']}")

    monkeypatch.setattr(pyarrow.fs, "resolve_s3_region", bucket_region)
    monkeypatch.setattr(pyarrow.fs, "S3FileSystem", file_system)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    records_in(project, "s3://teams-bucket/runs", aws__region="us-east-2")
    assert main(["runs", "list", *(["-s", "dev"] if by_stack else ["--from", "s3://teams-bucket/runs"])]) != ExitCode.OK
    assert "this is eu-central-1" in capsys.readouterr().err
    assert set(asked) == {"teams-bucket"}
    assert (os.environ["AWS_REGION"], os.environ["AWS_DEFAULT_REGION"]) == ("us-west-2", "us-west-2")


def test_the_shells_region_serves_where_a_buckets_own_cannot_be_asked_for(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(bucket: str) -> str:
        raise OSError("no way to AWS")

    def file_system(**options: object) -> None:
        raise OSError(f"this is {options['region']}")

    monkeypatch.setattr(pyarrow.fs, "resolve_s3_region", unknown)
    monkeypatch.setattr(pyarrow.fs, "S3FileSystem", file_system)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for region, says in (("cn-north-1", "this is cn-north-1"), ("", "no way to AWS")):
        monkeypatch.setenv("AWS_REGION", region)
        assert main(["runs", "list", "--from", "s3://teams-bucket/runs"]) != ExitCode.OK
        assert says in capsys.readouterr().err


def test_a_stack_that_is_no_more_keeps_its_records_and_one_that_never_was_is_a_mistake(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(project / "runs", "aaaa-1", stack="gone")
    assert listed(capsys, "-s", "gone") == ["aaaa-1"]
    assert main(["runs", "show", "aaaa", "-s", "gone"]) == ExitCode.OK
    for words in (["list"], ["show", "aaaa"], ["diff", "aaaa", "aaaa"]):
        assert main(["runs", *words, "-s", "nope"]) == ExitCode.BAD_INPUT
        assert "stack 'nope' has no Pulumi.nope.yaml; there are dev" in capsys.readouterr().err


@pytest.mark.parametrize("end", ["", "/", "/record.json"])
def test_a_run_in_s3_has_a_page_here(
    end: str, project: Path, s3: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = report_runs.efa(tmp_path / "elsewhere")
    put(s3, folder, "sources/pages")
    assert main(["report", f"s3://{BUCKET}/sources/pages/{folder.name}{end}"]) == ExitCode.OK
    page = Path(f"report-{folder.name}.html")
    assert capsys.readouterr().out == f"report: {page}\n"
    text = page.read_text()
    assert f"<title>Report on {folder.name}</title>" in text
    assert "there is no job.log beside the record" not in text, "the log lies beside the record in the bucket too"


def test_an_id_is_looked_for_in_each_place_and_in_the_comparisons_there(
    project: Path, s3: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(s3, report_runs.efa(tmp_path / "elsewhere"), "sources/found/compare-20261130T085310Z")
    put(s3, report_runs.failed(tmp_path / "elsewhere"), "sources/found")
    here = report_runs.sockets(project / "runs")
    places = ["--from", f"s3://{BUCKET}/sources/found", "--from", str(project / "runs")]
    assert main(["report", "2222", *places, "-o", "-"]) == ExitCode.OK
    assert main(["report", "4444", *places]) == ExitCode.OK
    assert "CUDA out of memory" in Path("report-ray-train-fsdp-llm-4444dddd44-dddddd-1.html").read_text()
    assert main(["report", "3333", "2222", *places]) == ExitCode.OK
    assert (here / "report-with-ray-train-fsdp-llm-2222bbbb22-bbbbbb-1.html").exists()
    assert main(["report", "2222", "3333", *places]) == ExitCode.OK
    assert Path(f"report-ray-train-fsdp-llm-2222bbbb22-bbbbbb-1-with-{here.name}.html").exists()
    capsys.readouterr()
    assert main(["report", "9999", *places]) == ExitCode.BAD_INPUT
    said = capsys.readouterr().err
    assert f"no run '9999' in s3://{BUCKET}/sources/found, {project / 'runs'}, and no such file; there are " in said
    assert "2222bbbb22" in said and "4444dddd44" in said and "3333cccc33" in said


def test_the_records_path_of_a_stack_has_its_runs_reports_too(
    project: Path, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(efactl.stack.Stack, "resources", lambda _: [])
    folder = report_runs.gloo(tmp_path / "elsewhere")
    put(s3, folder, "sources/of-dev")
    records_in(project, f"s3://{BUCKET}/sources/of-dev")
    assert main(["report", "1111"]) == ExitCode.BAD_INPUT
    assert main(["report", "1111", "-s", "dev"]) == ExitCode.OK
    assert Path(f"report-{folder.name}.html").exists()


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (
            "s3://{bucket}/sources/empty/run-1",
            ExitCode.BAD_INPUT,
            "there is no record.json there, no error.txt and no job.log",
        ),
        ("s3://{bucket}/sources/bad/run-1", ExitCode.BAD_INPUT, "run-1/record.json is no run record: it is not JSON"),
        (
            "s3://{bucket}/sources/bad/run-1/other.json",
            ExitCode.BAD_INPUT,
            "other.json is no run record: its schema is 'x'",
        ),
        ("s3://Not A Bucket/x", ExitCode.BAD_INPUT, "is neither a folder nor s3://bucket/prefix"),
        ("gs://bucket/x", ExitCode.BAD_INPUT, "no run 'gs://bucket/x'"),
    ],
)
def test_what_is_no_run_in_s3_is_said(
    asked: str, code: ExitCode, words: str, project: Path, s3: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, body in (("record.json", b"{"), ("other.json", b'{"schema": "x"}')):
        s3.client.put_object(Bucket=BUCKET, Key=f"sources/bad/run-1/{name}", Body=body)
    assert main(["report", asked.format(bucket=BUCKET)]) == code
    assert words in capsys.readouterr().err


def test_a_bucket_that_denies_is_a_failure_with_what_to_do_and_hides_no_other_place(
    project: Path,
    s3: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = report_runs.gloo(project / "runs")
    put(s3, report_runs.efa(tmp_path / "elsewhere"), "sources/denied")
    with s3.denying("s3:GetObject"):
        assert (
            main(["report", f"s3://{BUCKET}/sources/denied/ray-train-fsdp-llm-2222bbbb22-bbbbbb-1"]) == ExitCode.FAILED
        )
    assert "record.json cannot be read: " in capsys.readouterr().err

    def refusing(_: object) -> list[str]:
        raise s3_storage.S3Error(DENIED)

    # The server lists for everybody.
    monkeypatch.setattr(s3_storage.S3Folder, "names", refusing)
    places = ["--from", f"s3://{BUCKET}/sources/denied", "--from", str(project / "runs")]
    assert main(["report", "1111", *places]) == ExitCode.OK
    assert capsys.readouterr().err == f"not read: s3://{BUCKET}/sources/denied: {DENIED}\n"
    assert (folder / "report.html").exists()
    assert main(["report", "2222", *places]) == ExitCode.BAD_INPUT
    assert f"; not read: s3://{BUCKET}/sources/denied: {DENIED}" in capsys.readouterr().err


def test_a_place_that_was_named_must_be_there(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["report", "1111"], ["runs", "list"]):
        assert main([*words, "--from", "nowhere"]) == ExitCode.BAD_INPUT
        assert "nowhere: there is no such folder" in capsys.readouterr().err


def test_what_a_place_has_besides_its_runs_hides_none_of_them(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report_runs.gloo(project / "runs")
    (project / "runs" / "compare-before-and-after.html").write_text("a page that somebody keeps there")
    comparison = project / "runs" / "compare-20261130T085310Z"
    report_runs.sockets(comparison)
    assert main(["report", "1111", "-o", str(tmp_path / "page.html")]) == ExitCode.OK
    assert main(["report", "3333", "-o", str(tmp_path / "page.html")]) == ExitCode.OK
    names = LocalFolder.names

    def refusing(folder: LocalFolder) -> list[str]:
        if folder.path == comparison:
            raise PermissionError(13, "Permission denied")
        return names(folder)

    monkeypatch.setattr(LocalFolder, "names", refusing)
    capsys.readouterr()
    assert main(["report", "1111", "-o", str(tmp_path / "page.html")]) == ExitCode.OK
    assert capsys.readouterr().err == f"not read: {comparison}: Permission denied\n"
    assert main(["report", "3333"]) == ExitCode.BAD_INPUT


def test_a_record_counts_before_what_a_run_without_one_left(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was followed on another machine: only its log, or nothing, is on this one."""
    team = tmp_path / "team"
    whole = report_runs.efa(team)
    places = ["--from", str(project / "runs"), "--from", str(team)]
    left = project / "runs" / whole.name
    left.mkdir(parents=True)
    for name in (None, "job.log"):
        if name is not None:
            (left / name).write_text("the first lines\n")
        assert main(["report", "2222", *places, "--json", "-o", str(tmp_path / "page.html")]) == ExitCode.OK
        assert json.loads(capsys.readouterr().out)["runs"][0]["verdict"] == "proven", name or "an empty folder"


def test_links_that_lead_in_a_circle_are_a_place_that_cannot_be_read(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert main(["runs", "list", "--from", str(tmp_path / "circle")]) == ExitCode.FAILED
    assert "circle: Too many levels of symbolic links" in capsys.readouterr().err
