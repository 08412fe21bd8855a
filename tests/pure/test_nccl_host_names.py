"""A host's name whose beginning was lost makes no second host: whose name it is, and what may not be said of two."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given

from tests.pure.test_transport_properties import EFA, chances, quick, read, woven
from tests.support.nccl_run import Run, through_ray
from workload.nccl import log as nccl_log
from workload.nccl.rule import judge_report
from workload.verdict import Verdict, Wanted

RAY = "(RayTrainWorker pid=70, ip=10.0.1.9) "
OTHER = "(RayTrainWorker pid=71, ip=10.0.1.10) "
MARK, OTHER_MARK = "[nccl rank 0 #a1b2c3d4] ", "[nccl rank 1 #00ff00ff] "


def judged(lines: list[str], wanted: Wanted = EFA) -> Verdict:
    return judge_report(read(lines), wanted)


def hosts(lines: list[str]) -> list[str]:
    return sorted({process.host for attempt in read(lines).attempts for process in attempt.processes})


def start(name: str, rank: int, *, ranks: int = 4, nodes: int | None = None, device: int | None = None) -> list[str]:
    """The lines of a rank's initialisation."""
    device = rank if device is None else device
    head = f"{name}:{70 + rank}:{70 + rank} [{device}] NCCL INFO "
    comm = f"{head}comm 0x55{rank} rank {rank} "
    init = f"{comm}nranks {ranks} cudaDev {device} nvmlDev {device} busId 38000 commId 0xfc60 - Init "
    counted = [f"{comm}nRanks {ranks} nNodes {nodes} localRanks 2 localRank {device}"] if nodes else []
    return [f"{head}Using network Libfabric", f"{init}START", *counted, f"{init}COMPLETE"]


def channel(name: str, via: str) -> str:
    return f"{name}:70:70 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {via}"


def test_a_name_that_stood_at_a_records_start_gives_way_to_one_behind_a_mark() -> None:
    """Found by fuzzing (seed 1, case 3313): of `[nccl rank 0 #a1b2c3d4] nod` and `e-a:70:70` the first was left out."""
    lines = [
        f"{RAY}e-a:70:70 [0] NCCL INFO Bootstrap: Using eth0:10.0.1.7<0>",
        *(f"{RAY}{MARK}{line}" for line in start("node-a", 0, nodes=2)),
        *(f"{OTHER}{OTHER_MARK}{line}" for line in start("node-a", 1, nodes=2)),
        f"{RAY}{MARK}{channel('node-a', 'P2P/CUMEM')}",
    ]
    assert hosts(lines) == hosts(lines[1:]) == ["node-a"]
    assert judged(lines).value == judged(lines[1:]).value == "unproven"


@pytest.mark.parametrize(
    ("records", "name"),
    [
        (["e-a:", f"{MARK}node-a:"], "node-a"),
        ([f"{MARK}node-a:", "e-a:"], "node-a"),
        ([f"{MARK}node-a:", f"{MARK}nod", "e-a:"], "node-a"),
        ([f"{MARK}nod", "e-a:", f"{MARK}node-a:"], "node-a"),
        # What stood before it is its own beginning, and of the two a longer one is the nearer to all of it.
        (["nod", "e-a:", "node-a:"], "node-a"),
        (["node-a:", "nod", "e-a:"], "node-a"),
        (["nod", "e-a:", "no", "de-a:"], "de-a"),
        (["no", "de-a:", "nod", "e-a:"], "de-a"),
        (["a", "-a:", "b", "e-a:", "node-a:", f"{MARK}gpu-node-a:"], "gpu-node-a"),
        # The end of another program's line, without a line feed, before a name.
        ([f"{MARK}node-a:", "...node-a:"], "node-a"),
        (["...node-a:", f"{MARK}node-a:"], "node-a"),
        ([f"{MARK}node-a:", "[x] ..node-a:"], "node-a"),
        (["[x] ..node-a:", f"{MARK}node-a:", "node-a:", "[x] ..node-a:"], "node-a"),
        # Which of these is all of it cannot be told: it is one host, by the name that came first.
        (["e-a:", "node-a:"], "e-a"),
        (["node-a:", "e-a:"], "node-a"),
        (["x", "node-a:", "node-a:", "...node-a:"], "node-a"),
    ],
)
def test_names_of_which_one_is_the_end_of_the_other_are_one_behind_one_prefix(records: list[str], name: str) -> None:
    rest = "70:70 [0] NCCL INFO x"
    assert hosts([RAY + record + rest * record.endswith(":") for record in records]) == [name]


def test_a_process_renamed_twice_is_found_by_each_of_its_names() -> None:
    log = nccl_log.NcclLog()
    names = ["x", "-a:", "e-a:", f"{MARK}node-a:"]
    said = "70:70 [0] NCCL INFO Using network "
    log.read("0.log", [f"{RAY}{name}{(said + 'IB') * name.endswith(':')}\n" for name in names])
    for name in ("e-a", "-a", "node-a"):
        log.read(f"{name}.log", [f"{name}:{said}Socket\n"])
    (attempt,) = log.report().attempts
    assert [(one.host, [network.name for network in one.networks]) for one in attempt.processes] == [
        ("node-a", ["IB", "Socket"])
    ]


@pytest.mark.parametrize("via", ["P2P/CUMEM", "SHM/direct/direct", "NET/Socket/0"])
@pytest.mark.parametrize("wanted", [EFA, Wanted(expect="efa", gdr=True), Wanted(expect="gloo")])
def test_between_a_host_and_the_end_of_its_name_no_channel_refutes_and_none_is_passed_over(
    via: str, wanted: Wanted
) -> None:
    """All of a process's lines with its host's name whole were left out."""
    lines = [*start("e-a", 0), *start("node-a", 1), channel("e-a", via)]
    verdict = judged(lines, wanted)
    assert verdict.value == "unproven", verdict.reasons
    if wanted.expect == "efa":
        assert (
            f"channel: rank 0 on e-a -> rank 1 on node-a via {via}, told by pid 70 on e-a, expected efa (job.log:7), "
            "but one host's name is the end of the other's, whose beginning may be lost"
        ) in verdict.reasons
    another = [line.replace("e-a", "node-c") if "e-a:70" in line else line for line in lines]
    assert judged(another, wanted).value == "refuted"


def test_hosts_are_two_where_a_device_or_nccls_own_count_tells_their_names_apart() -> None:
    """Hosts may be called a and node-a."""
    socket = channel("a", "NET/Socket/0")
    same_device = [*start("a", 0), *start("node-a", 1, device=0), socket.replace("1[1]", "1[0]")]
    counted = [*start("a", 0, ranks=2, nodes=2), *start("node-a", 1, ranks=2, nodes=2), socket]
    for lines in (same_device, counted):
        (reason,) = judged(lines).reasons
        assert reason.startswith("channel: rank 0 on a -> rank 1 on node-a via NET/Socket/0, told by pid 70 on a, exp")
        assert judged(lines).value == "refuted"
    for less in (counted[:-2] + counted[-1:], [line.replace("nNodes 2", "nNodes 3") for line in counted]):
        assert judged(less).value == "unproven", "a rank is missing, or another host"


@pytest.mark.parametrize("wrong", ["Using network Socket", "NET/OFI Selected provider is tcp, fabric is x"])
def test_a_group_that_may_be_of_one_host_is_refuted_by_no_network_and_no_provider(wrong: str) -> None:
    lines = [f"e-a:70:70 [0] NCCL INFO {wrong}", *start("e-a", 0, ranks=2)[1:], *start("node-a", 1, ranks=2)]
    assert judged(lines).value == "unproven"
    assert any("chose Socket" in reason or "named tcp" in reason for reason in judged(lines).reasons)
    for more in (
        [line.replace("e-a:70", "node-c:70") for line in lines],
        [line.replace("Dev 1", "Dev 0") for line in lines],
        [*lines, "e-a:70:70 [0] NCCL INFO comm 0x550 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0"],
    ):
        assert judged(more).value == "refuted", judged(more).reasons


def test_gpudirect_that_is_wanted_is_demanded_between_a_host_and_the_end_of_its_name() -> None:
    """Where NCCL counts no hosts, and they have other devices."""
    same = Run(nccl=(2, 18), hosts=("a", "node-a"), gdr="/GDRDMA(PCI)").text()
    other = [line.replace("nvmlDev ", "nvmlDev 1") if line.startswith("node-a") else line for line in same]
    other = [line.replace(" 2[0]", " 2[10]").replace(" 3[1]", " 3[11]") for line in other]
    gdr = Wanted(expect="efa", gdr=True)
    for lines, value in ((same, "refuted"), (other, "unproven")):
        assert judged(lines, gdr).value == "proven", judged(lines, gdr).reasons
        plain = [line.replace("/GDRDMA(PCI)", "") for line in lines]
        assert judged(plain).value == "proven"
        assert judged(plain, gdr).value == value


def cut_in_names(run: Run, chance: Random) -> list[str]:
    """Through Ray, with marks or without, some lines in two pieces of which the second begins within the name."""
    marked, share = chance.random() < 0.5, chance.choice([0.1, 0.5, 0.9])
    streams = []
    for number, process in enumerate(run.processes()):
        prefix, mark = through_ray(process, number=number), f"[nccl rank {number} #a1b2c3d{number}] " * marked
        stream: list[str] = []
        for text in process.text():
            bare = text.startswith("NCCL version")
            line = text if bare else mark + text
            at = line.find(process.host) + chance.randrange(1, len(process.host))
            bounds = [0, at, len(line)] if not bare and chance.random() < share else [0, len(line)]
            stream += [prefix + line[begin:end] for begin, end in pairwise(bounds)]
        streams.append(stream)
    return woven(streams, chance)


@quick
@given(chance=chances)
def test_lines_less_of_names_in_pieces_refute_nothing(chance: Random) -> None:
    run = Run(nccl=chance.choice([(2, 18), (2, 20), (2, 24), (2, 29)]), gpus=chance.choice([1, 2, 4]))
    lines = cut_in_names(run, chance)
    for share in (0.0, 0.05, 0.3, 0.6, 0.9):
        verdict = judged([line for line in lines if chance.random() >= share])
        assert verdict.value != "refuted", verdict.reasons


@quick
@given(chance=chances)
def test_sockets_are_refuted_as_ever_where_names_are_in_pieces(chance: Random) -> None:
    lines = cut_in_names(Run(gpus=chance.choice([1, 2, 4]), network="missing"), chance)
    assert judged(lines).value == "refuted"
