"""What decides that a run is due, and the names runs get."""

from pathlib import Path

import pytest

from workload.job_spec import (
    JobSpec,
    attempt_of,
    command_line,
    digest_of,
    spec_stem,
    submission_id,
    submission_stem,
    training_digest,
)


def spec(**changes: object) -> JobSpec:
    values: dict[str, object] = {
        "training_digest": "0" * 64,
        "arguments": {"steps": 4, "model_id": "tiny-qwen2"},
        "pip": ["six==1.16.0"],
        "pip_digests": {},
        "env": {"A": "1"},
        "secret_env": {"HF_TOKEN": "hf_one"},
        "image": "image:1",
        "cluster_spec_digest": "abc",
        "run_id": "",
    }
    return JobSpec(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"training_digest": "1" * 64},
        {"arguments": {"steps": 5, "model_id": "tiny-qwen2"}},
        {"pip": []},
        {"pip_digests": {"a.whl": "0"}},
        {"env": {"A": "2"}},
        {"secret_env": {"OTHER": "hf_one"}},
        {"image": "image:2"},
        {"cluster_spec_digest": "abd"},
        {"run_id": "again"},
    ],
)
def test_every_deciding_input_makes_a_new_run(changes: dict[str, object]) -> None:
    assert spec(**changes).digest() != spec().digest()


def test_a_renewed_secret_makes_no_new_run() -> None:
    assert spec(secret_env={"HF_TOKEN": "hf_two"}).digest() == spec().digest()


def test_the_engines_floats_are_the_same_run_as_the_programs_integers() -> None:
    assert spec(arguments={"model_id": "tiny-qwen2", "steps": 4.0}).digest() == spec().digest()
    assert digest_of({"a": [1.0, 2.5]}) == digest_of({"a": [1, 2.5]})
    assert digest_of(True) != digest_of(1), "a flag is not a number"


def test_a_new_head_gives_new_names_that_begin_as_those_of_the_lost_one() -> None:
    digest = spec().digest()
    stems = [submission_stem(digest, session) for session in ("session_a", "session_b")]
    assert stems[0] != stems[1], "Ray would resume what it finds in a lost run's folder"
    assert all(stem.startswith(f"{spec_stem(digest)}-") for stem in stems)
    assert not stems[0].startswith(spec_stem(spec(run_id="again").digest()))


def test_an_id_tells_its_attempt_and_only_its_own() -> None:
    stem = submission_stem(spec().digest(), "session_a")
    assert attempt_of(stem, submission_id(stem, 12)) == 12
    assert attempt_of(stem, submission_id(submission_stem(spec().digest(), "session_b"), 1)) is None
    assert attempt_of(stem, stem) is None
    assert attempt_of(stem, f"{stem}-1-2") is None


def test_the_secret_value_is_in_no_text_of_a_spec() -> None:
    assert "hf_one" not in repr(spec())
    assert "hf_one" not in str(spec().identity())


def test_the_digest_of_training_follows_content_and_names_only(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    before = training_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "train.cpython-311.pyc").write_bytes(b"anything")
    (tmp_path / ".hidden").write_text("editor state")
    assert training_digest(tmp_path) == before, "caches and hidden files are not code"
    (tmp_path / "train.py").write_text("x = 2\n")
    changed = training_digest(tmp_path)
    assert changed != before
    (tmp_path / "train.py").rename(tmp_path / "other.py")
    assert training_digest(tmp_path) not in (before, changed)


def test_a_command_line_leaves_unset_arguments_to_the_program() -> None:
    words = command_line({"steps": 4.0, "lr": 0.003, "resume_from": "", "pip": ["a==1", "b==2"], "kill_at_step": None})
    assert words == ["--lr", "0.003", "--pip", "a==1", "b==2", "--steps", "4"]


def test_a_zero_is_a_value_and_a_false_is_not() -> None:
    assert command_line({"max_failures": 0, "flag": False, "other": True}) == ["--max_failures", "0", "--other"]
