"""`.venv/bin/pulumi`: which environment each stack gets, and that the CLI behind it is reached unchanged."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tools.setup import launchers

# Prints what it was given; `stack init NAME` leaves a state file as the real one does.
STAND_IN = r"""#!/bin/sh
case "$*" in
  "stack init "*)
    [ -z "$INIT_FAILS" ] || { echo "error: $INIT_FAILS" >&2; exit 255; }
    folder=${PULUMI_BACKEND_URL#file://}
    folder=${folder%%\?*}/.pulumi/stacks/ray-train-efa
    mkdir -p "$folder" && : >"$folder/$3.json"
    echo "$PULUMI_BACKEND_URL" >>"${0%/*}/created"
    echo "Created stack '$3'"
    exit 0 ;;
  fail*) exit 7 ;;
  wait*)
    trap 'echo caught INT; exit 21' INT
    trap 'echo caught TERM; exit 22' TERM
    echo "pid=$$"
    while :; do sleep 0.05; done ;;
esac
echo "arguments=$*"
echo "backend=${PULUMI_BACKEND_URL-unset}"
echo "passphrase=${PULUMI_CONFIG_PASSPHRASE-unset}"
echo "updateCheckOff=$PULUMI_SKIP_UPDATE_CHECK"
echo "path=$PATH"
echo "no_proxy=$no_proxy"
echo "NO_PROXY=$NO_PROXY"
"""


class Clone:
    """A project folder with the launcher in place and a stand-in CLI behind it."""

    def __init__(self, root: Path) -> None:
        self.project = root / "my project"
        self.cli = root / "cli" / "pulumi"
        self.home = root / "home"
        for folder in (self.project / ".venv" / "bin", self.cli.parent, self.home):
            folder.mkdir(parents=True)
        self.cli.write_text(STAND_IN)
        self.cli.chmod(0o755)
        (self.project / "Pulumi.yaml").write_text(
            "name: ray-train-efa\nruntime: python\nconfig:\n  platform:\n    type: string\n    default: local\n"
            "  other:\n    default: eks\n"
        )
        (self.project / "Pulumi.local.yaml").write_text("config:\n  ray-train-efa:platform: local\n")
        (self.project / "Pulumi.quoted.yaml").write_text('config:\n  ray-train-efa:platform: "local"')
        (self.project / "Pulumi.silent.yaml").write_text("config:\n  ray-train-efa:expect: gloo\n")
        (self.project / "Pulumi.dev.yaml").write_text("config:\n  ray-train-efa:platform: eks\n")
        for path, text in launchers.texts(self.cli, self.project).items():
            path.write_text(text)
            path.chmod(0o755)
        self.launcher = self.project / ".venv" / "bin" / "pulumi"
        self.local_backend = f"file://{self.project}/.state?metadata=skip"

    def start(self, *arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.launcher, *arguments],
            cwd=cwd or self.project,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Mapping[str, str]:
        """What the CLI saw."""
        process = self.start(*arguments, cwd=cwd, **variables)
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return dict(line.split("=", 1) for line in output.splitlines())

    def created(self) -> list[str]:
        log = self.cli.parent / "created"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    yield Clone(tmp_path.resolve())


@pytest.mark.parametrize(
    "arguments",
    [
        ("up", "-s", "local"),
        ("up", "-slocal"),
        ("up", "-ys", "local"),
        ("--color", "never", "up", "--stack", "local"),
        ("up", "-s", "organization/ray-train-efa/local"),
        ("destroy", "--yes", "--stack=local"),
        ("stack", "select", "local"),
        ("up", "-s", "quoted"),
        ("up", "-s", "silent"),
        ("up",),
    ],
    ids=" ".join,
)
def test_a_local_stack_keeps_its_state_in_the_project_with_an_empty_passphrase(
    clone: Clone, arguments: tuple[str, ...]
) -> None:
    seen = clone.run(*arguments)
    assert seen["backend"] == clone.local_backend
    assert seen["passphrase"] == ""
    assert seen["arguments"] == " ".join(arguments), "the CLI must get the arguments as they were typed"


@pytest.mark.parametrize(
    "arguments", [("up", "-s", "dev"), ("up", "-s", "not-there"), ("stack", "rm", "dev")], ids=" ".join
)
def test_any_other_stack_is_left_to_the_users_own_backend(clone: Clone, arguments: tuple[str, ...]) -> None:
    seen = clone.run(*arguments)
    assert (seen["backend"], seen["passphrase"]) == ("unset", "unset")
    assert not clone.created()
    assert not (clone.project / ".state").exists()


def test_the_stack_named_by_the_environment_counts_as_chosen(clone: Clone) -> None:
    assert clone.run("up", PULUMI_STACK="dev")["backend"] == "unset"
    assert clone.run("up", PULUMI_STACK="local")["backend"] == clone.local_backend
    assert clone.run("up", "-s", "local", PULUMI_STACK="dev")["backend"] == clone.local_backend


def test_a_backend_or_passphrase_that_the_user_chose_is_kept(clone: Clone) -> None:
    seen = clone.run("up", "-s", "local", PULUMI_BACKEND_URL="s3://mine", PULUMI_CONFIG_PASSPHRASE="word")
    assert (seen["backend"], seen["passphrase"]) == ("s3://mine", "word")
    assert not clone.created(), "a stack must not be created in a backend that the user chose"
    seen = clone.run("up", "-s", "local", PULUMI_CONFIG_PASSPHRASE_FILE="/somewhere/word")
    assert (seen["backend"], seen["passphrase"]) == (clone.local_backend, "unset")


def test_loopback_is_kept_off_a_proxy_beside_what_the_user_excepts(clone: Clone) -> None:
    # The CLI reaches its language host on loopback through gRPC, which honours http_proxy.
    seen = clone.run("up", "-s", "local", NO_PROXY="mine.example", http_proxy="http://127.0.0.1:9")
    assert seen["no_proxy"] == seen["NO_PROXY"] == "mine.example,127.0.0.1,localhost"
    assert clone.run("up", "-s", "local")["no_proxy"] == "127.0.0.1,localhost"


def test_a_stack_in_the_projects_state_stays_there_when_its_platform_changes(clone: Clone) -> None:
    clone.run("up", "-s", "local")
    (clone.project / "Pulumi.local.yaml").write_text("config:\n  ray-train-efa:platform: eks\n")
    assert clone.run("config", "set", "platform", "local", "-s", "local")["backend"] == clone.local_backend


def test_the_projects_state_is_nobody_elses_to_read(clone: Clone) -> None:
    clone.run("up", "-s", "local")
    assert (clone.project / ".state").stat().st_mode & 0o777 == 0o700


def test_without_a_stack_name_a_logged_in_user_keeps_their_backend(clone: Clone) -> None:
    credentials = clone.home / ".pulumi" / "credentials.json"
    credentials.parent.mkdir()
    credentials.write_text('{\n    "current": "https://pulumi.example.com",\n    "accounts": {}\n}\n')
    assert clone.run("stack", "ls")["backend"] == "unset"
    assert clone.run("up", "-s", "local")["backend"] == clone.local_backend
    credentials.write_text('{\n    "current": ""\n}\n')
    assert clone.run("stack", "ls")["backend"] == clone.local_backend
    assert clone.run("stack", "ls", PULUMI_ACCESS_TOKEN="x")["backend"] == "unset"
    with (clone.project / "Pulumi.yaml").open("a") as file:
        file.write("backend:\n  url: s3://team\n")
    assert clone.run("stack", "ls")["backend"] == "unset"


def test_login_reaches_the_real_cli_untouched(clone: Clone) -> None:
    assert clone.run("login")["backend"] == "unset"


def test_in_another_projects_directory_nothing_is_redirected(clone: Clone, tmp_path: Path) -> None:
    assert clone.run("up", "-s", "local", cwd=tmp_path)["backend"] == "unset"
    assert clone.run("up", "-s", "local", "-C", str(tmp_path))["backend"] == "unset"
    assert clone.run("up", "-s", "local", f"--cwd={clone.project}", cwd=tmp_path)["backend"] == clone.local_backend


def test_a_missing_local_stack_is_created_once_and_quietly(clone: Clone) -> None:
    assert "arguments" in clone.run("up", "-s", "local")
    clone.run("up", "-s", "local")
    assert clone.created() == [clone.local_backend]


def test_removing_or_asking_for_help_creates_no_stack(clone: Clone) -> None:
    clone.run("stack", "rm", "local")
    clone.run("up", "-s", "local", "--help")
    assert not clone.created()


def test_a_stack_that_cannot_be_created_ends_with_the_clis_reason(clone: Clone) -> None:
    process = clone.start("up", "-s", "local", INIT_FAILS="disk is full")
    output, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "disk is full" in errors
    assert not output, "the command itself must not run"


def test_the_environment_and_the_clis_own_directory_come_first_on_path(clone: Clone) -> None:
    seen = clone.run("up", "-s", "dev")
    assert seen["path"].split(":")[:2] == [str(clone.launcher.parent), str(clone.cli.parent)]
    assert seen["updateCheckOff"] == "true"


def test_the_exit_code_of_the_cli_comes_back(clone: Clone) -> None:
    process = clone.start("fail", "-s", "local")
    process.communicate(timeout=120)
    assert process.returncode == 7


@pytest.mark.parametrize(("number", "name", "code"), [(signal.SIGINT, "INT", 21), (signal.SIGTERM, "TERM", 22)])
def test_a_signal_sent_to_the_launcher_reaches_the_cli(clone: Clone, number: int, name: str, code: int) -> None:
    process = clone.start("wait", "-s", "local")
    assert process.stdout
    assert process.stdout.readline() == f"pid={process.pid}\n", "the launcher must become the CLI, not its parent"
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert (output, process.returncode) == (f"caught {name}\n", code)


def test_a_cli_that_has_gone_is_reported_with_what_to_do(clone: Clone) -> None:
    clone.cli.unlink()
    process = clone.start("up", "-s", "local")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 127
    assert "make setup" in errors
    assert str(clone.cli) in errors


def test_the_launcher_costs_next_to_nothing_since_it_runs_no_program_but_the_cli(clone: Clone) -> None:
    clone.run("up", "-s", "local")
    seen = clone.run("up", "-s", "local", PATH="/nowhere")
    assert seen["backend"] == clone.local_backend
    assert seen["path"].endswith(":/nowhere")
