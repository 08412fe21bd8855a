"""PURE: the EFA devices' own byte counters against what the training steps had to move between nodes.

NCCL's lines tell how channels were connected; that bytes then went that way, only the devices can tell.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workload.rank_evidence import DeviceBytes, Direction, MustMove, RankEvidence, short
from workload.verdict import Findings

FORMULA = "training/traffic.py"
_DIRECTIONS: tuple[Direction, ...] = ("sent", "received")
# Of what had to move. Less than all of it proves nothing; so little that most of it went another way refutes.
_REFUTED_BELOW = 0.5


@dataclass(frozen=True, kw_only=True)
class _Node:
    id: str
    host: str
    devices: tuple[DeviceBytes, ...]
    must: MustMove | None

    @property
    def said(self) -> str:
        return f"{self.host or 'a nameless host'} (node {short(self.id)})"

    def moved(self, direction: Direction) -> int | None:
        """None where a counter is unread, went backwards, or was read for two."""
        names = Counter(device.name for device in self.devices)
        each = [device.moved(direction) for device in self.devices]
        known = [one for one in each if one is not None and one >= 0]
        if not each or len(known) < len(each) or max(names.values()) > 1:
            return None
        return sum(known)

    def needed(self, direction: Direction) -> int:
        return self.must.moved(direction) if self.must else 0


def counters(ranks: Sequence[RankEvidence], expect: str) -> Findings:
    """Where all ranks are on one node there is nothing that devices would have to move."""
    nodes = _nodes(ranks)
    if len(nodes) < 2:
        return Findings()
    if expect == "socket":
        return Findings(against=tuple(_moved_by_efa(nodes)))
    against, missing = tuple(_moved_otherwise(nodes)), tuple(_unknown(nodes))
    return Findings(against=against, missing=missing, seen=() if against or missing else (_seen(nodes),))


def _moved_otherwise(nodes: Sequence[_Node]) -> Iterator[str]:
    for node in nodes:
        for direction in _DIRECTIONS:
            moved, needed = node.moved(direction), node.needed(direction)
            if node.must and moved is not None and moved < _REFUTED_BELOW * needed:
                yield (
                    f"counters: the EFA devices of {node.said} {direction} {moved:,} bytes, {node.must.steps} steps "
                    f"had to have {needed:,} {direction} ({FORMULA}): most went another way"
                )


def _moved_by_efa(nodes: Sequence[_Node]) -> Iterator[str]:
    for node in nodes:
        for direction in _DIRECTIONS:
            moved, needed = node.moved(direction), node.needed(direction)
            if node.must and moved is not None and 0 < needed <= moved:
                yield (
                    f"counters: the EFA devices of {node.said} {direction} {moved:,} bytes, all of the {needed:,} that "
                    f"{node.must.steps} steps had to have {direction} ({FORMULA}): not over sockets"
                )


def _unknown(nodes: Sequence[_Node]) -> Iterator[str]:
    for node in nodes:
        if node.must is None:
            yield f"counters: no rank on {node.said} says how many bytes had to move"
        elif node.must.steps < 1 or node.must.sent < 1 or node.must.received < 1:
            yield f"counters: no step was counted on {node.said}, so that no byte had to move"
        for direction in _DIRECTIONS:
            moved, needed = node.moved(direction), node.needed(direction)
            if moved is not None and _REFUTED_BELOW * needed <= moved < needed:
                yield (
                    f"counters: the EFA devices of {node.said} {direction} {moved:,} bytes, not all of the {needed:,} "
                    f"that had to be {direction} ({FORMULA})"
                )
        if not node.devices:
            yield f"counters: none of an EFA device on {node.said}: nothing shows that bytes moved over EFA"
        for name, count in Counter(device.name for device in node.devices).items():
            if count > 1:
                yield f"counters: {name} of {node.said} was read for {count} ranks"
        for device in node.devices:
            for direction in _DIRECTIONS:
                moved = device.moved(direction)
                if moved is None:
                    why = device.reason or "not read before and after"
                    yield f"counters: bytes {direction} by {device.name} of {node.said}: {why}"
                elif moved < 0:
                    yield (
                        f"counters: bytes {direction} by {device.name} of {node.said} went backwards by {-moved:,}: "
                        "the device was reset"
                    )


def _seen(nodes: Sequence[_Node]) -> str:
    """Of the node that comes closest to what it needed, in either direction."""
    parts = []
    for direction in _DIRECTIONS:
        node = min(nodes, key=lambda one: (one.moved(direction) or 0) / max(1, one.needed(direction)))
        parts.append(f"{node.said} {direction} {node.moved(direction):,} bytes (needed: {node.needed(direction):,})")
    steps = max(node.must.steps for node in nodes if node.must)
    return f"counters: EFA devices of {len(nodes)} nodes moved what {steps} steps had to; the least: {', '.join(parts)}"


def _nodes(ranks: Sequence[RankEvidence]) -> list[_Node]:
    by_node: dict[str, list[RankEvidence]] = defaultdict(list)
    for rank in ranks:
        by_node[rank.node].append(rank)
    return [
        _Node(
            id=node,
            host=members[0].host,
            devices=tuple(device for rank in members for device in rank.devices or ()),
            must=_most([rank.must_move for rank in members if rank.must_move]),
        )
        for node, members in by_node.items()
    ]


def _most(said: Sequence[MustMove]) -> MustMove | None:
    """Ranks of a node say the same; if not, the most of it had to move."""
    if not said:
        return None
    return MustMove(
        steps=min(one.steps for one in said),
        sent=max(one.sent for one in said),
        received=max(one.received for one in said),
    )
