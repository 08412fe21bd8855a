"""`efactl compare`: what it takes from the stack, its exit codes, its interruption."""

import contextlib
import functools
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from efactl import compare as module
from efactl.__main__ import main, parser
from efactl.compare import compare
from efactl.exit_codes import ExitCode
from efactl.stack import Stack
from tests.pure.test_transport_comparison import PROPS
from tests.support.compared import Cluster
from tests.support.compared import request as made_up_request
from workload import compare_runs
from workload.comparison_plan import Plan
from workload.errors import BadInputError, ReportedError, RunInterruptedError
from workload.head import Head
from workload.job_following import JobOutcome, JobRequest
from workload.job_spec import training_digest

SECRET_MARK = "4dabf18193072939515e22adb298388d"


class FakeStack:
    """A stack with one run in state, its secrets as `pulumi stack export --show-secrets` shows them."""

    name = "local"

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        (folder / "training").mkdir(exist_ok=True)
        (folder / "training" / "train.py").write_text("print()\n")
        self.settings = settings
        self.inputs: dict[str, Any] = {
            **PROPS,
            "training_digest": training_digest(folder / "training"),
            "secret_env": {SECRET_MARK: "1b47061264138c4ac30d75fd1eb44270", "plaintext": '{"HF_TOKEN":"very_secret"}'},
        }
        self.found: Mapping[str, Any] | None = {"inputs": self.inputs, "outputs": {"submission_id": "x"}}
        self.now: Head | None = made_up_request(folder).head

    def resource(self, token: str) -> Mapping[str, Any] | None:
        return self.found

    def head(self) -> Head | None:
        return self.now

    def config(self, key: str) -> Any:
        return self.settings.get(key)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder; the command is called from elsewhere."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setattr(module, "FOLDER", project)
    monkeypatch.chdir(tmp_path)
    return project


def run(stack: FakeStack, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> ExitCode:
    carry_out = functools.partial(compare_runs.carry_out, run=cluster.run, measure=cluster.measure, stop=cluster.stop)
    monkeypatch.setattr(module, "carry_out", carry_out)
    options: dict[str, Any] = {
        "repeats": None,
        "steps": None,
        "bandwidth": False,
        "min_speedup": None,
        "as_json": False,
    }
    return compare(cast(Stack, stack), **{**options, **changes})


def twice(env: Mapping[str, str]) -> float:
    return 500 if env else 1000


def test_the_job_of_the_last_run_is_run_in_two_arms_where_the_stack_is_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack, cluster = FakeStack(folder), Cluster(tokens_per_second=twice)
    assert run(stack, cluster, monkeypatch) == ExitCode.OK
    assert len(cluster.requests) == 6
    request = cluster.requests[0]
    assert request.head == stack.now and request.spec.secret_env == {"HF_TOKEN": "very_secret"}
    assert request.training == folder / "training"
    assert request.spec.arguments["steps"] == 13
    said = capsys.readouterr()
    assert "gloo is 2.000 (95 %: 2.000 to 2.000) times as fast as gloo-lazy" in said.out
    assert "[gloo-lazy 1/3] step 1/13" in said.err and "step 1/13" not in said.out
    assert "very_secret" not in said.out + said.err
    assert list((folder / "runs").glob("compare-*/comparison.txt"))
    assert Path.cwd() == folder.parent


def test_json_is_the_report_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(FakeStack(folder), Cluster(), monkeypatch, as_json=True, bandwidth=True, repeats=4, steps=9) == 0
    whole = json.loads(capsys.readouterr().out)
    (kept,) = (folder / "runs").glob("compare-*/comparison.json")
    assert whole == json.loads(kept.read_text())
    assert (whole["repeats"], whole["steps"], len(whole["allReduces"])) == (4, 9, 8)


ARMS = {"one": {"expect": "gloo", "env": {"A": "1"}}, "two": {"expect": "gloo"}}


@pytest.mark.parametrize("arms", [ARMS, json.dumps(ARMS)])
def test_what_the_command_line_leaves_open_is_as_the_stack_has_it(folder: Path, arms: Any) -> None:
    stack = FakeStack(
        folder,
        compareArms=arms,
        compareRepeats=5,
        compareSteps="21",
        compareMinSpeedup="1.5",
        preflightSizes=["1M", "8M"],
    )
    plan = planned(stack)
    assert [arm.name for arm in plan.arms] == ["one", "two"]
    assert (plan.repeats, plan.steps, plan.min_ratio, plan.sizes) == (5, 21, 1.5, ["1M", "8M"])
    plan = planned(stack, repeats=3, steps=8, bandwidth=False, min_speedup=2.0)
    assert (plan.repeats, plan.steps, plan.min_ratio, plan.sizes) == (3, 8, 2.0, None)


def planned(stack: FakeStack, **changes: Any) -> Plan:
    options: dict[str, Any] = {"repeats": None, "steps": None, "bandwidth": True, "min_speedup": None}
    with contextlib.chdir(stack.folder):
        return module._plan(cast(Stack, stack), **{**options, **changes})


def test_settings_of_a_stack_without_a_comparison_mean_the_least_one(folder: Path) -> None:
    plan = planned(FakeStack(folder, compareRepeats=0, compareMinSpeedup="", compareArms={}, preflightSizes=[]))
    assert (plan.repeats, plan.steps, plan.min_ratio, plan.sizes) == (3, 13, None, [])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"compareArms": "[1"}, "compareArms: '\\[1' is not an object"),
        ({"compareArms": ["a"]}, "is not an object"),
        ({"compareArms": {"a": {"expect": "gloo"}}}, "names 1 arms"),
        ({"compareArms": {**ARMS, "one": {"expect": "gloo", "env": {"RAY_DEDUP_LOGS": "1"}}}}, "set by the job itself"),
        ({"compareMinSpeedup": "fast"}, "compareMinSpeedup: 'fast' must be a finite number above 0"),
        ({"compareMinSpeedup": -1}, "must be a finite number above 0"),
        ({"compareSteps": 4}, "4 steps: at least 8"),
        ({"preflightSizes": ["1M", "huge"]}, "preflightSizes: 'huge' is not a size in bytes such as 64M"),
        ({"preflightSizes": "[6]"}, "preflightSizes: '6' is not a size in bytes .* a multiple of 4"),
        ({"preflightSizes": "1M"}, "preflightSizes: '1M' is not a list"),
        ({"preflightSizes": {"a": 1}}, "is not a list"),
        ({"compareRepeats": 2}, "2 repeats: fewer than 3"),
    ],
)
def test_settings_that_cannot_be_are_bad_input(folder: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        planned(FakeStack(folder, **settings))


def test_without_a_run_without_a_head_or_with_other_code_there_is_nothing_to_compare(folder: Path) -> None:
    stack = FakeStack(folder)
    (folder / "training" / "train.py").write_text("print('changed')\n")
    with pytest.raises(ReportedError, match="training/ is not what the stack's last run ran"):
        planned(stack)
    stack = FakeStack(folder)
    stack.now = None
    with pytest.raises(ReportedError, match="has no Ray head"):
        planned(stack)
    for found in (None, {"inputs": stack.inputs}):
        stack.found = found
        with pytest.raises(ReportedError, match="holds no run to compare with"):
            planned(stack)


def refuted(number: int, report: dict[str, Any]) -> None:
    report["attempts"][0]["ranks"][0]["backend"] = "nccl"


def unproven(number: int, report: dict[str, Any]) -> None:
    del report["attempts"][0]["ranks"][1]


def failing(number: int) -> None:
    if number == 2:
        raise ReportedError("job x ended as FAILED")


@pytest.mark.parametrize(
    ("cluster", "options", "code", "said"),
    [
        (Cluster(), {}, ExitCode.OK, "by repeat: 1.000, 1.000, 1.000"),
        (Cluster(tokens_per_second=twice), {"min_speedup": 1.9}, ExitCode.OK, "at least 1.9, as demanded"),
        (Cluster(tokens_per_second=twice), {"min_speedup": 2.1}, ExitCode.SLOW, "below compareMinSpeedup 2.1"),
        (Cluster(changed=refuted), {}, ExitCode.REFUTED, "arm gloo, repeat 1"),
        (Cluster(changed=unproven), {}, ExitCode.UNPROVEN, "rank 1 of 4 reported nothing"),
        (Cluster(before=failing), {}, ExitCode.FAILED, "job x ended as FAILED"),
    ],
)
def test_the_exit_code_is_how_it_came_out(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cluster: Cluster,
    options: dict[str, Any],
    code: ExitCode,
    said: str,
) -> None:
    assert run(FakeStack(folder), cluster, monkeypatch, **options) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_with_the_result_so_far(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    class Interrupted(Cluster):
        def run(self, request: JobRequest, *, say: Any, interrupt: Event) -> JobOutcome:
            if len(self.requests) == 2:
                os.kill(os.getpid(), number)
                assert interrupt.wait(60)
                raise RunInterruptedError("job x goes on")
            return super().run(request, say=say, interrupt=interrupt)

    cluster = Interrupted()
    assert run(FakeStack(folder), cluster, monkeypatch) == ExitCode.INTERRUPTED
    assert len(cluster.stopped) == 1
    said = capsys.readouterr()
    assert "interrupted after 2 of 6 jobs" in said.out
    assert "interrupted: the running job is being stopped" in said.err
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


@pytest.mark.parametrize(
    "arguments",
    [["--repeats", "0"], ["--repeats", "x"], ["--steps", "-3"], ["--min-speedup", "0"], ["--min-speedup", "nan"]],
)
def test_a_command_line_that_cannot_be_is_bad_input(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["compare", *arguments])
    assert left.value.code == ExitCode.BAD_INPUT


def test_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = parser().parse_args(
        ["compare", "-s", "dev", "--repeats", "4", "--steps", "30", "--no-bandwidth", "--min-speedup", "2.5", "--json"]
    )
    assert (asked.stack, asked.repeats, asked.steps) == ("dev", 4, 30)
    assert (asked.bandwidth, asked.min_speedup, asked.json) == (False, 2.5, True)
    assert parser().parse_args(["compare"]).bandwidth is True


def test_a_stack_that_does_not_exist_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "-s", "no-such-stack"]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.startswith("efactl compare: stack 'no-such-stack' has no Pulumi.no-such-stack.yaml")
