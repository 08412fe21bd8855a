"""A data set's files into token sequences, once, before ranks start.

Ray Data reads, tokenises and packs on all nodes' CPUs and writes the sequences beside the runs; ranks then read them
by position (token_files.py). Streaming through Ray Data while training was the alternative: a rank's batches would then
follow from which block arrived when, so that a resumed run could not go on at its exact sample, every epoch would
tokenise anew, and a slow reader would hold up GPUs. Here an epoch's order is a permutation of numbers, a resumed run
computes where it was, and a step costs some reads of kilobytes. The price is 4 bytes of storage a token and the time
before the first step, which the next run of the same data, tokenizer and length does not pay again.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from training.data_settings import CHAT, TEXT, DataSettings
from training.errors import TrainingError
from training.packing import TARGET, TOKEN, pack
from training.records import Unit, documents, plan
from training.sources import TEXT_FILES, Source, find_files
from training.storage import Folder, open_folder, storage_errors
from training.token_files import MANIFEST, SUFFIX, read_manifest, write_rows
from training.tokenise import HELD_OUT, TRAIN, Half, half_of, tokenised
from training.tokenizer import load_tokenizer

_FORMAT = 2
"""Of the files and of what is a document; with another, what an older version prepared is not found."""

_SUMMED = ("rows", "documents", "dropped", "cut", "tokens", "predicted")

Report = dict[str, Any]
ForEach = Callable[[Callable[[int], Report], int], list[Report]]
"""Calls a function with 0, 1, ... below a number, in any order and process, and returns what it returned."""


@dataclass(frozen=True)
class Task:
    """What one unit is turned into tokens with; travels to the process that does it."""

    settings: DataSettings
    source: Source
    units: list[Unit]
    folder: str
    half: str | None
    """Where all documents belong; None splits them by their text."""
    left_out: frozenset[int] = frozenset()

    def __call__(self, number: int) -> Report:
        """Write this unit's sequences, and tell of them; an error is told too, for Ray would wrap it in its own."""
        try:
            return self._write(number)
        except (TrainingError, OSError) as error:
            return {"error": str(error)}

    def _write(self, number: int) -> Report:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the tasks are parallel already
        tokenizer = load_tokenizer(self.settings.model_id)
        halves = {TRAIN: Half(), HELD_OUT: Half()}
        held_out: set[int] = set()
        tokens = tokenised(documents(self.source, self.units[number], self.settings), tokenizer, self.settings)
        for text_print, words in tokens:
            if text_print in self.left_out:
                continue
            half = self.half or half_of(text_print, self.settings)
            halves[half].add(words, self.settings)
            if half == HELD_OUT:
                held_out.add(text_print)
        report: Report = {"number": number, "prints": sorted(held_out)}
        for name, content in halves.items():
            file = f"{name}-{self.source.digest()[:8]}-{number:05d}{SUFFIX}"
            rows = pack(content.parts, self.settings.seq_len, tokenizer.pad)
            digest = write_rows(open_folder(self.folder), file, rows) if len(rows) else None
            report[name] = {
                "file": file,
                "digest": digest,
                "rows": len(rows),
                "documents": content.documents,
                "dropped": content.dropped,
                "cut": content.cut,
                "tokens": sum(min(len(part), self.settings.seq_len) for part in content.parts),
                "predicted": int(((rows & TARGET) != 0).sum()),
                "largest_token": int((rows & TOKEN).max()) if len(rows) else 0,
            }
        return report


def through_ray_data(task: Callable[[int], Report], count: int) -> list[Report]:
    """One Ray task a unit, on any CPU of the cluster. Must be called in a process that has joined it."""
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False

    def write(row: dict[str, Any]) -> dict[str, str]:
        return {"report": json.dumps(task(int(row["id"])))}

    numbers = ray.data.range(count, override_num_blocks=count)
    return [json.loads(row["report"]) for row in numbers.map(write).take_all()]


def prepare(settings: DataSettings, storage: Folder, for_each: ForEach = through_ray_data) -> Folder:
    """The folder with the sequences of --dataset, made unless it is there. Raises TrainingError.

    Called by the driver, before ranks start. Crashes leave files and no manifest; the next call writes them anew.
    """
    source = find_files(settings.dataset)
    validation = (
        find_files(settings.validation_dataset, "--validation_dataset") if settings.validation_dataset else None
    )
    folder = storage / "datasets" / data_key(settings, source, validation)
    if read_manifest(folder) is not None:
        return folder
    started = time.perf_counter()
    with storage_errors(folder):
        folder.make()
    reports: list[Report] = []
    left_out: frozenset[int] = frozenset()
    if validation is not None:
        reports += _run(settings, validation, folder, HELD_OUT, left_out, for_each)
        left_out = frozenset(text_print for report in reports for text_print in report["prints"])
    reports += _run(settings, source, folder, TRAIN if validation else None, left_out, for_each)
    manifest = {"seconds": time.perf_counter() - started, "seq_len": settings.seq_len, **_sum(reports)}
    for half, cause in ((TRAIN, "too much"), (HELD_OUT, "nothing")):
        if not manifest[half]["rows"]:
            raise TrainingError(_no_rows(settings, half, cause, manifest[half]["dropped"]))
    with storage_errors(folder):
        folder.write_json(MANIFEST, manifest)
    return folder


def described(folder: Folder) -> str:
    """One line for people of what prepare() has made."""
    manifest = read_manifest(folder)
    assert manifest is not None
    train, held_out = manifest[TRAIN], manifest[HELD_OUT]
    places = (train["rows"] + held_out["rows"]) * manifest["seq_len"]
    full = (train["tokens"] + held_out["tokens"]) / places
    dropped, cut = (train[name] + held_out[name] for name in ("dropped", "cut"))
    lost = [f"{dropped:,} dropped, with nothing to learn in their first {manifest['seq_len']:,} tokens"] * bool(dropped)
    lost += [f"{cut:,} lost the end of what is to be learnt"] * bool(cut)
    told = (
        f"{train['documents']:,} documents in {train['rows']:,} sequences of {manifest['seq_len']:,} tokens, "
        f"{held_out['documents']:,} held out in {held_out['rows']:,}; {full:.2%} of their places filled"
    )
    return "; ".join([told, *lost])


def data_key(settings: DataSettings, source: Source, validation: Source | None) -> str:
    """Of all that decides which sequences come out, for another run to find them by; told without reading a file.

    So files that were touched or copied have another, and the same sequences: these go by their digest in the manifest.
    """
    paths = [*source.sizes, *(validation.sizes if validation else ())]
    with_fields = not all(path.endswith(TEXT_FILES) for path in paths)
    told = {
        "format": _FORMAT,
        "source": source.digest(),
        "validation": validation.digest() if validation else settings.validation_share,
        "tokenizer": load_tokenizer(settings.model_id).digest(),
        "seq_len": settings.seq_len,
        "dataset_format": settings.dataset_format,
        "text_field": settings.text_field if settings.dataset_format == TEXT and with_fields else None,
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _run(
    settings: DataSettings,
    source: Source,
    folder: Folder,
    half: str | None,
    left_out: frozenset[int],
    for_each: ForEach,
) -> list[Report]:
    units = plan(source, settings)
    task = Task(settings, source, units, str(folder), half, left_out)
    reports = for_each(task, len(units))
    for report in reports:
        if "error" in report:
            raise TrainingError(report["error"])
    return sorted(reports, key=lambda report: int(report["number"]))


def _sum(reports: Sequence[Report]) -> Report:
    total: Report = {}
    for half in (TRAIN, HELD_OUT):
        total[half] = {name: sum(report[half][name] for report in reports) for name in _SUMMED}
        told = [report[half] for report in reports if report[half]["rows"]]
        total[half]["files"] = [[part["file"], part["rows"]] for part in told]
        total[half]["digest"] = hashlib.sha256("".join(part["digest"] for part in told).encode()).hexdigest()
        total[half]["largest_token"] = max((part["largest_token"] for part in told), default=0)
    return total


def _no_rows(settings: DataSettings, half: str, cause: str, dropped: int) -> str:
    if settings.dataset_format == CHAT and dropped:
        part = "to learn from" if half == TRAIN else "held out"
        return f"--seq_len {settings.seq_len}: of the {dropped:,} conversations {part} no answer begins within that"
    if settings.validation_dataset:
        which = settings.dataset if half == TRAIN else settings.validation_dataset
        return f"--{'dataset' if half == TRAIN else 'validation_dataset'} {which}: no document left to learn from"
    return (
        f"--validation_share {settings.validation_share}: of so few documents in --dataset {settings.dataset} "
        f"{cause} falls to the held-out part; change it, or name a --validation_dataset"
    )
