"""Which ranks split the model between them and which repeat each other. No torch here."""

from collections.abc import Sequence

from training.errors import TrainingError

FSDP, HSDP = "fsdp", "hsdp"
SHARDINGS = (FSDP, HSDP)


def mesh_rows(sharding: str, node_of_rank: Sequence[int]) -> list[list[int]]:
    """Rows of ranks: a row holds the model once, split over it; ranks of one column hold the same part.

    `node_of_rank[r]` is the node that rank r really runs on. fsdp is a single row; hsdp has a row for each node, so
    that parameters never cross between nodes and gradients do as shards only. Raises TrainingError where a cluster
    cannot be laid out like that.
    """
    if sharding == FSDP:
        return [list(range(len(node_of_rank)))]
    rows = [[rank for rank, where in enumerate(node_of_rank) if where == node] for node in sorted(set(node_of_rank))]
    if len(rows) < 2:
        raise TrainingError("--sharding hsdp: all ranks are on one node, so there is nothing to replicate; use fsdp")
    if len({len(row) for row in rows}) > 1:
        counts = ", ".join(
            f"{len(row)} on node {node}" for node, row in zip(sorted(set(node_of_rank)), rows, strict=True)
        )
        raise TrainingError(
            f"--sharding hsdp: every node must run as many ranks as the others, but there are {counts}; "
            "use fsdp or choose --num_workers so that the nodes fill evenly"
        )
    return rows


def rows_cross_nodes(rows: Sequence[Sequence[int]], node_of_rank: Sequence[int]) -> bool:
    return any(len({node_of_rank[rank] for rank in row}) > 1 for row in rows)
