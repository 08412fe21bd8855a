"""What the input costs a training step: python -m benchmarks.data_input [--seq_len 1024] [--rows 8]

Prepares generated text with a tokenizer trained on it, in this one process, then feeds a loop whose step takes as long
as told. Prints one JSON object: tokens prepared per second and core, share of places filled, milliseconds to make a
batch, and milliseconds that the loop waits for one.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from training.data import Dataset
from training.data_settings import DataSettings
from training.feed import Feed
from training.prepare import prepare
from training.storage import LocalFolder
from training.token_files import TokenFile, TokenRows, on_this_node, read_manifest
from training.tokenise import HELD_OUT, TRAIN
from training.tokenizer import load_tokenizer

MEDIAN_WORDS, SPREAD, WORDS = 180, 1.2, 20_000
STEPS = 60


def write_text(file: Path, megabytes: int) -> None:
    """Words of Zipf's frequencies in documents of log-normal lengths, as natural text has both."""
    random = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    words = np.array(["".join(random.choice(letters[:18], size)) for size in random.integers(2, 11, WORDS)])
    with file.open("w") as out:
        while out.tell() < megabytes << 20:
            length = int(random.lognormal(np.log(MEDIAN_WORDS), SPREAD)) + 5
            out.write(json.dumps({"text": " ".join(words[np.minimum(random.zipf(1.3, length), WORDS) - 1])}) + "\n")


def train_tokenizer(file: Path, directory: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=16_000, special_tokens=["<end>"], initial_alphabet=alphabet)
    with file.open() as lines:
        some = (json.loads(line)["text"] for line, _ in zip(lines, range(2000), strict=False))
        tokenizer.train_from_iterator(some, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(directory)


def measure_feed(dataset: Dataset, rows: int, step_ms: float) -> dict[str, float]:
    made = []
    for step in range(STEPS):
        started = time.perf_counter()
        dataset.train_batch(step * rows, 0, 0, 1, rows)
        made.append((time.perf_counter() - started) * 1000)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    waited = []
    with Feed(
        dataset, consumed=0, steps=STEPS, micro_steps=1, rank=0, world_size=1, rows=rows, device=device
    ) as batches:
        for _ in range(STEPS):
            before = batches.waited_s
            batches.next()
            waited.append((batches.waited_s - before) * 1000)
            time.sleep(step_ms / 1000)
    return {
        "batch_ms_median": statistics.median(made),
        "batch_ms_max": max(made),
        "wait_ms_first": waited[0],
        "wait_ms_median": statistics.median(waited[1:]),
        "wait_ms_max": max(waited[1:]),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seq_len", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--step_ms", type=float, default=50.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_text(folder / "text.jsonl", arguments.megabytes)
        train_tokenizer(folder / "text.jsonl", folder / "model")
        settings = DataSettings(
            model_id=str(folder / "model"), dataset=str(folder / "text.jsonl"), seq_len=arguments.seq_len, seed=1
        )
        load_tokenizer(settings.model_id)
        started = time.process_time()
        storage = LocalFolder(folder)
        prepared = prepare(settings, storage, lambda task, count: [task(number) for number in range(count)])
        seconds = time.process_time() - started
        manifest = read_manifest(prepared)
        assert manifest is not None
        halves = [manifest[half] for half in (TRAIN, HELD_OUT)]
        tokens, rows = (sum(half[name] for half in halves) for name in ("tokens", "rows"))
        train, held_out = (
            TokenRows(on_this_node(prepared), [TokenFile(*file) for file in half["files"]], arguments.seq_len)
            for half in halves
        )
        dataset = Dataset(train, held_out, arguments.seq_len, 1, True, prepared.name)
        figures = {
            "tokens": tokens,
            "documents": sum(half["documents"] for half in halves),
            "prepared_tokens_per_core_second": tokens / seconds,
            "filled": tokens / (rows * arguments.seq_len),
            **measure_feed(dataset, arguments.rows, arguments.step_ms),
        }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
