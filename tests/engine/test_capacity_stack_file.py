"""A chosen place is kept in a stack of its own, on the real CLI: secrets, preview, what stays and what is refused."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from capacity import stack_file, stack_text
from capacity.candidate import Candidate
from capacity.choice import Choice
from capacity.place import Place
from capacity.request import Request
from tests.support.standin_project import StandinProject
from workload.errors import BadInputError, ReportedError

pytestmark = [pytest.mark.engine, pytest.mark.kubernetes_provider]

TOKEN = "hf_this-is-the-clear-text-42"
NOW = datetime.now(UTC)
OHIO = "dev-us-east-2"


FIRST = Place(region="us-east-2", zone="us-east-2b", zone_id="use2-az2")
SECOND = Place(region="us-east-2", zone="us-east-2a", zone_id="use2-az1")
HOME = Place(region="us-west-2", zone="us-west-2a", zone_id="usw2-az2")


def choice(nodes: int = 2) -> Choice:
    asked = Request(instance_type="g6.12xlarge", nodes=nodes)
    plan = (FIRST, HOME, SECOND)
    candidates = [
        Candidate(**asdict(place), quota_vcpus=192, used_vcpus=0, usd_per_hour=9.2032, offered=True) for place in plan
    ]
    return Choice(request=asked, facts=None, candidates=tuple(candidates), plan=plan)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandinProject]:
    made = StandinProject(tmp_path / "project")
    made.set_secret("hfToken", TOKEN)
    made.set_secret("jobSecretEnv.API_KEY", f"{TOKEN}-api")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made


def write(project: StandinProject, place: Place = FIRST, nodes: int = 2, **more: Any) -> tuple[Path, list[str]]:
    said: list[str] = []
    file = stack_file.write(
        "dev", place, choice(nodes), folder=project.folder, base="dev", now=NOW, say=said.append, **more
    )
    return file, said


def pulumi(project: StandinProject, *command: str) -> str:
    done = subprocess.run(
        ["pulumi", *command, "--non-interactive"],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def everything_written(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and ".venv" not in path.parts:
            yield path, path.read_bytes()


def test_the_new_stack_has_the_same_secrets_and_previews_at_once_and_always_the_same(project: StandinProject) -> None:
    base = project.folder / "Pulumi.dev.yaml"
    base.write_text(base.read_text().replace("config:\n", "# The base's own comment\nconfig:\n", 1))
    before = base.read_text()
    file, said = write(project)
    assert file.name == f"Pulumi.{OHIO}.yaml"
    assert base.read_text() == before
    for name, value in (("hfToken", TOKEN), ("jobSecretEnv.API_KEY", f"{TOKEN}-api")):
        assert pulumi(project, "config", "get", "--path", name, "-s", OHIO).strip() == value
    assert not set(stack_text.encryption_of(file.read_text()).values()) & set(
        stack_text.encryption_of(before).values()
    ), "a salt of its own"
    text, settings = file.read_text(), stack_text.settings_of(file.read_text())
    assert not any(one in text for one in _ciphertexts(before)), "no value of the other stack's key stays"
    assert [path for path, content in everything_written(project.folder.parent) if TOKEN.encode() in content] == []
    assert not any(TOKEN in line for line in said)

    assert settings["aws:region"] == "us-east-2"
    assert settings["ray-train-efa:gpuZone"] == "us-east-2b"
    assert settings["ray-train-efa:gpuFallbackZones"] == ["us-east-2a"]
    assert settings["ray-train-efa:capacity"] == "reserve"
    assert "# The base's own comment\n" in text
    assert "1. us-east-2b (use2-az2): quota 192 vCPU, 0 in use, $9.20 an hour" in text
    kept = [key for key in stack_text.settings_of(before) if key in settings]
    assert [key for key in settings if key in kept] == kept, "the base's order"
    assert any("gpuZone: us-east-2b (was us-west-2b)" in line for line in said)

    project.stack = OHIO
    first = project.changes()
    assert {"ray-reservation-capacity", "ray-gpu-group", "train"} <= set(first)
    steps = json.loads(project.must("preview", "--json"))["steps"]
    [reservation] = [step for step in steps if step["urn"].endswith("::ray-reservation-capacity")]
    assert reservation["newState"]["inputs"]["availabilityZone"] == "us-east-2b"
    assert file.read_text() == text, "a preview picks nothing anew"
    assert {call["operation"] for call in project.calls()} == {"invoke"}


def _ciphertexts(text: str) -> list[str]:
    return [value for key in stack_text.secret_keys(text) for value in _secure(stack_text.settings_of(text)[key])]


def _secure(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from [inner] if key == "secure" else _secure(inner)


def test_writing_again_keeps_the_users_edits_and_says_what_changed(project: StandinProject) -> None:
    file, _ = write(project)
    edited = re.sub(r"trainSteps: \S+", 'trainSteps: "40"  # mine', file.read_text())
    assert "# mine" in edited
    file.write_text(edited)
    pulumi(project, "config", "set", "--secret", "hfToken", "hf_another", "-s", OHIO)
    _, said = write(project)
    assert said[-1].strip() == "it stands where it stood; only the answers are new"
    _, said = write(project, SECOND, nodes=4)
    changed = [line.strip() for line in said[1:]]
    assert changed == [
        "gpuZone: us-east-2a (was us-east-2b)",
        "gpuFallbackZones: us-east-2b (was us-east-2a)",
        "gpuNodes: 4 (was 2)",
    ]
    text = file.read_text()
    assert re.search(r'trainSteps: "40" +# mine', text), "Pulumi itself moves comments"
    assert text.count("#> us-east-2a (use2-az1), asked") == 1
    assert "#> us-east-2b (use2-az2), asked" not in text, "the answers of before are gone"
    assert pulumi(project, "config", "get", "hfToken", "-s", OHIO).strip() == "hf_another"


def test_a_stack_whose_nodes_are_in_another_zone_stays_there_unless_told(project: StandinProject) -> None:
    file, _ = write(project)
    text = file.read_text()
    state = json.loads(pulumi(project, "stack", "export", "-s", OHIO))
    urn = f"urn:pulumi:{OHIO}::ray-train-efa"
    zone = {"availabilityZone": "us-east-2b"}
    kind = "aws:ec2/capacityReservation:CapacityReservation"
    state["deployment"]["resources"] = [
        {"urn": f"{urn}::pulumi:pulumi:Stack::ray-train-efa-{OHIO}", "custom": False, "type": "pulumi:pulumi:Stack"},
        {"urn": f"{urn}::{kind}::r", "custom": True, "id": "cr-1", "type": kind, "inputs": zone, "outputs": zone},
    ]
    (project.folder / "state.json").write_text(json.dumps(state))
    pulumi(project, "stack", "import", "--file", "state.json", "-s", OHIO)
    with pytest.raises(
        BadInputError, match=f"stack {OHIO} holds GPU capacity in us-east-2b, and us-east-2a is another"
    ):
        write(project, SECOND)
    assert file.read_text() == text
    write(project, SECOND, move=True)
    assert stack_text.settings_of(file.read_text())["ray-train-efa:gpuZone"] == "us-east-2a"


def test_what_fails_half_way_leaves_neither_file_nor_stack_and_can_be_done_again(
    project: StandinProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("pulumi", path=project.environment["PATH"])
    broken = project.folder.parent / "broken"
    broken.mkdir()
    (broken / "pulumi").write_text(
        f'#!/bin/sh\n[ "$1 $2" = "config cp" ] && {{ echo no >&2; exit 1; }}\nexec {real} "$@"\n'
    )
    (broken / "pulumi").chmod(0o755)
    monkeypatch.setattr("capacity.pulumi_cli.sys.executable", str(broken / "python"))
    with pytest.raises(ReportedError, match="pulumi config cp ray-train-efa:hfToken"):
        write(project)
    assert not (project.folder / f"Pulumi.{OHIO}.yaml").exists()
    assert OHIO not in pulumi(project, "stack", "ls", "--json")
    monkeypatch.undo()
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    write(project)
    assert pulumi(project, "config", "get", "hfToken", "-s", OHIO).strip() == TOKEN
    assert sorted(path.name for path in project.folder.glob(".Pulumi*")) == []


def test_what_only_the_bases_region_has_is_refused_and_its_zones_are_left_out(project: StandinProject) -> None:
    project.set(vpcZones=["us-west-2a", "us-west-2b"], eksSecretsKey="arn:aws:kms:us-west-2:1:key/a", vpcId="vpc-1")
    with pytest.raises(
        BadInputError, match=r"Pulumi.dev.yaml names eksSecretsKey, vpcId, which us-east-2 does not have"
    ):
        write(project)
    project.set(eksSecretsKey=None, vpcId=None)
    file, said = write(project)
    assert said[0] == "left out, as us-east-2 has others: ray-train-efa:vpcZones"
    assert "ray-train-efa:vpcZones" not in stack_text.settings_of(file.read_text())
