"""The IAM policy of a pull request's previews: enough to ask and to refresh, and nothing that changes anything."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.pure.test_deployer_policy import declared, invoked
from tools.standin import actions
from tools.standin.iam_policy import actions_of, allowing, not_allowed

ROOT = Path(__file__).parents[2]
POLICY = json.loads((ROOT / "docs/iam/preview-read.json").read_text())
DEPLOYER = json.loads((ROOT / "docs/iam/deployer.json").read_text())
READS = re.compile(r"[a-z0-9]+:(Describe|List|Get)[A-Za-z*]*")


def test_all_that_the_program_asks_in_a_preview_may_be_asked() -> None:
    assert not_allowed(POLICY, [action for one in invoked() for action in actions.INVOKES[one]]) == []


def test_a_preview_with_refresh_may_read_all_that_a_stack_can_have() -> None:
    types = declared()
    assert "aws:ec2/vpc:Vpc" in types, "infra/ was read"
    assert not_allowed(POLICY, [action for one in types for action in actions.ACTIONS[one]["read"]]) == []


def test_it_changes_nothing_and_holds_no_more_than_the_deployers() -> None:
    for statement in POLICY["Statement"]:
        assert statement["Effect"] == "Allow"
        for action in actions_of(statement):
            assert READS.fullmatch(action), action
            assert action.partition(":")[2] not in ("*", "Get*", "List*", "Describe*")
            if "*" not in action:
                assert allowing(DEPLOYER, action), f"{action} is not the deployer's"


@pytest.mark.parametrize(
    "action",
    ["s3:GetObject", "kms:Decrypt", "secretsmanager:GetSecretValue", "ssm:GetParameter", "eks:AccessKubernetesApi"],
)
def test_it_reads_no_data(action: str) -> None:
    assert allowing(POLICY, action) == []


@pytest.mark.parametrize("name", ["preview", "acceptance"])
def test_a_role_is_taken_by_one_environment_of_one_repository_alone(name: str) -> None:
    [statement] = json.loads((ROOT / f"docs/iam/github-{name}-trust.json").read_text())["Statement"]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Condition"].keys() == {"StringEquals"}, "no pattern: one repository, one environment"
    said = statement["Condition"]["StringEquals"]
    assert said["token.actions.githubusercontent.com:aud"] == "sts.amazonaws.com"
    subject = said["token.actions.githubusercontent.com:sub"]
    assert re.fullmatch(rf"repo:[\w-]+/[\w-]+:environment:{name}", subject)
    files = (ROOT / ".github/workflows").glob("*.yml")
    environments = {
        job.get("environment") for path in files for job in yaml.safe_load(path.read_text())["jobs"].values()
    }
    assert name in environments
