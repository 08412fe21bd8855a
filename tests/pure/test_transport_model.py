"""Jobs of which the truth is known: whatever was modelled, and however its log came about, the verdict is the truth."""

from dataclasses import replace
from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from tests.pure.test_transport_properties import quick, read
from tests.support.nccl_run import Run, through_ray
from workload.nccl.rule import judge_report
from workload.verdict import Value, Wanted

HOSTS = ("node-a", "node-b", "node-c")
attempts = st.builds(
    Run,
    nccl=st.sampled_from([(2, 18), (2, 20), (2, 22), (2, 26), (2, 27), (2, 29), (2, 30)]),
    ofi=st.sampled_from([(1, 4), (1, 12), (1, 13), (1, 18), (1, 21)]),
    hosts=st.integers(1, 3).map(lambda count: HOSTS[:count]),
    gpus=st.integers(1, 3),
    channels=st.integers(1, 3),
    network=st.sampled_from(["efa", "efa", "efa", "missing", "failed", "socket", "tcp"]),
    connect=st.sampled_from([True, True, True, False]),
    lonely=st.sampled_from([(), (), (), ("node-b",), HOSTS]),
)


def truth(run: Run, expect: str) -> Value:
    """What was chosen is said also where nothing was moved; a provider only by processes that have a plugin."""
    if len(run.hosts) == 1:
        return "unproven"
    names = {run.network_name(rank) for rank in range(run.ranks)}
    wrong = {"Socket"} if expect == "efa" else names - {"Socket"}
    if names & wrong or (expect == "efa" and run.network == "tcp"):
        return "refuted"
    return "proven" if run.connect else "unproven"


def log(run: Run, way: str) -> list[str]:
    """As a launcher would show it."""
    if way == "ray":
        said = [
            [through_ray(process, number=number) + line for line in process.text() if line]
            for number, process in enumerate(run.processes())
        ]
        return [line for turn in zip_longest(*said) for line in turn if line is not None]
    before = {"": "", "timestamp": "[2026-05-03 08:15:07] ", "mpirun": "[1,0]<stdout>:"}[way]
    return [line if line.startswith("NCCL version") else before + line for line in run.text()]


@quick
@given(
    runs=st.lists(attempts, min_size=1, max_size=3),
    way=st.sampled_from(["", "ray", "timestamp", "mpirun"]),
    expect=st.sampled_from(["efa", "socket"]),
)
def test_the_verdict_is_the_truth_about_the_attempt_that_came_last(runs: list[Run], way: str, expect: str) -> None:
    lines: list[str] = []
    for number, run in enumerate(runs):
        lines += log(replace(run, first_pid=70 + 1000 * number, comm_id=f"0xab{number}"), way)
    last = runs[-1]
    verdict = judge_report(read(lines), Wanted(expect=expect))
    assert verdict.value == truth(last, expect), verdict.reasons
    if verdict.value == "proven":
        exact = Wanted(expect=expect, hosts=len(last.hosts), ranks=last.ranks)
        assert judge_report(read(lines), exact).value == "proven"
        more = Wanted(expect=expect, hosts=len(last.hosts) + 1, ranks=last.ranks)
        assert judge_report(read(lines), more).value == "unproven"


@quick
@given(first=attempts, second=attempts, expect=st.sampled_from(["efa", "socket"]))
def test_of_two_at_the_same_time_the_worse_counts_but_for_one_within_a_host(
    first: Run, second: Run, expect: str
) -> None:
    other = replace(second, first_pid=1070, comm_id="0xab1")
    lines = [line for pair in zip_longest(first.text(), other.text()) for line in pair if line is not None]
    spanning = [run for run in (first, second) if len(run.hosts) > 1] or [first]
    truths = [truth(run, expect) for run in spanning]
    worst = min(truths, key=["refuted", "unproven", "proven"].index)
    verdict = judge_report(read(lines), Wanted(expect=expect))
    assert verdict.value == worst, verdict.reasons
