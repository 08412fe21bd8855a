"""What one process says: whose a channel line is, what is one communicator and what another, which network is whose."""

import pytest

from tests.pure.test_nccl_attempts import channel, edges_by_communicator, member, read
from tests.support.nccl_run import Run
from workload.nccl import log
from workload.nccl.report import Place, TransportReport
from workload.nccl.rule import judge_report
from workload.verdict import Verdict, Wanted

HEAD = "a:1:1 [0] NCCL INFO "
SEND = "0[0] -> 1[0] [send] via NET/Libfabric/0"


def edges(*lines: str | list[str]) -> dict[str | None, int]:
    return dict(edges_by_communicator(told(*lines)))


def told(*lines: str | list[str]) -> TransportReport:
    return read([one for line in lines for one in ([line] if isinstance(line, str) else line)])


def judged(lines: list[str]) -> Verdict:
    return judge_report(read(lines), Wanted(expect="efa"))


def ended(pointer: str) -> str:
    return f"{HEAD}comm {pointer} rank 0 nranks 2 cudaDev 0 busId 00 - Destroy COMPLETE"


def old_member(pid: int, rank: int, comm_id: str, ranks: int = 2, bus: str = "1b0") -> str:
    """All that NCCL 2.18.1 says of it."""
    said = f"comm {comm_id}{pid} rank {rank} nranks {ranks} cudaDev 0 busId {bus} commId {comm_id} - Init COMPLETE"
    return f"a:{pid}:{pid} [0] NCCL INFO {said}"


def test_a_line_is_of_a_communicator_whose_device_it_names_at_its_own_end() -> None:
    two = [*member("a", 1, 0, 0, "0xa"), *member("a", 1, 1, 0, "0xb")]
    assert edges(two, channel("a", 1, "0[1] -> 1[1] [send] via NET/Libfabric/0")) == {"0xb": 1}
    assert edges(two, channel("a", 1, "0[0] -> 1[1] [send] via NET/Libfabric/0")) == {"0xa": 1}
    assert edges(two, channel("a", 1, "0[7] -> 1[1] [send] via NET/Libfabric/0")) == {None: 1}
    old = [old_member(1, 0, "0xa", bus="1b0"), old_member(1, 0, "0xb", bus="2c0")]
    assert edges(old, channel("a", 1, "0[2c0] -> 1[3d0] [send] via NET/Libfabric/0")) == {"0xb": 1}


def test_a_line_is_of_a_communicator_whose_devices_it_names_at_both_ends() -> None:
    lines = [*member("a", 1, 0, 0, "0xa"), *member("b", 2, 1, 1, "0xa"), *member("a", 1, 0, 0, "0xb")]
    lines += member("b", 3, 0, 1, "0xb")
    to_second = channel("a", 1, "0[0] -> 1[0] [send] via NET/Libfabric/0")
    to_first = channel("a", 1, "0[0] -> 1[1] [send] via NET/Libfabric/0")
    from_second = channel("a", 1, "1[0] -> 0[0] [receive] via NET/Libfabric/0")
    assert edges(lines, to_second) == {"0xb": 1}
    assert edges(lines, from_second) == {"0xb": 1}
    assert edges(lines, to_second, to_first, from_second) == {"0xa": 1, "0xb": 2}


def test_the_end_that_says_it_is_the_sender_or_the_receiver() -> None:
    lines = [*member("a", 1, 0, 0, "0xa"), *member("a", 1, 0, 1, "0xb")]
    for both in (lines, lines[3:] + lines[:3]):
        assert edges(both, channel("a", 1, "0[0] -> 1[0] [send] via NET/Libfabric/0")) == {"0xa": 1}
        assert edges(both, channel("a", 1, "0[0] -> 1[0] [receive] via NET/Libfabric/0")) == {"0xb": 1}
    within = [*member("a", 1, 0, 1, "0xb"), *member("a", 5, 1, 0, "0xb")]
    assert edges(within, channel("a", 1, "0[1] -> 1[0] via P2P/IPC")) == {"0xb": 1}


def test_a_line_is_of_no_communicator_that_has_fewer_ranks() -> None:
    lines = [*member("a", 1, 0, 0, "0xa", ranks=2), *member("a", 1, 0, 0, "0xb", ranks=4)]
    assert edges(lines, channel("a", 1, "0[0] -> 2[0] [send] via NET/Libfabric/0")) == {"0xb": 1}
    assert edges(lines, channel("a", 1, "3[0] -> 0[0] [receive] via NET/Libfabric/0")) == {"0xb": 1}
    assert edges(lines, channel("a", 1, "0[0] -> 1[0] [send] via NET/Libfabric/0")) == {"0xa": 1}


def test_a_line_between_beginning_and_end_of_an_initialisation_is_of_that_communicator() -> None:
    first, second = member("a", 1, 0, 0, "0xa"), member("a", 1, 0, 0, "0xb")
    assert edges(first, second[:2], channel("a", 1, SEND), second[2:]) == {"0xb": 1}
    assert edges(first, second, channel("a", 1, SEND)) == {"0xa": 1}
    other_thread = channel("a", 1, SEND).replace("a:1:1", "a:1:2")
    assert edges(first, second[:2], other_thread, second[2:]) == {"0xa": 1}


def test_a_line_said_again_counts_where_it_is() -> None:
    lines = [*member("a", 1, 0, 0, "0xa"), *[channel("a", 1, SEND)] * 3]
    (edge,) = read(lines).attempts[0].edges
    assert edge.count == 3
    # Also with a communicator between that it cannot be of.
    between = [*lines, *member("a", 1, 5, 1, "0xc"), channel("a", 1, SEND)]
    (edge,) = read(between).attempts[0].edges
    assert edge.count == 4
    # As often as there are communicators that it can be of, it is of each.
    twins = [*member("a", 1, 0, 0, "0xa"), *member("a", 1, 0, 0, "0xb"), channel("a", 1, SEND)]
    assert edges(twins, member("a", 1, 5, 1, "0xc"), channel("a", 1, SEND)) == {"0xa": 1, "0xb": 1}


def test_a_line_said_again_when_its_communicator_has_ended_is_of_what_is_left() -> None:
    send = channel("a", 1, SEND)
    first, second = member("a", 1, 0, 0, "0xa"), member("a", 1, 0, 0, "0xc")
    assert edges(first, send, ended("0xa1"), send) == {"0xa": 1, None: 1}
    assert edges(first, send, second, send, ended("0xa1"), send) == {"0xa": 1, "0xc": 2}
    third = member("a", 1, 0, 0, "0xd")
    assert edges(first, second, third, [send] * 3, ended("0xd1"), send) == {"0xa": 2, "0xc": 1, "0xd": 1}


def test_lines_before_any_beginning_are_of_what_is_complete_next_in_their_thread() -> None:
    send = channel("a", 1, "0[1b0] -> 1[2c0] [send] via NET/Libfabric/0")
    local = channel("a", 1, "1[2c0] -> 0[1b0] via P2P/IPC")
    whole = old_member(1, 0, "0xa")
    assert edges(send, local, whole) == {"0xa": 2}
    assert edges(send, whole, send) == {"0xa": 1}
    (edge,) = told(send, whole, send).attempts[0].edges
    assert edge.count == 2
    assert edges(send.replace("a:1:1", "a:1:2"), whole) == {None: 1}
    assert edges(channel("a", 1, "0[3d0] -> 1[2c0] [send] via NET/Libfabric/0"), whole) == {None: 1}
    for rank in (2, 5):
        assert edges(channel("a", 1, f"0[1b0] -> {rank}[2c0] [send] via NET/Libfabric/0"), whole) == {None: 1}


def test_lines_of_what_has_ended_are_not_of_what_begins_next() -> None:
    late = channel("a", 1, "0[0] -> 1[0] [send] via NET/Socket/0")
    first, second = member("a", 1, 0, 0, "0xa"), member("a", 1, 0, 0, "0xb")
    cut = member("a", 1, 0, 0, "0xc")[2]
    assert edges(first, ended("0xa1"), late, second) == {None: 1}
    assert edges(first, ended("0xa1"), late, second, cut) == {None: 1}
    assert edges(first, channel("a", 1, SEND), cut) == {"0xa": 1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rank 0 nranks 2", "rank 1 nranks 2"),
        ("rank 0 nranks 2", "rank 0 nranks 4"),
        ("commId 0x1", "commId 0x2"),
        ("commId 0x1", "parent 0x9 color 1 key 0"),
        ("parent 0x9 splitCount 1", "parent 0x8 splitCount 1"),
        ("parent 0x9 splitCount 1", "parent 0x9 splitCount 2"),
        ("parent 0x9 childCount 1", "parent 0x9 childCount 2"),
        ("parent 0x9 childCount 1", "parent 0x9 splitCount 1"),
        ("parent 0x9 childCount 1 color 0", "parent 0x9 childCount 1 color 1"),
    ],
)
def test_an_address_used_again_is_another_communicator_if_it_says_anything_else(old: str, new: str) -> None:
    line = f"{HEAD}comm 0x7 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 00 commId 0x1 - Init COMPLETE"
    before = line if old in line else line.replace("commId 0x1", old)
    after = before.replace(old, new)
    assert after != before
    ranks = [len(one.members) for attempt in told(before, after, before).attempts for one in attempt.communicators]
    assert sum(ranks) == 2


def test_a_communicator_without_any_id_is_of_its_process_alone() -> None:
    lines = [
        f"{host}:1:1 [0] NCCL INFO comm 0x7 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 00 - Init COMPLETE"
        for rank, host in enumerate("ab")
    ]
    assert [len(one.members) for attempt in read(lines).attempts for one in attempt.communicators] == [1, 1]


def test_of_several_that_a_line_may_be_of_it_is_of_the_oldest_whatever_its_address() -> None:
    again = [line.replace("comm 0xc1", "comm 0xa1") for line in member("a", 1, 0, 0, "0xc")]
    lines = [member("a", 1, 0, 0, "0xa"), member("a", 1, 0, 0, "0xb"), again]
    assert edges(*lines, channel("a", 1, SEND)) == {"0xb": 1}


@pytest.mark.parametrize("none", ["(nil)", "0x0"])
def test_a_parent_that_is_none_is_no_parent(none: str) -> None:
    lines = [line.replace("commId", f"parent {none} commId") for line in Run(gpus=1).text()]
    assert [one.id for one in read(lines).attempts[0].communicators] == [Run.comm_id]


def test_a_ranks_second_communicator_of_one_id_is_the_second_of_each_rank() -> None:
    """Up to NCCL 2.23 a second split of the same ranks has the id of the first."""
    lines = []
    for pointer in ("0x7", "0x8"):
        for rank, host in enumerate("ab"):
            said = f"comm {pointer} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 00 commId 0x1 - Init COMPLETE"
            lines.append(f"{host}:1:1 [0] NCCL INFO {said}")
    assert [(one.id, len(one.members)) for one in read(lines).attempts[0].communicators] == [("0x1", 2), ("0x1~2", 2)]


def test_a_network_is_of_the_communicator_that_its_thread_begins_next() -> None:
    lines = Run(gpus=1).text()
    at = next(i for i, line in enumerate(lines) if "node-a" in line and "Using network" in line)
    sockets = lines[at].replace("Libfabric", "Socket")
    stray = "network: rank 0 on node-a (pid 70) chose Socket for a communicator that is not seen"
    for more in (
        [*lines[:at], sockets, *lines[at:]],
        [*lines[: at + 1], sockets.replace("70:70", "70:71"), *lines[at + 1 :]],
        [*lines[: at + 6], sockets, *lines[at + 6 :]],
        [*lines, sockets],
    ):
        verdict = judged(more)
        assert verdict.value == "unproven", verdict.reasons
        assert verdict.reasons[0].startswith(stray)
    assert judged([*lines[: at + 1], sockets, *lines[at + 1 :]]).value == "refuted", "the last that was chosen counts"


def test_the_first_place_of_each_thing_is_told_and_all_that_a_process_names() -> None:
    lines = [one for line in Run(gpus=1, network="failed").text() for one in (line, line)]
    process = read(lines).attempts[0].processes[0]
    assert (process.nccl, process.ofi, process.nics) == ("2.29.3+cuda12.4", "1.19.0", ("eth0",))
    assert [one.name for one in process.networks] == ["Socket"]
    assert process.plugins == ("Libfabric", "/opt/amazon/ofi-nccl/lib/libnccl-net.so", "Socket")
    assert [one.plugin for one in process.failures] == ["aws-ofi-nccl", "Libfabric"]
    first = read(lines).attempts[0].communicators[0].members[0]
    for place, words in ((first.started, "Init START"), (first.completed, "Init COMPLETE")):
        assert place == Place("0.log", next(i for i, line in enumerate(lines, 1) if "node-a" in line and words in line))
    missing = read([one for line in Run(gpus=1, network="missing").text() for one in (line, line)])
    assert missing.attempts[0].processes[0].plugin_missing == Place("0.log", 13)
    assert process.plugin_missing is None


def test_the_device_of_a_rank_is_nvmls_where_it_is_told() -> None:
    line = member("a", 1, 3, 0, "0xa")[2]
    assert read([line.replace("cudaDev 3", "cudaDev 0")]).attempts[0].communicators[0].members[0].device == 3
    assert read([old_member(1, 0, "0xa")]).attempts[0].communicators[0].members[0].device == 0
    for none in ("-1", "x"):
        unknown = read([line.replace("nvmlDev 3", f"nvmlDev {none}")])
        assert unknown.attempts[0].communicators[0].members[0].device is None


KINDS = {
    "communicators": "comm 0x{i:x} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 00 commId 0x{i:x} - Init COMPLETE",
    "channels": "Channel {i}/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
    "networks": "Using network N{i}",
    "providers": "NET/OFI Selected provider is p{i}, fabric is efa (found 1 nics)",
    "failures": "Failed to initialize NET plugin P{i}",
    "plugins": "Initialized NET plugin P{i}",
    "interfaces": "NET/Socket : Using [0]eth{i}:10.0.1.7<0>",
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_a_process_says_counts_towards_the_limit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_FACTS", 100)
    assert read([HEAD + KINDS[kind].format(i=i) for i in range(90)]).lost.beyond == 0
    assert read([HEAD + KINDS[kind].format(i=i) for i in range(150)]).lost.beyond > 20


def test_threads_that_chose_count_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_FACTS", 100)
    assert read([f"a:1:{i} [0] NCCL INFO Using network Socket" for i in range(150)]).lost.beyond > 40
    begun = "comm 0x7 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 00 commId 0x1 - Init START"
    assert read([f"a:1:{i} [0] NCCL INFO {begun}" for i in range(150)]).lost.beyond > 40
