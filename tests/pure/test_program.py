"""The program under mocks: what it registers, with which parents, and what it does not."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra.settings import PROJECT

ROOT = Path(__file__).parents[2]


class Recorded(pulumi.runtime.Mocks):
    """Answers like an engine on which everything works, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.resources: dict[str, pulumi.runtime.MockResourceArgs] = {}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.resources[args.name] = args
        outputs = dict(args.inputs)
        if args.typ.endswith("LocalRayCluster"):
            outputs |= {"address": "http://127.0.0.1:1", "token": "tok", "health": "running"}
        if args.typ.endswith("RayTrainJob"):
            ranks = [{"rank": r, "node": f"n{r // 2}", "pid": r, "backend": "gloo", "device": "cpu"} for r in range(4)]
            outputs |= {
                "submission_id": "run-1",
                "transport": {"attempt": 1, "worldSize": 4, "ranks": ranks},
                "eval_loss_after": 2.0,
                "record": "runs/run-1/record.json",
            }
        return f"{args.name}-id", outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        raise AssertionError(f"the local platform asks no provider anything: {args.token}")


@pytest.fixture
def settings() -> dict[str, Any]:
    """Changes of the local stack's, by their names."""
    return {}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> Iterator[Recorded]:
    monkeypatch.chdir(ROOT)
    declared = yaml.safe_load(Path("Pulumi.yaml").read_text())["config"]
    values = {f"{PROJECT}:{key}": setting["default"] for key, setting in declared.items()}
    values |= yaml.safe_load(Path("Pulumi.local.yaml").read_text())["config"]
    values |= {f"{PROJECT}:{key}": value for key, value in settings.items()}
    pulumi.runtime.set_all_config({key: v if isinstance(v, str) else json.dumps(v) for key, v in values.items()}, [])
    mocks = Recorded()
    pulumi.runtime.set_mocks(mocks, project=PROJECT, stack="local", preview=False)
    yield mocks
    pulumi.runtime.set_all_config({}, [])


@pytest.fixture
def program(recorded: Recorded) -> Recorded:
    @pulumi.runtime.test  # type: ignore[untyped-decorator]
    def run() -> None:
        runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")

    run()
    return recorded


def test_the_local_platform_is_a_cluster_a_job_and_a_gate(program: Recorded) -> None:
    kinds = sorted(args.typ.rsplit("/", 1)[-1] for args in program.resources.values())
    assert kinds == [
        "infra:LocalRayCluster",
        "ray-train-efa:infra:LocalRay",
        "workload:RayTrainJob",
        "workload:RunGate",
    ]


def test_the_commands_that_it_hands_out_name_their_stack(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    exported: dict[str, Any] = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    request.getfixturevalue("program")
    assert sorted(exported["commands"].values()) == [f"efactl {one} -s local" for one in ("down", "outputs", "stop")]


@pytest.mark.parametrize(
    "settings",
    [{"preflightBandwidth": True, "preflightSizes": ["1M"], "preflightMinBusBandwidth": "2", "jobRunId": "2"}],
)
def test_a_preflight_is_of_the_jobs_cluster_and_environment_and_measures_anew_with_it(program: Recorded) -> None:
    preflight, job = program.resources["preflight"].inputs, program.resources["train"].inputs
    for shared in ("head", "env", "image", "cluster_spec_digest", "run_id", "storage", "expect"):
        assert preflight[shared] == job[shared], shared
    assert (preflight["sizes"], preflight["min_busbw_gbs"], preflight["run_id"]) == (["1M"], 2.0, "2")
    assert "compare" not in program.resources


@pytest.mark.parametrize("settings", [{"train": "false", "preflightBandwidth": "true", "compareRepeats": 4}])
def test_without_train_all_is_brought_up_but_a_run_and_what_is_measured_beside_it(program: Recorded) -> None:
    kinds = sorted(args.typ.rsplit("/", 1)[-1] for args in program.resources.values())
    assert "infra:LocalRayCluster" in kinds
    assert not {"train", "gate", "preflight", "compare"} & set(program.resources)


@pytest.mark.parametrize("settings", [{"compareRepeats": 4, "compareSteps": 9, "compareMinSpeedup": "1.2"}])
def test_a_comparison_is_of_the_job_and_has_a_gate_of_its_own(program: Recorded) -> None:
    comparison, job = program.resources["compare"].inputs, program.resources["train"].inputs
    for shared in ("head", "env", "arguments", "training_digest", "cluster_spec_digest", "run_id", "expect"):
        assert comparison[shared] == job[shared], shared
    assert (comparison["repeats"], comparison["steps"]) == (4, 9)
    assert [arm["name"] for arm in comparison["arms"]] == ["gloo", "gloo-lazy"]
    assert program.resources["compare-gate"].inputs["min_speedup"] == 1.2
    assert "preflight" not in program.resources


def test_the_job_gets_what_the_settings_and_the_head_say(program: Recorded) -> None:
    job = program.resources["train"].inputs
    assert "value" in job["head"], "the head holds a token and travels as a secret"
    head = job["head"]["value"]
    assert (head["kind"], head["nodes"], head["accelerators_per_node"]) == ("local", 2, 2)
    assert job["arguments"]["model_id"] == "tiny-qwen2"
    assert job["expect"] == "gloo"
    assert len(job["training_digest"]) == 64


def test_the_gate_judges_this_run_by_the_expectation(program: Recorded) -> None:
    gate = program.resources["gate"].inputs
    assert gate["submission_id"] == "run-1"
    assert gate["expect"] == "gloo"
    assert gate["transport"]["worldSize"] == 4


@pytest.mark.parametrize(
    "settings", [{"recordsPath": "team/records", "preflightBandwidth": True, "compareRepeats": 3, "jobRunId": "3"}]
)
def test_records_are_copied_by_whatever_makes_one(program: Recorded) -> None:
    places = {program.resources[name].inputs["records"]["path"] for name in ("gate", "train", "preflight", "compare")}
    assert places == {"team/records"}


def test_a_provider_in_state_is_a_reference_and_not_code(program: Recorded) -> None:
    for name in ("train", "gate", "ray-cluster"):
        assert len(program.resources[name].inputs["__provider"]) < 200, f"{name} would change whenever its code does"
