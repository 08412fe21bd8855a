"""Which change separates two runs: each kind alone, several at once, what follows, what is not on record."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from efactl import run_diff_text, runs_text
from tests.support.recorded import NEW, changed, kept, read
from workload.recorded_run import RecordedRun, recorded
from workload.run_diff import RunDiff, alike, compared
from workload.run_facts import KINDS
from workload.run_movement import first_different_step, movements


@pytest.fixture
def first(tmp_path: Path) -> RecordedRun:
    return read(kept(tmp_path / "runs", "aaaa-1"))


def against(first: RecordedRun, tmp_path: Path, **changes: Any) -> RunDiff:
    return compared(first, read(kept(tmp_path / "runs", "bbbb-1", minutes=9, **changes)))


def paths(diff: RunDiff, role: str) -> list[str]:
    return [one.path for one in diff.differences if one.role == role]


def test_a_repetition_on_other_machines_differs_in_nothing(first: RecordedRun, tmp_path: Path) -> None:
    diff = against(first, tmp_path)
    assert diff.differences == (), "ids, times, hosts, pids and machines are new with every run"
    assert diff.causes == []
    assert diff.same == list(KINDS)
    assert diff.conclusion.startswith("nothing that was given to the runs differs")


CHANGES: list[tuple[str, dict[str, Any], str]] = [
    ("image", {"digest": NEW}, "image.digest"),
    ("image", {"image": "registry.example/team/ray:v2", "digest": NEW}, "image.reference"),
    ("component version", {"versions": {"torch": "2.14.0"}}, "versions.torch"),
    ("driver", {"versions": {"nvidia_driver": "580.1"}}, "versions.nvidia_driver"),
    ("driver", {"versions": {"efa_driver": "2.18"}}, "versions.efa_driver"),
    ("code", {"code__trainingDigest": "b" * 64}, "code.trainingDigest"),
    ("argument", {"arguments": {"lr": 0.001}, "settings": {"trainLr": "1e-3"}}, "arguments.lr"),
    ("model", {"arguments": {"model_id": "someone/other"}, "settings": {"trainModelId": "x"}}, "arguments.model_id"),
    ("model", {"model": {"identity": "b" * 40}}, "model.identity"),
    ("data", {"arguments": {"dataset": "random"}}, "arguments.dataset"),
    ("data", {"data__sequences": 90}, "data.sequences"),
    ("environment", {"runtimeEnv__env": {"NCCL_ALGO": "Ring"}}, "runtimeEnv.env.NCCL_ALGO"),
    ("environment", {"runtimeEnv__pip": ["six==1.17.0"]}, "runtimeEnv.pip"),
    ("setting", {"settings": {"rayShmSize": "8Gi"}}, ""),
    ("node", {"arguments": {"num_workers": 8}}, ""),
    ("placement", {"settings": {"gpuPlacementGroup": "cluster"}}, ""),
]


@pytest.mark.parametrize(("kind", "change", "path"), CHANGES, ids=[f"{kind} {path}" for kind, _, path in CHANGES])
def test_each_change_alone_is_named_by_its_kind(
    kind: str, change: dict[str, Any], path: str, first: RecordedRun, tmp_path: Path
) -> None:
    # Both have what one has changed: what only one has is another case.
    before = {"rayShmSize": "", "gpuPlacementGroup": ""}
    base = read(
        changed(
            Path(first.place),
            settings={**first.record["settings"], **before},
            arguments__num_workers=4,
            arguments__model_id="someone/model",
            model={"identity": "a" * 40},
        )
    )
    diff = against(
        base,
        tmp_path,
        **{
            "model": {"identity": "a" * 40},
            **change,
            "settings": {**before, **change.get("settings", {})},
            "arguments": {"num_workers": 4, "model_id": "someone/model", **change.get("arguments", {})},
        },
    )
    assert diff.causes == [kind], diff.differences
    assert diff.conclusion.startswith(f"one kind of change separates the runs: {kind} (")
    assert path in diff.conclusion
    assert not path or path in paths(diff, "cause")
    assert len(diff.same) >= len(KINDS) - 2


def test_a_zone_and_a_node_type_are_told_from_the_machines(first: RecordedRun, tmp_path: Path) -> None:
    nodes = [{**node, "zone": "us-west-2c", "instanceType": "p5.48xlarge"} for node in first.record["cluster"]["nodes"]]
    diff = against(first, tmp_path, cluster__nodes=nodes)
    assert diff.causes == ["node", "placement"]
    told = {one.path: (one.a, one.b) for one in diff.differences}
    assert told["cluster.nodes.instanceType"] == ("2 x g6.12xlarge", "2 x p5.48xlarge")
    assert told["cluster.nodes.zone"] == ("us-west-2b", "us-west-2c")


def test_versions_that_came_with_another_image_are_no_second_cause(first: RecordedRun, tmp_path: Path) -> None:
    diff = against(first, tmp_path, digest=NEW, versions={"torch": "2.14.0", "nccl": "2.29.3"})
    assert diff.causes == ["image"]
    follows = {one.path: one.because for one in diff.differences if one.role == "follows"}
    assert follows == {"versions.torch": "image", "versions.nccl": "image"}


def test_a_driver_is_the_node_s_and_comes_with_no_image(first: RecordedRun, tmp_path: Path) -> None:
    diff = against(first, tmp_path, digest=NEW, versions={"torch": "2.14.0", "nvidia_driver": "580.1"})
    assert diff.causes == ["image", "driver"]
    assert "can be put down to none of them alone" in diff.conclusion


def test_two_kinds_at_once_are_put_down_to_neither(first: RecordedRun, tmp_path: Path) -> None:
    diff = against(first, tmp_path, digest=NEW, arguments={"lr": 0.001})
    assert diff.causes == ["image", "argument"]
    assert diff.conclusion.startswith("2 kinds of change separate the runs (image and argument)")


def test_another_sequence_length_is_one_change_though_the_data_differs(first: RecordedRun, tmp_path: Path) -> None:
    diff = against(first, tmp_path, arguments={"seq_len": 128}, settings={"trainSeqLen": "128"})
    assert diff.causes == ["argument"]
    assert paths(diff, "cause") == ["arguments.seq_len"], "the setting is told where it took place"
    assert paths(diff, "follows") == ["data.key"]


def told_model(tmp_path: Path, run: str, name: str, identity: str | None, **changes: Any) -> RecordedRun:
    model = {"identity": identity} if identity else None
    return read(kept(tmp_path / "runs", f"{run}-1", arguments={"model_id": name}, model=model, **changes))


def test_another_commit_of_a_model_is_the_one_change_though_its_tokenizer_cuts_other_data(tmp_path: Path) -> None:
    a = told_model(tmp_path, "aaaa", "someone/model", "a" * 40)
    b = told_model(tmp_path, "bbbb", "someone/model", "b" * 40, data__key="another")
    diff = compared(a, b)
    assert diff.conclusion.startswith("one kind of change separates the runs: model (model.identity)")
    assert {one.path: one.because for one in diff.differences if one.role == "follows"} == {"data.key": "model"}
    assert not alike(a, b), "its speed is no noise of the other's"


@pytest.mark.parametrize("told", [None, "a" * 40])
def test_one_name_whose_files_are_not_on_record_may_be_two_models(told: str | None, tmp_path: Path) -> None:
    a = told_model(tmp_path, "aaaa", "someone/model", None)
    b = told_model(tmp_path, "bbbb", "someone/model", told)
    diff = compared(a, b)
    assert (diff.causes, diff.unknown) == ([], ["model"])
    assert not alike(a, b)


def test_a_model_of_another_name_has_other_files(tmp_path: Path) -> None:
    a = told_model(tmp_path, "aaaa", "tiny-qwen2", None)
    b = told_model(tmp_path, "bbbb", "someone/model", "b" * 40)
    diff = compared(a, b)
    assert (diff.causes, paths(diff, "cause"), diff.unknown) == (["model"], ["arguments.model_id"], [])


def test_a_model_that_the_job_makes_has_no_files_to_doubt(tmp_path: Path) -> None:
    a, b = (told_model(tmp_path, name, "tiny-qwen2", None) for name in ("aaaa", "bbbb"))
    assert alike(a, b)


def test_what_cannot_move_a_run_is_aside(first: RecordedRun, tmp_path: Path) -> None:
    settings = {"tags": '{"team":"a"}', "gateMaxEvalLoss": "3", "recordsPath": "s3://bucket/runs"}
    diff = against(first, tmp_path, settings=settings, code__commit="f" * 40)
    assert diff.causes == []
    assert {f"settings.{name}" for name in settings} <= set(paths(diff, "aside"))


def test_one_tag_without_digests_may_be_two_images(tmp_path: Path) -> None:
    a, b = (read(kept(tmp_path / "runs", f"{name}-1", digest="")) for name in ("aaaa", "bbbb"))
    diff = compared(a, b)
    assert (diff.causes, diff.unknown) == ([], ["image"])
    assert diff.conclusion.endswith("whether image differs is not on record")
    assert not alike(a, b)


def test_a_machine_without_images_has_no_doubt_about_them(tmp_path: Path) -> None:
    a, b = (read(kept(tmp_path / "runs", f"{name}-1", kind="local")) for name in ("aaaa", "bbbb"))
    assert compared(a, b).unknown == []


def test_an_argument_that_only_newer_code_has_follows_from_the_code(first: RecordedRun, tmp_path: Path) -> None:
    diff = against(first, tmp_path, arguments={"compile": "auto"}, code__trainingDigest="b" * 64)
    assert diff.causes == ["code"]
    assert paths(diff, "follows") == ["arguments.compile"]


def test_fields_of_another_version_are_told_under_their_path(first: RecordedRun, tmp_path: Path) -> None:
    diff = against(
        first,
        tmp_path,
        schema="ray-train-efa/run-record/2",
        fabric={"switch": {"hops": 2}},
        throughput__tokensPerWatt=3.5,
    )
    assert {"fabric.switch.hops", "throughput.tokensPerWatt"} <= {one.path for one in diff.differences}
    assert diff.unknown == ["other field"]
    assert diff.causes == []
    assert any("records of versions 1 and 2" in note for note in diff.notes)
    assert any("record of version 2; this program knows 1" in note for note in diff.notes)


def test_a_run_that_lost_a_rank_and_resumed_is_told(first: RecordedRun, tmp_path: Path) -> None:
    attempts = first.record["attempts"]
    diff = against(first, tmp_path, attempts=[*attempts, {**attempts[0], "attempt": 2, "resumedFromStep": 20}])
    assert [(one.kind, one.a, one.b) for one in diff.differences] == [("restart", [0], [0, 20])]


def test_a_run_that_went_on_where_another_ended_is_told_by_the_step(first: RecordedRun, tmp_path: Path) -> None:
    attempts = [{**first.record["attempts"][0], "resumedFromStep": 20}]
    diff = against(first, tmp_path, attempts=attempts, arguments={"goes_on_from": "/shared/lost-1/step-000020"})
    assert [(one.kind, one.a, one.b) for one in diff.differences] == [("restart", [0], [20])]


def test_one_rank_that_runs_something_else_is_seen(first: RecordedRun, tmp_path: Path) -> None:
    attempts = json.loads(json.dumps(first.record["attempts"]))
    attempts[0]["ranks"][3]["versions"]["torch"] = "2.12.0"
    diff = against(first, tmp_path, attempts=attempts)
    assert [(one.path, one.a, one.b) for one in diff.differences] == [
        ("versions.torch", "2.13.0", ["2.12.0", "2.13.0"])
    ]


def test_records_of_any_shape_are_compared(first: RecordedRun) -> None:
    """Values of every type at every place; the seed is part of the failure."""
    strange: list[Any] = [None, True, -1, 1e308, "", "x\x1b[31m", [], [1], [{}], {}, {"a": {"b": [None]}}]
    for seed in range(200):
        dice = random.Random(seed)
        record = json.loads(json.dumps(first.record))
        for _ in range(dice.randint(1, 6)):
            spot: Any = record
            while isinstance(spot, dict | list) and spot:
                key = dice.choice(list(spot) if isinstance(spot, dict) else list(range(len(spot))))
                if dice.random() < 0.3 or not isinstance(spot[key], dict | list):
                    spot[key] = copy.deepcopy(dice.choice(strange))
                    break
                spot = spot[key]
        run = recorded(json.dumps(record), folder="x", place="x")
        try:
            diff, moved = compared(first, run), movements(first, run, like_a=[], like_b=[run])
            json.dumps([run.as_json(), [one.as_json() for one in diff.differences], [one.as_json() for one in moved]])
            told = [*run_diff_text.diff_lines(first, run, diff, moved, first_different_step(first, run))]
            told += [*runs_text.rows([run]), *runs_text.run_lines(run, {})]
            assert all("\x1b" not in line and "\n" not in line for line in told), "a terminal takes it for a command"
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
