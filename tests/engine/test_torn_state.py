"""A state whose attributes are torn: a `pulumi` writes them now, or was killed then. Against the real CLI."""

import json
import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from capacity import file_backend, pulumi_cli
from capacity.file_backend import PROJECT, FileBackend
from capacity.pulumi_cli import PulumiCli, pulumi_command
from efactl import stack as module
from efactl.stack import Stack
from tests.support.project import ROOT
from tests.support.standin_stack import Stack as SmallStack

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


def test_attributes_that_are_whole_again_a_moment_later_are_waited_for(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes, whole = state.with_name("dev.json.attrs"), state.with_name("dev.json.attrs").read_text()
    # A `pulumi` that is at work ends its write between the read and the look at what was torn.
    beside = tmp_path / "pulumi"
    beside.write_text(
        f'#!/bin/sh\n"{pulumi_command()}" "$@"\ncode=$?\nprintf %s \'{whole}\' >"{attributes}"\nexit $code\n'
    )
    beside.chmod(0o755)
    for place in (module, pulumi_cli):
        monkeypatch.setattr(place, "pulumi_command", lambda: str(beside))
    by_cli = partial(PulumiCli(tmp_path / "project").resources, "dev")
    for read in (by_cli, Stack("dev").resources):
        attributes.write_text("")
        assert [one["urn"] for one in read() or []] == [URN]


@pytest.mark.parametrize(
    "url", ["file://~/its%20state", "file://./its%20state", "file://{home}/its%20state?metadata=skip"]
)
def test_a_backend_in_files_is_found_as_pulumi_finds_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PULUMI_BACKEND_URL", url.format(home=tmp_path))
    found = file_backend.of_stack(tmp_path, "dev")
    assert found is not None
    assert found.root == tmp_path / "its state"


WRITES_WHILE_IT_READS = """
import pulumi
from infra import last_run

class Part(pulumi.ComponentResource):
    def __init__(self, name: str) -> None:
        super().__init__("a:b:Part", name)

for number in range(250):
    Part(f"part-{number}")
    assert last_run.done() == ""
"""


def test_a_program_reads_its_stacks_outputs_while_the_engine_writes_them(tmp_path: Path) -> None:
    """Some 12 of the 250 reads fall into a write of the state, in files with attributes as a user's own backend is."""
    stack = SmallStack(tmp_path, WRITES_WHILE_IT_READS)
    stack.environment["PULUMI_BACKEND_URL"] = (tmp_path / "backend").as_uri()
    stack.environment["PYTHONPATH"] = str(ROOT)
    done = stack.run("up", "--yes", "--skip-preview", "-s", "test")
    assert done.returncode == 0, done.stdout
    assert "251 created" in done.stdout
