"""What `up`, `preview` and `down` of the stand-in do around Pulumi: when a cluster is started, kept and ended."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.standin import __main__ as runner
from tools.standin import bed_process, engine, settings_file
from tools.standin.account import Account, Entry
from tools.standin.place import Place

SETTINGS = {"ray-train-efa:platform": "eks", "ray-train-efa:capacity": "none"}


class World:
    """The commands' surroundings: a folder, a bed that is there or not, and a CLI with an exit code."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.done: list[str] = []
        self.has_bed = False
        self.code = 0
        self.config: dict[str, object] = {}
        replaced: dict[tuple[object, str], Callable[..., object]] = {
            (bed_process, "running"): lambda _place: object() if self.has_bed else None,
            (bed_process, "start"): lambda _place: self.note("start", bed=True),
            (bed_process, "end"): lambda _place: self.note("end", bed=False),
            (engine, "prepare"): lambda _place: None,
            (engine, "run"): self.run,
            (settings_file, "read"): lambda _stack: dict(SETTINGS),
            (settings_file, "create_stack"): lambda _place, _env: None,
            (settings_file, "write"): lambda _place, config: self.config.update(config),
            (runner, "chart_folder"): lambda: Path("/charts"),
        }
        for (module, name), replacement in replaced.items():
            monkeypatch.setattr(module, name, replacement)

    def note(self, what: str, *, bed: bool) -> None:
        self.done.append(what)
        self.has_bed = bed

    def run(self, _place: Place, command: list[str], _environment: dict[str, str]) -> int:
        self.done.append(command[0])
        return self.code

    def has_made_something(self) -> None:
        self.place.state.parent.mkdir(parents=True, exist_ok=True)
        self.place.state.write_text(json.dumps({"checkpoint": {"latest": {"resources": [{}]}}}))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(Place.of("dev", tmp_path), monkeypatch)


def test_a_first_up_starts_a_cluster_and_leaves_it_running(world: World) -> None:
    assert runner.up(world.place, "gloo") == 0
    assert world.done == ["end", "start", "up"]
    assert world.config["ray-train-efa:expect"] == "gloo"
    assert world.has_bed


def test_a_second_up_keeps_the_cluster(world: World) -> None:
    world.has_bed = True
    world.has_made_something()
    runner.up(world.place, "gloo")
    assert world.done == ["up"]
    assert world.place.has_resources()


def test_an_up_after_the_cluster_was_lost_starts_anew(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.has_made_something()
    runner.up(world.place, "gloo")
    assert world.done == ["end", "start", "up"]
    assert not world.place.has_resources()
    assert "the cluster of an earlier run is gone" in capsys.readouterr().out


def test_pulumis_exit_code_is_the_commands(world: World) -> None:
    world.code = 255
    assert runner.up(world.place, "efa") == 255
    assert "ray-train-efa:expect" not in world.config, "left at what the stack says"


def test_a_preview_needs_no_cluster_and_changes_no_more_than_it_must(world: World) -> None:
    assert runner.preview(world.place, "gloo") == 0
    assert world.done == ["preview"]
    assert "ray-train-efa:trainModelId" not in world.config


def test_a_preview_of_a_stack_that_is_up_shows_what_the_next_up_would_change(world: World) -> None:
    world.has_bed = True
    runner.preview(world.place, "gloo")
    assert world.config["ray-train-efa:trainModelId"] == "tiny-qwen2"


def test_a_down_ends_the_cluster_once_everything_is_gone(world: World) -> None:
    world.place.make()
    world.has_bed = True
    assert runner.down(world.place) == 0
    assert world.done == ["destroy", "end"]
    assert not world.place.folder.exists()


def test_a_down_that_fails_keeps_everything_to_be_tried_again(world: World) -> None:
    world.place.make()
    world.has_bed, world.code = True, 255
    assert runner.down(world.place) == 255
    assert world.has_bed
    assert world.place.folder.exists()


def test_what_a_destroy_leaves_in_the_account_is_named_and_fails(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.place.make()
    world.has_bed = True
    with Account(world.place.account).open() as records:
        token = "aws:ec2/vpc:Vpc"
        records.put(Entry(token=token, id="vpc-left", region="us-west-2", inputs={}, outputs={}))
    assert runner.down(world.place) == 1
    assert "aws:ec2/vpc:Vpc vpc-left" in capsys.readouterr().out


def test_a_down_of_what_is_not_up_is_no_error(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.down(world.place) == 0
    assert world.done == ["end"], "what a killed keeper left is cleared"
    assert "nothing of dev is up" in capsys.readouterr().out
