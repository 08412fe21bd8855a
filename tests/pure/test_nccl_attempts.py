"""Which communicator a channel is of, which attempt a process is of, and which attempts count."""

from collections import Counter

from tests.support.nccl_run import Run
from workload.nccl import log as nccl_log
from workload.nccl.report import TransportReport


def read(*files: list[str]) -> TransportReport:
    return nccl_log.read((f"{i}.log", ["\n".join(lines) + "\n"]) for i, lines in enumerate(files))


def member(host: str, pid: int, device: int, rank: int, comm_id: str, ranks: int = 2, parent: str = "") -> list[str]:
    """A rank's lines of a communicator whose address is made of both."""
    head = f"{host}:{pid}:{pid} [{device}] NCCL INFO "
    of = f"parent {parent} splitCount 1 color 0 key 0" if parent else f"commId {comm_id}"
    init = (
        f"comm {comm_id}{pid} rank {rank} nranks {ranks} cudaDev {device} nvmlDev {device} busId {device}0 {of} - Init "
    )
    return [f"{head}Using network Libfabric", f"{head}{init}START", f"{head}{init}COMPLETE"]


def channel(host: str, pid: int, text: str) -> str:
    return f"{host}:{pid}:{pid} [0] NCCL INFO Channel 00/0 : {text}"


def edges_by_communicator(report: TransportReport) -> Counter[str | None]:
    return Counter(edge.communicator for attempt in report.attempts for edge in attempt.edges)


def test_of_two_communicators_of_one_shape_lines_said_once_are_of_the_first() -> None:
    lines = [*member("a", 1, 0, 0, "0xa"), *member("b", 2, 0, 1, "0xa"), *member("a", 1, 0, 0, "0xb")]
    lines += [*member("b", 2, 0, 1, "0xb"), channel("a", 1, "0[0] -> 1[0] [send] via NET/Libfabric/0")]
    assert edges_by_communicator(read(lines)) == {"0xa": 1}
    assert edges_by_communicator(read([*lines, lines[-1]])) == {"0xa": 1, "0xb": 1}
    assert edges_by_communicator(read([*lines, lines[-1], lines[-1]])) == {"0xa": 1, "0xb": 1}


def test_a_line_said_before_the_second_was_made_is_of_the_first_and_said_after_it_of_the_second() -> None:
    send = channel("a", 1, "0[0] -> 1[0] [send] via NET/Libfabric/0")
    first, second = member("a", 1, 0, 0, "0xa"), member("a", 1, 0, 0, "0xb")
    others = [*member("b", 2, 0, 1, "0xa"), *member("b", 2, 0, 1, "0xb")]
    report = read([*first, send, *second, send, *others])
    assert edges_by_communicator(report) == {"0xa": 1, "0xb": 1}


def test_the_peers_device_tells_communicators_apart() -> None:
    lines = [*member("a", 1, 0, 0, "0xa"), *member("a", 3, 1, 1, "0xa"), *member("a", 1, 0, 0, "0xb")]
    lines += [*member("b", 2, 0, 1, "0xb"), channel("a", 1, "0[0] -> 1[0] [send] via NET/Libfabric/0")]
    assert edges_by_communicator(read(lines)) == {"0xb": 1}


def test_a_channel_of_the_network_is_rather_between_hosts_and_another_rather_within_one() -> None:
    lines = [*member("a", 1, 0, 0, "0xa"), *member("a", 3, 1, 1, "0xa"), *member("a", 1, 0, 0, "0xb")]
    lines += [*member("b", 2, 1, 1, "0xb")]
    net, local = "0[0] -> 1[1] [send] via NET/Libfabric/0", "0[0] -> 1[1] via P2P/CUMEM"
    assert edges_by_communicator(read([*lines, channel("a", 1, net)])) == {"0xb": 1}
    assert edges_by_communicator(read([*lines, channel("a", 1, local)])) == {"0xa": 1}
    swapped = [*lines[6:], *lines[:6]]
    assert edges_by_communicator(read([*swapped, channel("a", 1, local)])) == {"0xa": 1}


def test_lines_of_the_same_ranks_are_told_apart_by_each_thing_they_name() -> None:
    """In one log, so that what was found for one line is not taken for the next."""
    lines = [*member("a", 1, 0, 0, "0xa", ranks=3), *member("a", 1, 0, 0, "0xb", ranks=3)]
    lines += [*member("b", 2, 0, 1, "0xa", ranks=3), *member("b", 3, 1, 1, "0xb", ranks=3)]
    lines += [*member("b", 3, 1, 2, "0xa", ranks=3), *member("b", 2, 0, 2, "0xb", ranks=3)]
    said = ["{}[0] -> 0[0] [receive]", "{}[1] -> 0[0] [receive]", "0[0] -> {}[0] [send]", "0[0] -> {}[1] [send]"]
    of_first = [channel("a", 1, f"{text.format(1 if '[1]' not in text else 2)} via NET/OFI/0") for text in said]
    of_second = [channel("a", 1, f"{text.format(2 if '[1]' not in text else 1)} via NET/OFI/0") for text in said]
    for one, other in zip(of_first, of_second, strict=True):
        assert edges_by_communicator(read([*lines, one])) == {"0xa": 1}
        assert edges_by_communicator(read([*lines, other])) == {"0xb": 1}
    assert edges_by_communicator(read([*lines, *of_first, *of_second])) == {"0xa": 4, "0xb": 4}


def test_lines_of_the_same_ranks_are_told_apart_by_what_they_go_over() -> None:
    sockets = [line.replace("Libfabric", "Socket") for line in member("a", 1, 0, 0, "0xb")]
    lines = [*member("a", 1, 0, 0, "0xa"), *member("b", 2, 0, 1, "0xa"), *sockets, *member("b", 2, 0, 1, "0xb")]
    ways = [channel("a", 1, f"0[0] -> 1[0] [send] via NET/{name}/0") for name in ("Libfabric", "Socket")]
    for both in (ways, ways[::-1]):
        edges = read([*lines, *both]).attempts[0].edges
        assert {(edge.network, edge.communicator) for edge in edges} == {("Libfabric", "0xa"), ("Socket", "0xb")}
    within = [*member("a", 1, 0, 0, "0xa"), *member("a", 3, 1, 1, "0xa"), *member("a", 1, 0, 0, "0xb")]
    net, local = "0[0] -> 1[1] [send] via NET/Libfabric/0", "0[0] -> 1[1] [send] via P2P/CUMEM"
    both = [channel("a", 1, net), channel("a", 1, local)]
    edges = read([*within, *member("b", 2, 1, 1, "0xb"), *both]).attempts[0].edges
    assert {(edge.kind, edge.communicator) for edge in edges} == {("NET", "0xb"), ("P2P", "0xa")}


def test_a_rank_that_is_not_seen_is_not_taken_for_one_of_another_host() -> None:
    net = channel("a", 1, "0[0] -> 1[1] [send] via NET/Libfabric/0")
    within, unseen = [*member("a", 1, 0, 0, "0xa"), *member("a", 3, 1, 1, "0xa")], member("a", 1, 0, 0, "0xb")
    assert edges_by_communicator(read([*within, *unseen, net])) == {"0xa": 1}


def test_a_channel_to_a_rank_that_is_not_seen_has_an_unknown_host() -> None:
    lines = [*member("a", 1, 0, 0, "0xa"), channel("a", 1, "0[0] -> 1[0] [send] via NET/Socket/0")]
    (edge,) = read(lines).attempts[0].edges
    assert (edge.communicator, edge.from_host, edge.to_host, edge.between_hosts) == ("0xa", "a", None, None)


def test_a_channel_of_a_communicator_that_has_ended_is_of_none() -> None:
    end = "a:1:1 [0] NCCL INFO comm 0xa1 rank 0 nranks 2 cudaDev 0 busId 00 - Destroy COMPLETE"
    lines = [*member("a", 1, 0, 0, "0xa"), end, channel("a", 1, "0[0] -> 1[0] [send] via NET/Socket/0")]
    assert edges_by_communicator(read(lines)) == {None: 1}


def test_a_child_is_named_after_its_parent_and_has_its_network() -> None:
    silent = [line for line in member("a", 1, 0, 0, "0xc", parent="0xa1") if "Using" not in line]
    report = read([*member("a", 1, 0, 0, "0xa"), *silent])
    child = next(one for one in report.attempts[0].communicators if one.parent)
    assert (child.id, child.parent) == ("0xa/1.0", "0xa")
    assert child.members[0].network is not None


def test_children_of_unknown_parents_are_not_put_together() -> None:
    lines = [*member("a", 1, 0, 0, "0xc", parent="0x9"), *member("b", 2, 0, 1, "0xc", parent="0x9")]
    assert [len(one.members) for attempt in read(lines).attempts for one in attempt.communicators] == [1, 1]


def test_a_chain_of_splits_without_end_keeps_its_names_short() -> None:
    lines = member("a", 1, 0, 0, "0xa")
    for number in range(300):
        lines += member("a", 1, 0, 0, f"0xf{number}", parent=f"0xf{number - 1}1" if number else "0xa1")
    assert max(len(one.id) for one in read(lines).attempts[0].communicators) <= 320


def test_processes_without_communicator_are_of_the_attempt_they_ran_in_else_an_attempt_together() -> None:
    run = Run(gpus=1).text()
    alone = [f"a:{pid}:{pid} [0] NCCL INFO Bootstrap : Using eth0:10.0.1.7<0>" for pid in (900, 901)]
    before, among, after = read([*alone, *run]), read([*run[:5], *alone, *run[5:]]), read([*run, *alone])
    assert [len(one.processes) for one in before.attempts] == [2, 2]
    assert before.counting == (1,)
    assert [len(one.processes) for one in among.attempts] == [4]
    assert [len(one.processes) for one in after.attempts] == [2, 2]
    assert after.counting == (1,)
    assert not after.attempts[1].communicators


def test_processes_without_communicator_are_together_only_where_they_stand_together() -> None:
    run = Run(gpus=1).text()
    before, after = ([f"{host}:{pid}:1 [0] NCCL INFO x" for host in "ab"] for pid in (900, 901))
    whole = read([*before, *run, *after])
    assert ([len(one.processes) for one in whole.attempts], whole.counting) == ([2, 2, 2], (2,))
    files = read(before, after)
    assert ([len(one.processes) for one in files.attempts], files.counting) == ([2, 2], (0, 1))


def test_a_communicator_has_as_many_ranks_as_the_most_that_any_of_them_says() -> None:
    lines = [line.replace("nranks 2", "nranks 3") if ":71:" in line else line for line in Run(gpus=1).text()]
    (communicator,) = read(lines).attempts[0].communicators
    assert (communicator.ranks, communicator.complete) == (3, False)


def test_a_rank_that_is_there_twice_has_the_devices_of_both() -> None:
    lines = [*member("a", 1, 0, 0, "0xa"), *member("b", 2, 0, 1, "0xa"), *member("b", 3, 1, 1, "0xa")]
    for device in (0, 1):
        assert edges_by_communicator(read([*lines, channel("a", 1, f"0[0] -> 1[{device}] [send] via NET/IB/0")])) == {
            "0xa": 1
        }


def test_what_counts_is_what_none_is_known_to_have_followed() -> None:
    run = Run(nccl=(2, 30), gpus=1)
    first, second = run.text(), run.but(first_pid=170, comm_id="0xb").text()
    assert (read([*first, *second]).counting, read([*first, *second]).side_by_side) == ((1,), False)
    apart = read(first, second)
    assert (apart.counting, apart.side_by_side) == ((0, 1), False)
    mixed = read([line for pair in zip(first, second, strict=True) for line in pair])
    assert (mixed.counting, mixed.side_by_side) == ((0, 1), True)
    both = read([*first[:20], *second[:20]], [*first[20:], *second[20:]])
    assert (both.counting, both.side_by_side) == ((1,), False)
    crossed = read([*first[:20], *second[:20]], [*second[20:], *first[20:]])
    assert crossed.counting == (0, 1)
