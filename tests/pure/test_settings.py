"""Settings: everything declared once, everything wrong said at once, before the first resource."""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra.settings import PROJECT, JobSettings, LocalSettings, Settings, SettingsError, load_settings
from infra.train_settings import TrainSettings

ROOT = Path(__file__).parents[2]
DECLARED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]


@pytest.fixture(autouse=True)
def empty_config() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


def load(secret: tuple[str, ...] = (), **changes: Any) -> Settings:
    """Settings of the local stack with changes, in the form in which the engine hands configuration over."""
    stack = yaml.safe_load((ROOT / "Pulumi.local.yaml").read_text())["config"]
    values: dict[str, Any] = {f"{PROJECT}:{key}": declared["default"] for key, declared in DECLARED.items()}
    values.update({key: value for key, value in stack.items() if key.startswith(PROJECT)})
    values.update({f"{PROJECT}:{key}": value for key, value in changes.items()})
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    pulumi.runtime.set_all_config(texts, [f"{PROJECT}:{key}" for key in secret])
    return load_settings(ROOT / "Pulumi.yaml")


def problems(**changes: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load(**changes)
    return str(caught.value)


def test_the_committed_local_stack_is_valid() -> None:
    settings = load()
    assert settings.platform == "local"
    assert settings.expect == "gloo"
    assert settings.local.trainers == 4
    assert settings.train.arguments()["model_id"] == "tiny-qwen2"


def test_what_is_the_program_s_default_is_no_argument_so_that_a_new_setting_asks_for_no_new_run() -> None:
    assert set(load().train.arguments()) == {
        *("model_id", "dataset", "steps", "seq_len", "batch_size", "lr", "seed", "eval_batches", "checkpoint_every"),
        *("num_workers", "max_failures", "backend"),
    }
    changed = load(trainDecayEmbeddings="true", trainValidationShare="0.2", trainProfileSteps="5,6").train.arguments()
    assert (changed["decay_embeddings"], changed["validation_share"], changed["profile_steps"]) == ("on", "0.2", "5,6")


def test_every_setting_declares_type_description_and_default() -> None:
    for key, declared in DECLARED.items():
        assert {"type", "description", "default"} <= set(declared), key
        assert len(declared["description"]) > 15, key


def test_every_field_is_a_declared_setting_of_its_room() -> None:
    def camel(prefix: str, name: str) -> str:
        return prefix + "".join(part.capitalize() for part in name.split("_"))

    fields = {camel("local", f.name).replace("Mib", "MiB") for f in dataclasses.fields(LocalSettings)}
    fields |= {camel("train", f.name) for f in dataclasses.fields(TrainSettings)}
    fields |= {camel("job", f.name) for f in dataclasses.fields(JobSettings) if f.name != "secret_env_names"}
    assert fields <= set(DECLARED)
    rooms = {key for key in DECLARED if re.match("(local|train|job)[A-Z]", key)}
    assert rooms == fields, "a declared setting that nothing reads"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainSteps": 0}, "ray-train-efa:trainSteps: '0' must be at least 1"),
        ({"trainSteps": -3}, "ray-train-efa:trainSteps: '-3' must be at least 1"),
        ({"trainSteps": "many"}, "ray-train-efa:trainSteps: 'many' is not a whole number"),
        ({"trainLr": "0"}, "ray-train-efa:trainLr: '0' must be a finite number above 0"),
        ({"trainLr": "nan"}, "ray-train-efa:trainLr: 'nan' must be a finite number above 0"),
        ({"trainLr": ""}, "ray-train-efa:trainLr: must not be empty"),
        ({"trainStep": 4}, "ray-train-efa:trainStep: '4' is not a setting: did you mean trainSteps?"),
        ({"zzz": 4}, "ray-train-efa:zzz: '4' is not a setting: Pulumi.yaml lists all settings"),
        ({"platform": "azure"}, "ray-train-efa:platform: 'azure' is none of local, kubernetes, eks"),
        ({"expect": "rdma"}, "ray-train-efa:expect: 'rdma' is none of efa, socket, gloo"),
        ({"recordsPath": "s3://b"}, "ray-train-efa:recordsPath: 's3://b' is not s3://bucket/prefix"),
        ({"recordsPath": "s3://bucket/a b"}, "ray-train-efa:recordsPath: 's3://bucket/a b' is not s3://bucket/prefix"),
        ({"recordsPath": "gs://bucket/runs"}, "ray-train-efa:recordsPath: 'gs://bucket/runs' is neither a folder"),
        ({"recordsPath": "~/records"}, "ray-train-efa:recordsPath: '~/records' is neither a folder"),
        ({"recordsPath": "s3://bbb/x.json"}, "ray-train-efa:recordsPath: 's3://bbb/x.json' has a record's name"),
        ({"recordsPath": "runs"}, "ray-train-efa:recordsPath: 'runs' is inside runs/, where every run is kept already"),
        ({"recordsPath": "x/../runs/team"}, "ray-train-efa:recordsPath: 'x/../runs/team' is inside runs/"),
        ({"jobDeadlineSeconds": 0}, "ray-train-efa:jobDeadlineSeconds: '0' must be between 1 and 9223"),
        ({"jobDeadlineSeconds": 10**10}, "ray-train-efa:jobDeadlineSeconds: '10000000000' must be between 1 and 9223"),
        (
            {"trainSeed": 2**53},
            "ray-train-efa:trainSeed: '9007199254740992' must be between 0 and 9007199254740991",
        ),
        ({"trainNumWorkers": 5}, "ray-train-efa:trainNumWorkers: '5' is more than the cluster's 4 trainers"),
        ({"localDashboardPort": 70000}, "ray-train-efa:localDashboardPort: '70000' must be between 0 and 65535"),
        (
            {"trainDataset": "wikipedia"},
            "ray-train-efa:trainDataset: 'wikipedia' must be pydoc, random, an absolute path",
        ),
        ({"trainValidationShare": "0.9"}, "ray-train-efa:trainValidationShare: '0.9' must be above 0 and at most 0.5"),
        ({"trainWeightDecay": "much"}, "ray-train-efa:trainWeightDecay: 'much' invalid float value: 'much'"),
        ({"trainWarmUpSteps": 60}, "ray-train-efa:trainWarmUpSteps: '60' must be fewer than --steps 60"),
        ({"trainLrFloor": "2"}, "ray-train-efa:trainLrFloor: '2.0' must be a share of --lr between 0 and 1"),
        ({"trainCudaGraph": "on"}, "ray-train-efa:trainCudaGraph: 'on' records what runs on a GPU"),
        ({"trainProfileSteps": "5,x"}, "ray-train-efa:trainProfileSteps: '5,x' must be steps of 1..60"),
        ({"trainPrecision": "fp8"}, "ray-train-efa:trainPrecision: 'fp8' is none of auto, mixed, bf16, fp32"),
        ({"trainExportTo": "models/mine"}, "ray-train-efa:trainExportTo: 'models/mine' must be an absolute path"),
        ({"trainKillAtStep": 61}, "ray-train-efa:trainKillAtStep: '61' is beyond trainSteps 60"),
        ({"trainKillAtStep": 4, "trainMaxFailures": 0}, "trainKillAtStep: '4' needs trainMaxFailures of at least 1"),
        ({"jobPip": ["six"]}, "ray-train-efa:jobPip: 'six' is not pinned"),
        ({"jobPip": ["six>=1"]}, "ray-train-efa:jobPip: 'six>=1' is not pinned"),
        ({"jobPip": {"six": 1}}, "is not a list"),
        ({"jobPip": ["a @ https://me:pw@x.org/a.whl"]}, "'a @ https://***@x.org/a.whl' holds a password"),
        ({"jobEnv": {"1A": "x"}}, "ray-train-efa:jobEnv: '1A' is not the name of an environment variable"),
        ({"jobEnv": {"A": ["x"]}}, "ray-train-efa:jobEnv: 'A' must have text as its value"),
        ({"jobEnv": {"RAY_DEDUP_LOGS": "1"}}, "ray-train-efa:jobEnv: 'RAY_DEDUP_LOGS' is set by the job itself"),
        ({"gateMaxEvalLoss": "-1"}, "ray-train-efa:gateMaxEvalLoss: '-1' must be a finite number above 0"),
        ({"preflightSizes": ["64M", "all"]}, "ray-train-efa:preflightSizes: 'all' is not a size in bytes such as 64M"),
        (
            {"preflightSizes": ["6"]},
            "ray-train-efa:preflightSizes: '6' is not a size in bytes such as 64M or 1G, a mult",
        ),
        ({"preflightMinBusBandwidth": "0"}, "preflightMinBusBandwidth: '0' must be a finite number above 0"),
        ({"compareRepeats": 2}, "ray-train-efa:compareRepeats: '2' must be 0 (no comparison) or at least 3"),
        ({"compareSteps": 7}, "ray-train-efa:compareSteps: '7' must be at least 8"),
        ({"compareArms": {"a": {"expect": "gloo"}}}, "ray-train-efa:compareArms: names 1 arms; a comparison has two"),
        (
            {"compareArms": {"a": {"expect": "gloo"}, "b": {"expect": "rdma"}}},
            "compareArms: b.expect: 'rdma' is none of efa, socket, gloo",
        ),
        (
            {"compareArms": {"a": {"expect": "gloo"}, "b": {"expect": "gloo", "env": {"RAY_DEDUP_LOGS": "1"}}}},
            "compareArms: b.env: RAY_DEDUP_LOGS is set by the job itself",
        ),
        ({"storagePath": " "}, "ray-train-efa:storagePath: must not be empty"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_value(changes: dict[str, Any], message: str) -> None:
    assert message in problems(**changes)


def test_two_arms_of_a_comparison_are_taken_as_they_are() -> None:
    arms = {"plain": {"expect": "gloo"}, "lazy": {"expect": "gloo", "env": {"TORCH_GLOO_LAZY_INIT": "1"}}}
    compare = load(compareRepeats=3, compareArms=arms, compareMinSpeedup="1.5").compare
    assert (compare.repeats, compare.min_speedup) == (3, 1.5)
    assert [(arm.name, arm.env) for arm in compare.arms] == [("lazy", {"TORCH_GLOO_LAZY_INIT": "1"}), ("plain", {})]


@pytest.mark.parametrize(("expect", "arms"), [("gloo", ["gloo", "gloo-lazy"]), ("efa", ["efa", "tcp"])])
def test_without_arms_of_its_own_a_stack_compares_what_it_expects(expect: str, arms: list[str]) -> None:
    assert [arm.name for arm in load(expect=expect).compare.arms] == arms


def test_all_problems_are_said_at_once() -> None:
    text = problems(trainSteps=0, trainLr="x", expect="rdma")
    assert len(text.splitlines()) == 4


def test_a_secret_kept_in_clear_is_refused_without_showing_it() -> None:
    text = problems(jobSecretEnv={"HF_TOKEN": "hf_in_clear"})
    assert "jobSecretEnv: 'HF_TOKEN' is kept in clear" in text
    assert "hf_in_clear" not in text


def test_a_secret_is_taken_and_is_in_no_plain_setting() -> None:
    settings = load(secret=("jobSecretEnv",), jobSecretEnv={"HF_TOKEN": "hf_hidden"})
    assert settings.job.secret_env_names == ("HF_TOKEN",)
    assert "hf_hidden" not in repr(settings) + json.dumps(dict(settings.declared))


@pytest.mark.parametrize("key", ["jobEnv", "trainModelId", "jobPip"])
def test_an_encrypted_value_of_a_setting_that_is_kept_in_clear_is_refused(key: str) -> None:
    value = {"jobEnv": {"TOKEN": "hf_hidden"}, "trainModelId": "hf_hidden", "jobPip": ["hf_hidden==1"]}[key]
    with pytest.raises(SettingsError) as caught:
        load(secret=(key,), **{key: value})
    assert f"{key}: '***' is encrypted" in str(caught.value)
    assert f"{key}: 'hf_hidden" not in str(caught.value)


def test_a_secret_must_be_text() -> None:
    with pytest.raises(SettingsError, match="jobSecretEnv: 'PIN' must have text as its value") as caught:
        load(secret=("jobSecretEnv",), jobSecretEnv={"PIN": 4711})
    assert "4711" not in str(caught.value)


def test_an_unknown_secret_setting_is_not_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        load(secret=("jobSecrets",), jobSecrets="hf_hidden")
    assert "hf_hidden" not in str(caught.value)
    assert "jobSecrets: '***' is not a setting" in str(caught.value)


def test_a_name_in_both_environments_is_refused() -> None:
    with pytest.raises(SettingsError, match="'TOKEN' is also in jobSecretEnv"):
        load(secret=("jobSecretEnv",), jobSecretEnv={"TOKEN": "a"}, jobEnv={"TOKEN": "b"})


def test_pins_in_every_form_are_taken() -> None:
    pins = ["six==1.16.0", "ray[data]==2.58.0", "mine @ https://example.org/mine.whl", "/data/mine-1-py3-none-any.whl"]
    assert load(jobPip=pins).job.pip == tuple(pins)


@pytest.mark.parametrize(
    "path", ["s3://bucket", "s3://bucket/team/runs/", "/mnt/team/records", "records", "../records"]
)
def test_records_go_to_a_folder_or_a_bucket(path: str) -> None:
    records = load(recordsPath=path).records
    assert records.path == path.rstrip("/")
    assert records.inputs()["path"] == records.path


def test_the_root_folder_is_a_place_and_not_nowhere() -> None:
    assert load(recordsPath="/").records.inputs()["path"] == "/"


def test_records_go_nowhere_unless_they_are_told_to() -> None:
    assert load().records.inputs() == {}


def test_records_in_a_bucket_are_written_as_the_stack_s_aws_settings_say() -> None:
    role = "arn:aws:iam::123456789012:role/deployer"
    theirs = {"aws:profile": "team", "aws:region": "us-west-2", "aws:assumeRoles": json.dumps([{"roleArn": role}])}
    load(recordsPath="s3://bucket/runs")
    values = {**dict(pulumi.runtime.config.CONFIG.get()), **theirs}
    pulumi.runtime.set_all_config(values, [])
    assert load_settings(ROOT / "Pulumi.yaml").records.inputs() == {
        "path": "s3://bucket/runs",
        "profile": "team",
        "region": "us-west-2",
        "role_arn": role,
    }
    pulumi.runtime.set_all_config({**values, f"{PROJECT}:recordsPath": "/mnt/records"}, [])
    assert load_settings(ROOT / "Pulumi.yaml").records.profile == "", "a folder is nobody's at AWS"


def test_the_readme_has_the_room_or_the_name_of_every_setting() -> None:
    root = Path(__file__).parents[2]
    told = (root / "README.md").read_text().partition("The prefix is the room:")[2].partition("\n\n")[0]
    rooms = tuple(re.findall(r"`(\w+)\*`", told))
    declared = yaml.safe_load((root / "Pulumi.yaml").read_text())["config"]
    assert [name for name in declared if not name.startswith(rooms) and f"`{name}`" not in told] == []
