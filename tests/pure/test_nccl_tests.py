"""Reading nccl-tests' table out of any log."""

from pathlib import Path

import pytest

from workload.nccl_tests import Figures, Table, parse

CORPUS = Path(__file__).parents[1] / "corpus" / "nccl_tests"
HEADER = """\
# nccl-tests version 2.19.6 nccl-headers=22903 nccl-library=22903
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 1024(factor) warmup iters: 1 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid   1311 on     node-a device  0 [0000:38:00] NVIDIA L4
#  Rank  1 Group  0 Pid    977 on     node-b device  0 [0000:38:00] NVIDIA L4
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
ROWS = """\
     1048576        262144     float     sum      -1   351.20    2.99    2.99       0   349.87    3.00    3.00       0
  1073741824     268435456     float     sum      -1   122817    8.74    8.74       0   123004    8.73    8.73       0
"""
FOOTER = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.86505
#
# Collective test concluded: all_reduce_perf
"""
WHOLE = HEADER + ROWS + FOOTER


def read(text: str) -> Table:
    return parse(text.splitlines(keepends=True))


def only(text: str) -> Figures:
    """The out-of-place figures of a text's one row."""
    (row,) = read(text).rows
    assert row.out_of_place is not None
    return row.out_of_place


def test_a_whole_table_is_read_by_position() -> None:
    table = read(WHOLE)
    assert (table.out_of_bounds, table.passed, table.unread) == (0, True, ())
    assert [(row.size, row.count, row.type, row.op, row.root) for row in table.rows] == [
        (1_048_576, 262_144, "float", "sum", -1),
        (1_073_741_824, 268_435_456, "float", "sum", -1),
    ]
    large = table.rows[1]
    assert large.out_of_place == Figures(time_us=122_817, algbw_gbs=8.74, busbw_gbs=8.74, wrong=0)
    assert large.in_place == Figures(time_us=123_004, algbw_gbs=8.73, busbw_gbs=8.73, wrong=0)


def test_the_largest_size_counts_and_not_the_mean_that_small_ones_pull_down() -> None:
    largest = read(WHOLE).largest
    assert largest is not None
    assert (largest.size, largest.busbw_gbs, largest.wrong) == (1_073_741_824, 8.73, 0)


def test_where_the_largest_size_was_measured_again_the_slowest_counts() -> None:
    again = ROWS.splitlines()[1].replace("8.74", "6.10").replace("8.73", "6.20")
    for text in (f"{ROWS}{again}\n", f"{again}\n{ROWS}"):
        largest = read(text).largest
        assert largest is not None
        assert largest.busbw_gbs == 6.1


@pytest.mark.parametrize(
    "prefix",
    [
        "\x1b[36m(RayTrainWorker pid=951, ip=10.0.1.9)\x1b[0m ",
        "(RayTrainWorker pid=951) ",
        "[1,0]<stdout>:",
        "[pod/trainer-0/main] ",
        "0: ",
        "2026-07-09T16:03:21.123456789Z ",
        "[2026-07-09 16:03:21] node-a: ",
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_no_launcher_s_prefix_and_no_line_ending_hides_a_row(prefix: str, ending: str) -> None:
    table = parse(prefix + line + ending for line in WHOLE.splitlines())
    assert table == read(WHOLE)


def test_figures_in_scientific_notation_are_figures() -> None:
    row = "  1073741824     268435456     float     sum      -1  1.2e+07    0.09    0.16   1e+06\n"
    assert only(row) == Figures(time_us=12_000_000, algbw_gbs=0.09, busbw_gbs=0.16, wrong=1_000_000)


def test_what_was_not_checked_is_not_taken_for_right() -> None:
    (row,) = read(
        "    65536    16384    float    sum    -1   36.09    1.82    1.82    N/A   35.9    1.83   1.83   0"
    ).rows
    assert row.out_of_place is not None
    assert row.out_of_place.wrong is None
    assert row.wrong is None


def test_wrong_elements_of_both_places_count() -> None:
    (row,) = read(
        "    65536    16384    float    sum    -1   36.09    1.82    1.82    3   35.9    1.83   1.83   4"
    ).rows
    assert row.wrong == 7


def test_figures_of_one_place_alone_are_out_of_place_or_in_place() -> None:
    first = "     1048576        262144     float     sum      -1"
    figures = "   351.20    2.99    2.99       0"
    (out_of_place,) = read(first + figures).rows
    assert out_of_place.out_of_place is not None and out_of_place.in_place is None
    (blank,) = read(f"{first}{' ' * 32}{figures}").rows
    assert blank.out_of_place is None and blank.in_place is not None
    (marked,) = read(f"{first}      N/A     N/A     N/A     N/A{figures}").rows
    assert marked == blank
    assert marked.busbw_gbs == 2.99


def test_a_time_of_day_and_per_iteration_columns_are_passed_over() -> None:
    row = "  1048576   262144   float   sum   -1   351.20   2.99   2.99   0   349.87   3.00   3.00   0"
    assert read(f"{row}  2026-07-09 16:03:21").rows == read(row).rows
    iterations = "   340.1   390.2   389.9   4.5"
    halves = row.rsplit("   349.87", 1)
    assert read(f"{halves[0]}{iterations}   349.87{halves[1]}{iterations}").rows == read(row).rows


@pytest.mark.parametrize(
    "row",
    [
        "  1073741824     268435456     float     sum      -1   122817    8.74    8.74",
        "  1073741824     268435456     float     sum      -1   122817    8.74    8.74       0   123004    8.7",
        "  1073741824     268435456     float     sum      -1   122817     nan    8.74       0",
        "  1073741824     268435456     float     sum      -1  N/A N/A N/A N/A",
        # As before 2.11, without a root: the time would stand in its place.
        "  1073741824     268435456     float     sum   122817    8.74    8.74    0   123004    8.73    8.73    0",
    ],
)
def test_a_row_that_is_cut_or_in_another_layout_is_told_and_not_guessed(row: str) -> None:
    table = read(f"{row}\n")
    assert table.rows == ()
    assert table.unread == (row.strip(),)


def test_failed_ends_are_seen_and_those_of_several_tables_are_added() -> None:
    failed = read(WHOLE.replace("values : 0 OK", "values : 2 FAILED"))
    assert (failed.out_of_bounds, failed.passed) == (2, False)
    both = read(WHOLE + WHOLE.replace("values : 0 OK", "values : 2 FAILED"))
    assert (both.out_of_bounds, both.passed, len(both.rows)) == (2, False, 4)


def test_a_log_without_a_table_has_none() -> None:
    table = read("step 3 loss 2.5 tokens/s 900\n# Avg bus bandwidth : 9\n1024 256 float\nnode-1 4 float sum -1\n")
    assert table == Table(rows=(), out_of_bounds=None, passed=None, unread=())
    assert table.largest is None


def test_long_lines_of_digits_and_spaces_are_read_at_once() -> None:
    """Each would take minutes if the pattern tried every division of it."""
    for text in ("1 " * 200_000, "9" * 200_000, "1" + " " * 200_000, "1 2 float sum -1 " * 20_000):
        assert parse([text]).rows == ()


def test_a_real_table_of_two_gpus_is_read_whole() -> None:
    """all_reduce_perf -b 8M -e 1G -f 2 -g 2 of nccl-tests 2.19.6 with NCCL 2.28.9."""
    table = parse((CORPUS / "real-2.19.6-two-gpus.txt").read_text().splitlines())
    assert [row.size for row in table.rows] == [1 << power for power in range(23, 31)]
    assert (table.out_of_bounds, table.passed, table.unread) == (0, True, ())
    assert table.largest is not None
    assert table.largest.out_of_place == Figures(time_us=3287.05, algbw_gbs=326.66, busbw_gbs=326.66, wrong=0)
    assert table.largest.in_place == Figures(time_us=3248.56, algbw_gbs=330.53, busbw_gbs=330.53, wrong=0)
