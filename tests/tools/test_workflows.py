"""The workflow files: what actionlint says, and what must hold of a workflow that runs a stranger's code."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.setup import pins
from tools.setup.console import SetupError
from tools.workflows import actionlint

FILES = sorted((pins.PROJECT / ".github" / "workflows").glob("*.yml"))
PULL_REQUEST = pins.PROJECT / ".github/workflows/pull-request.yml"
ACCEPTANCE = pins.PROJECT / ".github/workflows/acceptance.yml"
GUIDE = pins.PROJECT / "docs/pull-requests.md"
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def read(path: Path) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(path.read_text())
    return content


def triggers(workflow: dict[Any, Any]) -> Any:
    # YAML 1.1 reads the key `on` as a truth value.
    return workflow.get("on", workflow.get(True))


def jobs() -> list[Any]:
    return [
        pytest.param(path, name, job, id=f"{path.stem}-{name}")
        for path in FILES
        for name, job in read(path)["jobs"].items()
    ]


def test_there_are_workflows() -> None:
    assert {path.name for path in FILES} >= {"pull-request.yml", "acceptance.yml"}


def test_actionlint_has_nothing_against_them_and_would_say_so() -> None:
    try:
        actionlint.built()
    except SetupError as error:
        pytest.skip(f"actionlint could not be built here: {error}")
    assert actionlint.found(FILES) == ""


def test_actionlint_is_asked_indeed(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text(PULL_REQUEST.read_text().replace("needs: stacks", "needs: nobody"))
    try:
        said = actionlint.found([broken])
    except SetupError as error:
        pytest.skip(f"actionlint could not be built here: {error}")
    assert "nobody" in said


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_a_full_commit_with_its_version_beside_it(path: Path) -> None:
    used = [line.split("uses:", 1)[1].strip() for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    assert [one for one in used if not PINNED.fullmatch(one)] == []


def test_one_action_has_one_pin() -> None:
    used = {match for path in FILES for match in PINNED.findall(path.read_text())}
    assert len({one.split("@")[0] for one in used}) == len(used)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_runs_on_pull_request_target_and_nothing_is_allowed_but_by_a_job(path: Path) -> None:
    workflow = read(path)
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers(workflow))
    assert workflow["permissions"] == {}
    assert workflow["concurrency"]["group"]


@pytest.mark.parametrize(("path", "name", "job"), jobs())
def test_every_job_has_a_limit_and_only_the_rights_it_uses(path: Path, name: str, job: dict[str, Any]) -> None:
    assert job["timeout-minutes"] <= 200
    rights = job["permissions"]
    assert rights.get("contents") in (None, "read")
    used = {step.get("uses", "").split("@")[0] for step in job["steps"]}
    assert ("contents" in rights) == ("actions/checkout" in used)
    assert ("id-token" in rights) == ("aws-actions/configure-aws-credentials" in used)
    assert ("pull-requests" in rights) == (name == "comment")
    assert set(rights) <= {"contents", "id-token", "pull-requests"}


@pytest.mark.parametrize(("path", "name", "job"), jobs())
def test_what_has_an_identity_or_a_secret_or_may_write_is_not_for_forks(
    path: Path, name: str, job: dict[str, Any]
) -> None:
    text = yaml.safe_dump(job)
    if not ("id-token" in job["permissions"] or "pull-requests" in job["permissions"] or "secrets." in text):
        return
    condition = job.get("if", "")
    if path == PULL_REQUEST:
        assert "needs.stacks.outputs.trusted == 'true'" in condition
    elif name == "up":
        assert job["needs"] == "allowed", "it is skipped where that job is"
        first = read(path)["jobs"]["allowed"]["if"]
        assert "github.event.pull_request.head.repo.full_name == github.repository" in first
    else:
        assert job["needs"] == "up" and "needs.up.result != 'skipped'" in condition
    if "id-token" in job["permissions"]:
        assert job["environment"] in ("preview", "acceptance"), "the role is bound to it"


def test_trusted_means_a_branch_of_this_repository() -> None:
    said = read(PULL_REQUEST)["jobs"]["stacks"]["outputs"]["trusted"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in said
    assert "dependabot[bot]" in said


@pytest.mark.parametrize(("path", "name", "job"), jobs())
def test_no_checkout_leaves_its_token_and_no_script_is_put_together_from_an_event(
    path: Path, name: str, job: dict[str, Any]
) -> None:
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        assert "${{" not in step.get("run", ""), "values come through the environment"


def test_a_forks_stacks_are_previewed_with_stand_ins_and_without_any_right() -> None:
    job = read(PULL_REQUEST)["jobs"]["preview-without-account"]
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    assert 'make preview STACK="$STACK" STANDIN=1' in scripts
    assert job["permissions"] == {"contents": "read"}
    assert "secrets." not in yaml.safe_dump(job)


@pytest.mark.parametrize(("path", "name", "job"), jobs())
def test_packages_are_installed_before_there_are_credentials(path: Path, name: str, job: dict[str, Any]) -> None:
    steps = job["steps"]
    identity = [at for at, step in enumerate(steps) if "configure-aws-credentials" in step.get("uses", "")]
    if not identity:
        return
    later = [step.get("run", "") for step in steps[identity[0] :]]
    assert not [run for run in later if "bootstrap.sh" in run or "make " in run]
    # A base that is given as a commit gets its packages in the same step.
    assert not [run for run in later if "tools.pull_request" in run and "--base " in run]


def test_before_there_is_a_role_previews_are_the_stand_ins() -> None:
    steps = read(PULL_REQUEST)["jobs"]["preview"]["steps"]
    [identity] = [step for step in steps if "configure-aws-credentials" in step.get("uses", "")]
    [shown] = [step for step in steps if "tools.pull_request preview" in step.get("run", "")]
    assert "vars.PREVIEW_ROLE != ''" in identity["if"]
    assert "vars.PREVIEW_ROLE == ''" in shown["env"]["STANDIN"]
    script = shown["run"].replace(".venv/bin/python", "printf '[%s]'")
    for reason, given in [("not set", "[--standin][not set]"), ("", "")]:
        env = {"STANDIN": reason, "STACK": "dev", "RUNNER_TEMP": "tmp"}
        said = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True).stdout
        assert said.endswith(f"[previews]{given}")


def test_the_comment_knows_which_previews_it_waits_for() -> None:
    job = read(PULL_REQUEST)["jobs"]["comment"]
    [told] = [step for step in job["steps"] if "tools.pull_request comment" in step.get("run", "")]
    assert '--previewed "$PREVIEWED"' in told["run"]
    assert told["env"]["PREVIEWED"] == "${{ needs.stacks.outputs.previewed }}"


def test_the_gate_is_taken_down_whatever_became_of_it_and_its_code_is_the_verdicts() -> None:
    workflow = read(ACCEPTANCE)
    assert set(triggers(workflow)) == {"schedule", "workflow_dispatch", "pull_request"}
    assert triggers(workflow)["pull_request"] == {"types": ["labeled"]}
    up, down = workflow["jobs"]["up"], workflow["jobs"]["down"]
    assert down["if"].startswith("always()") and down["needs"] == "up"
    assert any("efactl down" in step.get("run", "") for step in down["steps"])
    [gate] = [step for step in up["steps"] if "tools.acceptance" in step.get("run", "")]
    assert not {"continue-on-error", "if"} & gate.keys() and "|" not in gate["run"]
    assert gate["timeout-minutes"] < up["timeout-minutes"]
    [kept] = [step for step in up["steps"] if step.get("uses", "").startswith("actions/upload-artifact")]
    assert kept["if"] == "always()"
    [identity] = [step for step in up["steps"] if "configure-aws-credentials" in step.get("uses", "")]
    assert identity["with"]["role-duration-seconds"] >= 60 * up["timeout-minutes"]
    assert workflow["concurrency"]["cancel-in-progress"] is False


def test_a_reviewer_is_asked_before_up_and_nobody_before_down() -> None:
    jobs = read(ACCEPTANCE)["jobs"]
    asked, trust = jobs["allowed"]["environment"], pins.PROJECT / "docs/iam/github-acceptance-trust.json"
    assert jobs["up"]["needs"] == "allowed" and "always()" not in jobs["up"].get("if", "")
    assert asked not in {jobs["up"]["environment"], jobs["down"]["environment"]}
    assert f"environment `{asked}` with required reviewers" in " ".join(GUIDE.read_text().split())
    [subject] = re.findall(r'"repo:my-org/ray-train-efa:environment:(.*)"', trust.read_text())
    assert {jobs["up"]["environment"], jobs["down"]["environment"]} == {subject}


@pytest.mark.parametrize("page", ["pull-requests.md", "quick-start.md", "eks.md", "iam/README.md"])
def test_whoever_is_told_to_take_a_stack_down_is_told_which_rights_that_takes(page: str) -> None:
    text = (GUIDE.parent / page).read_text()
    assert "efactl down" in text and "deployer.json" in text
    assert "audit-read.json" in text, "without it some kinds are not looked at, and `efactl down` fails"


@pytest.mark.parametrize(
    "command",
    [["stacks", "--base", "HEAD"], ["comment", "--from", "nowhere", "--commit", "c", "--print"]],
    ids=lambda command: command[0],
)
def test_what_runs_before_set_up_needs_nothing_but_python(command: list[str]) -> None:
    # -S: no installed package is found.
    done = subprocess.run(
        [sys.executable, "-S", "-m", "tools.pull_request", *command],
        cwd=pins.PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
