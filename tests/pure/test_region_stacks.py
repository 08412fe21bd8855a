"""After `efactl up --env dev`: what commands say to whoever still names dev, which is not what came up."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from capacity.pulumi_cli import PulumiCli
from efactl import commands, logs, region_stacks, run_sources, stack, stack_names
from efactl.__main__ import main
from efactl.exit_codes import ExitCode
from efactl.stack import Stack
from efactl.status import gather
from tests.support.recorded import kept
from workload.errors import ReportedError

SAID = "environment dev is up as dev-us-east-2: name it with -s"
VPC = {"type": "aws:ec2/vpc:Vpc", "urn": "urn::vpc", "id": "vpc-1", "custom": True}
FRESH = {"type": "aws:ec2/vpc:Vpc", "urn": "urn::vpc", "id": "", "custom": True}
# As .venv/bin/pulumi has them; None: the backend knows no such stack.
States = dict[str, list[Mapping[str, Any]] | None]


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> States:
    """By stack, of a project in which `up --env dev` came up in us-east-2; a command reads what a test has changed."""
    states: States = {"dev": [], "dev-us-east-2": [VPC], "dev-us-west-2": None, "dev-test": [VPC]}
    (tmp_path / "Pulumi.yaml").write_text((stack_names.FOLDER / "Pulumi.yaml").read_text())
    for name in states:
        region = "us-east-2" if name == "dev-us-east-2" else "us-west-2"
        settings = {"ray-train-efa:platform": "eks", "aws:region": region}
        (tmp_path / f"Pulumi.{name}.yaml").write_text(json.dumps({"config": settings}))

    def resources(stack: Stack) -> list[Mapping[str, Any]]:
        return states[stack.name] or []

    for module in (stack, region_stacks, run_sources, commands):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    for reader in (logs, gather):
        monkeypatch.setattr(reader, "configured_secrets", lambda _: [])
    monkeypatch.setattr(Stack, "resources", resources)
    monkeypatch.setattr(PulumiCli, "resources", lambda _, name: states[name])
    return states


@pytest.fixture
def brought_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stacks that an `up` came to, in place of the engine."""
    names: list[str] = []

    def up(stack: Stack, *, as_json: bool) -> ExitCode:
        names.append(stack.name)
        return ExitCode.OK

    monkeypatch.setattr(commands, "up", up)
    return names


@pytest.mark.parametrize("command", ["status", "outputs", "logs", "stop", "ui", "compare"])
def test_a_command_that_finds_nothing_says_where_the_environment_is_up(
    command: str, states: States, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "-s", "dev"])
    told = "".join(capsys.readouterr())
    assert SAID in told
    assert "efactl up" not in told


def test_status_lists_them_for_machines(states: States, capsys: pytest.CaptureFixture[str]) -> None:
    states["dev-us-west-2"] = [VPC]
    main(["status", "-s", "dev", "--json"])
    assert json.loads(capsys.readouterr().out)["stack"]["upElsewhere"] == ["dev-us-east-2", "dev-us-west-2"]


def test_an_up_that_would_make_a_second_cluster_is_refused(
    states: States, brought_up: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "-s", "dev"]) == ExitCode.BAD_INPUT
    assert SAID in (said := capsys.readouterr().err)
    assert "`efactl up -s dev --beside`" in said
    assert brought_up == []
    assert main(["up", "-s", "dev", "--beside"]) == ExitCode.OK
    assert brought_up == ["dev"]


def test_a_file_that_is_no_regions_is_not_read(states: States, brought_up: list[str], tmp_path: Path) -> None:
    states["dev-us-east-2"] = []
    (tmp_path / "Pulumi.dev-scratch.yaml").write_text("config: [")
    assert main(["up", "-s", "dev"]) == ExitCode.OK
    assert brought_up == ["dev"]


@pytest.mark.parametrize(
    "changed",
    [
        {"dev": [VPC]},
        {"dev-us-east-2": []},
        {"dev-us-east-2": None},
        {"dev-us-east-2": [FRESH]},
    ],
)
def test_an_up_goes_on_with_its_own_or_where_nothing_else_is(
    changed: States, states: States, brought_up: list[str]
) -> None:
    states |= changed
    assert main(["up", "-s", "dev"]) == ExitCode.OK
    assert brought_up == ["dev"]


def test_a_stack_that_is_up_asks_no_other(
    states: States, brought_up: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may be in another backend, where nobody is logged in."""
    asked: list[str] = []
    states["dev"] = [VPC]

    def resources(_: PulumiCli, name: str) -> list[Mapping[str, Any]] | None:
        asked.append(name)
        return states[name]

    monkeypatch.setattr(PulumiCli, "resources", resources)
    assert main(["up", "-s", "dev"]) == ExitCode.OK
    assert (brought_up, asked) == (["dev"], ["dev"])


def test_a_region_s_own_stack_comes_up(states: States, brought_up: list[str]) -> None:
    assert main(["up", "-s", "dev-us-east-2"]) == ExitCode.OK
    assert brought_up == ["dev-us-east-2"]


def test_a_run_is_refused_before_it_is_previewed(
    states: States, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[Sequence[str]] = []
    monkeypatch.setattr(Stack, "run", lambda _, command, **aside: ran.append(command))
    assert main(["run", "-s", "dev", "trainSteps=5"]) == ExitCode.BAD_INPUT
    assert SAID in capsys.readouterr().err
    assert ran == []


def test_a_region_that_cannot_be_read_keeps_no_command_from_its_own_answer(
    states: States, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: PulumiCli, name: str) -> None:
        raise ReportedError(f"pulumi stack export --stack {name}: no")

    monkeypatch.setattr(PulumiCli, "resources", refused)
    assert main(["outputs", "-s", "dev"]) == ExitCode.FAILED
    assert "stack dev holds no run; `efactl up -s dev` makes one" in capsys.readouterr().err


def test_a_list_of_runs_names_the_stacks_that_have_them(
    states: States, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path / "runs", "aaaa-1", stack="dev-us-east-2")
    kept(tmp_path / "runs", "bbbb-1", stack="dev-test")
    assert main(["runs", "list", "-s", "dev"]) == ExitCode.OK
    assert capsys.readouterr().err == "environment dev has runs of dev-us-east-2: name one with -s\n"
    kept(tmp_path / "runs", "cccc-1", stack="dev")
    assert main(["runs", "list", "-s", "dev"]) == ExitCode.OK
    assert capsys.readouterr().err == ""


def test_beside_is_of_a_stack(states: States, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--env", "dev", "--beside"]) == ExitCode.BAD_INPUT
    assert "--beside goes with -s" in capsys.readouterr().err
