"""Data sets in files, as users have them, and a way to prepare them without Ray."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from training.config import TINY_QWEN2
from training.data_settings import DataSettings
from training.packing import TOKEN
from training.prepare import Report
from training.storage import Folder
from training.token_files import TokenFile, TokenRows, on_this_node, read_manifest
from training.tokenizer import ByteTokenizer


def settings(dataset: str | Path, **changes: Any) -> DataSettings:
    values: dict[str, Any] = {"model_id": TINY_QWEN2, "seq_len": 64, "seed": 7} | changes
    return DataSettings(dataset=str(dataset), **values)


def one_after_another(task: Callable[[int], Report], count: int) -> list[Report]:
    """In place of Ray Data, and through JSON as there; the last unit first, for no order is promised."""
    return [json.loads(json.dumps(task(number))) for number in reversed(range(count))]


def write_jsonl(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def numbered_texts(count: int, *, longest: int = 90) -> list[str]:
    """Each with its number, so that it is told by any of its pieces, and no two alike."""
    return [f"<{number}> " + f"{number} and so on " * (1 + number * 7 % (longest // 15)) for number in range(count)]


def half_in(folder: Folder, half: str, seq_len: int = 64) -> str:
    """All text of one half, from its bytes."""
    manifest = read_manifest(folder)
    assert manifest is not None
    files = [TokenFile(*file) for file in manifest[half]["files"]]
    rows = TokenRows(on_this_node(folder), files, seq_len)
    tokens = (rows.read(np.arange(len(rows))) & TOKEN)[:, :-1].ravel()
    shown = {ByteTokenizer.pad: b"", ByteTokenizer.end: b"\0"}
    return b"".join(shown.get(int(token), bytes([token & 255])) for token in tokens).decode()
