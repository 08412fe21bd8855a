"""`python -m tools.standin` keeps to its own folder, its own account and its own backend."""

import json
from pathlib import Path

import pytest
import yaml

from capacity import file_backend
from tools.setup import pins
from tools.standin import engine, settings_file
from tools.standin.__main__ import main
from tools.standin.place import Place
from workload.errors import BadInputError, ReportedError


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place.of("dev", tmp_path)
    place.make()
    return place


def test_everything_is_kept_under_the_projects_state_and_for_its_owner_alone(place: Place, tmp_path: Path) -> None:
    assert place.folder == tmp_path / ".state" / "standin" / "dev"
    assert place.folder.stat().st_mode & 0o077 == 0


def test_no_account_cluster_or_backend_of_the_users_is_led_to(place: Place) -> None:
    users = {
        "AWS_PROFILE": "prod",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "KUBECONFIG": "elsewhere/config",
        "PULUMI_ACCESS_TOKEN": "pul-1",
        "PULUMI_BACKEND_URL": "s3://states",
        "PATH": "/usr/bin",
        "LANG": "C.UTF-8",
        "NO_PROXY": "corp.example",
    }
    found = engine.environment(place, users)
    assert not {"AWS_PROFILE", "AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "PULUMI_ACCESS_TOKEN"} & set(found)
    assert found["PULUMI_BACKEND_URL"] == file_backend.url_of(place.backend)
    assert found["PULUMI_HOME"] == str(place.home)
    assert found["LANG"] == "C.UTF-8"
    assert found["PATH"].split(":") == [str(place.commands), str(pins.VENV / "bin"), "/usr/bin"]
    assert found["NO_PROXY"].split(",") == ["corp.example", "127.0.0.1", "localhost"]


def test_the_settings_are_a_file_of_its_own_and_keep_the_states_salt(place: Place, tmp_path: Path) -> None:
    theirs = tmp_path / "Pulumi.dev.yaml"
    theirs.write_text("config:\n  ray-train-efa:platform: eks\nsecretsprovider: awskms://key\n")
    before = theirs.read_text()
    config = settings_file.read("dev", tmp_path)
    assert config == {"ray-train-efa:platform": "eks"}
    (place.folder / "init").mkdir()
    (place.folder / "init" / "Pulumi.dev.yaml").write_text("encryptionsalt: v1:abc\n")
    settings_file.write(place, {**config, "ray-train-efa:expect": "gloo"})
    assert theirs.read_text() == before
    assert yaml.safe_load(place.settings.read_text()) == {
        "config": {"ray-train-efa:platform": "eks", "ray-train-efa:expect": "gloo"},
        "encryptionsalt": "v1:abc",
    }


def test_a_stack_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"there is no stack prod: Pulumi\.prod\.yaml is missing"):
        settings_file.read("prod", tmp_path)


def test_a_stack_of_another_platform_is_refused_before_anything_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", "--stack", "local"]) == 1
    assert "stack local is of platform local" in capsys.readouterr().err
    assert not Place.of("local").folder.exists()


def test_a_state_has_resources_once_something_was_made(place: Place) -> None:
    assert not place.has_resources()
    place.state.parent.mkdir(parents=True)
    place.state.write_text(json.dumps({"checkpoint": {"latest": None}}))
    assert not place.has_resources()
    place.state.write_text(json.dumps({"checkpoint": {"latest": {"resources": [{"urn": "x"}]}}}))
    assert place.has_resources()


def test_one_command_runs_at_a_time_and_a_killed_ones_lock_is_in_nobodys_way(place: Place) -> None:
    left = place.backend / ".pulumi" / "locks" / "organization" / "dev" / "left.json"
    left.parent.mkdir(parents=True)
    left.touch()
    with place.alone():
        assert not left.exists()
        with pytest.raises(ReportedError, match="another command"), place.alone():
            pass
    with place.alone():
        pass
