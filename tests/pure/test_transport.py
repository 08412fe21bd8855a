"""The verdict on a run: every way in which evidence contradicts what was expected, or falls short of it."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from workload.transport import judge
from workload.verdict import Wanted

EFA, SOCKET, GLOO = Wanted(expect="efa"), Wanted(expect="socket"), Wanted(expect="gloo")
HOSTS = ("node-a.ec2.internal", "node-b.ec2.internal")


def transport(*, backends: str = "gloo gloo gloo gloo", nodes: str = "a a b b", world: int = 4) -> dict[str, Any]:
    """As an older version left it in a state: numbers are floats, and of NCCL's lines there is nothing."""
    ranks = [
        {"rank": float(rank), "node": node, "host": "h", "pid": 100.0 + rank, "backend": backend, "device": "cpu"}
        for rank, (backend, node) in enumerate(zip(backends.split(), nodes.split(), strict=True))
    ]
    return {"attempt": 1, "worldSize": float(world), "ranks": ranks}


def in_state(value: Any) -> Any:
    """As the engine hands it back: whole numbers as floats, no None."""
    if isinstance(value, dict):
        return {key: in_state(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [in_state(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.fixture
def evidence(tmp_path: Path) -> dict[str, Any]:
    """That of a run over EFA in which nothing is wrong."""
    return MarkedRun().collected(tmp_path)


def test_all_ranks_on_two_nodes_reporting_gloo_prove_gloo() -> None:
    verdict = judge(transport(), GLOO)
    assert (verdict.value, verdict.passes) == ("proven", True)
    assert verdict.reasons == ("4 of 4 ranks on 2 nodes report backend gloo",)


@pytest.mark.parametrize("wanted", [EFA, SOCKET])
def test_gloo_refutes_every_other_expectation_naming_each_rank(wanted: Wanted) -> None:
    verdict = judge(transport(), wanted)
    assert verdict.value == "refuted"
    assert not verdict.passes
    assert len(verdict.reasons) == 4
    assert verdict.reasons[2] == (
        f"rank 2 on node b (pid 102) communicated through backend gloo, expected {wanted.expect}: "
        "gloo moves bytes over TCP sockets"
    )


def test_one_rank_on_another_backend_refutes() -> None:
    verdict = judge(transport(backends="gloo gloo nccl gloo"), GLOO)
    assert verdict.value == "refuted"
    assert verdict.reasons[0].startswith("rank 2 on node b")


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (None, "no rank reported how it communicated"),
        ({"attempt": 0, "worldSize": 4, "ranks": []}, "no rank reported how it communicated"),
        (transport(backends="gloo gloo gloo", nodes="a a b"), "rank 3 of 4 reported nothing"),
        (transport(nodes="a a a a"), "all ranks ran on one node (a): nothing crossed from host to host"),
        ({**transport(), "ranks": [*transport()["ranks"], transport()["ranks"][0]]}, "rank 0 reported more than once"),
        ({**transport(), "worldSize": 3}, "rank 3 is outside a world of 3"),
    ],
)
def test_missing_evidence_is_unproven_and_says_what_is_missing(evidence: Any, reason: str) -> None:
    verdict = judge(evidence, GLOO)
    assert verdict.value == "unproven"
    assert not verdict.passes
    assert reason in verdict.reasons


@pytest.mark.parametrize(("key", "reason"), [("backend", "rank 1 named no backend"), ("node", "rank 1 named no node")])
def test_a_rank_that_does_not_say_all_of_it_is_no_proof(key: str, reason: str) -> None:
    evidence = transport()
    evidence["ranks"][1][key] = ""
    verdict = judge(evidence, GLOO)
    assert (verdict.value, verdict.reasons) == ("unproven", (reason,))


def test_other_ranks_or_nodes_than_wanted_are_no_proof() -> None:
    verdict = judge(transport(), Wanted(expect="gloo", ranks=8, hosts=3))
    assert verdict.value == "unproven"
    assert verdict.reasons == ("4 ranks ran, wanted 8", "ranks ran on 2 nodes, wanted 3")
    assert judge(transport(), Wanted(expect="gloo", ranks=4, hosts=2)).passes


def test_a_rank_that_names_no_node_is_on_none() -> None:
    verdict = judge(transport(nodes="a a a b"), GLOO)
    assert verdict.value == "proven"
    evidence = transport(nodes="a a a b")
    evidence["ranks"][3]["node"] = ""
    assert "all ranks ran on one node (a): nothing crossed from host to host" in judge(evidence, GLOO).reasons


def test_a_backend_of_which_nothing_is_known_is_named_as_it_is() -> None:
    verdict = judge(transport(backends="gloo gloo mpi gloo"), GLOO)
    assert verdict.reasons == ("rank 2 on node b (pid 102) communicated through backend mpi, expected gloo",)


def test_an_unknown_expectation_is_refused() -> None:
    with pytest.raises(ValueError, match="'infiniband' is none of efa, socket, gloo"):
        judge(transport(), Wanted(expect="infiniband"))


def test_a_state_of_an_older_version_proves_nothing_of_nccl_and_says_so_of_each_rank() -> None:
    for wanted in (EFA, SOCKET):
        verdict = judge(transport(backends="nccl nccl nccl nccl"), wanted)
        assert verdict.value == "unproven"
        assert (
            "delivery: rank 3 on h (pid 103) handed back none of NCCL's lines: NCCL_DEBUG may be less than INFO there"
        ) in verdict.reasons


def test_efa_is_proven_by_lines_processes_and_bytes_together(evidence: dict[str, Any]) -> None:
    for one in (evidence, in_state(evidence)):
        verdict = judge(one, EFA)
        assert verdict.value == "proven"
        assert verdict.reasons == (
            "4 of 4 ranks on 2 nodes report backend nccl",
            "delivery: all 100 lines that NCCL wrote on 4 ranks are in the log",
            "1 communicator of up to 4 ranks on 2 hosts, complete; channels between hosts: 8 NET/Libfabric over efa; "
            "no other transport",
            "counters: EFA devices of 2 nodes moved what 20 steps had to; the least: node-a.ec2.internal (node "
            "node-a-id) sent 1,500,000 bytes (needed: 1,000,000), node-a.ec2.internal (node node-a-id) received "
            "2,500,000 bytes (needed: 2,000,000)",
        )


def test_sockets_are_proven_by_nccl_and_refuted_where_efa_was_expected(tmp_path: Path) -> None:
    evidence = MarkedRun(run=Run(network="missing"), moved=None).collected(tmp_path)
    assert judge(evidence, SOCKET).value == "proven"
    verdict = judge(evidence, EFA)
    assert verdict.value == "refuted"
    assert all(reason.startswith(("channel: ", "network: ")) for reason in verdict.reasons)
    assert judge(evidence, GLOO).value == "refuted"


def test_one_host_on_sockets_refutes_with_the_ranks_and_the_lines_of_the_log(tmp_path: Path) -> None:
    verdict = judge(MarkedRun(run=Run(lonely=("node-b",))).collected(tmp_path), EFA)
    assert verdict.value == "refuted"
    lines = (tmp_path / "job.log").read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if "node-b:73" in line and "Using network Socket" in line)
    assert (
        "network: rank 3 on node-b (pid 73) chose Socket for communicator 0xfc6023afed4eb833, expected efa "
        f"(job.log:{number})"
    ) in verdict.reasons


def device(evidence: dict[str, Any], rank: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = evidence["ranks"][rank]["efaDevices"][0]
    return found


def _without_lines(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2] |= {"lines": None, "delivered": None}


def _silent_nccl(evidence: dict[str, Any]) -> None:
    for key in ("lines", "delivered"):
        evidence["ranks"][2][key] |= {"count": 0}


def _shared_mark(evidence: dict[str, Any]) -> None:
    evidence["ranks"][3]["lines"]["id"] = evidence["ranks"][2]["lines"]["id"]


def _other_report(evidence: dict[str, Any]) -> None:
    evidence["report"] = ""


def _damaged_report(evidence: dict[str, Any]) -> None:
    evidence["report"] = evidence["report"][:200]


def _count(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["delivered"]["count"] -= 1


def _hash(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["delivered"]["sha256"] = "0" * 64


def _pid(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["pid"] = 99


def _same_process(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["pid"] = 73


def _no_host(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["host"] = ""


def _one_node(evidence: dict[str, Any]) -> None:
    for rank in evidence["ranks"]:
        rank["node"] = "a"


def _no_devices(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["efaDevices"] = []


def _devices_untold(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["efaDevices"] = None


def _device_twice(evidence: dict[str, Any]) -> None:
    evidence["ranks"][3]["efaDevices"] = [copy.deepcopy(device(evidence))]


def _backwards(evidence: dict[str, Any]) -> None:
    device(evidence)["received"] = -2_000


def _unread(evidence: dict[str, Any]) -> None:
    device(evidence).update(sent=None, reason="after the steps: tx_bytes cannot be read")


def _unread_without_reason(evidence: dict[str, Any]) -> None:
    device(evidence)["sent"] = None


def _must_untold(evidence: dict[str, Any]) -> None:
    for rank in evidence["ranks"][2:]:
        rank["mustMove"] = None


def _nothing(key: str) -> Callable[[dict[str, Any]], None]:
    def change(evidence: dict[str, Any]) -> None:
        for rank in evidence["ranks"]:
            rank["mustMove"][key] = 0

    return change


UNPROVEN: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (_without_lines, "delivery: rank 2 on node-b.ec2.internal (pid 72) handed back none of NCCL's lines: NCCL_DEBUG"),
    (_silent_nccl, "delivery: rank 2 on node-b.ec2.internal (pid 72) handed back none of NCCL's lines: NCCL_DEBUG"),
    (_shared_mark, "delivery: ranks 2, 3 share the mark #"),
    (_count, "delivery: rank 2 on node-b.ec2.internal (pid 72) handed back 26 lines, the log has 25"),
    (_hash, "delivery: the log's 26 lines of rank 2 on node-b.ec2.internal (pid 72) are not those it handed back"),
    (_other_report, "report: there is none of NCCL's lines in the evidence"),
    (_damaged_report, "report: what the evidence holds of NCCL's lines is damaged"),
    (_pid, "processes: rank 2 on node-b.ec2.internal (pid 99) is none of those whose lines count"),
    (_pid, "processes: pid 72 on node-b, whose lines count, is no rank of this attempt (job.log:"),
    (_same_process, "processes: ranks 2, 3 say that they are one, pid 73 on node-b"),
    (_no_host, "hosts: rank 2 on node-b-id (pid 72) named no host"),
    (_one_node, "all ranks ran on one node (a): nothing crossed from host to host"),
    (_no_devices, "counters: none of an EFA device on node-b.ec2.internal (node node-b-id): nothing shows that bytes"),
    (_devices_untold, "counters: none of an EFA device on node-b.ec2.internal (node node-b-id): nothing shows that"),
    (_device_twice, "counters: rdmap0s31 of node-b.ec2.internal (node node-b-id) was read for 2 ranks"),
    (
        _backwards,
        "counters: bytes received by rdmap0s31 of node-b.ec2.internal (node node-b-id) went backwards by 2",
    ),
    (_unread, "counters: bytes sent by rdmap0s31 of node-b.ec2.internal (node node-b-id): after the steps: tx_bytes"),
    (_unread_without_reason, "counters: bytes sent by rdmap0s31 of node-b.ec2.internal (node node-b-id): not read"),
    (_must_untold, "counters: no rank on node-b.ec2.internal (node node-b-id) says how many bytes had to move"),
    *(
        (_nothing(key), "counters: no step was counted on node-a.ec2.internal (node node-a-id), so that no byte had to")
        for key in ("steps", "sent", "received")
    ),
]


@pytest.mark.parametrize(("change", "reason"), UNPROVEN)
def test_what_falls_short_leaves_efa_unproven_and_is_named(
    evidence: dict[str, Any], change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    change(evidence)
    for one in (evidence, in_state(evidence)):
        verdict = judge(one, EFA)
        assert verdict.value == "unproven", verdict.reasons
        assert any(said.startswith(reason) for said in verdict.reasons), verdict.reasons


@pytest.mark.parametrize(
    ("direction", "moved", "needed"), [("sent", 499_999, "1,000,000"), ("received", 0, "2,000,000")]
)
def test_devices_that_moved_less_than_half_of_what_training_had_to_move_refute_efa(
    evidence: dict[str, Any], direction: str, moved: int, needed: str
) -> None:
    device(evidence)[direction] = moved
    verdict = judge(evidence, EFA)
    assert verdict.value == "refuted"
    assert verdict.reasons == (
        f"counters: the EFA devices of node-b.ec2.internal (node node-b-id) {direction} {moved:,} bytes, 20 steps had "
        f"to have {needed} {direction} (training/traffic.py): most went another way",
    )


@pytest.mark.parametrize(("direction", "moved"), [("sent", 999_999), ("sent", 500_000), ("received", 1_999_999)])
def test_devices_that_moved_some_of_it_less_leave_it_unproven(
    evidence: dict[str, Any], direction: str, moved: int
) -> None:
    device(evidence)[direction] = moved
    verdict = judge(evidence, EFA)
    assert verdict.value == "unproven"
    (reason,) = verdict.reasons
    assert reason.startswith(f"counters: the EFA devices of node-b.ec2.internal (node node-b-id) {direction} {moved:,}")
    assert "not all of the" in reason


def test_just_what_had_to_move_is_enough_and_devices_of_a_node_count_together(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["efaDevices"] = [
        {"name": "rdmap0s31", "sent": 400_000, "received": 2_000_000},
        {"name": "rdmap1s31", "sent": 600_000, "received": 0},
    ]
    verdict = judge(evidence, EFA)
    assert verdict.value == "proven"
    assert "node-b.ec2.internal (node node-b-id) sent 1,000,000 bytes (needed: 1,000,000)" in verdict.reasons[-1]


def test_bytes_that_moved_over_efa_refute_sockets_whatever_the_lines_say(tmp_path: Path) -> None:
    evidence = MarkedRun(run=Run(network="missing")).collected(tmp_path)
    device(evidence, 0).update(sent=999_999, received=1_999_999)
    device(evidence).update(sent=1_000_000, received=0)
    verdict = judge(evidence, SOCKET)
    assert verdict.value == "refuted"
    assert verdict.reasons == (
        "counters: the EFA devices of node-b.ec2.internal (node node-b-id) sent 1,000,000 bytes, all of the 1,000,000 "
        "that 20 steps had to have sent (training/traffic.py): not over sockets",
    )
    device(evidence)["sent"] = 999_999
    assert judge(evidence, SOCKET).value == "proven", "devices that idled say nothing against sockets"
    device(evidence)["sent"] = 1_000_000
    for rank in evidence["ranks"]:
        rank["mustMove"]["sent"] = 0
    assert judge(evidence, SOCKET).value == "proven", "nothing says what had to move"
    for rank in evidence["ranks"]:
        rank["mustMove"] = None
    assert judge(evidence, SOCKET).value == "proven", "nor here"


@pytest.mark.parametrize(
    ("direction", "other", "moved"), [("sent", "received", 1_500_000), ("received", "sent", 2_500_000)]
)
def test_where_ranks_of_a_node_differ_the_most_of_it_had_to_move(
    evidence: dict[str, Any], direction: str, other: str, moved: int
) -> None:
    evidence["ranks"][3]["mustMove"] = {"steps": 19, direction: moved + 1, other: 1}
    verdict = judge(evidence, EFA)
    assert verdict.value == "unproven"
    (reason,) = verdict.reasons
    assert f"{direction} {moved:,} bytes, not all of the {moved + 1:,} that had to be {direction}" in reason


def test_one_step_of_one_byte_is_enough_to_tell(tmp_path: Path) -> None:
    one = {"steps": 1, "sent": 1, "received": 1}
    moved = {"tx_bytes": 1, "rx_bytes": 1}
    assert judge(MarkedRun(must_move=one, moved=moved).collected(tmp_path), EFA).value == "proven"
    over_sockets = MarkedRun(run=Run(network="missing"), must_move=one, moved=moved).collected(tmp_path)
    assert judge(over_sockets, SOCKET).value == "refuted"


def test_a_device_that_two_ranks_tell_of_contradicts_nothing(evidence: dict[str, Any]) -> None:
    device(evidence).update(sent=1, received=1)
    _device_twice(evidence)
    evidence["ranks"][2]["efaDevices"].append({"name": "rdmap1s31", "sent": 1, "received": 1})
    assert judge(evidence, EFA).value == "unproven"


def test_a_proof_tells_of_the_node_that_came_closest_to_what_it_needed(evidence: dict[str, Any]) -> None:
    for rank in evidence["ranks"][2:]:
        rank["mustMove"]["sent"] = 2_900_000
    device(evidence)["sent"] = 3_000_000
    assert (
        "the least: node-b.ec2.internal (node node-b-id) sent 3,000,000 bytes (needed: 2,900,000), node-a"
        in (judge(evidence, EFA).reasons[-1])
    )


def test_what_one_rank_of_a_node_tells_of_devices_and_bytes_is_told_for_all(evidence: dict[str, Any]) -> None:
    evidence["ranks"][2]["mustMove"] = None
    evidence["ranks"][2]["efaDevices"], evidence["ranks"][3]["efaDevices"] = None, [device(evidence)]
    assert judge(evidence, EFA).value == "proven"


def test_on_one_node_devices_are_not_asked(evidence: dict[str, Any]) -> None:
    _one_node(evidence)
    assert not any(reason.startswith("counters") for reason in judge(evidence, EFA).reasons)


def test_what_contradicts_wins_over_what_is_missing(evidence: dict[str, Any]) -> None:
    _without_lines(evidence)
    device(evidence, 0)["sent"] = 1
    verdict = judge(evidence, EFA)
    assert verdict.value == "refuted"
    assert len(verdict.reasons) == 1, "the reasons are those of the contradiction"


def test_hosts_and_ranks_are_those_of_the_evidence_unless_others_are_wanted(
    evidence: dict[str, Any],
) -> None:
    assert judge(evidence, Wanted(expect="efa", hosts=2, ranks=4)).value == "proven"
    reasons = judge(evidence, Wanted(expect="efa", hosts=3)).reasons
    assert reasons == ("hosts: 2 in communicators over hosts, wanted 3: node-a, node-b",)
    assert judge(evidence, Wanted(expect="efa", ranks=8)).reasons == ("4 ranks ran, wanted 8",)
    evidence["ranks"][3]["host"] = "node-b.another.domain"
    reasons = judge(evidence, EFA).reasons
    assert "hosts: 2 in communicators over hosts, wanted 3: node-a, node-b" in reasons


def test_interfaces_and_gpudirect_are_demanded_of_efa_and_not_of_sockets(tmp_path: Path) -> None:
    over_efa = MarkedRun(run=Run(nics=4)).collected(tmp_path)
    assert judge(over_efa, Wanted(expect="efa", nics=4)).value == "proven"
    assert judge(over_efa, Wanted(expect="efa", nics=32)).value == "unproven"
    assert judge(over_efa, Wanted(expect="efa", gdr=True)).value == "refuted"
    direct = MarkedRun(run=Run(gdr="/GDRDMA(PCI)")).collected(tmp_path)
    assert judge(direct, Wanted(expect="efa", gdr=True)).value == "proven"
    over_sockets = MarkedRun(run=Run(network="missing"), moved=None).collected(tmp_path)
    assert judge(over_sockets, Wanted(expect="socket", nics=32, gdr=True)).value == "proven"


def test_a_group_of_ranks_that_nccl_never_joined_is_no_proof(tmp_path: Path) -> None:
    evidence = MarkedRun(run=Run(connect=False)).collected(tmp_path)
    verdict = judge(evidence, EFA)
    assert verdict.value == "unproven"
    assert any("no collective has run over it" in reason for reason in verdict.reasons)
