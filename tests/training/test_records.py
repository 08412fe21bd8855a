import io
import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tests.training.data_files import numbered_texts, settings, write_jsonl
from training import records
from training.data_settings import CHAT
from training.errors import TrainingError
from training.records import documents, plan, read_lines
from training.sources import find_files


def read(dataset: Path, **changes: object) -> list[Any]:
    source = find_files(str(dataset))
    told = settings(dataset, **changes)
    return [document for unit in plan(source, told) for _, document in documents(source, unit, told)]


@given(text=st.text("ab\n", max_size=60), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_ranges_that_adjoin_share_no_line_and_lose_none(text: str, cuts: list[int]) -> None:
    content = text.encode()
    edges = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    lines: list[bytes] = []
    for start, end in itertools.pairwise(edges):
        lines += read_lines(io.BytesIO(content), start, end)
    assert lines == content.splitlines(keepends=True)


def test_a_line_longer_than_what_is_read_ahead_comes_whole() -> None:
    content = b"x" * 200_000 + b"\nshort\n"
    assert read_lines(io.BytesIO(content), 0, 10) == [content[:200_001]]
    assert read_lines(io.BytesIO(content), 10, 200_001) == []
    assert read_lines(io.BytesIO(content), 200_001, len(content)) == [b"short\n"]


@pytest.mark.parametrize("unit_bytes", [1, 300, 1 << 20])
def test_json_lines_are_documents_each_once_whatever_the_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit_bytes: int
) -> None:
    monkeypatch.setattr(records, "UNIT_BYTES", unit_bytes)
    texts = numbered_texts(40)
    write_jsonl(tmp_path / "b.jsonl", [{"text": text} for text in texts[20:]])
    write_jsonl(tmp_path / "a.jsonl", [{"text": text} for text in texts[:20]])
    assert read(tmp_path) == texts


def test_another_field_can_hold_the_text(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"body": "one", "text": "no"}, {"body": None}])
    assert read(file, text_field="body") == ["one", ""]


@pytest.mark.parametrize("unit_bytes", [1, 1 << 20])
def test_parquet_rows_are_documents_by_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit_bytes: int
) -> None:
    monkeypatch.setattr(records, "UNIT_BYTES", unit_bytes)
    texts = numbered_texts(25)
    table = pa.table({"id": list(range(25)), "text": texts})
    parquet.write_table(table, tmp_path / "part.parquet", row_group_size=10)
    assert read(tmp_path) == texts
    assert len(plan(find_files(str(tmp_path)), settings(tmp_path))) == (3 if unit_bytes == 1 else 1)


def test_conversations_come_from_parquet_as_from_json_lines(tmp_path: Path) -> None:
    conversation = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    parquet.write_table(pa.table({"messages": [conversation], "source": ["x"]}), tmp_path / "a.parquet")
    write_jsonl(tmp_path / "b.jsonl", [{"messages": conversation, "source": "x"}])
    first, second = read(tmp_path, dataset_format=CHAT)
    assert first == {"messages": conversation} and second == {"messages": conversation, "source": "x"}


def test_short_text_files_of_a_folder_are_a_document_each(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# B\n\n" + "long " * 10_000)
    (tmp_path / "a.txt").write_text("A")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "c.txt").write_text("not a text of the user's")
    (tmp_path / "notes.pdf").write_bytes(b"%PDF")
    assert [text[:4] for text in read(tmp_path)] == ["A", "# B\n"]


def test_a_text_file_is_cut_the_same_whatever_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("".join(f"{number} " * 400 + "\n\n" for number in range(100)))
    alone = read(tmp_path)
    (tmp_path / "note.txt").write_text("a note")
    assert read(tmp_path) == [*alone, "a note"]


def test_a_long_text_file_is_cut_at_blank_lines_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    paragraphs = [f"{number} " * 400 + "\n\n" for number in range(100)]
    (tmp_path / "book.txt").write_text("".join(paragraphs))
    sections = read(tmp_path)
    assert "".join(sections) == "".join(paragraphs)
    assert len(sections) > 5
    sizes = [len(section) for section in sections[:-1]]
    assert min(sizes) >= records.SECTION_CHARACTERS and max(sizes) < 2 * records.SECTION_CHARACTERS
    assert all(section.startswith("\n") for section in sections[1:]), "cut where the text pauses"


def test_a_text_without_blank_lines_is_cut_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("a line of a poem\n" * 10_000)
    assert max(len(section) for section in read(tmp_path)) < 2.1 * records.SECTION_CHARACTERS


@pytest.mark.parametrize(
    ("content", "changes", "said"),
    [
        ('{"text": "a"}\n{"body": "b"}\n', {}, r"--text_field text: .*a\.jsonl, line 2, has no such field, but body"),
        ('{"text": 3}\n', {}, r"--text_field text: .*line 1, has int there, not text"),
        ('{"text": "a"}\nhello\n', {}, r"--dataset .*a\.jsonl, line 2, is not JSON"),
        ("[1]\n", {}, r"--dataset .*line 1, is no object"),
        ('{"text": ' + "[" * 100_000, {}, r"--dataset .*a\.jsonl, line 1, nests too deeply to be read"),
    ],
)
def test_what_a_line_lacks_is_told_with_its_place(
    tmp_path: Path, content: str, changes: dict[str, str], said: str
) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(TrainingError, match=said):
        read(tmp_path, **changes)


def test_plain_text_is_no_conversation(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(TrainingError, match=r"--dataset_format chat: .*a\.txt is plain text"):
        read(tmp_path, dataset_format=CHAT)


def test_a_hidden_folder_that_the_user_named_is_read_but_for_what_is_hidden_in_it(tmp_path: Path) -> None:
    place = tmp_path / ".cache" / "texts"
    (place / ".git").mkdir(parents=True)
    (place / "a.txt").write_text("a text")
    (place / ".git" / "b.txt").write_text("not a text of the user's")
    (place / ".c.txt").write_text("nor this one")
    assert read(place) == read(place / "a.txt") == ["a text"]
    assert read(place / ".c.txt") == ["nor this one"]


def test_a_parquet_file_that_is_none_and_one_whose_text_is_no_utf_8_are_told_by_name(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    file.write_text("nothing of the kind")
    with pytest.raises(TrainingError, match=rf"^--dataset {file}: node .*: {file}: Parquet magic bytes not found"):
        read(file)
    (latin,) = (pa.array([b"na\xefve"], pa.binary()),)
    parquet.write_table(pa.table({"text": pa.StringArray.from_buffers(1, *latin.buffers()[1:])}), file)
    with pytest.raises(TrainingError, match=rf"^--dataset {file}: node .*: {file}: 'utf-8' codec can't decode"):
        read(file)


@pytest.mark.parametrize("what", ["absent", "empty"])
def test_a_place_without_files_is_refused(tmp_path: Path, what: str) -> None:
    place = tmp_path / what
    if what == "empty":
        place.mkdir()
        (place / "data.csv").write_text("a,b")
    with pytest.raises(TrainingError, match=f"--dataset {place}: "):
        find_files(str(place))


def test_a_source_has_another_digest_when_a_file_is_added_or_written_anew(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"text": "one"}])
    digests = [find_files(str(tmp_path)).digest() for _ in range(2)]
    write_jsonl(tmp_path / "b.jsonl", [{"text": "two"}])
    digests.append(find_files(str(tmp_path)).digest())
    file.write_text(json.dumps({"text": "eno"}) + "\n")
    digests.append(find_files(str(tmp_path)).digest())
    assert digests[0] == digests[1] and len(set(digests)) == 3
