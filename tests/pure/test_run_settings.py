"""`efactl run`: which settings a run can have, what a preview must not hold, and when nothing is done."""

import argparse
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from efactl import commands
from efactl import run as module
from efactl.exit_codes import ExitCode
from efactl.run_plan import plan_of
from efactl.run_settings import applied, kept_by, replaced_whole, run_settings
from efactl.stack import JOB_TYPE, Stack
from workload.errors import BadInputError, ReportedError

ROOT = Path(__file__).parents[2]
PROJECT = "ray-train-efa"
DECLARED: Mapping[str, Mapping[str, Any]] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]


def of(*words: str) -> dict[str, Any]:
    return run_settings(words, DECLARED, stack="dev", project=PROJECT)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("trainSteps=50", {"trainSteps": "50"}),
        ("ray-train-efa:trainSteps=50", {"trainSteps": "50"}),
        ("gateMaxEvalLoss=2.5", {"gateMaxEvalLoss": "2.5"}),
        ("trainResumeFrom=s3://b/p?x=1", {"trainResumeFrom": "s3://b/p?x=1"}),
        ("trainExportTo=", {"trainExportTo": ""}),
        ("jobPip=[humanize==4.12.0, a==1]", {"jobPip": ["humanize==4.12.0", "a==1"]}),
        ("jobPip=", {"jobPip": []}),
        ('jobEnv={"A": "1"}', {"jobEnv": {"A": "1"}}),
        ("jobEnv.LOG_LEVEL=debug", {"jobEnv.LOG_LEVEL": "debug"}),
    ],
)
def test_a_setting_of_a_run_is_as_the_stack_s_file_has_it(word: str, found: dict[str, Any]) -> None:
    assert of(word) == found


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("trainSteps", "trainSteps: is not KEY=VALUE"),
        ("trainStep=5", "trainStep: is not a setting: did you mean trainSteps?"),
        ("zzz=5", "zzz: is not a setting: Pulumi.yaml lists them"),
        ("gpuNodes=4", "gpuNodes: is no setting of a run (it shapes the stack itself)"),
        ("expect=gloo", "expect: is no setting of a run (every run of the stack is judged by it)"),
        ("storagePath=s3://x", "storagePath: is no setting of a run (it decides about storage"),
        ("compareRepeats=3", "`efactl compare` takes its own options"),
        ("jobSecretEnv.TOKEN=x", "pulumi config set --secret --path 'jobSecretEnv.NAME' -s dev"),
        ("jobPip=humanize", "jobPip: 'humanize' is not a list like [one, two]"),
        ("jobEnv=[a", "jobEnv: '[a' is not an object like {NAME: text}"),
        ("trainSteps.a=1", "trainSteps.a: names no value inside trainSteps"),
        ("jobEnv.=1", "jobEnv.: names no value inside jobEnv"),
    ],
)
def test_any_other_is_refused_by_name_and_says_why(word: str, said: str) -> None:
    with pytest.raises(BadInputError) as refused:
        of("trainLr=1e-3", word)
    assert said in str(refused.value)


def test_every_problem_is_said_at_once_and_a_secret_s_value_never() -> None:
    with pytest.raises(BadInputError) as refused:
        of("gpuNodes=4", "trainStep=5", "trainSteps=1", "trainSteps=2", "jobSecretEnv.TOKEN=hf_swordfish")
    said = str(refused.value)
    assert all(f"\n  {name}: " in said for name in ("gpuNodes", "trainStep", "trainSteps", "jobSecretEnv.TOKEN"))
    assert "is given twice" in said and "swordfish" not in said


def test_settings_take_the_place_of_the_file_s_own_and_leave_the_rest() -> None:
    text = f"""config:
  {PROJECT}:trainSteps: 60  # the usual
  {PROJECT}:jobEnv: {{ A: yes, DAY: 2026-01-01 }}
  {PROJECT}:tags: {{ on: 0x1F, none: ~, "quoted": "yes" }}
  aws:region: us-west-2
  aws:allowedAccountIds: [012345670123]
encryptionsalt: v1:abc=:v1:de
"""
    changed = applied(text, {"trainSteps": "5", "jobEnv.B": "2", "jobRunId": "x", "jobPip": ["a==1"]}, project=PROJECT)
    as_written = yaml.load(changed, Loader=yaml.BaseLoader)
    assert as_written == {
        "config": {
            f"{PROJECT}:trainSteps": "5",
            f"{PROJECT}:jobEnv": {"A": "yes", "DAY": "2026-01-01", "B": "2"},
            f"{PROJECT}:tags": {"on": "0x1F", "none": "~", "quoted": "yes"},
            "aws:region": "us-west-2",
            "aws:allowedAccountIds": ["012345670123"],
            f"{PROJECT}:jobRunId": "x",
            f"{PROJECT}:jobPip": ["a==1"],
        },
        "encryptionsalt": "v1:abc=:v1:de",
    }
    assert "A: yes" in changed and "DAY: 2026-01-01" in changed, "no text, if it was none"
    assert "quoted: 'yes'" in changed.replace('"', "'").replace("'quoted'", "quoted"), "and a text, if it was one"
    assert yaml.safe_load(changed)["config"][f"{PROJECT}:trainSteps"] == "5"


@pytest.mark.parametrize("text", ["", "config:\n", "config: {}\n", f"config:\n  {PROJECT}:jobEnv:\n"])
def test_a_file_that_has_no_settings_yet_gets_them(text: str) -> None:
    changed = applied(text, {"jobEnv.B": "2"}, project=PROJECT)
    assert yaml.safe_load(changed) == {"config": {f"{PROJECT}:jobEnv": {"B": "2"}}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"config:\n  {PROJECT}:jobEnv: text\n", "the stack's jobEnv is 'text', which holds no names"),
        ("config: [1]\n", "is not `config:` with settings below"),
        ("- 1\n", "is not `config:` with settings below"),
    ],
)
def test_where_nothing_can_be_set_that_is_said(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(said)):
        applied(text, {"jobEnv.B": "2"}, project=PROJECT)


@pytest.mark.parametrize("word", ["jobEnv={A: yes, B: 1, C: 2026-01-01}", 'jobEnv={A: "yes", B: "1", C: "2026-01-01"}'])
def test_values_of_an_object_are_the_texts_that_were_typed(word: str) -> None:
    assert of(word) == {"jobEnv": {"A": "yes", "B": "1", "C": "2026-01-01"}}


def test_what_is_kept_is_written_value_by_value() -> None:
    settings = {"trainSteps": "5", "jobPip": ["a==1", "b==2"], "jobEnv": {"A.B": 1}, "jobEnv.C": "x"}
    assert kept_by(settings) == [
        ("trainSteps", "5"),
        ("jobPip[0]", "a==1"),
        ("jobPip[1]", "b==2"),
        ('jobEnv["A.B"]', "1"),
        ("jobEnv.C", "x"),
    ]
    assert replaced_whole(settings) == ["jobPip", "jobEnv"]


def step(op: str, kind: str, name: str) -> dict[str, Any]:
    urn = f"urn:pulumi:local::{PROJECT}::{kind}::{name}"
    return {"resourcePreEvent": {"metadata": {"op": op, "urn": urn, "type": kind}}}


WORKLOAD = "pulumi-python:dynamic/workload"
STACK_SAME = step("same", "pulumi:pulumi:Stack", "ray-train-efa-local")
JOB_REPLACED = [
    step(op, f"{WORKLOAD}:RayTrainJob", "train") for op in ("create-replacement", "replace", "delete-replaced")
]
GATE_UPDATED = step("update", f"{WORKLOAD}:RunGate", "gate")
CLUSTER = "pulumi-python:dynamic/infra:LocalRayCluster"
COMPARISON = "pulumi-python:dynamic/workload:TransportComparison"
COMPARISON_GATE = "pulumi-python:dynamic/workload:ComparisonGate"


def test_the_run_s_own_resources_are_its_targets() -> None:
    plan = plan_of(
        [{"preludeEvent": {}}, STACK_SAME, step("same", CLUSTER, "ray-cluster"), *JOB_REPLACED, GATE_UPDATED]
    )
    assert [urn.rpartition("::")[2] for urn in plan.targets] == ["train", "gate"]
    assert (plan.beyond, plan.left_out) == ((), ())


def test_where_a_gate_judges_anew_the_job_that_stays_is_a_target_too() -> None:
    """What the gate expects is then in the job's inputs in the state, by which its failure is told elsewhere."""
    job = step("same", JOB_TYPE, "train")
    plan = plan_of([STACK_SAME, step("same", CLUSTER, "ray-cluster"), job, GATE_UPDATED])
    assert [urn.rpartition("::")[2] for urn in plan.targets] == ["train", "gate"]
    assert plan.changes == ("update gate",), "it runs nothing"
    assert plan_of([STACK_SAME, job]).targets == (), "nothing is due where nothing changes"


@pytest.mark.parametrize("op", ["create", "update", "delete", "create-replacement", "import"])
def test_anything_beyond_the_run_is_named(op: str) -> None:
    plan = plan_of([STACK_SAME, *JOB_REPLACED, step(op, CLUSTER, "ray-cluster")])
    assert plan.beyond == (f"{'replace' if op == 'create-replacement' else op} ray-cluster",)


def test_a_provider_that_is_configured_anew_is_no_change_and_one_that_is_replaced_is() -> None:
    dynamic = step("update", "pulumi:providers:pulumi-python", "default")
    assert plan_of([*JOB_REPLACED, dynamic]).beyond == ()
    moved = step("create-replacement", "pulumi:providers:kubernetes", "ray-kubernetes")
    assert plan_of([*JOB_REPLACED, moved]).beyond == ("replace ray-kubernetes",)


def test_a_measurement_beside_the_run_is_left_as_it_is_and_a_preflight_is_part_of_it() -> None:
    plan = plan_of(
        [
            step("create-replacement", f"{WORKLOAD}:BandwidthPreflight", "preflight"),
            *JOB_REPLACED,
            step("create-replacement", f"{WORKLOAD}:TransportComparison", "compare"),
            step("update", f"{WORKLOAD}:ComparisonGate", "compare-gate"),
        ]
    )
    assert [urn.rpartition("::")[2] for urn in plan.targets] == ["preflight", "train"]
    assert plan.left_out == ("replace compare", "update compare-gate") and plan.beyond == () and plan.measures


class Pulumi:
    """What the command line asks of pulumi, in the place of the real one."""

    def __init__(self, *events: Mapping[str, Any], status: int = 0) -> None:
        self.events, self.status = events, status
        self.calls: list[tuple[str, ...]] = []
        self.configs: list[dict[str, Any]] = []

    def run(self, stack: Stack, command: Sequence[str], *, aside: bool) -> int:
        self.calls.append(tuple(command))
        words = list(command)
        file = Path(words[words.index("--config-file") + 1])
        self.configs.append(yaml.safe_load(file.read_text())["config"])
        if words[0] == "preview":
            Path(words[words.index("--event-log") + 1]).write_text(
                "".join(f"{json.dumps(one)}\n" for one in self.events)
            )
        return self.status


@pytest.fixture
def pulumi(monkeypatch: pytest.MonkeyPatch) -> Pulumi:
    pulumi = Pulumi(STACK_SAME, *JOB_REPLACED, GATE_UPDATED)
    monkeypatch.setattr(Stack, "run", lambda self, command, *, aside: pulumi.run(self, command, aside=aside))
    monkeypatch.setattr(Stack, "resource", lambda self, token: {"id": "run-1"} if token == JOB_TYPE else None)
    monkeypatch.setattr(Stack, "release_dead_locks", lambda self: [])
    monkeypatch.setenv("PULUMI_DEBUG_COMMANDS", "")
    monkeypatch.setattr(commands, "_run", lambda _stack: {})
    return pulumi


def run(*settings: str, **options: bool) -> ExitCode:
    given = {"json": False, "preview": False, "again": False, "keep": False, **options}
    return module.run(argparse.Namespace(stack="local", settings=list(settings), **given))


def test_a_run_is_previewed_whole_then_brought_up_alone_and_the_file_stays(
    pulumi: Pulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (ROOT / "Pulumi.local.yaml").read_bytes()
    assert run("trainSteps=7") == ExitCode.OK
    preview, up = pulumi.calls
    assert preview[0] == "preview" and "--target" not in preview
    targets = [word for flag, word in itertools.pairwise(up) if flag == "--target"]
    assert [urn.rpartition("::")[2] for urn in targets] == ["train", "gate"]
    assert {config[f"{PROJECT}:trainSteps"] for config in pulumi.configs} == {"7"}
    assert (ROOT / "Pulumi.local.yaml").read_bytes() == before
    assert "the next `up` asks for a run of its settings again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("beside", "compares"),
    [
        ([], False),
        ([step("create", COMPARISON, "compare")], True),
        ([step("create-replacement", COMPARISON, "compare"), step("update", COMPARISON_GATE, "compare-gate")], True),
        ([step("delete", COMPARISON, "compare"), step("delete", COMPARISON_GATE, "compare-gate")], False),
        ([step("update", COMPARISON_GATE, "compare-gate")], False),
    ],
)
def test_the_nodes_of_a_run_are_given_back_with_its_settings_and_without_its_targets(
    pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, beside: list[dict[str, Any]], compares: bool
) -> None:
    config = Stack.config
    given = {"gpuScaleToZeroAfterJob": "true"}
    monkeypatch.setattr(Stack, "config", lambda self, key: given.get(key) or config(self, key))
    two = {"scalingConfig": {"desiredSize": 2}}
    group = {"type": "aws:eks/nodeGroup:NodeGroup", "urn": "urn::ray-gpu-group", "outputs": two}
    monkeypatch.setattr(Stack, "resources", lambda self: [{"type": JOB_TYPE, "urn": "urn::train"}, group])
    pulumi.events = (*pulumi.events, *beside)
    assert run("trainSteps=7") == ExitCode.OK
    _, up, *again = pulumi.calls
    assert "--target" in up
    if compares:
        assert again == [], "the comparison that was left out would begin"
        return
    [back] = again
    assert "--continue-on-error" in back and "--target" not in back
    assert pulumi.configs[-1][f"{PROJECT}:trainSteps"] == "7"


def gpu_group(nodes: int, name: str = "ray-gpu-group") -> dict[str, Any]:
    event = step("update", "aws:eks/nodeGroup:NodeGroup", name)
    event["resourcePreEvent"]["metadata"]["new"] = {"inputs": {"scalingConfig": {"desiredSize": nodes}}}
    return event


RESERVATION_GOES = step("delete", "aws:ec2/capacityReservation:CapacityReservation", "ray-reservation-capacity")
GIVING_BACK = [
    step("update", "aws:ec2/launchTemplate:LaunchTemplate", "ray-gpu-template"),
    gpu_group(0),
    step("update", "kubernetes:ray.io/v1:RayCluster", "ray-kubernetes-cluster-raycluster"),
    step("delete", "pulumi-python:dynamic/infra:RayClusterReady", "ray-kubernetes-ready"),
    step("delete", "pulumi-python:dynamic/infra:GpuNodesReady", "ray-kubernetes-nodes-nodes"),
    step("delete", "ray-train-efa:infra:NodeReadiness", "ray-kubernetes-nodes"),
    RESERVATION_GOES,
]


@pytest.mark.parametrize("gate", [[], [GATE_UPDATED]])
@pytest.mark.parametrize("left", [GIVING_BACK, [RESERVATION_GOES], [gpu_group(0)]])
def test_a_giving_back_that_was_cut_short_is_repeated_by_the_same_command_and_runs_nothing(
    pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, left: list[dict[str, Any]], gate: list[dict[str, Any]]
) -> None:
    config = Stack.config
    given = {"gpuScaleToZeroAfterJob": "true"}
    monkeypatch.setattr(Stack, "config", lambda self, key: given.get(key) or config(self, key))
    monkeypatch.setattr(Stack, "resources", lambda self: [{"type": JOB_TYPE, "urn": "urn::train"}])
    pulumi.events = (STACK_SAME, step("same", JOB_TYPE, "train"), *gate, *left)
    assert run("trainSteps=7") == ExitCode.OK
    _, up = pulumi.calls
    assert up[0] == "up" and "--target" not in up
    assert pulumi.configs[-1][f"{PROJECT}:trainSteps"] == "7", "the file's own settings are of another run"
    given["gpuScaleToZeroAfterJob"] = "false"
    with pytest.raises(ReportedError, match="more than a run would change"):
        run("trainSteps=7")


@pytest.mark.parametrize(
    "other",
    [
        *([*GIVING_BACK, one] for one in JOB_REPLACED),
        [*GIVING_BACK, step("create", COMPARISON, "compare")],
        [*GIVING_BACK, step("update", "eks:index:Cluster", "ray-eks-cluster")],
        [RESERVATION_GOES, gpu_group(2)],
        [RESERVATION_GOES, gpu_group(0, "ray-system-group")],
        [step("update", "kubernetes:ray.io/v1:RayCluster", "ray-kubernetes-cluster-raycluster")],
        [step("create", "aws:ec2/capacityReservation:CapacityReservation", "ray-reservation-capacity")],
        [],
    ],
)
def test_what_runs_or_changes_more_is_no_giving_back(other: list[dict[str, Any]]) -> None:
    assert plan_of([STACK_SAME, *GIVING_BACK]).gives_back
    assert not plan_of([STACK_SAME, *other]).gives_back


def test_more_than_a_run_is_refused_before_anything_is_done(pulumi: Pulumi) -> None:
    pulumi.events = (*pulumi.events, step("create", CLUSTER, "ray-cluster"))
    with pytest.raises(ReportedError, match=r"more than a run would change: create ray-cluster\. Nothing was done"):
        run("trainSteps=7")
    assert [call[0] for call in pulumi.calls] == ["preview"]


def test_a_preview_that_fails_ends_it(pulumi: Pulumi) -> None:
    pulumi.status = 255
    assert run("trainSteps=x") == ExitCode.FAILED
    assert [call[0] for call in pulumi.calls] == ["preview"]


def test_only_a_preview_changes_nothing_and_says_what_would_change(
    pulumi: Pulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("trainSteps=7", preview=True, keep=True, json=True) == ExitCode.OK
    assert [call[0] for call in pulumi.calls] == ["preview"]
    assert json.loads(capsys.readouterr().out) == {"changes": ["replace train", "update gate"], "leftOut": []}


def test_where_nothing_is_due_nothing_runs_and_again_asks_for_one(
    pulumi: Pulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    pulumi.events = (STACK_SAME,)
    assert run("trainSteps=7") == ExitCode.OK
    assert [call[0] for call in pulumi.calls] == ["preview"]
    assert "`efactl run --again -s local` repeats it" in capsys.readouterr().err
    pulumi.events = (STACK_SAME, *JOB_REPLACED)
    assert run(again=True) == ExitCode.OK
    assert pulumi.configs[-1][f"{PROJECT}:jobRunId"] == "after run-1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"train": "false"}, r"train is false for stack local.* `efactl run -s local train=true \.\.\.`"),
        ({"train": False}, "train is false"),
        ({"platform": "eks", "gpuNodes": "0"}, "gpuNodes is 0 for stack local"),
    ],
)
def test_a_stack_that_runs_no_job_is_said_before_anything_is_asked(
    pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], said: str
) -> None:
    config = Stack.config
    monkeypatch.setattr(Stack, "config", lambda self, key: given[key] if key in given else config(self, key))
    with pytest.raises(BadInputError, match=said):
        run("trainSteps=7")
    assert pulumi.calls == []


def test_a_run_may_be_asked_for_where_the_stack_itself_runs_none(
    pulumi: Pulumi, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Stack.config
    monkeypatch.setattr(Stack, "config", lambda self, key: "false" if key == "train" else config(self, key))
    assert run("train=true") == ExitCode.OK
    assert pulumi.configs[-1][f"{PROJECT}:train"] == "true"
    with pytest.raises(BadInputError, match="train is false"):
        run("train=false")


def test_options_that_contradict_are_bad_input(pulumi: Pulumi) -> None:
    with pytest.raises(BadInputError, match="--again sets jobRunId by itself"):
        run("jobRunId=x", again=True)
    with pytest.raises(BadInputError, match="--keep writes settings"):
        run(keep=True)
    with pytest.raises(BadInputError, match=r"--keep cannot write jobEnv\.NICE, which begins with '-'"):
        run("jobEnv.NICE=-5", keep=True)
    assert pulumi.calls == []
