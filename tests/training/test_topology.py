import pytest

from training.errors import TrainingError
from training.topology import mesh_rows, rows_cross_nodes


def test_fsdp_is_one_row_of_all_ranks_wherever_they_are() -> None:
    rows = mesh_rows("fsdp", [0, 0, 1, 1, 1])
    assert rows == [[0, 1, 2, 3, 4]]
    assert rows_cross_nodes(rows, [0, 0, 1, 1, 1])
    assert not rows_cross_nodes(rows, [0] * 5)


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        ([0, 0, 1, 1], [[0, 1], [2, 3]]),
        ([0, 1, 0, 1], [[0, 2], [1, 3]]),
        ([1, 1, 0, 0, 2, 2], [[2, 3], [0, 1], [4, 5]]),
        ([0, 1], [[0], [1]]),
    ],
)
def test_hsdp_has_a_row_for_each_node(nodes: list[int], rows: list[list[int]]) -> None:
    found = mesh_rows("hsdp", nodes)
    assert found == rows
    assert not rows_cross_nodes(found, nodes)


def test_nodes_with_unequal_numbers_of_ranks_are_refused_with_the_numbers() -> None:
    with pytest.raises(TrainingError, match=r"--sharding hsdp: .*3 on node 0, 1 on node 1.*--num_workers"):
        mesh_rows("hsdp", [0, 0, 1, 0])


def test_a_single_node_has_nothing_to_replicate() -> None:
    with pytest.raises(TrainingError, match=r"--sharding hsdp: all ranks are on one node.*use fsdp"):
        mesh_rows("hsdp", [0, 0, 0])
