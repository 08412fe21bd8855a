"""The stand-in's `aws` command: the answers a stack needs, in the real command's form, and no others."""

import datetime
import json
import subprocess
from pathlib import Path

import pytest

from tools.standin import commands
from tools.standin.aws_cli import UsageError, answer

NOW = datetime.datetime(2026, 11, 29, 12, 0, tzinfo=datetime.UTC)
GET_TOKEN = ["--region", "us-west-2", "eks", "get-token", "--cluster-name", "c", "--output", "json"]


def test_a_token_is_the_beds_in_the_form_that_a_kubeconfig_expects(tmp_path: Path) -> None:
    (tmp_path / "bed.json").write_text(json.dumps({"token": "the beds token"}))
    told = json.loads(answer([*GET_TOKEN, "--profile", "p", "--role-arn", "r"], tmp_path, {}, NOW))
    assert told == {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "spec": {},
        "status": {"expirationTimestamp": "2026-11-29T12:14:00Z", "token": "the beds token"},
    }


def test_the_version_that_the_client_asks_for_is_the_one_that_it_gets(tmp_path: Path) -> None:
    asked = {"KUBERNETES_EXEC_INFO": '{"apiVersion": "client.authentication.k8s.io/v1"}'}
    assert json.loads(answer(GET_TOKEN, tmp_path, asked, NOW))["apiVersion"] == "client.authentication.k8s.io/v1"


def test_without_a_cluster_there_is_a_token_too_as_the_real_command_signs_one_unasked(tmp_path: Path) -> None:
    assert json.loads(answer(GET_TOKEN, tmp_path, {}, NOW))["status"]["token"]


def test_the_caller_is_the_scenarios(tmp_path: Path) -> None:
    (tmp_path / "scenario.json").write_text(json.dumps({"account": "210987654321", "principal": "user/eve"}))
    told = json.loads(answer(["sts", "get-caller-identity"], tmp_path, {}, NOW))
    assert (told["Account"], told["Arn"]) == ("210987654321", "arn:aws:iam::210987654321:user/eve")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["s3", "ls"], "does not answer `aws s3 ls`"),
        (["eks", "get-token"], "--cluster-name"),
        (["eks", "get-token", "--cluster-name"], "expected one argument"),
        ([*GET_TOKEN[:-1], "yaml"], "JSON alone"),
        ([], "does not answer"),
    ],
)
def test_anything_else_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        answer(arguments, tmp_path, {}, NOW)


def test_the_command_on_path_says_its_version_like_the_real_one_and_fails_with_its_exit_code(tmp_path: Path) -> None:
    commands.write(tmp_path)
    environment = {"PATH": "/usr/bin:/bin", "RAY_TRAIN_EFA_STANDIN": str(tmp_path)}

    def aws(*arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        command = [str(tmp_path / "aws"), *arguments]
        return subprocess.run(command, env={**environment, **more}, capture_output=True, text=True)

    assert aws("--version").stdout.startswith("aws-cli/2.")
    refused = aws("ec2", "describe-vpcs")
    assert (refused.returncode, refused.stdout) == (252, "")
    assert "does not answer `aws ec2 describe-vpcs`" in refused.stderr
    nowhere = aws("--version", RAY_TRAIN_EFA_STANDIN="")
    assert "names no stand-in account" in nowhere.stderr
