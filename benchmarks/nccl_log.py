"""How fast `efactl transport` reads a job's log, beside `grep -c NCCL` on the same file, and what memory that takes.

    python -m benchmarks.nccl_log [--megabytes 200] [--rounds 3] [--stream-megabytes 2048]

The log is what Ray makes of a run of 4 hosts x 8 GPUs: prefixes with colours, the ranks' NCCL lines in turns, then
their training output, and after 600 steps another communicator. Both read it in turn in each round, from the page
cache, in CPU time. A log of nothing but NCCL's lines is read too. Memory is the peak of a process of its own that
reads a stream of such text: 50 MB, then the long one.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from tests.support.nccl_run import Run, through_ray
from workload.nccl.log import NcclLog
from workload.nccl.rule import judge_report
from workload.verdict import Wanted

MEGABYTE = 1_000_000
_CHUNK_BYTES = 1 << 20
_RANKS_LINES = (
    "{{'step': {step}, 'loss': 7.{step:04d}, 'tokens_per_second': 18234.5, 'memory_gb': 38.2, 'grad_norm': 1.0312}}",
    "[rank{rank}]: 2026-05-03 08:15:07,123 INFO train.py:212 -- step {step} took 412 ms, data 3 ms, checkpoint no",
    "step {step}: loss 7.{step:04d} lr 3.0e-04 dt 412.11 ms tok/s 18234.5 (rank {rank}, epoch 0, shard 17 of 64)",
)


def block(number: int) -> bytes:
    """Some megabytes: the lines of a communicator's beginning, then what the ranks print over 600 steps."""
    lines = nccl_lines(number)
    prefixes = [through_ray(process, number=index) for index, process in enumerate(run(number).processes())]
    for step in range(600):
        for rank, prefix in enumerate(prefixes):
            lines.append(prefix + _RANKS_LINES[step % len(_RANKS_LINES)].format(step=step, rank=rank))
    return ("\n".join(lines) + "\n").encode()


def nccl_lines(number: int) -> list[str]:
    processes = run(number).processes()
    said = [[through_ray(one, number=index) + line for line in one.text()] for index, one in enumerate(processes)]
    return [line for turn in zip_longest(*said) for line in turn if line is not None]


def run(number: int) -> Run:
    hosts = ("node-a", "node-b", "node-c", "node-d")
    return Run(hosts=hosts, gpus=8, channels=4, comm_id=f"0x{0xFC6023AFED4EB000 + number:x}")


def stream(megabytes: int) -> Iterator[bytes]:
    """Four blocks over and over, so that the text costs less than reading it."""
    blocks = [block(number) for number in range(4)]
    left = megabytes * MEGABYTE
    while left > 0:
        for one in blocks:
            yield from (one[at : at + _CHUNK_BYTES] for at in range(0, len(one), _CHUNK_BYTES))
            left -= len(one)


def read(file: Path) -> float:
    """Seconds of CPU, verdict included."""
    log = NcclLog()
    began = time.process_time()
    with file.open("rb") as opened:
        log.read(file.name, iter(lambda: opened.read(_CHUNK_BYTES), b""))
    verdict = judge_report(log.report(), Wanted(expect="efa", hosts=4, ranks=32))
    spent = time.process_time() - began
    assert verdict.value == "proven", verdict.reasons
    return spent


def grep(file: Path) -> tuple[float, int]:
    """Seconds of CPU, and the lines counted."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    counted = subprocess.run(["grep", "-c", "NCCL", file], capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(counted)


def compare(name: str, file: Path, rounds: int) -> None:
    size = file.stat().st_size / MEGABYTE
    ours, theirs, counted = [], [], 0
    for _ in range(rounds):
        spent, counted = grep(file)
        theirs.append(spent)
        ours.append(read(file))
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(
        f"{name}, {size:.0f} MB with {counted} lines of NCCL: {size / mine:.0f} MB/s on one core "
        f"({size / max(ours):.0f}-{size / min(ours):.0f}); grep -c {size / other:.0f} MB/s, "
        f"{mine / other:.0f} times faster",
        flush=True,
    )


def peak_megabytes(megabytes: int) -> float:
    command = [sys.executable, "-m", "benchmarks.nccl_log", "--peak", str(megabytes)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def print_peak(megabytes: int) -> None:
    log = NcclLog()
    log.read("stream", stream(megabytes))
    assert judge_report(log.report(), Wanted(expect="efa")).value == "proven"
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stream-megabytes", type=int, default=2048, help="0: no measure of memory")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.peak:
        print_peak(asked.peak)
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file = Path(folder) / "job.log"
        with file.open("wb") as written:
            for chunk in stream(asked.megabytes):
                written.write(chunk)
        compare("a job's log", file, asked.rounds)
        file.write_text("\n".join(line for number in range(20) for line in nccl_lines(number)) + "\n")
        compare("nothing but NCCL's lines", file, asked.rounds)
    if asked.stream_megabytes:
        short, long = peak_megabytes(50), peak_megabytes(asked.stream_megabytes)
        print(f"peak memory: {short:.0f} MB over 50 MB, {long:.0f} MB over {asked.stream_megabytes} MB")


if __name__ == "__main__":
    main()
