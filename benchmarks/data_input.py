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

import torch

from benchmarks.parts.token_data import TokenData
from training.data import Dataset
from training.feed import Feed

STEPS = 60


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
        data = TokenData(Path(temporary), arguments.seq_len)
        data.write(arguments.megabytes)
        started = time.process_time()
        halves = data.prepare().values()
        seconds = time.process_time() - started
        tokens, rows = (sum(half[name] for half in halves) for name in ("tokens", "rows"))
        figures = {
            "tokens": tokens,
            "documents": sum(half["documents"] for half in halves),
            "prepared_tokens_per_core_second": tokens / seconds,
            "filled": tokens / (rows * arguments.seq_len),
            **measure_feed(data.open(), arguments.rows, arguments.step_ms),
        }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
