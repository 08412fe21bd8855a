"""Which files a model was read from: told by the hub's commit, or by what lies in a folder."""

import json
import shutil
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch

from tests.training.arguments import config
from tests.training.small_model import save_small_model
from training.model import open_model
from training.model_identity import model_identity

FIRST, SECOND = "1" * 40, "2" * 40


def of(folder: Path) -> str:
    return model_identity(str(folder), folder)


def test_a_folder_of_the_same_files_is_the_same_model_wherever_it_lies(tmp_path: Path) -> None:
    save_small_model(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)
    (tmp_path / "b" / ".exported-by.json").write_text("{}")
    assert of(tmp_path / "a") == of(tmp_path / "b")
    assert of(tmp_path / "a").startswith("sha256:")


def test_weights_trained_anew_are_another_model_though_no_size_differs(tmp_path: Path) -> None:
    weights = save_small_model(tmp_path)
    before = of(tmp_path)
    file = tmp_path / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert of(tmp_path) != before
    file.unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    whole = of(tmp_path)
    torch.save({name: -weight for name, weight in weights.items()}, tmp_path / "pytorch_model.bin")
    assert of(tmp_path) != whole


def test_another_config_is_another_model(tmp_path: Path) -> None:
    save_small_model(tmp_path)
    before = of(tmp_path)
    content = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(content | {"rms_norm_eps": 1e-5}))
    assert of(tmp_path) != before


def test_of_a_large_file_stretches_over_its_whole_length_are_read(tmp_path: Path) -> None:
    told = set()
    for changed in (None, 0, 8, 15):
        content = b"".join((b"x" if part == changed else b"-") * (1 << 20) for part in range(16))
        (tmp_path / "model.safetensors").write_bytes(content)
        told.add(of(tmp_path))
    assert len(told) == 4


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two commits of someone/model, and no way out."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    repository = tmp_path / "models--someone--model"
    for commit in (FIRST, SECOND):
        save_small_model(repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    return repository


@pytest.mark.parametrize("commit", [FIRST, SECOND])
def test_a_model_of_the_hub_is_told_by_the_commit_that_was_read(commit: str, hub: Path) -> None:
    (hub / "refs" / "main").write_text(commit)
    directory = open_model(config(model_id="someone/model", seq_len=16)).directory
    assert directory is not None
    assert model_identity("someone/model", directory) == commit


def test_a_model_that_is_read_whole_is_of_the_same_commit_though_the_hub_moved_meanwhile(
    hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    (hub / "refs" / "main").write_text(FIRST)
    (hub / "snapshots" / FIRST / "model.safetensors").rename(hub / "away")
    read: Any = AutoModelForCausalLM.from_pretrained
    asked: list[Any] = []

    def moved(model_id: str, **more: Any) -> Any:
        asked.append((model_id, more.get("revision")))
        return read(hub / "snapshots" / SECOND, **{**more, "revision": "main"})

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", moved)
    assert open_model(config(model_id="someone/model", seq_len=16)).whole_because is not None
    assert asked == [("someone/model", FIRST)]
