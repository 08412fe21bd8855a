"""Files into documents, by parts of bounded size, so that any number of processes can share the reading."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from training.data_settings import CHAT, DataSettings
from training.errors import TrainingError, fields, first_line
from training.sources import JSON_LINES, PARQUET, TEXT_FILES, Source

UNIT_BYTES = 32 << 20
"""What one task reads: enough to pack well, little enough to keep in memory several times over."""
SECTION_CHARACTERS = 16 << 10
"""A text file is cut into documents of about this. Nothing but the file decides where: a document that changed with the
files beside it would come to the other half, and what is held out of one data set would not be known in another."""
_AHEAD_BYTES = 64 << 10


@dataclass(frozen=True)
class Piece:
    """Of a text file the lines that begin in [start, end), counted in bytes; of a parquet file those row groups."""

    path: str
    start: int
    end: int


Unit = list[Piece]


def plan(source: Source, settings: DataSettings) -> list[Unit]:
    """The same files always make the same units, whatever cluster reads them: what is packed depends on no machine."""
    units: list[Unit] = [[]]
    weight = 0
    for piece, size in _pieces(source, settings):
        if weight and weight + size > UNIT_BYTES:
            units.append([])
            weight = 0
        units[-1].append(piece)
        weight += size
    return units


def _pieces(source: Source, settings: DataSettings) -> Iterator[tuple[Piece, int]]:
    for path, size in source.sizes.items():
        if path.endswith(TEXT_FILES) and settings.dataset_format == CHAT:
            raise TrainingError(f"--dataset_format {CHAT}: {path} is plain text; conversations are .jsonl or .parquet")
        if path.endswith(PARQUET):
            yield from _row_groups(source, path)
        else:
            for start in range(0, size, UNIT_BYTES):
                end = min(size, start + UNIT_BYTES)
                yield Piece(path, start, end), end - start


def _row_groups(source: Source, path: str) -> Iterator[tuple[Piece, int]]:
    if source.hub:  # only the node that reads it should download it
        yield Piece(path, 0, -1), UNIT_BYTES
        return
    from pyarrow.parquet import ParquetFile

    with source.opened(path) as file:
        about = ParquetFile(file).metadata
        sizes = [about.row_group(group).total_byte_size for group in range(about.num_row_groups)]
    for group, size in enumerate(sizes):
        yield Piece(path, group, group + 1), size


def documents(source: Source, unit: Unit, settings: DataSettings) -> Iterator[tuple[str, Any]]:
    """Each with its place, for errors: a text, or with --dataset_format chat a record as it is."""
    for piece in unit:
        if piece.path.endswith(TEXT_FILES):
            yield from ((piece.path, text) for text in _texts(source, piece))
            continue
        for place, record in _records(source, piece, settings):
            yield place, record if settings.dataset_format == CHAT else _text_of(record, place, settings)


def _text_of(record: Mapping[str, Any], place: str, settings: DataSettings) -> str:
    if settings.text_field not in record:
        raise TrainingError(f"--text_field {settings.text_field}: {place} has no such field, but {fields(record)}")
    text = record[settings.text_field]
    if text is not None and not isinstance(text, str):
        raise TrainingError(f"--text_field {settings.text_field}: {place} has {type(text).__name__} there, not text")
    return text or ""


def _texts(source: Source, piece: Piece) -> Iterator[str]:
    with source.opened(piece.path) as file:
        lines = [line.decode("utf-8", "replace") for line in read_lines(file, piece.start, piece.end)]
    section: list[str] = []
    length = 0
    for line in lines:
        # At a blank line where there is one in time, for that is where a text pauses.
        if length >= SECTION_CHARACTERS and (not line.strip() or length >= 2 * SECTION_CHARACTERS):
            yield "".join(section)
            section, length = [], 0
        section.append(line)
        length += len(line)
    yield "".join(section)


def _records(source: Source, piece: Piece, settings: DataSettings) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with source.opened(piece.path) as file:
        if piece.path.endswith(JSON_LINES):
            after = f" after byte {piece.start:,}" if piece.start else ""
            for number, line in enumerate(read_lines(file, piece.start, piece.end), 1):
                if line.strip():
                    place = f"{piece.path}, line {number}{after},"
                    yield place, _json(line, place, source)
            return
        from pyarrow.parquet import ParquetFile

        table = ParquetFile(file)
        groups = range(piece.start, table.metadata.num_row_groups if piece.end < 0 else piece.end)
        wanted = ("messages", "prompt", "completion") if settings.dataset_format == CHAT else (settings.text_field,)
        columns = [name for name in table.schema_arrow.names if name in wanted] or None
        for batch in table.iter_batches(batch_size=1024, row_groups=list(groups), columns=columns):
            for record in batch.to_pylist():
                yield piece.path, record


def _json(line: bytes, place: str, source: Source) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise TrainingError(f"{source.argument} {source.location}: {place} is not JSON: {first_line(error)}") from error
    except RecursionError as error:
        raise TrainingError(f"{source.argument} {source.location}: {place} nests too deeply to be read") from error
    if not isinstance(record, dict):
        raise TrainingError(f"{source.argument} {source.location}: {place} is no object")
    return record


def read_lines(file: Any, start: int, end: int) -> list[bytes]:
    """The lines that begin in [start, end), the last one whole; so ranges that adjoin share no line and lose none."""
    begin = max(0, start - 1)
    file.seek(begin)
    data = file.read(end - begin)
    if start > 0:
        newline = data.find(b"\n")
        if newline < 0 or newline == len(data) - 1:
            return []
        data = data[newline + 1 :]
    parts = [data]
    while parts[-1] and not parts[-1].endswith(b"\n"):
        more = file.read(_AHEAD_BYTES)
        newline = more.find(b"\n")
        parts.append(more if newline < 0 else more[: newline + 1])
    return b"".join(parts).splitlines(keepends=True)
