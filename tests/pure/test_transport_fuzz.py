"""Logs damaged at random: nothing raises or takes long, and what must hold of every log holds.

The cases of a seed are the same in every run. A longer hunt, which keeps each log that fails:

    python -m tests.pure.test_transport_fuzz --seconds 600 --seed 1 [--keep DIRECTORY] [--case N]
"""

import argparse
import json
import multiprocessing
import os
import re
import resource
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from random import Random

import pytest

from tests.pure.test_transport_corpus import CORPUS
from tests.support.nccl_damage import contradicted, damaged, fewer, pieces
from workload.nccl import log as nccl_log
from workload.nccl.head import HEAD_PART, TAIL, may_tell, split
from workload.nccl.report import TransportReport
from workload.nccl.rule import judge_report
from workload.verdict import EXPECTATIONS, Value, Wanted

SEED = int(os.environ.get("NCCL_FUZZ_SEED", "1"))
CASES = int(os.environ.get("NCCL_FUZZ_CASES", "8000"))
# CPU seconds for one reading of the largest case: a hundred times what it takes.
_SLOW = 10.0
_MEGABYTES = 600


@cache
def logs() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(CORPUS.glob("*.log")))


def case(seed: int, number: int) -> tuple[bytes, Random]:
    chance = Random(f"{seed}:{number}")
    return damaged(logs(), chance), chance


def read(*chunks: bytes | str) -> TransportReport:
    return nccl_log.read([("job.log", chunks)])


def verdict(report: TransportReport, expect: str) -> Value:
    return judge_report(report, Wanted(expect=expect)).value


def check(log: bytes, chance: Random) -> Value:
    """What holds of every log; the verdict on EFA."""
    began = time.process_time()
    report = read(log)
    values = {expect: verdict(report, expect) for expect in EXPECTATIONS}
    assert time.process_time() - began < _SLOW, "slow"

    for expect in EXPECTATIONS:
        wanted = Wanted(expect=expect, hosts=2, ranks=4, nics=1, gdr=True)
        strict = judge_report(report, wanted)
        assert strict.reasons
        assert all(strict.reasons), "an empty reason"
        assert strict.value != "proven" or values[expect] == "proven", "who wants more gets no better verdict"
    assert values["gloo"] != "proven"
    assert Counter(values.values())["proven"] <= 1, "proven of two transports"
    assert read(*pieces(log, chance, 40)) == report, "where chunks are cut matters"
    assert read(log.decode("utf-8", "surrogateescape")) == report, "text is read otherwise than bytes"
    assert report.lines == log.count(b"\n") + (not log.endswith(b"\n") and log != b"")
    said = json.dumps(report.as_dict())
    assert all(1 <= int(number) <= report.lines for number in re.findall(r'"job\.log:(\d+)"', said)), "a place outside"
    halves = [(f"{name}.log", [half]) for name, half in zip("ab", _halves(log), strict=True)]
    judge_report(nccl_log.read(halves), Wanted(expect="efa"))

    if values["efa"] == "proven":
        for contradiction in contradicted(log, report, chance):
            assert verdict(read(contradiction), "efa") != "proven", "proven in spite of a channel over sockets"
        if len(report.attempts) == 1 and not report.lost.anything and log.endswith(b"\n"):
            assert verdict(read(fewer(log, chance)), "efa") != "refuted", "refuted by lines left out"
    return values["efa"]


def _halves(log: bytes) -> tuple[bytes, bytes]:
    at = log.find(b"\n", len(log) // 2) + 1
    return log[:at], log[at:]


def test_a_few_hundred_damaged_logs() -> None:
    for number in range(200):
        log, chance = case(0, number)
        check(log, chance)


def test_no_line_is_passed_over_that_would_be_read_whatever_stands_around_it() -> None:
    """Else it matters where chunks are cut."""
    log, chance = case(SEED, 2486)  # a rank's mark cut within itself, at the end of a line
    check(log, chance)
    for number in range(150):
        for line in case(1000, number)[0].split(b"\n"):
            rest = split(line, set())[1]
            if rest.strip() and (HEAD_PART.fullmatch(rest) or TAIL.search(rest)):
                assert may_tell(line), line


@pytest.mark.full
def test_thousands_of_damaged_logs_within_a_bound_of_memory() -> None:
    # A process of its own: what other tests have taken is no matter.
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        values, megabytes = pool.submit(_judged, CASES).result()
    assert min(values[value] for value in ("proven", "refuted", "unproven")) > CASES // 50, values
    assert megabytes < _MEGABYTES


def _judged(cases: int) -> tuple[Counter[str], int]:
    """How often each verdict came, and the process's peak of memory."""
    values: Counter[str] = Counter()
    for number in range(cases):
        log, chance = case(SEED, number)
        try:
            values[check(log, chance)] += 1
        except Exception as failure:
            raise AssertionError(f"seed {SEED}, case {number}: {failure!r}") from failure
    return values, _peak_megabytes()


def _peak_megabytes() -> int:
    """Of this process. Linux's ru_maxrss begins with that of the process which started it."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--case", type=int, help="that one only, failing as it does")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="where failing logs are written")
    options = parser.parse_args()
    if options.case is not None:
        print(check(*case(options.seed, options.case)))
        return 0
    until, number, failed = time.monotonic() + options.seconds, 0, 0
    values: Counter[str] = Counter()
    while time.monotonic() < until:
        log, chance = case(options.seed, number)
        try:
            values[check(log, chance)] += 1
        except Exception as failure:
            failed += 1
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / f"{options.seed}-{number}.log").write_bytes(log)
            print(f"seed {options.seed}, case {number}: {type(failure).__name__}: {failure}", flush=True)
        number += 1
    print(f"seed {options.seed}: {number} logs, {failed} failed, {dict(values)}, peak {_peak_megabytes()} MB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
