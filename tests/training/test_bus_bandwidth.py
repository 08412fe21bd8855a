"""The arithmetic of nccl-tests, sizes, memory, and the table."""

import pytest

from training.bandwidth_table import table
from training.bus_bandwidth import Row, bytes_needed, bytes_of, bytes_to_move, share_of_memory, text_of

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "size"),
    [("4", 4), ("8K", 8192), ("64M", 67_108_864), ("1G", 1_073_741_824), ("12M", 12 * MIB)],
)
def test_sizes_are_binary(text: str, size: int) -> None:
    assert bytes_of(text) == size
    assert text_of(size) == text


@pytest.mark.parametrize("text", ["", "0", "-4", "6", "1.5G", "1T", "64m", "64 M", "G"])
def test_what_is_no_size_of_whole_elements_is_none(text: str) -> None:
    assert bytes_of(text) is None


def test_bandwidths_follow_the_definitions_of_nccl_tests() -> None:
    """1 GiB in 0.1 s between 8 ranks: S/t is 10.74 GB/s, and 2 x 7/8 of it goes through each rank's link."""
    row = Row(size=1 << 30, ranks=8, seconds=0.1, wrong=0)
    assert row.algbw_gbs == pytest.approx(10.73741824)
    assert row.busbw_gbs == pytest.approx(18.79048192)
    assert row.as_json() == {
        "bytes": 1_073_741_824,
        "count": 268_435_456,
        "type": "float",
        "op": "sum",
        "time_us": pytest.approx(100_000.0),
        "algbw_gbs": pytest.approx(10.73741824),
        "busbw_gbs": pytest.approx(18.79048192),
        "wrong": 0,
    }


def test_between_two_ranks_bus_and_algorithm_are_the_same_and_one_rank_has_no_bus() -> None:
    pair = Row(size=MIB, ranks=2, seconds=0.001, wrong=0)
    assert pair.busbw_gbs == pair.algbw_gbs
    assert Row(size=MIB, ranks=1, seconds=0.001, wrong=0).busbw_gbs == 0


def test_ranks_of_one_memory_share_it_and_the_poorest_decides() -> None:
    assert share_of_memory([("a", 800), ("a", 800), ("b", 900)]) == 400
    assert share_of_memory([("rank 0", 800), ("rank 1", 300)]) == 300
    assert bytes_needed(64 * MIB) > 2 * 64 * MIB, "the result is compared with something"


def test_a_node_sends_its_part_of_each_sum_at_least_once() -> None:
    assert bytes_to_move([MIB, 8 * MIB], 26) == 26 * 9 * MIB


def test_the_table_has_the_columns_of_nccl_tests_and_measured_in_place_only() -> None:
    rows = [
        Row(size=8 * MIB, ranks=4, seconds=0.0041235, wrong=0).as_json(),
        Row(size=1 << 30, ranks=4, seconds=0.5, wrong=12).as_json(),
    ]
    lines = table(rows, backend="gloo", ranks=4, iterations=20, warm_up=5)
    assert lines[0].startswith("# all_reduce by torch.distributed over gloo, 4 ranks; in place; ")
    words = [" ".join(line.split()) for line in lines]
    assert [line for line in words if not line.startswith("#")] == [
        "8388608 2097152 float sum -1 N/A N/A N/A N/A 4123.50 2.03 3.05 0",
        "1073741824 268435456 float sum -1 N/A N/A N/A N/A 500000.00 2.15 3.22 12",
    ]
    assert words[3] == "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
    assert words[-3:] == ["# Out of bounds values : 12 FAILED", "# Avg bus bandwidth : 3.13637", "#"]
