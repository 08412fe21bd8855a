"""What holds for every job's log: no line less or more, marked or not, makes of it a proof that it is not.

Derandomized: the same examples, and so the same `chance`, in every run.
"""

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pure.test_transport_properties import CONTRADICTIONS, chances, woven
from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from workload.transport import judge
from workload.transport_evidence import collect
from workload.verdict import Verdict, Wanted

quick = settings(
    max_examples=60, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
EFA = Wanted(expect="efa")
MARKED = MarkedRun(run=Run(gpus=1))
RECORD = MARKED.record()
LOG = MARKED.log()
marked_lines = [at for at, line in enumerate(LOG) if "[nccl rank " in line]
versions = st.sampled_from([(2, 20), (2, 26), (2, 29)])


def evidence(record: dict[str, Any], lines: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "job.log")
        log.write_text("\n".join(lines) + "\n")
        return collect(record, log)


def verdict(lines: list[str]) -> Verdict:
    return judge(evidence(RECORD, lines), EFA)


def contradiction(what: str, run: Run, rank: int, step: int) -> str:
    process, other = run.processes()[rank], (rank + step) % run.ranks
    text = CONTRADICTIONS[what].format(rank=rank, device=process.device, other=other, peer=other % run.gpus)
    return f"{process.host}:{process.pid}:{process.pid} [{process.device}] {text}"


def test_the_log_itself_is_a_proof() -> None:
    assert verdict(LOG).value == "proven"
    assert len(marked_lines) > 40


@pytest.mark.parametrize("at", marked_lines)
def test_without_any_one_of_the_marked_lines_nothing_is_proven(at: int) -> None:
    found = verdict(LOG[:at] + LOG[at + 1 :])
    assert found.value == "unproven"
    assert any(reason.startswith("delivery: rank") for reason in found.reasons)


@quick
@given(share=st.sampled_from([0.05, 0.3, 0.7, 0.99]), chance=chances)
def test_without_several_of_them_nothing_is_proven_and_nothing_refuted(share: float, chance: Random) -> None:
    kept = [line for at, line in enumerate(LOG) if at not in marked_lines or chance.random() > share]
    assert verdict(kept).value == ("proven" if kept == LOG else "unproven")


@quick
@given(nccl=versions, chance=chances)
def test_the_order_of_lines_across_ranks_does_not_matter(nccl: tuple[int, int], chance: Random) -> None:
    marked = MarkedRun(run=Run(nccl=nccl))
    found = judge(evidence(marked.record(), woven(marked.streams(), chance)), EFA)
    assert found == judge(evidence(marked.record(), marked.log()), EFA)
    assert found.value == "proven"


@quick
@given(chance=chances, rank=st.integers(0, 1))
def test_lines_of_a_rank_in_another_order_are_not_those_it_handed_back(chance: Random, rank: int) -> None:
    streams = MARKED.streams()
    chance.shuffle(streams[rank])
    assert verdict([line for stream in streams for line in stream]).value != "proven"


@quick
@given(
    what=st.sampled_from(sorted(CONTRADICTIONS)),
    rank=st.integers(0, 1),
    at=st.integers(0, len(LOG)),
    before=st.sampled_from(["", "(RayTrainWorker pid=70) ", "[nccl rank 0 #00000000] ", "(x pid=71) [nccl rank 1 ] "]),
)
def test_lines_outside_the_marks_change_nothing(what: str, rank: int, at: int, before: str) -> None:
    line = before + contradiction(what, MARKED.run, rank, 1)
    assert verdict([*LOG[:at], line, *LOG[at:]]) == verdict(LOG)


@quick
@given(
    what=st.sampled_from(sorted(CONTRADICTIONS)), rank=st.integers(0, 1), under=st.integers(0, 1), at=st.integers(0, 60)
)
def test_a_marked_line_that_contradicts_never_leaves_it_proven(what: str, rank: int, under: int, at: int) -> None:
    line = MARKED.mark(under) + contradiction(what, MARKED.run, rank, 1)
    assert verdict([*LOG[:at], line, *LOG[at:]]).value != "proven"


@quick
@given(
    what=st.sampled_from(sorted(CONTRADICTIONS)),
    nccl=versions,
    rank=st.integers(0, 3),
    step=st.integers(1, 3),
    data=st.data(),
)
def test_a_contradiction_that_a_rank_itself_hands_back_never_leaves_it_proven(
    what: str, nccl: tuple[int, int], rank: int, step: int, data: st.DataObject
) -> None:
    run = Run(nccl=nccl)
    at = data.draw(st.integers(0, len(run.processes()[rank].lines)))
    marked = MarkedRun(run=run, besides=(rank, at, contradiction(what, run, rank, step)))
    found = judge(evidence(marked.record(), marked.log()), EFA)
    assert found.value != "proven"
    assert not any(reason.startswith("delivery") for reason in found.reasons), "all was delivered"


@quick
@given(data=st.data())
def test_no_damage_to_a_log_raises(data: st.DataObject) -> None:
    text = bytearray("\n".join(LOG).encode())
    for _ in range(data.draw(st.integers(1, 30))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4)) or b"0"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "job.log")
        log.write_bytes(bytes(text))
        found = collect(RECORD, log)
    json.dumps(found, allow_nan=False)
    judge(found, EFA)
