"""A pull request's previews as the workflow runs them: two commits of the real program, AWS stood in for, a comment."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.project import COPIED, ROOT
from tests.support.stack_plan import plan_of
from tests.support.standin_project import StandinProject
from tools.standin import actions
from tools.standin.iam_policy import not_allowed

pytestmark = [pytest.mark.engine, pytest.mark.kubernetes_provider]

SECRET = "a-secret-of-the-environment"


class Clone:
    """A repository of the product in a folder of its own, with a commit to merge into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in (*COPIED, "policy", "tools", "pyproject.toml", ".gitignore"):
            source, ignored = ROOT / name, shutil.ignore_patterns("__pycache__", ".state")
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignored)
            else:
                shutil.copyfile(source, folder / name)
        (folder / ".venv").symlink_to(Path(sys.prefix))
        # With a slash at its end .gitignore means folders alone.
        (folder / ".gitignore").write_text((folder / ".gitignore").read_text() + "/.venv\n")
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit("before")

    def git(self, *command: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *identity, *command], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def set(self, stack: str, **settings: Any) -> None:
        file = self.folder / f"Pulumi.{stack}.yaml"
        content = yaml.safe_load(file.read_text())
        content["config"].update({f"ray-train-efa:{key}": value for key, value in settings.items()})
        file.write_text(yaml.safe_dump(content, sort_keys=False))

    def tool(self, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "tools.pull_request", *command],
            cwd=self.folder,
            # No backend and no account of whoever runs the tests.
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "PULUMI_", "RAY_"))},
                "PULUMI_ACCESS_TOKEN": SECRET,
                "PULUMI_SKIP_UPDATE_CHECK": "true",
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=400,
        )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    clone = Clone(tmp_path_factory.mktemp("pull-request") / "clone")
    clone.git("switch", "--quiet", "--create", "change")
    clone.set("dev", gpuNodes="4", trainSteps="40")
    clone.commit("more nodes")
    yield clone


def previewed(clone: Clone, stack: str, out: str) -> dict[str, Any]:
    done = clone.tool("preview", "-s", stack, "--base", "main", "--standin", "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads((clone.folder / out / f"{stack}.json").read_text())
    return told


def test_a_change_of_one_stacks_settings_touches_it_alone(clone: Clone, tmp_path: Path) -> None:
    done = clone.tool("stacks", "--base", "main", "--output", str(tmp_path / "output"))
    assert done.returncode == 0, done.stderr
    said = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert json.loads(said["previewed"]) == [{"stack": "dev", "platform": "eks"}]
    assert json.loads(said["skipped"]) == {}
    assert json.loads(done.stdout)["touched"][0]["why"] == "Pulumi.dev.yaml"


def test_two_more_nodes_are_told_with_their_cost_the_policies_and_the_run_that_is_due(clone: Clone) -> None:
    told = previewed(clone, "dev", "out")
    assert not told["failed"], told["errors"]
    changed = {change["resource"]: change for change in told["changes"]}
    assert {change["operation"] for change in told["changes"]} == {"change"}
    assert "scalingConfig" in changed["NodeGroup ray-gpu-group"]["properties"]
    assert "instanceCount" in changed["CapacityReservation ray-reservation-capacity"]["properties"]
    assert "Vpc ray-network-vpc" not in changed
    assert told["cost"]["after"] - told["cost"]["before"] == pytest.approx(2 * 4.6016 + 0.1096, abs=0.01)
    assert any(line.startswith("g6.12xlarge, GPU nodes: 2 for ") for line in told["cost"]["lines"])
    assert told["policy"]["broken"] == [] and told["policy"]["kept"] > 15
    assert told["run"]["due"] is True
    assert "arguments: steps 20 → 40" in told["run"]["reasons"]
    printed = clone.tool("comment", "--from", "out", "--commit", "0" * 40, "--print")
    assert printed.returncode == 0, printed.stderr
    assert "| `dev` |" in printed.stdout and "**due**" in printed.stdout
    assert SECRET not in printed.stdout and "ciphertext" not in printed.stdout
    assert clone.git("worktree", "list").count("\n") == 1, "the base's checkout is gone"
    assert clone.git("status", "--porcelain").split() == ["??", "out/"]


def test_a_setting_that_breaks_a_rule_and_one_that_cannot_be_do_not_pass(clone: Clone) -> None:
    clone.git("switch", "--quiet", "--create", "bad")
    try:
        clone.set("dev", rayImage="public.ecr.aws/deep-learning-containers/ray:latest")
        done = clone.tool("preview", "-s", "dev", "--base", "change", "--standin", "--out", "bad")
        told = json.loads((clone.folder / "bad/dev.json").read_text())
        assert done.returncode == 1, "a broken rule"
        assert not told["failed"], told["errors"]
        assert {one["rule"] for one in told["policy"]["broken"]} == {"images-pinned"}
        clone.set("dev", gpuInstanceType="t2.nano")
        done = clone.tool("preview", "-s", "dev", "--base", "change", "--standin", "--out", "bad")
        told = json.loads((clone.folder / "bad/dev.json").read_text())
        assert done.returncode == 1 and told["failed"]
        assert "gpuInstanceType" in " ".join(told["errors"])
    finally:
        clone.git("checkout", "--quiet", "--", ".")
        clone.git("switch", "--quiet", "change")


def test_a_stack_of_this_machine_is_previewed_without_touching_its_state(clone: Clone) -> None:
    told = previewed(clone, "local", "local")
    assert not told["failed"] and told["changes"] == []
    assert told["run"] == {"due": False, "reasons": []}
    assert told["cost"]["text"] == "0.00 USD, unchanged"
    assert not (clone.folder / ".state").exists()


def test_a_stack_that_its_backend_does_not_have_is_previewed_all_the_same(clone: Clone, tmp_path: Path) -> None:
    state, base = tmp_path / "state", tmp_path / "base"
    state.mkdir()
    backend = {"PULUMI_BACKEND_URL": f"file://{state}", "PULUMI_CONFIG_PASSPHRASE": "p"}
    made = clone.tool("base", "--base", "main", "--at", str(base))
    assert made.returncode == 0, made.stderr
    done = clone.tool("preview", "-s", "dev", "--base-at", str(base), "--out", "unmade", **backend)
    assert done.returncode == 0, done.stdout + done.stderr
    clone.git("worktree", "remove", "--force", str(base))
    told = json.loads((clone.folder / "unmade/dev.json").read_text())
    assert told["instead"] == "its backend has no stack dev (pulumi stack init dev makes it)"
    assert told["standin"] and "arguments: steps 20 → 40" in told["run"]["reasons"]
    assert not list(state.rglob("*dev*")), "nobody's stack is made by a preview"


def test_the_read_only_role_allows_all_that_a_preview_asks(tmp_path: Path) -> None:
    project = StandinProject(tmp_path / "project")
    assert plan_of(json.loads(project.must("preview", "--json"))["steps"]).created
    calls = project.calls()
    assert calls, "the account was asked"
    policy = json.loads((ROOT / "docs/iam/preview-read.json").read_text())
    needed = [action for call in calls for action in actions.needed(call["type"], call["operation"])]
    assert not_allowed(policy, needed) == []
