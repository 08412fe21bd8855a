"""Data sets of the Hugging Face hub, offline: what an earlier download left in the cache."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import huggingface_hub.constants
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.training.data_files import numbered_texts, settings
from training.data_settings import is_dataset
from training.errors import TrainingError
from training.hub_files import CONVERTED, select_files
from training.records import documents, plan
from training.sources import find_files

TWO_CONFIGURATIONS = ["en/train/0000.parquet", "en/train/0001.parquet", "en/test/0000.parquet", "fr/train/0000.parquet"]


@pytest.mark.parametrize(
    ("paths", "configuration", "split", "chosen"),
    [
        (TWO_CONFIGURATIONS, "en", "train", ["en/train/0000.parquet", "en/train/0001.parquet"]),
        (TWO_CONFIGURATIONS, "en", "test", ["en/test/0000.parquet"]),
        (["plain_text/train/0000.parquet"], None, "train", ["plain_text/train/0000.parquet"]),
        (["default/partial-train/0000.parquet"], None, "partial-train", ["default/partial-train/0000.parquet"]),
    ],
)
def test_the_converted_branch_has_a_folder_for_each_configuration_and_split(
    paths: list[str], configuration: str | None, split: str, chosen: list[str]
) -> None:
    assert select_files(paths, configuration, split, converted=True) == chosen


@pytest.mark.parametrize(
    ("paths", "configuration", "split", "chosen"),
    [
        (["data/train-00000-of-00002.parquet", "data/test-0.parquet"], None, "train", 1),
        (["train.jsonl", "validation.jsonl"], None, "validation", 1),
        (["en/train.jsonl", "fr/train.jsonl"], "fr", "train", 1),
        (["training/notes.md", "constraint.jsonl"], None, "train", 0),
    ],
)
def test_other_branches_are_searched_for_the_split_s_name(
    paths: list[str], configuration: str | None, split: str, chosen: int
) -> None:
    if not chosen:
        with pytest.raises(ValueError, match="no file of the split train"):
            select_files(paths, configuration, split, converted=False)
        return
    assert len(select_files(paths, configuration, split, converted=False)) == chosen


@pytest.mark.parametrize(
    ("configuration", "split", "said"),
    [
        ("en", "dev", "no en:dev; there is en:test, en:train, fr:train"),
        ("de", "train", "no de:train; there is en:test"),
    ],
)
def test_what_there_is_to_choose_from_is_told(configuration: str, split: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        select_files(TWO_CONFIGURATIONS, configuration, split, converted=True)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("hf:imdb", True),
        ("hf:HuggingFaceTB/smoltalk:all:test", True),
        ("hf:a/b/c", False),
        ("hf:a:b:c:d", False),
        ("hf:", False),
        ("/data/texts", True),
        ("s3://bucket/prefix", True),
        ("texts", False),
        ("pydoc", True),
        ("random", True),
    ],
)
def test_a_data_set_is_named_in_one_of_five_ways(text: str, is_one: bool) -> None:
    assert is_dataset(text) is is_one


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def downloaded(cache: Path, revision: str, files: Mapping[str, Sequence[str]]) -> None:
    """What the cache holds of someone/texts: parquet files of these texts."""
    repository, commit = cache / "datasets--someone--texts", hashlib.sha256(revision.encode()).hexdigest()[:40]
    reference = repository / "refs" / revision
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(commit)
    for path, texts in files.items():
        file = repository / "snapshots" / commit / path
        file.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"text": texts}), file, row_group_size=4)


def test_a_split_that_the_hub_converted_in_part_is_read_whole_from_main_or_asked_for_as_a_part(cache: Path) -> None:
    downloaded(cache, CONVERTED, {"default/partial-train/0000.parquet": ["one"]})
    downloaded(cache, "main", {"files/0000.parquet": ["one", "two"]})
    with pytest.raises(TrainingError, match=r"^--dataset hf:someone/texts: .* ask for default:partial-train to learn"):
        find_files("hf:someone/texts")
    assert list(find_files("hf:someone/texts:default:partial-train").sizes) == ["default/partial-train/0000.parquet"]
    downloaded(cache, "main", {"data/train-0000.parquet": ["one", "two"]})
    for whole in ("hf:someone/texts", "hf:someone/texts:default"):
        assert list(find_files(whole).sizes) == ["data/train-0000.parquet"]


def test_a_configuration_keeps_to_its_folder_in_main_where_it_has_one(cache: Path) -> None:
    downloaded(cache, CONVERTED, {"en/partial-train/0000.parquet": ["one"]})
    downloaded(
        cache, "main", {path: ["one"] for path in ("en/train-0.parquet", "raw/fr/train-0.parquet", "train.parquet")}
    )
    for dataset in ("hf:someone/texts:en", "hf:someone/texts"):
        assert list(find_files(dataset).sizes) == ["en/train-0.parquet"]


def test_configurations_of_which_none_was_named_are_not_mixed(cache: Path) -> None:
    downloaded(cache, CONVERTED, {path: ["a"] for path in TWO_CONFIGURATIONS})
    downloaded(cache, "main", {"en/train.parquet": ["a"], "fr/train.parquet": ["b"]})
    with pytest.raises(TrainingError, match=r"^--dataset hf:someone/texts: name one of the configurations en, fr$"):
        find_files("hf:someone/texts")
    downloaded(cache, CONVERTED, {"default/train/0000.parquet": ["a"]})
    assert list(find_files("hf:someone/texts").sizes) == ["default/train/0000.parquet"]


def test_a_downloaded_data_set_is_read_without_the_hub(cache: Path) -> None:
    texts = numbered_texts(20)
    parts = {"train": texts[:15], "validation": texts[15:]}
    downloaded(cache, CONVERTED, {f"default/{split}/0000.parquet": part for split, part in parts.items()})
    for dataset, expected in (
        ("hf:someone/texts", texts[:15]),
        ("hf:someone/texts:default:validation", texts[15:]),
    ):
        source = find_files(dataset)
        assert source.hub is not None and source.hub.repository == "someone/texts"
        told = settings(dataset)
        found = [document for unit in plan(source, told) for _, document in documents(source, unit, told)]
        assert found == expected


def test_a_data_set_that_is_nowhere_is_refused_in_one_line(cache: Path) -> None:
    with pytest.raises(TrainingError) as refusal:
        find_files("hf:someone/absent")
    assert str(refusal.value).startswith("--dataset hf:someone/absent: ")
    assert "\n" not in str(refusal.value)
