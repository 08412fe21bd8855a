"""Which of several stretches of files came last, which ran together, and where something else belongs among them."""

import pytest

from workload.nccl.spans import Order, Spans, united


def test_a_whole_reaches_from_its_first_line_to_its_last_in_each_file() -> None:
    assert united([{"a": (5, 9)}, {"a": (7, 12), "b": (1, 1)}, {"a": (2, 3)}]) == {"a": (2, 12), "b": (1, 1)}
    assert united([]) == {}


@pytest.mark.parametrize(
    ("spans", "counting", "side_by_side"),
    [
        ([], (), False),
        ([{"a": (1, 5)}], (0,), False),
        ([{"a": (1, 5)}, {"a": (6, 9)}], (1,), False),
        ([{"a": (6, 9)}, {"a": (1, 5)}], (0,), False),
        ([{"a": (1, 6)}, {"a": (6, 9)}], (0, 1), True),
        ([{"a": (1, 9)}, {"a": (3, 4)}], (0, 1), True),
        ([{"a": (1, 5)}, {"a": (6, 9)}, {"a": (7, 8)}], (1, 2), True),
        ([{"a": (1, 2)}, {"a": (3, 4)}, {"a": (5, 6)}], (2,), False),
        ([{"a": (1, 5)}, {"b": (1, 5)}], (0, 1), False),
        # As two rank files tell of a retry: in both after the first, or their order contradicts itself.
        ([{"a": (1, 5), "b": (1, 5)}, {"a": (6, 9), "b": (6, 9)}], (1,), False),
        ([{"a": (1, 5), "b": (6, 9)}, {"a": (6, 9), "b": (1, 5)}], (0, 1), False),
        ([{"a": (1, 5), "c": (1, 5)}, {"a": (6, 9), "b": (1, 5)}], (1,), False),
        ([{"a": (1, 5), "b": (1, 5)}, {"a": (6, 9), "b": (4, 9)}], (0, 1), True),
        ([{"a": (1, 5), "b": (1, 6)}, {"a": (6, 9), "b": (6, 9)}], (0, 1), True),
        # Each two overlap, in another file each.
        ([{"a": (1, 5), "b": (1, 5)}, {"a": (5, 9), "c": (1, 5)}, {"b": (5, 9), "c": (5, 9)}], (0, 1, 2), True),
        ([{"b": (5, 9), "c": (5, 9)}, {"a": (5, 9), "c": (1, 5)}, {"a": (1, 5), "b": (1, 5)}], (0, 1, 2), True),
        ([{"a": (1, 5), "b": (1, 5)}, {"a": (4, 9), "c": (1, 5)}, {"b": (4, 9), "c": (4, 9)}], (0, 1, 2), True),
        ([{"a": (1, 5), "b": (1, 5)}, {"a": (4, 9), "c": (1, 5)}, {"d": (4, 9)}], (0, 1, 2), False),
    ],
)
def test_those_count_that_none_is_known_to_have_followed(
    spans: list[Spans], counting: tuple[int, ...], side_by_side: bool
) -> None:
    assert Order(spans).counting() == (counting, side_by_side)


ORDER = Order([{"a": (50, 60)}, {"a": (10, 20)}, {"a": (15, 30), "b": (1, 4)}])


@pytest.mark.parametrize(
    ("one", "during"),
    [
        ({"a": (1, 9)}, None),
        ({"a": (1, 10)}, 1),
        ({"a": (12, 14)}, 1),
        ({"a": (16, 17)}, 2),
        ({"a": (30, 49)}, 2),
        ({"a": (31, 49)}, None),
        ({"a": (1, 50)}, 0),
        ({"a": (61, 70)}, None),
        ({"b": (4, 9)}, 2),
        ({"b": (5, 9)}, None),
        ({"c": (1, 99)}, None),
        ({"c": (1, 9), "a": (55, 55)}, 0),
    ],
)
def test_what_ran_at_the_same_time_is_that_which_ends_last(one: Spans, during: int | None) -> None:
    assert ORDER.overlapping(one) == during


@pytest.mark.parametrize(("line", "count"), [(1, 0), (10, 0), (11, 1), (16, 2), (51, 3)])
def test_how_many_had_begun_before_a_line(line: int, count: int) -> None:
    assert ORDER.begun_before("a", line) == count
    assert ORDER.begun_before("c", line) == 0
