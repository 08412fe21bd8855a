"""The policy pack on the real engine: a stack as it should be passes, and each rule that is broken is named."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from capacity import file_backend
from policy.rules import RESOURCE_RULES, STACK_RULES
from tests.support.echo_provider import echo_provider
from tests.support.policy_breaks import Break, broken, one_break_a_rule
from tests.support.policy_stack import Stack

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
PACK = ROOT / "policy"
RULES = {rule.name for rule in RESOURCE_RULES} | {rule.name for rule in STACK_RULES}


class Program:
    """A program that registers what it is given, with a provider for all of it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "tests/support/policy_program", folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / ".state").mkdir()
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")},
            "PATH": f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PULUMI_BACKEND_URL": file_backend.url_of(folder / ".state"),
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DEBUG_PROVIDERS": f"aws:{port},kubernetes:{port}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "POLICY_PYTHON": sys.executable,
        }
        self.pulumi("stack", "init", "test")

    def pulumi(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["pulumi", *command, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    def judged(self, stack: Stack, *command: str) -> "subprocess.CompletedProcess[str]":
        (self.folder / "stack.json").write_text(json.dumps(stack))
        return self.pulumi(*(command or ("preview",)), "--policy-pack", str(PACK / "analyzer"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with echo_provider() as port:
        yield Program(tmp_path_factory.mktemp("policy") / "program", port)


@pytest.fixture(scope="module")
def refused(program: Program) -> "subprocess.CompletedProcess[str]":
    return program.judged(broken(*one_break_a_rule()))


def violations(output: str) -> dict[str, str]:
    """The text about each broken rule, by its name."""
    found: dict[str, str] = {}
    for part in re.split(r"^\s+- \[mandatory\]\s+", output, flags=re.MULTILINE)[1:]:
        name = part.split()[0]
        found[name] = " ".join([found.get(name, ""), *part.partition("\nDiagnostics:")[0].split()])
    return found


def test_a_stack_as_it_should_be_passes_a_preview_and_an_update(program: Program) -> None:
    for command in (("preview",), ("up", "--yes", "--skip-preview")):
        done = program.judged(broken(), *command)
        assert done.returncode == 0, done.stdout
        assert "ray-train-efa@v" in done.stdout, "the pack was asked"
        assert violations(done.stdout) == {}


def test_a_stack_that_breaks_every_rule_is_refused(refused: "subprocess.CompletedProcess[str]") -> None:
    assert refused.returncode != 0, refused.stdout
    assert set(violations(refused.stdout)) == RULES


@pytest.mark.parametrize("case", one_break_a_rule(), ids=lambda case: case.rule)
def test_each_broken_rule_is_named_with_the_resource_and_the_remedy(
    refused: "subprocess.CompletedProcess[str]", case: Break
) -> None:
    said = violations(refused.stdout)[case.rule]
    assert f": {case.about})" in said, said
    assert f"{case.about}: " in said, said
    assert " ".join(case.says.split()) in said, said


def test_an_update_makes_nothing_that_a_resources_own_rule_forbids(program: Program) -> None:
    stack = broken()
    stack["public"] = {
        "type": "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        "props": {"securityGroupId": {"$id": "efa"}, "ipProtocol": "-1", "cidrIpv4": "0.0.0.0/0"},
    }
    done = program.judged(stack, "up", "--yes", "--skip-preview")
    assert done.returncode != 0
    assert set(violations(done.stdout)) == {"no-open-ingress"}
    state = json.loads(program.pulumi("stack", "export").stdout)
    made = {resource["urn"].rpartition("::")[2] for resource in state["deployment"].get("resources", [])}
    assert "public" not in made


def test_the_pack_is_one_that_the_official_cli_starts_by_its_folder() -> None:
    pack = yaml.safe_load((PACK / "PulumiPolicy.yaml").read_text())
    assert pack["runtime"]["name"] == "python"
    assert (PACK / pack["runtime"]["options"]["virtualenv"]).resolve() == (ROOT / ".venv").resolve()
    assert os.access(PACK / "analyzer", os.X_OK)
