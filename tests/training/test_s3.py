"""Storage in a bucket: what a rank writes is what it would write in a directory, and what S3 refuses is told."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.training import ranks
from tests.training.arguments import arguments, config
from tests.training.job import run_driver
from tests.training.s3_server import BUCKET, S3Server, set_environment
from training import s3 as s3_storage
from training.checkpoint_files import newest_complete, step_folder
from training.driver import EXIT_FAILED
from training.errors import TrainingError
from training.run_directory import RunDirectory
from training.s3 import S3Folder, explanation
from training.storage import LocalFolder, open_folder

MIB = 1024 * 1024


@pytest.fixture
def environment(s3: S3Server) -> Iterator[pytest.MonkeyPatch]:
    """Changes of it end with the test."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    s3_storage.forget()


def refusal(location: str) -> str:
    with pytest.raises(TrainingError) as refused:
        RunDirectory.of(config(storage_path=location)).create()
    told = str(refused.value)
    assert "\n" not in told
    assert told.startswith(f"--storage_path {location}: cannot be written: ")
    return told


@pytest.fixture(scope="module")
def both(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("both")
    ranks.run_ranks(2, ranks.saved_in_both, folder, f"s3://{BUCKET}/both")
    return folder


def test_every_rank_s_shards_are_the_same_bytes_in_a_bucket_as_in_a_directory(both: Path, s3: S3Server) -> None:
    names = LocalFolder(both / "checkpoint").sizes().keys()
    assert {"__0_0.distcp", "__1_0.distcp", ".metadata", "progress.json", "model/config.json", "COMPLETE.json"} <= names
    assert {key.removeprefix("both/") for key in s3.keys("both/") if not key.endswith("/")} == names
    for name in ("__0_0.distcp", "__1_0.distcp", "progress.json"):
        stored = s3.client.get_object(Bucket=BUCKET, Key=f"both/{name}")["Body"].read()
        assert stored == (both / "checkpoint" / name).read_bytes(), name


def test_a_run_resumed_from_a_bucket_repeats_the_losses_to_the_last_bit(both: Path) -> None:
    told = ranks.told(both)
    assert told["from_s3"] == told["from_directory"] == told["straight"]
    assert len(told["from_s3"]) == ranks.STEPS


def test_an_outage_during_a_save_ends_it_on_every_rank_in_bounded_time_and_the_last_checkpoint_counts(
    s3: S3Server, tmp_path: Path
) -> None:
    location = f"s3://{BUCKET}/outage"
    ranks.run_ranks(2, ranks.saved_through_an_outage, tmp_path, location, s3.port)
    for rank in range(2):
        told = (tmp_path / f"told-{rank}").read_text()
        assert told.startswith(f"TrainingError: --storage_path: checkpoint {location}/step-000002 cannot be written: ")
        assert "cannot be reached" in told and "\n" not in told
    newest, passed_over = newest_complete(open_folder(location))
    assert newest == step_folder(open_folder(location), 1)
    assert passed_over == ["checkpoint step-000002 is incomplete and ignored: it has no COMPLETE.json"]


def test_a_shard_of_many_parts_arrives_as_it_was_although_its_memory_is_used_again(s3: S3Server) -> None:
    folder = S3Folder(BUCKET, "parts")
    expected = b""
    memory = bytearray(7 * MIB)
    with folder.open_write("shard") as stream:
        for number in range(5):
            memory[:] = bytes([number + 1]) * len(memory)
            expected += bytes(memory)
            stream.write(memoryview(memory))
            stream.flush()
            assert stream.tell() == len(expected)
        memory[:] = bytes(len(memory))
    assert s3.client.get_object(Bucket=BUCKET, Key="parts/shard")["Body"].read() == expected


def test_a_missing_bucket_is_told_before_any_rank_starts(s3: S3Server) -> None:
    code, finished = run_driver(arguments(storage_path="s3://no-such-bucket-here/runs"))
    assert code == EXIT_FAILED
    assert finished.errors == [
        "--storage_path s3://no-such-bucket-here/runs: cannot be written: bucket no-such-bucket-here does not exist at "
        f"{s3.url}: create it, or name another"
    ]
    assert finished.record["error"] == finished.errors[0]


@pytest.mark.parametrize("action", ["PutObject", "GetObject", "DeleteObject"])
def test_what_the_credentials_may_not_do_is_told_with_what_they_need(s3: S3Server, action: str) -> None:
    with s3.denying(f"s3:{action}"):
        told = refusal(f"s3://{BUCKET}/denied")
    assert f"{action} denied at {s3.url} with the credentials of AWS_ACCESS_KEY_ID: they need s3:ListBucket" in told
    assert f"s3:DeleteObject, s3:AbortMultipartUpload on s3://{BUCKET}/denied/" in told


def test_without_credentials_it_is_told_how_to_give_some(s3: S3Server, environment: pytest.MonkeyPatch) -> None:
    set_environment(environment, {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None})
    with s3.denying("s3:PutObject"):
        told = refusal(f"s3://{BUCKET}/denied")
    assert "the environment holds no AWS credentials; give the pods a Pod Identity association" in told


@pytest.mark.parametrize("listens", [True, False], ids=["silent", "absent"])
def test_an_endpoint_that_does_not_answer_is_told_in_bounded_time(
    environment: pytest.MonkeyPatch, listens: bool
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environment.setattr(s3_storage, "REQUEST_S", 1.0)
        environment.setattr(s3_storage, "ATTEMPTS", 1)
        set_environment(environment, {"AWS_ENDPOINT_URL_S3": url})
        told = refusal(f"s3://{BUCKET}/runs")
    assert f"{url} cannot be reached (" in told, "the more special variable counts"
    assert told.endswith("check the network, AWS_REGION and AWS_ENDPOINT_URL")


def test_pod_identity_s_credentials_are_used(s3: S3Server, environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str | None] = []

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization"))
            body = (
                b'{"AccessKeyId": "ASIAPOD", "SecretAccessKey": "s", "Token": "t", "AccountId": "1",'
                b' "Expiration": "2099-01-01T00:00:00Z"}'
            )
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    agent = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    threading.Thread(target=agent.serve_forever, daemon=True).start()
    (tmp_path / "token").write_text("token-of-the-pod")
    set_environment(
        environment,
        {
            "AWS_ACCESS_KEY_ID": None,
            "AWS_SECRET_ACCESS_KEY": None,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{agent.server_port}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
        },
    )
    try:
        RunDirectory.of(config(storage_path=f"s3://{BUCKET}/pod")).create()
    finally:
        agent.shutdown()
        agent.server_close()
    assert set(asked) == {"token-of-the-pod"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            "When uploading object with key 'a' in bucket 'b': AWS Error UNKNOWN (HTTP status 301) during PutObject "
            "operation: Looks like the configured region is 'us-east-1' while the bucket is located in 'eu-west-1'.",
            "bucket b lies in eu-west-1, not in us-east-1: set AWS_REGION to eu-west-1",
        ),
        (
            "AWS Error EXPIRED_TOKEN during PutObject operation: The provided token has expired.",
            "(EXPIRED_TOKEN): renew",
        ),
        ("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation: No response body.", "HeadObject denied"),
        ("Bucket 'b' not found", "bucket b does not exist"),
        ("AWS Error SLOW_DOWN during PutObject operation: Reduce your request rate\nmore", "Reduce your request rate"),
    ],
)
def test_what_s3_answers_is_told_in_one_line(environment: pytest.MonkeyPatch, answer: str, told: str) -> None:
    line = explanation(S3Folder("b", "runs"), OSError(answer))
    assert told in line and "\n" not in line
