"""How fast `efactl transport` reads a job's log, beside `grep -c NCCL` on the same file, and what memory that takes.

    python -m benchmarks.nccl_log [--megabytes 200] [--rounds 3] [--stream-megabytes 2048]

The log is what Ray makes of a run of 4 hosts x 8 GPUs: prefixes with colours, each rank's NCCL lines, then training output
of all ranks and now and then a new communicator's lines. Both read it in turn in each round, after it was read once. Memory
is the peak of a process of its own that reads a stream of the same text, 50 MB and then the long one.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.nccl_run import Run, through_ray
from workload.nccl_log import NcclLog
from workload.transport_attempt import Wanted
from workload.transport_rule import judge_report

MEGABYTE = 1_000_000
_CHUNK_BYTES = 1 << 20
_RANKS_LINES = (
    "{{'step': {step}, 'loss': 7.{step:04d}, 'tokens_per_second': 18234.5, 'memory_gb': 38.2, 'grad_norm': 1.0312}}",
    "[rank{rank}]: 2026-05-03 08:15:07,123 INFO train.py:212 -- step {step} took 412 ms, data 3 ms, checkpoint no",
    "step {step}: loss 7.{step:04d} lr 3.0e-04 dt 412.11 ms tok/s 18234.5 (rank {rank}, epoch 0, shard 17 of 64)",
)


def block(number: int) -> bytes:
    """Some megabytes: one run's lines of NCCL, then what its ranks print; each block is the run's next communicator."""
    hosts = ("node-a", "node-b", "node-c", "node-d")
    run = Run(hosts=hosts, gpus=8, channels=4, comm_id=f"0x{0xFC6023AFED4EB000 + number:x}")
    ranks = [(through_ray(process, number=index), process) for index, process in enumerate(run.processes())]
    lines = [prefix + line for prefix, process in ranks for line in process.text()]
    for step in range(600):
        for rank, (prefix, _) in enumerate(ranks):
            lines.append(prefix + _RANKS_LINES[step % len(_RANKS_LINES)].format(step=step, rank=rank))
    return ("\n".join(lines) + "\n").encode()


def stream(megabytes: int) -> Iterator[bytes]:
    """A quarter of the blocks are made anew, so that the text costs less than reading it."""
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


def grep(file: Path) -> float:
    """Seconds of CPU of `grep -c`, and what it counts against a count of our own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    counted = subprocess.run(["grep", "-c", "NCCL", file], capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert int(counted) > 0
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
    ours, theirs = [], []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file = Path(folder) / "job.log"
        with file.open("wb") as written:
            for chunk in stream(asked.megabytes):
                written.write(chunk)
        size = file.stat().st_size / MEGABYTE
        text = file.read_bytes()
        print(f"{size:.0f} MB, {text.count(b'NCCL ') / text.count(b'.') if False else text.count(b' NCCL ')} NCCL lines")
        del text
        for _ in range(asked.rounds):
            theirs.append(grep(file))
            ours.append(read(file))
            print(f"read {size / ours[-1]:.0f} MB/s, grep -c {size / theirs[-1]:.0f} MB/s of CPU time", flush=True)
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"median: {size / statistics.median(ours):.0f} MB/s on one core; {ratio:.1f} times grep -c")
    if asked.stream_megabytes:
        short, long = peak_megabytes(50), peak_megabytes(asked.stream_megabytes)
        print(f"peak memory: {short:.0f} MB over 50 MB, {long:.0f} MB over {asked.stream_megabytes} MB")


if __name__ == "__main__":
    main()
