import json
from pathlib import Path

import pytest

from tests.training import ranks
from tests.training.small_model import save_small_model
from training.traffic import Parameter, Plan, Unit, least

TWO_NODES = [0, 0, 1, 1]


def unit(*parameters: Parameter, reshards: bool = True) -> Unit:
    """Gathered in bfloat16, reduced in float32."""
    return Unit(parameters=parameters, gathered_bytes=2, reduced_bytes=4, reshards=reshards)


def weight(rows: int, row: int, *, trained: bool = True) -> Parameter:
    return Parameter(rows=rows, row=row, trained=trained)


def test_a_block_is_gathered_twice_and_reduced_once_a_step() -> None:
    # Of 80 elements each node holds 40: 2 gathers of 40 x 2 bytes and one reduction of 40 x 4 bytes, each way.
    assert least([unit(weight(8, 10))], TWO_NODES, 0, steps=1) == {"steps": 1, "sent": 320, "received": 320}
    assert least([unit(weight(8, 10))], TWO_NODES, 0, steps=10) == {"steps": 10, "sent": 3200, "received": 3200}


def test_the_root_is_gathered_once_a_step_but_for_the_first() -> None:
    root = unit(weight(4, 5), reshards=False)
    assert least([root], TWO_NODES, 1, steps=1) == {"steps": 1, "sent": 40, "received": 40}
    assert least([root], TWO_NODES, 1, steps=3) == {"steps": 3, "sent": 2 * 20 + 3 * 40, "received": 2 * 20 + 3 * 40}


def test_a_node_with_less_of_a_weight_sends_less_of_it_and_receives_more() -> None:
    # 5 rows over 4 ranks are 2, 2, 1 and none, so node 1 holds 1 row of 10 elements.
    uneven = [unit(weight(5, 10))]
    assert least(uneven, TWO_NODES, 0, steps=1) == {"steps": 1, "sent": 2 * 80 + 40, "received": 2 * 20 + 160}
    assert least(uneven, TWO_NODES, 1, steps=1) == {"steps": 1, "sent": 2 * 20 + 160, "received": 2 * 80 + 40}


def test_with_more_nodes_most_comes_from_elsewhere() -> None:
    # Node 2 holds 20 of 80 elements.
    told = least([unit(weight(8, 10))], [0, 1, 2, 3], 2, steps=1)
    assert told == {"steps": 1, "sent": 2 * 40 + 240, "received": 2 * 120 + 80}


def test_what_is_not_trained_has_no_gradients_and_may_have_no_backward_pass() -> None:
    frozen = unit(weight(8, 10, trained=False))
    assert least([frozen], TWO_NODES, 0, steps=1) == {"steps": 1, "sent": 80, "received": 80}
    mixed = unit(weight(8, 10, trained=False), weight(4, 1))
    assert least([mixed], TWO_NODES, 0, steps=1) == {"steps": 1, "sent": 168 + 8, "received": 168 + 8}


def test_no_step_moves_nothing() -> None:
    units = [unit(weight(8, 10)), unit(weight(4, 5), reshards=False)]
    assert least(units, TWO_NODES, 0, steps=0) == {"steps": 0, "sent": 0, "received": 0}


def test_hybrid_sharding_sends_each_gradient_once_whatever_the_layout() -> None:
    units = [unit(weight(8, 10)), unit(weight(4, 5), reshards=False)]
    told = least(units, TWO_NODES, 0, steps=3, plan=Plan(replicated=True, micro_batches=4))
    assert told == {"steps": 3, "sent": 3 * 4 * 100, "received": 3 * 4 * 100}


CASES = {
    "fsdp": ranks.TrafficCase({}, (0, 1, 2, 3)),
    "two micro-batches": ranks.TrafficCase({}, (0, 1, 2, 3), 2),
    "parameters kept gathered": ranks.TrafficCase({"keep_gathered": True}, (0, 1, 2, 3), 2),
    "gradients reduced once": ranks.TrafficCase({"reduce_each_micro_batch": False}, (0, 1, 2, 3), 2),
    "bfloat16 compute": ranks.TrafficCase({"precision": "mixed"}, (0, 1, 2, 3)),
    "bfloat16 throughout": ranks.TrafficCase({"precision": "bf16"}, (0, 1, 2, 3)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_must_move_is_what_fsdp_really_gathers_and_reduces(case: ranks.TrafficCase, tmp_path: Path) -> None:
    """With a node for each rank, what all receive is every gathered byte but one's own, and every reduced byte once."""
    told = counted(tmp_path, case)
    gathered, reduced = told[0]["gathered"], told[0]["reduced"]
    assert gathered > 0 < reduced
    assert sum(one["received"] for one in told) == gathered * (len(told) - 1) + reduced
    assert sum(one["sent"] for one in told) == gathered + reduced * (len(told) - 1)


@pytest.mark.parametrize("nodes", [(0, 0, 1, 1), (0, 1)], ids=["two ranks a node", "one rank a node"])
@pytest.mark.parametrize(
    "precision", [pytest.param("fp32", marks=pytest.mark.full), "mixed", pytest.param("bf16", marks=pytest.mark.full)]
)
def test_what_must_move_under_hybrid_sharding_is_what_is_summed_up_between_nodes(
    precision: str, nodes: tuple[int, ...], tmp_path: Path
) -> None:
    """Each rank sums up its shard with the other node's: those of a node have all of the gradients between them."""
    told = counted(tmp_path, ranks.TrafficCase({"mode": "hsdp", "precision": precision}, nodes, 2))
    assert told[0]["summed"] > 0
    for one in told:
        assert one["sent"] == one["received"] == sum(told[rank]["summed"] for rank in range(nodes.count(0)))


def counted(folder: Path, case: ranks.TrafficCase) -> list[dict[str, int]]:
    save_small_model(folder / "model", tokenizer=False)  # tied weights; its sizes divide by 4, so nothing is padded
    ranks.run_ranks(len(case.nodes), ranks.counted_traffic, folder / "run", folder / "model", 3, case)
    return [json.loads((folder / "run" / f"told-{rank}").read_text()) for rank in range(len(case.nodes))]
