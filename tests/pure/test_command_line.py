"""The command line as a whole: help, examples, exit codes, and what it needs to answer at all."""

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from efactl.__main__ import COMMANDS, main, parser
from efactl.colour import coloured
from efactl.command import Command
from efactl.exit_codes import MEANINGS, ExitCode
from tools.docs.exit_codes_page import page

ROOT = Path(__file__).parents[2]
NAMES = [command.name for command in COMMANDS]


def examples(command: Command) -> Iterator[list[str]]:
    """Every call of efactl in a command's example, as words."""
    for line in command.example.splitlines():
        for part in re.split(r"&&|;|\||\$\(|\)", line):
            words = shlex.split(part.strip().replace('"', ""), comments=True)
            if words[:1] == ["efactl"]:
                yield words[1:]


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main([*words, "--help"])
    assert left.value.code == ExitCode.OK
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_every_command_s_help_has_an_example_that_can_be_typed(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    told = help_of(capsys, command.name)
    assert "example" in told and f"efactl {command.name}" in told
    calls = list(examples(command))
    assert any(words[0] == command.name for words in calls)
    for words in calls:
        asked = parser().parse_args(words)
        assert asked.command == words[0]


def of_a_stack() -> Iterator[list[str]]:
    """Every command that takes a stack, with what else it must be given."""
    more = {"report": ["1111"], "runs show": ["1111"], "runs diff": ["1111", "2222"]}

    def taking(one: argparse.ArgumentParser, path: list[str]) -> Iterator[list[str]]:
        if any("--stack" in action.option_strings for action in one._actions):
            yield [*path, *more.get(" ".join(path), [])]
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, inner in action.choices.items():
                    yield from taking(inner, [*path, name])

    yield from taking(parser(), [])


@pytest.mark.parametrize("words", list(of_a_stack()), ids=" ".join)
def test_a_stack_that_is_not_there_is_the_same_mistake_in_every_command(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "-s", "nope"]) == ExitCode.BAD_INPUT
    said = capsys.readouterr()
    assert f"efactl {words[0]}: stack 'nope' has no Pulumi.nope.yaml; there are " in said.err
    assert "dev" in said.err and "local" in said.err
    assert said.out == ""


def test_the_commands_of_a_stack_are_all_looked_at() -> None:
    assert {"up", "down", "doctor", "status", "logs", "runs", "report", "image"} <= {one[0] for one in of_a_stack()}


def test_every_option_of_every_command_says_what_it_does() -> None:
    def bare(one: argparse.ArgumentParser, path: str) -> Iterator[str]:
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, inner in action.choices.items():
                    yield from bare(inner, f"{path} {name}")
            elif not action.help:
                yield f"{path} {action.dest}"

    assert list(bare(parser(), "efactl")) == []


def test_names_are_given_once() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_the_page_of_exit_codes_is_the_codes() -> None:
    assert (ROOT / "docs" / "exit-codes.md").read_text() == page(), "make docs"
    assert set(MEANINGS) == set(ExitCode)


def test_help_lists_every_command_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    told = help_of(capsys)
    for name in NAMES:
        assert f"\n    {name}" in told
    for code, meaning in MEANINGS.items():
        assert f"{code.value:>3}  {meaning}" in told


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["up", "--no-such-option"]])
def test_a_command_line_that_cannot_be_is_bad_input(words: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == ExitCode.BAD_INPUT


def test_help_and_completion_answer_where_no_package_is_installed() -> None:
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from efactl.__main__ import main; sys.exit(main())"
    for words in (["--help"], ["doctor", "--help"], ["__complete", "up", "--"]):
        bare = [sys.executable, "-I", "-S", "-c", program, str(ROOT), *words]
        done = subprocess.run(bare, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "--" in done.stdout


def test_doctor_looks_around_where_no_package_is_installed() -> None:
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from efactl.__main__ import main; sys.exit(main())"
    bare = [sys.executable, "-I", "-S", "-c", program, str(ROOT), "doctor", "-s", "local", "--json"]
    done = subprocess.run(bare, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (ExitCode.FAILED, "")
    found = {one["name"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["python"]["level"] == "ok"
    assert found["packages"]["level"] == "fail"
    assert "PyYAML is not installed" in found["stack file"]["what"]


@pytest.mark.parametrize(
    ("environment", "terminal", "answer"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm-256color"}, True, True),
    ],
)
def test_colours_are_for_terminals_that_want_them(environment: Mapping[str, str], terminal: bool, answer: bool) -> None:
    assert coloured(environment, terminal=terminal) is answer
