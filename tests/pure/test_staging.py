"""What travels with a job, and what of it stays on this machine: nothing."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from workload import staging


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def training(tmp_path: Path) -> Path:
    folder = tmp_path / "training"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__pycache__" / "train.pyc").write_bytes(b"x")
    (folder / "train.py").write_text("print()\n")
    return folder


def test_code_travels_without_caches_and_secrets_are_for_their_owner_only(tmp_path: Path, temporary: Path) -> None:
    with staging.staged(training(tmp_path), {"HF_TOKEN": "hf"}) as folder:
        files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        assert files == [".job-secrets.json", "training/train.py"]
        assert (folder / ".job-secrets.json").stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []


def test_without_secrets_there_is_no_file_for_them(tmp_path: Path, temporary: Path) -> None:
    with staging.staged(training(tmp_path), {}) as folder:
        assert not (folder / ".job-secrets.json").exists()


def test_what_a_killed_submission_left_goes_with_the_next_and_one_under_way_stays(
    tmp_path: Path, temporary: Path
) -> None:
    old, new = temporary / "ray-train-efa-staged-old", temporary / "ray-train-efa-staged-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / ".job-secrets.json").write_text("{}")
    os.utime(old, (time.time() - 7200,) * 2)
    with staging.staged(training(tmp_path), {}):
        assert not old.exists()
        assert new.exists()
