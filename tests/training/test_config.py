import threading

import pytest
import torch

from tests.training.arguments import arguments, config
from training.config import parse_arguments
from training.errors import TrainingError
from training.job_config import LONGEST_DEADLINE_S


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_id", ""),
        ("steps", 0),
        ("steps", -3),
        ("seq_len", 1),
        ("batch_size", 0),
        ("lr", 0),
        ("lr", "nan"),
        ("lr", "inf"),
        ("seed", -1),
        ("seed", 2**64),
        ("steps", 2**63),
        ("batch_size", 10**20),
        ("checkpoint_every", -1),
        ("eval_batches", 0),
        ("eval_every", -1),
        ("num_workers", -1),
        ("worker_resource", ""),
        ("storage_path", "runs"),
        ("storage_path", "s3://"),
        ("storage_path", "s3:///prefix"),
        ("storage_path", "s3://Bucket/prefix"),
        ("storage_path", "s3://bucket//prefix"),
        ("storage_path", "s3://bucket/../prefix"),
        ("storage_path", "s3://bucket/prefix?region=us-east-1"),
        ("storage_path", "gs://bucket/prefix"),
        ("run_id", "../other"),
        ("max_failures", -1),
        ("deadline_s", 0),
        ("deadline_s", "inf"),
        ("deadline_s", "nan"),
        ("deadline_s", 10**10),
        ("kill_at_step", 61),
        ("profile_steps", "²"),
        ("resume_from", "checkpoints/step-000010"),
        ("resume_from", "s3:/bucket/step-000010"),
    ],
)
def test_a_value_out_of_range_is_refused_by_the_argument_s_name_and_the_value(name: str, value: object) -> None:
    with pytest.raises(TrainingError) as refusal:
        parse_arguments(arguments(**{name: value}))
    assert f"--{name} {value}" in str(refusal.value).replace(".0:", ":"), "the user must see which argument to change"
    assert "\n" not in str(refusal.value), "an error is one line"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (arguments(steps="many"), "--steps"),
        (arguments(dataset="wikipedia"), "wikipedia"),
        ([*arguments(), "--learning_rate", "1"], "--learning_rate"),
        (["--run_id", "x"], "--storage_path"),
        ([*arguments(), "--step", "3"], "--step"),
    ],
)
def test_what_argparse_refuses_is_a_training_error_too(words: list[str], named: str) -> None:
    with pytest.raises(TrainingError, match=named):
        parse_arguments(words)


@pytest.mark.parametrize(
    "location", ["/mnt/ray-train/runs", "s3://bucket", "s3://my.bucket-1/a/b_c/", "s3://bucket/run-1/step=3"]
)
def test_a_directory_and_a_bucket_are_places_for_a_run(location: str) -> None:
    told = config(storage_path=location, resume_from=location)
    assert (told.storage_path, told.resume_from) == (location, location)


def test_requirements_follow_one_flag_or_several() -> None:
    words = [*arguments(pip=["one==1", "two"]), "--pip", "three"]
    assert parse_arguments(words).pip == ("one==1", "two", "three")


def test_a_configuration_survives_as_json_what_it_is() -> None:
    told = config(lr=0.1, kill_at_step=7).as_json()
    assert (told["lr"], told["kill_at_step"], told["pip"]) == (0.1, 7, [])


def test_the_longest_deadline_and_the_largest_seed_are_taken_by_what_needs_them() -> None:
    told = config(deadline_s=int(LONGEST_DEADLINE_S), seed=2**63 - 1)
    torch.manual_seed(told.seed)
    timer = threading.Timer(told.deadline_s, lambda: None)
    timer.start()
    timer.join(0.05)
    assert timer.is_alive(), "a timer that cannot wait so long dies at once"
    timer.cancel()
