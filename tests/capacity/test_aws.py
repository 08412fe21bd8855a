"""What is said where AWS cannot be asked: before anything is made, and with what to do."""

import json
from pathlib import Path

import pytest

from capacity import aws as sessions
from capacity.aws import Access, AwsRefusedError, client, who
from capacity.causes import Cause
from tests.support.aws_server import AwsServer, Fault


@pytest.fixture
def environment(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    sessions.forget()
    return monkeypatch


def refusal(access: Access = sessions.AS_ENVIRONMENT, region: str = "us-west-2") -> AwsRefusedError:
    with pytest.raises(AwsRefusedError) as caught:
        who(region=region, access=access)
    sessions.forget()
    return caught.value


def test_it_is_told_who_asks(aws: AwsServer) -> None:
    identity = who(region="us-west-2")
    assert (identity.account, identity.partition) == ("123456789012", "aws")
    assert identity.arn.startswith("arn:aws:sts::123456789012:")


def test_without_credentials_it_is_said_how_to_get_some(environment: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        environment.delenv(name)
    error = refusal()
    assert error.sorted.cause == Cause.CREDENTIALS
    assert "aws sso login" in str(error)


def test_a_profile_that_there_is_not_is_named(environment: pytest.MonkeyPatch) -> None:
    error = refusal(Access(profile="nobody"))
    assert "The config profile (nobody) could not be found" in str(error)
    assert "aws configure list-profiles" in str(error)


def test_a_sign_on_that_has_run_out_is_said_with_the_command(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "[profile mine]\nsso_session = work\nsso_account_id = 123456789012\nsso_role_name = dev\n"
        "[sso-session work]\nsso_region = us-west-2\nsso_start_url = https://example.invalid/start\n"
    )
    environment.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    environment.setenv("HOME", str(tmp_path))
    error = refusal(Access(profile="mine"))
    assert error.sorted.cause == Cause.CREDENTIALS
    assert "`aws sso login`" in str(error)


@pytest.mark.parametrize(
    ("code", "message", "says"),
    [
        ("ExpiredToken", "The security token included in the request is expired", "sign in again"),
        ("SignatureDoesNotMatch", "Signature expired: 1 is now earlier than 2", "set the clock"),
        ("InvalidClientTokenId", "The security token included in the request is invalid.", "region is not enabled"),
        ("AccessDenied", "not authorized, with an explicit deny in a service control policy", "organisation"),
    ],
)
def test_each_refusal_of_who_asks_says_what_to_do(
    aws: AwsServer, environment: pytest.MonkeyPatch, code: str, message: str, says: str
) -> None:
    aws.faults = [Fault("GetCallerIdentity", code, message, status=403)]
    error = refusal()
    assert says in str(error)
    assert "in us-west-2" in str(error)


def test_credentials_that_are_expired_when_they_come_are_said(
    aws: AwsServer, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = {"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c"}
    (tmp_path / "told.json").write_text(json.dumps({**told, "Expiration": "2020-01-01T00:00:00Z"}))
    (tmp_path / "config").write_text(f"[profile mine]\ncredential_process = cat {tmp_path}/told.json\n")
    environment.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    error = refusal(Access(profile="mine"))
    assert error.sorted.cause == Cause.CREDENTIALS
    assert "set this machine's clock" in str(error)


def test_an_endpoint_that_is_not_there_is_said(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    error = refusal()
    assert error.sorted.cause == Cause.UNAVAILABLE


def test_a_role_is_taken_on_and_its_own_credentials_are_used(aws: AwsServer, environment: pytest.MonkeyPatch) -> None:
    access = Access(role_arn="arn:aws:iam::123456789012:role/deployer")
    assert "assumed-role/deployer/ray-train-efa" in who(region="us-west-2", access=access).arn
    sessions.forget()


def test_a_role_that_may_not_be_taken_on_is_said(aws: AwsServer, environment: pytest.MonkeyPatch) -> None:
    aws.faults = [Fault("AssumeRole", "AccessDenied", "User is not authorized to perform: sts:AssumeRole", status=403)]
    error = refusal(Access(role_arn="arn:aws:iam::123456789012:role/deployer"))
    assert error.sorted.cause == Cause.PERMISSION


def test_clients_are_made_once_and_shared(aws: AwsServer) -> None:
    assert client("ec2", "us-west-2") is client("ec2", "us-west-2")
    assert client("ec2", "us-west-2") is not client("ec2", "us-east-1")
