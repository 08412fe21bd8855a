"""From bytes to lines: places, what is passed over, pieces that stand far apart, folded lines, the end of a file."""

import pytest

from tests.support.nccl_run import Run
from workload.nccl import log
from workload.nccl.records import LONGEST_LINE
from workload.nccl.report import Place, TransportReport

RAY = "(RayTrainWorker pid={}, ip=10.0.1.9) "
HEAD = "a:1:1 [0] NCCL INFO "
FOREIGN = "step 12: loss 2.31 lr 3.0e-04\n"
STRETCH = FOREIGN * (LONGEST_LINE * 2 // len(FOREIGN))


def read(*chunks: str | bytes) -> TransportReport:
    return log.read([("job.log", chunks)])


def networks(report: TransportReport) -> list[tuple[str, Place]]:
    return [(one.name, one.place) for at in report.attempts for process in at.processes for one in process.networks]


def test_places_count_the_lines_that_were_passed_over() -> None:
    lines = STRETCH.count("\n")
    report = read(f"{STRETCH}{HEAD}Using network Socket\n{STRETCH}\n{HEAD}Using network IB\n{STRETCH}")
    assert networks(report) == [("Socket", Place("job.log", lines + 1)), ("IB", Place("job.log", 2 * lines + 3))]
    assert (report.lines, report.nccl_lines) == (3 * lines + 3, 2)


def test_the_lines_of_several_files_add_up() -> None:
    log_of_two = log.NcclLog()
    for name in ("a.log", "b.log"):
        log_of_two.read(name, [f"x\n{HEAD}Using network Socket\n"])
    report = log_of_two.report()
    assert (report.files, report.lines, report.nccl_lines) == (("a.log", "b.log"), 4, 2)


def test_the_rest_of_a_line_may_stand_far_from_its_beginning_but_not_too_far() -> None:
    ray = RAY.format(1)
    begin, rest = f"{ray}{HEAD}Using netw\n", f"{ray}ork Socket\n"
    other = RAY.format(2) + "step 3\n"
    assert networks(read(begin + STRETCH + rest)) == [("Socket", Place("job.log", 1))]
    near = read(begin + other * 9_000 + rest)
    assert (networks(near), near.lost.anything) == ([("Socket", Place("job.log", 1))], False)
    far = read(begin + other * 20_000 + rest)
    assert (networks(far), far.lost.fragments, far.lost.at) == ([], 1, (("fragments", Place("job.log", 1)),))


@pytest.mark.parametrize("rest", ["ork Socket", f"{HEAD}Using network Socket", "a:1:1 [0] NCCL INFO x", "x"])
@pytest.mark.parametrize("begin", [f"{HEAD}Using netw", "x", "a:1"])
def test_how_far_the_rest_of_a_line_may_stand_is_told_in_lines_wherever_chunks_are_cut(begin: str, rest: str) -> None:
    """Found by fuzzing (seed 1, case 4648). All of it is less than is looked at together."""
    for ray in ("", RAY.format(1)):
        lines = [f"{ray}{begin}\n", *["\n"] * 10_001, f"{ray}{rest}\n"]
        for text in (lines, [lines[0] + "\n", *lines]):
            assert read("".join(text)) == read(*text[:10_002], "".join(text[10_002:])) == read(*text)
        assert read("".join(lines)).lost.fragments == begin.endswith("netw")
        if begin.endswith("netw") and rest == "ork Socket":
            assert not read(lines[0] + "\n" * 9_999 + lines[-1]).lost.anything


@pytest.mark.parametrize(
    "rest",
    [
        "0 : 3[3] -> 4[0] [receive] via NET/Socket/0",
        "4 cudaDev 0 nvmlDev 0 busId 38000 commId 0xfc60 - Init COMPLETE",
        "FO Using network Socket",
        "NFO NET/OFI Selected Provider is efa",
        "NET/OFI Selected provider is efa, fabric is efa (found 1 nics)",
    ],
)
def test_the_end_of_a_line_without_its_beginning_is_counted_as_lost(rest: str) -> None:
    report = read(f"{STRETCH}{RAY.format(1)}{rest}\n{STRETCH}{HEAD}x\n")
    assert (report.lost.fragments, report.lost.at[0][1].line) == (1, STRETCH.count("\n") + 1)


def test_folded_lines_are_counted_where_nccl_spoke_and_placed_at_the_first() -> None:
    mark = "\x1b[32m [repeated 3x across cluster]\x1b[0m"
    folded = f"{STRETCH}x{mark}\n{HEAD}Using network Socket{mark} (Ray deduplicates logs)\n{STRETCH}y{mark}"
    report = read(folded)
    assert (report.lost.deduplicated, report.lost.at) == (
        9,
        (("deduplicated", Place("job.log", STRETCH.count("\n") + 1)),),
    )
    assert [name for name, _ in networks(report)] == ["Socket"]
    assert read(f"{STRETCH}x{mark}\n").lost.deduplicated == 0
    assert read(f"{HEAD}x\n").lost.deduplicated == 0


def test_a_file_that_ends_within_a_line_is_cut_there() -> None:
    whole = "\n".join(Run(gpus=1).text())
    assert not read(whole).lost.anything
    cut = read(f"{whole}\n{HEAD}Using netw")
    assert (cut.lost.truncated, cut.lost.fragments) == (1, 0)
    assert cut.lost.at == (("truncated", Place("job.log", whole.count("\n") + 2)),)
    complete = read(f"{whole}\n{HEAD}Using netw\n")
    assert (complete.lost.truncated, complete.lost.fragments) == (0, 1)


@pytest.mark.parametrize("level", ["INFO", "misc/socket.cc:441 NCCL WARN", "x.cc:3 (f) NCCL ATTN"])
def test_each_level_is_read(level: str) -> None:
    line = f"a:1:1 [0] {level if 'NCCL' in level else 'NCCL ' + level} Failed to initialize any NET plugin\n"
    report = read(line, line)
    assert [one.plugin for one in report.attempts[0].processes[0].failures] == ["any"]
    assert report.warned == (0 if level == "INFO" else 2)
    assert len(report.warnings) == report.warned


def test_text_with_surrogates_of_any_kind_is_read() -> None:
    line = f"{HEAD}Using network Socket\n"
    for odd in ("\udcff", "\ud800", "\udcff\ud800\udfff"):
        assert [name for name, _ in networks(read(odd + line, f"{HEAD}x{odd}\n"))] == ["Socket"]


def test_of_a_line_too_long_it_is_known_whether_nccl_is_in_it_also_across_chunks() -> None:
    for word, lost in (("NCCL", 1), ("NC-CL", 0)):
        long = ["y" * LONGEST_LINE] * 3
        report = read(f"{HEAD}Using network Socket\n", *long, word[:2], word[2:], "\n", f"{HEAD}Using network IB")
        assert (report.lines, report.lost.too_long) == (3, lost)
        assert [name for name, _ in networks(report)] == ["Socket", "IB"]
