"""What each line says, in every wording by version, whole, cut anywhere, or in words not known."""

import re

import pytest

from workload.nccl.fact import (
    PART,
    UNKNOWN,
    EdgeLine,
    EndLine,
    FailureLine,
    InitLine,
    NetworkLine,
    NicsLine,
    Parsed,
    PluginLine,
    ProviderLine,
    TopologyLine,
    VersionLine,
)
from workload.nccl.line import is_distinct, parse


def net(via: str, network: str, device: int, proxy: int | None = None, *, gdr: bool = False) -> EdgeLine:
    return EdgeLine(12, 7, "3", 0, "1b000", "send", "NET", via, network, device, proxy, gdr)


NET = "Channel 12/0 : 7[3] -> 0[1b000] [send] via "
LOCAL = "Channel 01/0 : 0[0] -> -1[1] via "
INIT = "rank 10 nranks 41 cudaDev 3 nvmlDev 3 busId 38000 "
PAIRS = {"cudaDev": "3", "nvmlDev": "3", "busId": "38000"}
LIBRARY = "/opt/amazon/ofi-nccl/lib/libnccl-net.so"

FACTS: dict[str, Parsed] = {
    f"{NET}NET/Libfabric/0": net("NET/Libfabric/0", "Libfabric", 0),
    f"{NET}NET/AWS Libfabric/12": net("NET/AWS Libfabric/12", "AWS Libfabric", 12),
    f"{NET}NET/OFI/0/Shared": net("NET/OFI/0/Shared", "OFI", 0),
    f"{NET}NET/Socket/1/GDRDMA": net("NET/Socket/1/GDRDMA", "Socket", 1, gdr=True),
    f"{NET}NET/IB/1(4)/GDRDMA(PCI)/Shared": net("NET/IB/1(4)/GDRDMA(PCI)/Shared", "IB", 1, 4, gdr=True),
    f"{NET}NET/Libfabric/1(24)": net("NET/Libfabric/1(24)", "Libfabric", 1, 24),
    "Channel 0/1 : 13[3] -> 14[0] [receive] via NET/OFI/0": EdgeLine(
        0, 13, "3", 14, "0", "receive", "NET", "NET/OFI/0", "OFI", 0, None, False
    ),
    **{
        f"{LOCAL}{via}": EdgeLine(1, 0, "0", -1, "1", None, "P2P", via, None, None, None, False)
        for via in (
            *("P2P/CUMEM", "P2P/CUMEM/read", "P2P/CUMEM/CE", "P2P/CUMEM/read/CE", "P2P/IPC", "P2P/IPC/read"),
            *("P2P/MNNVL/read", "P2P/direct pointer", "P2P/direct pointer/read", "P2P/indirect/22[1b0]/read"),
        )
    },
    **{
        f"Channel 01 : 0[0] -> 1[1] via {via}": EdgeLine(
            1, 0, "0", 1, "1", None, "SHM", via, None, None, None, False
        )
        for via in ("SHM/direct/direct", "SHM/direct/CE", "SHM/CE/direct", "SHM/CE/CE", "SHM/direct")
    },
    f"comm 0x5500 {INIT}commId 0xfc60 - Init START": InitLine("0x5500", 10, 41, {**PAIRS, "commId": "0xfc60"}, False),
    f"ncclCommInitRankConfig comm 0x5500 {INIT}commId 0xfc6023afed4eb833 - Init COMPLETE": InitLine(
        "0x5500", 10, 41, {**PAIRS, "commId": "0xfc6023afed4eb833"}, True
    ),
    f"[Rank 10] ncclCommInitRankScalable comm 0x5500 {INIT}commId 0xfc60 - Init START": InitLine(
        "0x5500", 10, 41, {**PAIRS, "commId": "0xfc60"}, False
    ),
    "comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1b0 commId 0xf - Init COMPLETE": InitLine(
        "0x55", 0, 2, {"cudaDev": "0", "busId": "1b0", "commId": "0xf"}, True
    ),
    f"ncclCommSplit comm 0x66 {INIT}parent 0x55 color 0 key 1 commId 0x77 - Init START": InitLine(
        "0x66", 10, 41, {**PAIRS, "parent": "0x55", "color": "0", "key": "1", "commId": "0x77"}, False
    ),
    f"ncclCommSplit comm 0x66 {INIT}parent 0x55 splitCount 1 color -12 key 0- Init START": InitLine(
        "0x66", 10, 41, {**PAIRS, "parent": "0x55", "splitCount": "1", "color": "-12", "key": "0"}, False
    ),
    f"ncclCommShrink comm 0x66 {INIT}parent (nil) childCount 1 color 0 key 0 - Init COMPLETE": InitLine(
        "0x66", 10, 41, {**PAIRS, "parent": "(nil)", "childCount": "1", "color": "0", "key": "0"}, True
    ),
    "comm 0x55 rank 10 nRanks 41 nNodes 12 localRanks 4 localRank 2": TopologyLine("0x55", 12),
    "comm 0x55 rank 10 nRanks 41 nNodes 12 localRanks 14 localRank 12 MNNVL 0": TopologyLine("0x55", 12),
    "comm 0x55 rank 10 nranks 41 cudaDev 0 busId 38000 - Destroy COMPLETE": EndLine("0x55"),
    "comm 0x55 rank 10 nranks 41 cudaDev 0 busId 38000 - Abort COMPLETE": EndLine("0x55"),
    **{f"Using network {name}": NetworkLine(name) for name in ("AWS Libfabric", "Libfabric", "OFI", "Socket", "IB")},
    **{
        f"NET/OFI Selected Provider is {name}": ProviderLine(name, None, None)
        for name in ("efa", "efa-direct", "tcp", "sockets", "udp", "verbs", "shm", "verbs;ofi_rxm")
    },
    "NET/OFI Selected Provider is tcp;ofi_rxm (found 14 nics)": ProviderLine("tcp;ofi_rxm", None, 14),
    "NET/OFI Selected provider is efa, fabric is efa-direct (found 1 nics)": ProviderLine("efa", "efa-direct", 1),
    "NET/OFI Selected provider is tcp, fabric is 10.0.0.0/16 (found 1 nics)": ProviderLine("tcp", "10.0.0.0/16", 1),
    "NET/OFI aws-ofi-nccl initialization failed": FailureLine(
        "aws-ofi-nccl", "NET/OFI aws-ofi-nccl initialization failed"
    ),
    "Failed to initialize any NET plugin": FailureLine("any", "Failed to initialize any NET plugin"),
    "Failed to initialize NET plugin Libfabric": FailureLine("Libfabric", "Failed to initialize NET plugin Libfabric"),
    f"External network plugin {LIBRARY} is unsupported": FailureLine(
        LIBRARY, f"External network plugin {LIBRARY} is unsupported"
    ),
    "NET/OFI Initializing aws-ofi-nccl 1.19.0": VersionLine("ofi", "1.19.0"),
    "NET/OFI Using aws-ofi-nccl 1.7.4-aws": VersionLine("ofi", "1.7.4-aws"),
    "NCCL version 2.29.3+cuda12.4": VersionLine("nccl", "2.29.3+cuda12.4"),
    "NET/Plugin: Loaded net plugin AWS Libfabric (v10)": PluginLine("AWS Libfabric"),
    "NET/Plugin : Loaded net plugin Libfabric (v5)": PluginLine("Libfabric"),
    "Initialized NET plugin Libfabric": PluginLine("Libfabric"),
    f"Successfully loaded external network plugin {LIBRARY}": PluginLine(LIBRARY),
    **{
        f"NET/Plugin{text}": PluginLine(None)
        for text in (
            " : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file",
            " : No plugin found, using internal implementation",
            " : dlerror=no such file No plugin found (libnccl-net.so), using internal implementation",
            ": No plugin found (libnccl-net.so)",
            ": Using internal network plugin.",
            ": Could not find: libnccl-net.so. Using internal net plugin.",
            ": Could not find: libnccl-net.so",
        )
    },
    "NET/Socket : Using [0]eth0:10.0.1.7<0> [1]eth1:fe80::1<0>": NicsLine(("eth0", "eth1")),
    "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/IB": NicsLine(("mlx5_0", "mlx5_1")),
}  # fmt: skip

# That it follows is no sign of belonging to it; as a line of its own it says the same or more.
LOOSE: dict[str, Parsed] = {
    "Using network FasTrak": NetworkLine("FasTrak"),
    "Using network Libfabric and more": NetworkLine("Libfabric and more"),
    f"{NET}NET/FasTrak/0/New(1)": net("NET/FasTrak/0/New(1)", "FasTrak", 0),
    f"{NET}NET/Libfabric/0(4)/Another": net("NET/Libfabric/0(4)/Another", "Libfabric", 0, 4),
    f"{LOCAL}P2P/IPC or so": EdgeLine(1, 0, "0", -1, "1", None, "P2P", "P2P/IPC or so", None, None, None, False),
    f"{LOCAL}P2P/new": EdgeLine(1, 0, "0", -1, "1", None, "P2P", "P2P/new", None, None, None, False),
    f"{LOCAL}SHM/new": EdgeLine(1, 0, "0", -1, "1", None, "SHM", "SHM/new", None, None, None, False),
    f"{LOCAL}COLLNET/x": EdgeLine(1, 0, "0", -1, "1", None, "other", "COLLNET/x", None, None, None, False),
    "NET/OFI Selected provider is new": ProviderLine("new", None, None),
    "NET/OFI Selected provider is ef, fabric is x": ProviderLine("ef", "x", None),
    "NET/OFI Selected provider is ef (found 1 nics)": ProviderLine("ef", None, 1),
    "External network plugin x is unsupported, sorry": FailureLine(
        "x", "External network plugin x is unsupported, sorry"
    ),
    "NET/OFI aws-ofi-nccl initialization failed: -5": FailureLine(
        "aws-ofi-nccl", "NET/OFI aws-ofi-nccl initialization failed"
    ),
    "Failed to initialize any NET plugin at all": FailureLine("any", "Failed to initialize any NET plugin"),
    "Failed to initialize NET plugin FasTrak": FailureLine("FasTrak", "Failed to initialize NET plugin FasTrak"),
    "Initialized NET plugin FasTrak": PluginLine("FasTrak"),
    "Successfully loaded external network plugin a b": PluginLine("a b"),
    "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:192.0.2.2<0>": NicsLine(("mlx5_0",)),
    f"comm 0x5500 {INIT}commId 0xfc60 - Init START, at last": InitLine(
        "0x5500", 10, 41, {**PAIRS, "commId": "0xfc60"}, False
    ),
    "comm 0x55 rank 10 nRanks 41 nNodes 12 localRanks 4 localRank 2 and more": TopologyLine("0x55", 12),
    "comm 0x55 rank 10 nranks 41 cudaDev 0 busId 38000 - Destroy COMPLETE, done": EndLine("0x55"),
}
UNKNOWNS = (
    f"{NET}NET/?",
    f"{NET}NET/Libfabric/x",
    f"{NET}NET/Libfabric/0/{'x' * 200}",
    "Channel 12/0 : 7 -> 0 [send] via NET/Socket/0",
    "Channel 12/0 : 7[3] -> 0[1] [sent] via NET/Socket/0",
    "Channel 00/0 : 1234567890[0] -> 1[0] [send] via NET/Socket/0",
    f"comm 0x55 {INIT}(commId 0xfc60) - Init COMPLETE",
    "ncclCommInitRank of rank 3 - Init START",
    f"ncclCommInitRank of comm 0x55 {INIT}commId 0xf - Init START",
    "[Rank 3] ncclCommGrow to 4 - Init START",
    "NET/OFI Selected provider is efa, in a fabric of its own",
    "NET/OFI Selected Provider: efa",
)
NOTHING = (
    "Channel 00/02 : 0 1 2 3",
    "Channel 00/02 : 0",
    "Channel 00/0 : 0 1",
    "Connected all rings, use ring PXN 0 GDR 1",
    "Bootstrap: Using eth0:10.0.1.7<0>",
    "Using non-device net plugin version 0",
    "Using 512 threads, Min Comp Cap 8, Trees enabled",
    "NET/Socket: Using 2 threads and 8 sockets per thread",
    "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
    "NET/IB : No device found.",
    "NET/OFI Using Libfabric version 1.22",
    "NET/Plugin: Failed to find ncclCollNetPlugin_v8 symbol.",
    "NET/Plugin: Loaded collnet plugin SHARP (v8)",
    "NET/Plugin: Loaded gin plugin Libfabric_GDAKI (v13)",
    "Failed to find ncclCollNetPlugin symbol.",
    "Successfully loaded external tuner plugin libnccl-tuner.so",
    "External network plugin of another kind is not loaded",
    "Init timings - ncclCommInitRank: rank 0 nranks 4 total 0.53",
    "comm 0x55 rank 0 nRanks 2 cudaDev 0 busId 38000 - Abort START",
    "comm 0x55 rank 0 nRanks 2 cudaDev 0 busId 38000 - Revoke COMPLETE, result 0",
    "ncclCommSplit ncclRemoteError",
    "ncclCommDump of comm 0x55 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0",
    "ncclCommDump of comm 0x55 rank 0 nranks 2 cudaDev 0 busId 38000 - Destroy COMPLETE",
    "[Rank 3] something else",
    "[Rank 3 of 4] begins",
    "[Ranks] of it",
    "abc",
    "NCCL_DEBUG set by environment to INFO.",
)


@pytest.mark.parametrize("body", FACTS)
def test_a_line_says_what_its_version_says_with_it(body: str) -> None:
    assert parse(body) == FACTS[body]
    assert parse(body, strict=True) == FACTS[body]


@pytest.mark.parametrize("body", [body for body in FACTS if " [1]" not in body])
def test_the_beginning_of_a_line_is_known_for_one_wherever_it_is_cut(body: str) -> None:
    kind = type(FACTS[body])
    for end in range(len(body)):
        said = parse(body[:end], strict=True)
        # The wordings of some end early: what follows says more of the same.
        assert said is PART or isinstance(said, kind), body[:end]


@pytest.mark.parametrize("body", LOOSE)
def test_other_words_in_a_known_place_are_taken_of_a_line_but_not_of_pieces(body: str) -> None:
    assert parse(body) == LOOSE[body]
    assert parse(body, strict=True) in (None, UNKNOWN)


@pytest.mark.parametrize("body", UNKNOWNS)
def test_a_line_that_tells_in_other_words_is_known_to_be_unknown(body: str) -> None:
    assert parse(body) is UNKNOWN


@pytest.mark.parametrize("body", NOTHING)
def test_other_lines_say_nothing(body: str) -> None:
    assert parse(body) is None
    assert parse(body, strict=True) is None


@pytest.mark.parametrize("body", [body for body in FACTS if re.search(r"\b\d\b|\b0x", body)])
def test_numbers_are_read_up_to_a_bound(body: str) -> None:
    """Nine digits, as more than NCCL has of anything; sixteen of an address."""
    bounded = [*re.finditer(r"(?<=rank )\d+|(?<=ranks )\d+|(?<=\[Rank )\d+|(?<=Nodes )\d+|(?<=Ranks )\d+", body)]
    bounded += [*re.finditer(r"(?<=Channel )\d+|(?<= : )\d+(?=\[)|(?<=-> )\d+|(?<=found )\d+|(?<=\()\d+(?=\))", body)]
    bounded += re.finditer(r"(?<=comm 0x)\w+", body)
    for found in bounded:
        most = 16 if body[: found.start()].endswith("0x") else 9
        for digits, known in ((most, True), (most + 1, False)):
            longer = body[: found.start()] + "1" * digits + body[found.end() :]
            assert isinstance(parse(longer, strict=True), type(FACTS[body])) == known, longer


@pytest.mark.parametrize("body", FACTS)
def test_a_beginning_that_is_none_of_anything_else_is_known_for_that(body: str) -> None:
    unlike = not re.match(r"NET/(Plugin|Socket|IB|OFI (Init|Using))|Successfully|NCCL version", body)
    assert is_distinct(body) == unlike
    assert not is_distinct(body[:5])


@pytest.mark.parametrize("body", [*NOTHING, "a line of Channel 00 : 0[0]"])
def test_other_lines_are_distinct_in_nothing(body: str) -> None:
    assert not is_distinct(body) or body.startswith(("Channel 00/0 : ", "comm 0x", "Using n", "External n"))
