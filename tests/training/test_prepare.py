import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.data_files import half_in, numbered_texts, one_after_another, settings, write_jsonl
from tests.training.s3_server import BUCKET, S3Server
from training import records
from training.data import Dataset, open_dataset
from training.data_settings import CHAT, DataSettings
from training.errors import TrainingError
from training.model_source import BYTE_VOCABULARY
from training.prepare import described, prepare
from training.storage import Folder, LocalFolder, open_folder
from training.token_files import MANIFEST, read_manifest
from training.tokenise import HELD_OUT, TRAIN

QUESTION, ANSWER = {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4."}


def prepared(dataset: Path, storage: Path, **changes: Any) -> Folder:
    return prepare(settings(dataset, **changes), LocalFolder(storage), one_after_another)


def numbers(text: str) -> set[int]:
    """Of the documents of which any piece is in the text."""
    return {int(found) for found in re.findall(r"<(\d+)>", text)}


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "UNIT_BYTES", 2000)


def write_texts(folder: Path, texts: list[str]) -> Path:
    write_jsonl(folder / "texts.jsonl", [{"text": text} for text in texts])
    return folder


@pytest.mark.usefixtures("small_units")
def test_every_document_is_in_exactly_one_half(tmp_path: Path) -> None:
    folder = prepared(write_texts(tmp_path / "data", numbered_texts(300)), tmp_path)
    train, held_out = numbers(half_in(folder, TRAIN)), numbers(half_in(folder, HELD_OUT))
    assert train | held_out == set(range(300)) and not train & held_out
    assert 10 < len(held_out) < 60, "about a tenth"


@pytest.mark.usefixtures("small_units")
def test_neither_order_nor_copies_move_a_document_to_the_other_half(tmp_path: Path) -> None:
    texts = numbered_texts(200)
    before = prepared(write_texts(tmp_path / "data", texts), tmp_path)
    copies = [text.replace(" and", "  and") + "\n" for text in texts]  # with other white space
    mixed = [*reversed(texts), *numbered_texts(220)[200:], *copies]
    after = prepared(write_texts(tmp_path / "mixed", mixed), tmp_path)
    assert before != after
    held_out = numbers(half_in(after, HELD_OUT))
    assert held_out & set(range(200)) == numbers(half_in(before, HELD_OUT))
    assert not held_out & numbers(half_in(after, TRAIN)), "a copy of what is held out was trained on"


@pytest.mark.usefixtures("small_units")
def test_what_a_validation_data_set_holds_is_not_trained_on(tmp_path: Path) -> None:
    texts = numbered_texts(100)
    data = write_texts(tmp_path / "data", texts)
    validation = write_texts(tmp_path / "validation", [*texts[90:], "another text, told nowhere else " * 3])
    folder = prepared(data, tmp_path, validation_dataset=str(validation))
    assert numbers(half_in(folder, TRAIN)) == set(range(90))
    assert numbers(half_in(folder, HELD_OUT)) == set(range(90, 100))
    assert "told nowhere else" in half_in(folder, HELD_OUT)


def write_book(file: Path, first: int) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n\n".join(numbered_texts(first + 1000, longest=200)[first:]))


def test_a_text_file_that_is_held_out_may_lie_within_the_data_set(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_book(data / "learnt.txt", 0)
    write_book(data / "validation.txt", 1000)
    folder = prepared(data, tmp_path, validation_dataset=str(data / "validation.txt"))
    assert numbers(half_in(folder, TRAIN)) == set(range(1000))
    assert numbers(half_in(folder, HELD_OUT)) == set(range(1000, 2000))


def test_a_file_more_moves_nothing_of_a_text_file_to_the_other_half(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_book(data / "a.txt", 0)
    before = numbers(half_in(prepared(data, tmp_path, validation_share=0.3), HELD_OUT))
    (data / "b.txt").write_text("a note")
    after = prepared(data, tmp_path, validation_share=0.3)
    assert before and before == numbers(half_in(after, HELD_OUT))
    assert not before & numbers(half_in(after, TRAIN))


@pytest.mark.usefixtures("small_units")
def test_an_epoch_and_the_held_out_rows_of_all_ranks_together_are_the_whole_data_set(tmp_path: Path) -> None:
    data = write_texts(tmp_path / "data", numbered_texts(120))
    folder = prepared(data, tmp_path)
    told = settings(data)
    dataset = open_dataset(_with(told), BYTE_VOCABULARY, folder)
    seen = ""
    ranks, rows = 3, 4
    consumed = 0
    while consumed < len(dataset.train):
        for rank in range(ranks):
            batch = dataset.train_batch(consumed, 0, rank, ranks, rows)
            assert batch.input_ids.shape == (rows, 64)
            seen += bytes(token & 255 for token in batch.input_ids.ravel().tolist()).decode(errors="ignore")
        consumed += ranks * rows
    for rank in range(ranks):
        for batch in dataset.held_out_batches(rank, ranks, rows, 1000):
            seen += bytes(token & 255 for token in batch.input_ids.ravel().tolist()).decode(errors="ignore")
    assert numbers(seen) == set(range(120))


def test_what_is_prepared_is_found_again_and_what_decides_it_makes_it_anew(tmp_path: Path) -> None:
    data = write_texts(tmp_path / "data", numbered_texts(60))
    first = prepared(data, tmp_path)

    def no_work(task: object, count: int) -> list[Any]:
        raise AssertionError("prepared twice")

    assert prepare(settings(data), LocalFolder(tmp_path), no_work) == first
    assert prepare(settings(data, seed=8, attention="causal"), LocalFolder(tmp_path), no_work) == first
    others = [
        prepared(data, tmp_path, seq_len=32),
        prepared(data, tmp_path, validation_share=0.3),
        prepared(data, tmp_path, validation_dataset=str(write_texts(tmp_path / "v", ["held out " * 9]))),
    ]
    write_jsonl(data / "texts.jsonl", [{"text": text, "body": text} for text in numbered_texts(61)])
    others += [prepared(data, tmp_path), prepared(data, tmp_path, text_field="body")]
    assert len({first, *others}) == 6


def test_a_position_counts_wherever_the_same_texts_lie_and_whenever_they_were_written(tmp_path: Path) -> None:
    def opened(data: Path, **changes: Any) -> Dataset:
        told = settings(data, **changes)
        return open_dataset(_with(told), BYTE_VOCABULARY, prepared(data, tmp_path, **changes))

    texts = numbered_texts(60)
    data = write_texts(tmp_path / "data", texts)
    position = opened(data).position(23)
    os.utime(data / "texts.jsonl", (1, 1))
    copy = write_texts(tmp_path / "copy", texts)
    assert [opened(place).consumed(position) for place in (data, copy)] == [23, 23]
    others = [opened(data, seed=8), opened(data, seq_len=32), opened(data, validation_share=0.4)]
    others.append(opened(write_texts(tmp_path / "more", numbered_texts(61))))
    others.append(opened(write_texts(tmp_path / "mixed", [*reversed(texts)])))
    assert [other.consumed(position) for other in others] == [0] * 5


def test_a_position_among_the_training_sequences_outlasts_another_validation_data_set(tmp_path: Path) -> None:
    data, telling = write_texts(tmp_path / "data", numbered_texts(60)), "told nowhere else, "
    datasets = []
    for times in (9, 12):
        validation = str(write_texts(tmp_path / f"validation-{times}", [telling * times]))
        told = settings(data, validation_dataset=validation)
        folder = prepared(data, tmp_path, validation_dataset=validation)
        datasets.append(open_dataset(_with(told), BYTE_VOCABULARY, folder))
    assert datasets[1].consumed(datasets[0].position(5)) == 5


def test_the_field_of_a_text_counts_where_texts_stand_in_fields(tmp_path: Path) -> None:
    plain, chats = tmp_path / "plain", [{"prompt": f"{n}?", "completion": f"<{n}>"} for n in range(60)]
    plain.mkdir()
    (plain / "a.txt").write_text("\n\n".join(numbered_texts(6000)))
    write_jsonl(tmp_path / "chats" / "c.jsonl", chats)
    for data, changes in ((plain, {}), (tmp_path / "chats", {"dataset_format": CHAT})):
        assert prepared(data, tmp_path, **changes) == prepared(data, tmp_path, text_field="body", **changes)


def test_what_is_wrong_with_the_validation_data_set_is_told_by_its_own_argument(tmp_path: Path) -> None:
    data, absent, broken = write_texts(tmp_path / "data", numbered_texts(9)), tmp_path / "absent", tmp_path / "b.jsonl"
    broken.write_text("{")
    for place, said in ((absent, "node .* finds nothing there"), (broken, "b.jsonl, line 1, is not JSON")):
        with pytest.raises(TrainingError, match=f"^--validation_dataset {place}: .*{said}"):
            prepared(data, tmp_path, validation_dataset=str(place))


def test_a_node_that_lacks_a_file_of_the_sequences_says_so(tmp_path: Path) -> None:
    folder = prepared(write_texts(tmp_path / "data", numbered_texts(60)), tmp_path)
    (file,) = (tmp_path / "datasets" / folder.name).glob("train*.tokens")
    file.unlink()
    with pytest.raises(TrainingError, match=rf"^--storage_path: node .* does not see .*{file.name}.*share"):
        half_in(folder, TRAIN)


def test_what_a_crash_left_without_manifest_is_made_anew(tmp_path: Path) -> None:
    data = write_texts(tmp_path / "data", numbered_texts(60))
    folder = prepared(data, tmp_path)
    whole = half_in(folder, TRAIN)
    folder.delete(MANIFEST)
    for file in (tmp_path / "datasets" / folder.name).glob("*.tokens"):
        file.write_bytes(file.read_bytes()[:100])
    assert half_in(prepared(data, tmp_path), TRAIN) == whole


def test_a_file_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    folder = prepared(write_texts(tmp_path / "data", numbered_texts(60)), tmp_path)
    (file,) = (tmp_path / "datasets" / folder.name).glob("train*.tokens")
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(TrainingError, match=r"train-.*\.tokens is damaged"):
        half_in(folder, TRAIN)


def test_the_user_is_told_how_much_came_of_it(tmp_path: Path) -> None:
    folder = prepared(write_texts(tmp_path / "data", numbered_texts(300)), tmp_path)
    manifest = read_manifest(folder)
    assert manifest is not None
    assert manifest[TRAIN]["documents"] + manifest[HELD_OUT]["documents"] == 300
    line = described(folder)
    filled = float(re.findall(r"([\d.]+)% of their places filled", line)[0])
    whole = r"\d+ documents in \d+ sequences of 64 tokens, \d+ held out in \d+; [\d.]+% of their places filled"
    assert filled > 97 and re.fullmatch(whole, line), "nothing was dropped or cut"


@pytest.mark.parametrize(
    ("texts", "changes", "said"),
    [
        (["only one document " * 3], {}, r"--validation_share 0.1: of so few documents .* falls to the held-out part"),
        ([" ", ""], {}, r"--validation_share 0.1"),
    ],
)
def test_too_few_documents_for_two_halves_are_refused(
    tmp_path: Path, texts: list[str], changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(TrainingError, match=said):
        prepared(write_texts(tmp_path / "data", texts), tmp_path, **changes)


def test_a_training_set_that_is_all_held_out_is_refused(tmp_path: Path) -> None:
    data = write_texts(tmp_path / "data", numbered_texts(5))
    with pytest.raises(TrainingError, match=f"--dataset {data}: no document left to learn from"):
        prepared(data, tmp_path, validation_dataset=str(data))


def test_an_error_in_any_unit_comes_out_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"messages": 3}\n')
    with pytest.raises(TrainingError, match=r"^--text_field text: .*a\.jsonl, line 2, has no such field"):
        prepared(tmp_path / "a.jsonl", tmp_path)
    with pytest.raises(
        TrainingError, match=r"^--dataset_format chat: .*a\.jsonl, line 1, has neither a list of messages"
    ):
        prepared(tmp_path / "a.jsonl", tmp_path, dataset_format=CHAT)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((json.dumps(record), "is no object") for record in (5, "text", None, True, [QUESTION, ANSWER])),
        ('{"messages": ', "is not JSON: "),
        ('{"messages": NaN}', "has float as its messages, not a list"),
        ("{}", "has neither a list of messages .* its fields are: none"),
        (r'{"a\nb": 1, "\ud800": 2, "é": 3}', r"its fields are: 'a\\nb', é, '\\ud800'"),
        *(
            (json.dumps({"messages": odd}), "as its messages, not a list")
            for odd in (5, 0.5, False, "", "text", {}, ANSWER)
        ),
        ('{"messages": null}', "its fields are: messages"),
        ('{"messages": []}', "has no message of the assistant's"),
        *(
            (
                json.dumps({"messages": [QUESTION, odd]}),
                "has a message without a role and a content that are both text",
            )
            for odd in (
                5,
                None,
                "text",
                [ANSWER],
                {"content": "4."},
                {"role": "assistant"},
                {"role": "assistant", "content": None},
                {"role": "assistant", "content": [{"type": "text", "text": "4."}]},
                {"role": 5, "content": "4."},
            )
        ),
        (json.dumps({"prompt": [QUESTION], "completion": [ANSWER]}), "its fields are: completion, prompt"),
    ],
)
def test_a_line_that_is_no_conversation_is_told_in_one_line_with_its_place(
    line: str, reason: str, tmp_path: Path
) -> None:
    good = json.dumps({"messages": [QUESTION, ANSWER]})
    (tmp_path / "a.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(TrainingError, match=rf"^--dataset.*a\.jsonl, line 2, .*{reason}") as told:
        prepared(tmp_path / "a.jsonl", tmp_path, dataset_format=CHAT)
    assert str(told.value).isprintable()


def test_half_a_character_is_told_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "\\ud83d\\ude00 whole"}\n{"text": "bad \\ud83d end"}\n')
    with pytest.raises(TrainingError, match=r"^--text_field text: .*a\.jsonl, line 2, has half of a surrogate pair"):
        prepared(tmp_path / "a.jsonl", tmp_path)
    (tmp_path / "b.jsonl").write_text('{"prompt": "2+2?", "completion": "4\\ude00"}\n')
    with pytest.raises(
        TrainingError, match=r"^--dataset_format chat: .*b\.jsonl, line 1, has half of a surrogate pair"
    ):
        prepared(tmp_path / "b.jsonl", tmp_path, dataset_format=CHAT)


def test_a_conversation_too_long_loses_its_end_and_one_without_room_for_its_answer_all(tmp_path: Path) -> None:
    pairs = [{"prompt": f"{n} of {n}?", "completion": f"<{n}> " + "yes " * (40 if n == 3 else 2)} for n in range(40)]
    pairs.append({"prompt": "why " * 30, "completion": "<99>"})
    folder = prepared(write_jsonl(tmp_path / "c.jsonl", pairs), tmp_path, dataset_format=CHAT)
    told = half_in(folder, TRAIN) + half_in(folder, HELD_OUT)
    assert numbers(told) == set(range(40))
    assert max(len(found) for found in re.findall(r"(?:yes )+", told)) < 64
    line = described(folder)
    assert line.endswith(
        "; 1 dropped, with nothing to learn in their first 64 tokens; 1 lost the end of what is to be learnt"
    )
    recorded = open_dataset(_with(settings(tmp_path / "c.jsonl")), BYTE_VOCABULARY, folder).described()
    assert (recorded["dropped"], recorded["cut"]) == (1, 1)


def test_conversations_that_are_all_too_long_are_told_by_the_length_and_not_by_the_split(tmp_path: Path) -> None:
    pairs = [{"prompt": f"{n} why " * 30, "completion": f"<{n}>"} for n in range(40)]
    data = write_jsonl(tmp_path / "c.jsonl", pairs)
    with pytest.raises(TrainingError, match=r"^--seq_len 64: of the \d\d conversations to learn from no answer begins"):
        prepared(data, tmp_path, dataset_format=CHAT)
    short = write_jsonl(tmp_path / "short.jsonl", [{"prompt": f"{n}?", "completion": f"<{n}>"} for n in range(9)])
    with pytest.raises(TrainingError, match=r"^--seq_len 64: of the 40 conversations held out no answer begins"):
        prepared(short, tmp_path, dataset_format=CHAT, validation_dataset=str(data))


def test_copies_of_a_conversation_stay_in_one_half(tmp_path: Path) -> None:
    pairs = [{"prompt": f"{n}?", "completion": f"<{n}>"} for n in range(80)]
    as_messages = [
        {"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"<{n}>"}]}
        for n in range(80)
    ]
    folder = prepared(write_jsonl(tmp_path / "c.jsonl", [*pairs, *as_messages]), tmp_path, dataset_format=CHAT)
    assert not numbers(half_in(folder, TRAIN)) & numbers(half_in(folder, HELD_OUT))


def test_a_model_smaller_than_its_tokenizer_is_refused(tmp_path: Path) -> None:
    data = write_texts(tmp_path / "data", numbered_texts(60))
    with pytest.raises(TrainingError, match="--model_id tiny-qwen2: its tokenizer makes tokens up to 258"):
        open_dataset(_with(settings(data)), 100, prepared(data, tmp_path))


def test_a_node_that_does_not_see_the_sequences_says_so(tmp_path: Path) -> None:
    told = _with(settings(tmp_path / "data"))
    with pytest.raises(TrainingError, match=r"node .* does not see .*elsewhere"):
        open_dataset(told, BYTE_VOCABULARY, LocalFolder(tmp_path / "elsewhere"))


def test_from_a_bucket_into_a_bucket(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.token_files.tempfile.tempdir", str(tmp_path))
    body = "".join(json.dumps({"text": text}) + "\n" for text in numbered_texts(60))
    s3.client.put_object(Bucket=BUCKET, Key="texts/en/a.jsonl", Body=body.encode())
    told = settings(f"s3://{BUCKET}/texts")
    folder = prepare(told, open_folder(f"s3://{BUCKET}/runs"), one_after_another)
    assert numbers(half_in(folder, TRAIN)) | numbers(half_in(folder, HELD_OUT)) == set(range(60))
    assert any(key.endswith(MANIFEST) for key in s3.keys("runs/datasets"))
    copies = list((tmp_path / "ray-train-tokens").glob("*/*.tokens"))
    assert len(copies) == 2, "each node has one copy"
    shutil.rmtree(tmp_path / "ray-train-tokens")
    assert numbers(half_in(folder, TRAIN))


def test_a_bucket_that_is_not_there_is_told_by_its_argument(s3: S3Server) -> None:
    with pytest.raises(TrainingError, match=r"--dataset s3://no-such-bucket-here/x: node .* finds nothing there"):
        prepare(settings("s3://no-such-bucket-here/x"), open_folder(f"s3://{BUCKET}/runs"), one_after_another)


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    import ray

    ray.init(address="local", num_cpus=2, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.local
@pytest.mark.usefixtures("ray_here")
def test_ray_data_makes_the_same_sequences_as_one_process(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for part in range(3):
        write_jsonl(data / f"{part}.jsonl", [{"text": text} for text in numbered_texts(90)[part::3]])
    (data / "sub").mkdir()
    (data / "sub" / "a.md").write_text("<500> in a folder below\n" * 20)
    alone = prepared(data, tmp_path / "alone")
    together = prepare(settings(data), LocalFolder(tmp_path / "together"))
    assert [half_in(together, half) for half in (TRAIN, HELD_OUT)] == [
        half_in(alone, half) for half in (TRAIN, HELD_OUT)
    ]
    with pytest.raises(TrainingError, match=r"^--text_field body: .*has no such field, but text$"):
        prepare(settings(data, text_field="body"), LocalFolder(tmp_path / "together"))


def _with(told: DataSettings) -> Any:
    """What open_dataset reads of a configuration."""
    return told
