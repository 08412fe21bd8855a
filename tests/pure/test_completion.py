"""Completion: what is offered where, told from the parser, and that a real bash takes it."""

import fcntl
import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from efactl.__main__ import COMMANDS, main, parser
from efactl.completion_words import words

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for stack in ("local", "dev", "dev-us-east-2"):
        (tmp_path / f"Pulumi.{stack}.yaml").write_text("config: {}\n")
    shutil.copyfile(ROOT / "Pulumi.yaml", tmp_path / "Pulumi.yaml")
    for run in ("ray-train-a-1", "ray-train-b-1", "ray-train-fsdp-llm-11a6-1"):
        (tmp_path / "runs" / run).mkdir(parents=True)
        (tmp_path / "runs" / run / "record.json").write_text("{}")
    (tmp_path / "runs" / "unfinished").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        (["do"], ["doctor", "down"]),
        (["outputs", "-"], ["--help", "--json", "--stack", "-h", "-s"]),
        (["up", "--p"], ["--plan"]),
        (["capacity", "--pro"], ["--probe"]),
        (["up", "-s", ""], ["dev", "dev-us-east-2", "local"]),
        (["up", "--stack", "dev-"], ["dev-us-east-2"]),
        (["up", "--stack=lo"], ["--stack=local"]),
        (["up", "--json", "-s", "l"], ["local"]),
        (["up", ""], []),
        (["no-such", ""], []),
        (["transport", "--expect", ""], ["efa", "gloo", "socket"]),
        (["transport", "a.log", "--expect=s"], ["--expect=socket"]),
        (["transport", ""], []),
        (["compare", "--no-b"], ["--no-bandwidth"]),
        (["compare", "--repeats", ""], []),
        (["runs", ""], ["diff", "list", "show"]),
        (["runs", "show", "ray-train-a"], ["ray-train-a-1"]),
        (["runs", "diff", "ray-train-a-1", ""], ["11a6-1", "ray-train-a-1", "ray-train-b-1"]),
        (["runs", "show", "11"], ["11a6-1"]),
        (["runs", "show", "ray-train-f"], ["ray-train-fsdp-llm-11a6-1"]),
        (["runs", "show", "ray-train-fsdp-llm-11"], ["ray-train-fsdp-llm-11a6-1"]),
        (["runs", "list", "--verdict", "un"], ["unproven"]),
        (["report", "ray-train-b"], ["ray-train-b-1"]),
        (["run", "trainSte"], ["trainSteps="]),
        (["run", "trainSteps=5", "gate"], ["gateMaxEvalLoss="]),
        (["run", "-s", "dev", "jobS"], []),
        (["completion", "f"], ["fish"]),
    ],
)
def test_what_is_offered(folder: Path, given: list[str], offered: list[str]) -> None:
    assert words(parser(), given, folder) == offered


def test_every_command_is_offered_at_the_beginning(folder: Path) -> None:
    assert words(parser(), [""], folder) == sorted(command.name for command in COMMANDS)
    assert words(parser(), [], folder) == sorted(command.name for command in COMMANDS)


def test_a_folder_without_anything_offers_nothing_and_fails_at_nothing(tmp_path: Path) -> None:
    for given in (["up", "-s", ""], ["runs", "show", ""], ["run", ""]):
        assert words(parser(), given, tmp_path) == []


def test_each_shell_s_script_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "__complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])]
)
def test_each_shell_can_read_its_script(
    shell: str, check: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    main(["completion", shell])
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    done = subprocess.run([*check, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'"),
    "zsh": (["zsh", "-f", "-i"], "unsetopt beep; autoload -U compinit; compinit -u -D"),
    "fish": (["fish", "--no-config", "-i"], "true"),
}


class Shell:
    """An interactive shell on a terminal, in which `efactl` prints what it was called with."""

    def __init__(self, name: str, folder: Path) -> None:
        command, prepare = SHELLS[name]
        program = folder / "efactl"
        program.write_text(
            f'#!/bin/sh\n[ "$1" != __complete ] || {{ cd "{ROOT}" && exec "{sys.executable}" -m efactl "$@"; }}\n'
            'echo "CALLED[$*]"\n'
        )
        program.chmod(0o755)
        script = subprocess.run(
            [sys.executable, "-m", "efactl", "completion", name], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        (folder / "completion").write_text(script)
        (folder / "file-of-mine.log").touch()
        environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb", "PS1": ""}
        self._terminal, other = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stdin=other,
            stdout=other,
            stderr=other,
            cwd=folder,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # fish takes no terminal but its own
        )
        os.close(other)
        self._seen = ""
        self.type(f"{prepare}; source ./completion; echo REA''DY\n")
        self.until("READY")

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, text: str) -> str:
        """What it has shown up to a text that it shows."""
        end = time.monotonic() + 120
        while text not in self._seen:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no '{text}' within 120 s:\n{self._seen}"
            self._seen += os.read(self._terminal, 4096).decode(errors="replace")
        before, _, self._seen = self._seen.partition(text)
        return before

    def called(self, typed: str) -> str:
        """How `efactl` is called after this was typed, tabs and all."""
        self.type(f"{typed}\n")
        self.until("CALLED[")
        return self.until("]")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.mark.parametrize("name", SHELLS)
def test_a_real_shell_completes_commands_options_stacks_settings_and_files(name: str, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    shell = Shell(name, tmp_path)
    try:
        assert shell.called("efactl doct\t") == "doctor"
        assert shell.called("efactl up -s loc\t --js\t") == "up -s local --json"
        assert shell.called("efactl up --stack=loc\t") == "up --stack=local"
        assert shell.called("efactl run trainSte\t5") == "run trainSteps=5"
        assert shell.called("efactl transport fi\t--exp\tso\t") == "transport file-of-mine.log --expect socket"
        assert shell.called("efactl completion ba\t") == "completion bash"
    finally:
        shell.close()
