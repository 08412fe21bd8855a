"""A state that a `pulumi` left torn, killed in the middle of a write, against the real CLI."""

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from capacity.file_backend import PROJECT, FileBackend
from capacity.pulumi_cli import PulumiCli, pulumi_command
from efactl import stack as module
from efactl.stack import Stack

pytestmark = pytest.mark.engine

URN = f"urn:pulumi:dev::{PROJECT}::pulumi:pulumi:Stack::{PROJECT}-dev"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a stack with one resource in a project of its own, which is the one that efactl sees."""
    project, backend = tmp_path / "project", tmp_path / "backend"
    project.mkdir()
    backend.mkdir()
    (project / "Pulumi.yaml").write_text(f"name: {PROJECT}\nruntime: python\nconfig:\n  platform:\n    type: string\n")
    (project / "Pulumi.dev.yaml").write_text("config:\n  ray-train-efa:platform: eks\n")
    for name, value in {
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_CONFIG_PASSPHRASE": "",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module, "FOLDER", project)
    assert pulumi(project, "stack", "init", "dev").returncode == 0
    held = {"version": 3, "deployment": {"manifest": {}, "resources": [{"urn": URN, "type": "pulumi:pulumi:Stack"}]}}
    (tmp_path / "held.json").write_text(json.dumps(held))
    assert pulumi(project, "stack", "import", "-s", "dev", "--file", str(tmp_path / "held.json")).returncode == 0
    return backend / ".pulumi" / "stacks" / PROJECT / "dev.json"


def pulumi(project: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [pulumi_command(), *arguments, "--non-interactive"]
    return subprocess.run(command, cwd=project, env=os.environ, capture_output=True, text=True)


@pytest.mark.parametrize("torn", ["", '{"user.cache_contr'])
def test_attributes_cut_off_in_the_middle_hide_no_state(torn: str, state: Path, tmp_path: Path) -> None:
    attributes = state.with_name("dev.json.attrs")
    project = tmp_path / "project"
    by_cli = partial(PulumiCli(project).resources, "dev")
    for read in (by_cli, Stack("dev").resources):
        attributes.write_text(torn)
        assert "failed to load checkpoint" in pulumi(project, "stack", "export", "-s", "dev").stderr
        assert [one["urn"] for one in read() or []] == [URN]
    attributes.write_text(torn)
    (said,) = Stack("dev").release_dead_locks()
    assert "dev.json.attrs" in said
    assert pulumi(project, "stack", "export", "-s", "dev").returncode == 0


def test_whole_attributes_stay_and_so_do_other_stacks(state: Path) -> None:
    other = state.with_name("dev-test.json.attrs")
    other.write_text("")
    whole = state.with_name("dev.json.attrs").read_bytes()
    backend = FileBackend(state.parents[3], "dev")
    assert backend.mend() == []
    assert state.with_name("dev.json.attrs").read_bytes() == whole
    assert other.exists()
