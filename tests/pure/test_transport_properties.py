"""What holds for every log: order, pieces and prefixes do not matter; no line less or more turns a verdict wrongly.

Derandomized: the same examples, and so the same `chance`, in every run.
"""

import functools
import re
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pure.test_transport_corpus import CASES, CORPUS
from tests.support.nccl_damage import contradicted
from tests.support.nccl_run import Run, through_ray
from workload.nccl import log as nccl_log
from workload.nccl.report import TransportReport
from workload.nccl.rule import judge_report
from workload.verdict import Wanted

quick = settings(
    max_examples=120,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
EFA = Wanted(expect="efa")
# Those of an attempt of its own, as a log without retries has.
PROVEN = sorted(
    case["files"][0]
    for case in CASES
    if case["verdict"] == "proven" and case["expect"] == "efa" and len(case["files"]) == 1
    if not re.match("retry|two-jobs|evaluation", case["files"][0])
)
_PLACES = ("place", "first", "last", "started", "completed", "plugin_missing", "at", "files", "lines", "nccl_lines")

chances = st.integers(0, 2**32).map(Random)
runs = st.builds(
    Run,
    nccl=st.sampled_from([(2, 18), (2, 20), (2, 21), (2, 24), (2, 27), (2, 29), (2, 30)]),
    ofi=st.sampled_from([(1, 5), (1, 12), (1, 13), (1, 19)]),
    network=st.sampled_from(["efa", "efa", "missing", "failed", "tcp"]),
    fabric=st.sampled_from(["efa", "efa-direct"]),
    gdr=st.sampled_from(["", "/GDRDMA(PCI)", "(1)/GDRDMA/Shared"]),
    gpus=st.sampled_from([1, 2]),
)


def read(lines: list[str]) -> TransportReport:
    return nccl_log.read([("job.log", ["\n".join(lines) + "\n"])])


def said(report: TransportReport) -> Any:
    """The report but for where its lines stand."""
    plain = _placeless(report.as_dict())
    plain["warnings"].sort(key=str)
    return plain


def _placeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _placeless(one) for key, one in value.items() if key not in _PLACES}
    return [_placeless(one) for one in value] if isinstance(value, list) else value


def of_ray(run: Run) -> list[list[str]]:
    return [[through_ray(one, number=i) + line for line in one.text()] for i, one in enumerate(run.processes())]


def woven(streams: list[list[str]], chance: Random) -> list[str]:
    """One of all orders that keep each stream's own."""
    turns = [index for index, stream in enumerate(streams) for _ in stream]
    chance.shuffle(turns)
    iterators = [iter(stream) for stream in streams]
    return [next(iterators[index]) for index in turns]


@functools.cache
def lines_of(file: str) -> tuple[str, ...]:
    return tuple((CORPUS / file).read_bytes().decode("utf-8", "surrogateescape").split("\n")[:-1])


@quick
@given(run=runs, chance=chances)
def test_the_order_of_lines_across_processes_does_not_matter(run: Run, chance: Random) -> None:
    streams = [[line for line in one.text() if not line.startswith("NCCL version")] for one in run.processes()]
    straight = read([line for stream in streams for line in stream])
    assert said(read(woven(streams, chance))) == said(straight)


@quick
@given(run=runs, chance=chances, marked=st.booleans())
def test_pieces_of_lines_make_the_report_of_whole_lines(run: Run, chance: Random, marked: bool) -> None:
    """Also with the mark that a job of this project puts before each line."""
    streams = of_ray(run)
    pieces = []
    for number, process in enumerate(run.processes()):
        prefix = through_ray(process, number=number)
        mark = f"[nccl rank {number} #{chance.getrandbits(32):08x}] " if marked else ""
        stream: list[str] = []
        for text in process.text():
            line = text if text.startswith("NCCL version") else mark + text
            count = 0 if line.startswith("NCCL version") else chance.choice([0, 0, 1, 1, 2, 3])
            bounds = [0, *sorted(chance.sample(range(1, len(line)), count)), len(line)]
            stream += [prefix + line[begin:end] for begin, end in pairwise(bounds)]
        pieces.append(stream)
    assert said(read(woven(pieces, chance))) == said(read([line for stream in streams for line in stream]))


@quick
@given(run=runs, data=st.data())
def test_what_stands_before_a_line_does_not_matter(run: Run, data: st.DataObject) -> None:
    letters = st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x85\x7f")
    noise = st.tuples(st.text(letters, max_size=30), st.sampled_from([" ", "] ", "|", ">", "\t", "\r"])).map("".join)
    lines = [line for line in run.text() if not line.startswith("NCCL version")]
    assert said(read([data.draw(noise) + line for line in lines])) == said(read(lines))


FOREIGN = (
    "",
    "step 12 loss 2.31 tok/s 18234.5",
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in main',
    "node-a",
    "10.0.1.9:8080",
    "INFO:root:NCCL is great",
    "NCCL_DEBUG=INFO",
    "\r 10%|#         | 1/10 [00:01<00:09]",
    '{"loss": 2.3}',
    "\x1b[36m(RayTrainWorker pid=70, ip=10.0.1.9)\x1b[0m loss 2.3",
    "(raylet) spilled 3 objects",
    "(pid=gcs_server) via nothing",
    "[rank0]: [W503 socket.cpp:1] retrying",
    "node-a:70:70 [0] other INFO Using network Socket",
)
WHOLE = [file for file in PROVEN if "piece" not in file and not re.match("glued|progress|undecodable", file)]


@quick
@given(file=st.sampled_from(WHOLE), chance=chances)
def test_lines_of_others_between_do_not_matter(file: str, chance: Random) -> None:
    lines = list(lines_of(file))
    mixed = [one for line in lines for one in [*chance.sample(FOREIGN, chance.choice([0, 0, 1, 3])), line]]
    assert said(read(mixed)) == said(read(lines))


@quick
@given(file=st.sampled_from(PROVEN), data=st.data())
def test_where_chunks_are_cut_does_not_matter(file: str, data: st.DataObject) -> None:
    text = (CORPUS / file).read_bytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    bounds = [0, *cuts, len(text)]
    chunks = [text[begin:end] for begin, end in pairwise(bounds)]
    assert nccl_log.read([(file, chunks)]) == nccl_log.read([(file, [text])])


CONTRADICTIONS = {
    "a channel over sockets": "NCCL INFO Channel 09/0 : {rank}[{device}] -> {other}[{peer}] [send] via NET/Socket/0",
    "its other end": "NCCL INFO Channel 09/0 : {other}[{peer}] -> {rank}[{device}] [receive] via NET/Socket/0",
    "a channel over InfiniBand": "NCCL INFO Channel 09/0 : {rank}[{device}] -> {other}[{peer}] [send] via NET/IB/0",
    "sockets chosen": "NCCL INFO Using network Socket",
    "another provider": "NCCL INFO NET/OFI Selected provider is tcp, fabric is 10.0.0.0/16 (found 1 nics)",
    "a failure": "misc/init.cc:12 NCCL WARN NET/OFI aws-ofi-nccl initialization failed",
    "folded lines": "NCCL INFO P2P Chunksize set to 131072 [repeated 2x across cluster]",
    "a piece": "NCCL INFO Channel 09/0 : {rank}[{device}] -> {other}[{peer}] [se",
    "words not known": "NCCL INFO Channel 09/0 : {rank}[{device}] -> {other}[{peer}] [send] via NET/?",
}


@quick
@given(
    what=st.sampled_from(sorted(CONTRADICTIONS)),
    nccl=st.sampled_from([(2, 20), (2, 26), (2, 29)]),
    rank=st.integers(0, 3),
    step=st.integers(1, 3),
    data=st.data(),
)
def test_a_contradiction_in_the_attempt_that_counts_never_leaves_it_proven(
    what: str, nccl: tuple[int, int], rank: int, step: int, data: st.DataObject
) -> None:
    run = Run(nccl=nccl)
    lines = run.text()
    process, other = run.processes()[rank], (rank + step) % run.ranks
    text = CONTRADICTIONS[what].format(rank=rank, device=process.device, other=other, peer=other % run.gpus)
    at = data.draw(st.integers(0, len(lines)))
    line = f"{process.host}:{process.pid}:{process.pid} [{process.device}] {text}"
    assert judge_report(read(lines), EFA).value == "proven"
    assert judge_report(read([*lines[:at], line, *lines[at:]]), EFA).value != "proven"


@pytest.mark.parametrize("file", PROVEN)
def test_each_proven_log_with_a_channel_or_a_network_of_sockets_more_is_proven_no_longer(file: str) -> None:
    log, chance = (CORPUS / file).read_bytes(), Random(file)
    report = nccl_log.read([(file, [log])])
    for _ in range(3):
        for contradiction in contradicted(log, report, chance):
            assert judge_report(nccl_log.read([(file, [contradiction])]), EFA).value != "proven"


@quick
@given(file=st.sampled_from(PROVEN), share=st.sampled_from([0.02, 0.1, 0.3, 0.6]), chance=chances)
def test_lines_less_never_refute_what_was_proven(file: str, share: float, chance: Random) -> None:
    kept = [line for line in lines_of(file) if chance.random() > share]
    verdict = judge_report(read(kept), EFA)
    assert verdict.value != "refuted", verdict.reasons


@quick
@given(st.lists(st.one_of(st.binary(max_size=200), st.sampled_from([b"a:1:1 [0] NCCL INFO ", b"\n", b" NCCL WARN "]))))
def test_no_bytes_whatever_raise(chunks: list[bytes]) -> None:
    judge_report(nccl_log.read([("any", chunks)]), EFA)


@quick
@given(file=st.sampled_from(sorted(path.name for path in CORPUS.glob("*.log"))), data=st.data())
def test_no_damage_to_a_log_raises(file: str, data: st.DataObject) -> None:
    text = bytearray((CORPUS / file).read_bytes() or b"x")
    for _ in range(data.draw(st.integers(1, 30))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4)) or b"0"
    judge_report(nccl_log.read([(file, [bytes(text)])]), EFA)


def test_the_corpus_has_logs_to_draw_from() -> None:
    assert len(PROVEN) > 40
    assert Path(CORPUS).is_dir()
