"""Logs as NCCL would write them in a modelled run, by version: for tests of what is read from such logs."""

from dataclasses import dataclass, field, replace

Version = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Process:
    """One rank's lines, without the head that every line of it has."""

    host: str
    pid: int
    device: int
    lines: tuple[str, ...]

    def head(self) -> str:
        return f"{self.host}:{self.pid}:{self.pid} [{self.device}] NCCL INFO "

    def text(self) -> list[str]:
        """A line that begins with `WARN ` and one with `BARE ` have no INFO head."""
        return [self._line(one) for one in self.lines]

    def _line(self, line: str) -> str:
        if line.startswith("BARE "):
            return line.removeprefix("BARE ")
        if line.startswith("WARN "):
            return f"{self.host}:{self.pid}:{self.pid + 1} [{self.device}] {line.removeprefix('WARN ')}"
        return self.head() + line


@dataclass(frozen=True, kw_only=True)
class Run:
    """Ranks one after the other over the hosts; `network` is efa, missing, failed, tcp or socket (NCCL_NET=Socket).

    `gdr` is what follows a channel's device. `lonely` hosts have their network `missing` whatever the others have.
    """

    nccl: Version = (2, 29)
    ofi: Version = (1, 19)
    hosts: tuple[str, ...] = ("node-a", "node-b")
    gpus: int = 2
    channels: int = 2
    network: str = "efa"
    fabric: str = "efa"
    nics: int = 1
    gdr: str = ""
    comm_id: str = "0xfc6023afed4eb833"
    first_pid: int = 70
    connect: bool = True
    lonely: tuple[str, ...] = ()
    name: str = field(default="")

    @property
    def ranks(self) -> int:
        return len(self.hosts) * self.gpus

    def host(self, rank: int) -> str:
        return self.hosts[rank // self.gpus]

    def processes(self) -> list[Process]:
        return [
            Process(
                host=self.host(rank),
                pid=self.first_pid + rank,
                device=rank % self.gpus,
                lines=(*self.opening(rank), *self.communicator(rank)),
            )
            for rank in range(self.ranks)
        ]

    def text(self) -> list[str]:
        """Line by line in turns, as processes do that run side by side."""
        remaining = [one.text() for one in self.processes()]
        lines = []
        while any(remaining):
            lines += [one.pop(0) for one in remaining if one]
        return lines

    def network_of(self, rank: int) -> str:
        return "missing" if self.host(rank) in self.lonely else self.network

    def network_name(self, rank: int) -> str:
        if self.network_of(rank) in ("missing", "failed", "socket"):
            return "Socket"
        return self.name or ("Libfabric" if self.ofi >= (1, 13) else "AWS Libfabric")

    def opening(self, rank: int) -> list[str]:
        """Up to and with the line about the network."""
        bootstrap = "Bootstrap: Using" if self.nccl >= (2, 28) else "Bootstrap : Using"
        lines = [f"{bootstrap} eth0:10.0.1.{rank // self.gpus + 7}<0>", "cudaDriverVersion 13000"]
        version = "NCCL version " + ".".join(map(str, self.nccl)) + ".3+cuda12.4"
        lines += [version] if self.nccl >= (2, 28) else [f"BARE {version}"] if rank == 0 else []
        network = self.network_of(rank)
        if network == "missing":
            lines += self.plugin_missing()
        elif network == "socket" and self.nccl >= (2, 28):
            lines += self.fallback(rank)
        else:
            lines += self.plugin_lines(network, failed=network == "failed")
            if network in ("failed", "socket"):
                lines += self.fallback(rank)
        name = self.network_name(rank)
        if self.nccl >= (2, 27):
            lines += [f"Initialized NET plugin {name}"] if name != "Socket" else []
            lines += [f"Assigned NET plugin {name} to comm"]
        return [*lines, f"Using network {name}"]

    def plugin_missing(self) -> list[str]:
        if self.nccl <= (2, 18):
            why = "libnccl-net.so: cannot open shared object file: No such file or directory"
            lines = [
                f"NET/Plugin : Plugin load (libnccl-net.so) returned 2 : {why}",
                "NET/Plugin : No plugin found, using internal implementation",
            ]
        elif self.nccl <= (2, 20):
            why = "libnccl-net.so: cannot open shared object file: No such file or directory"
            lines = [f"NET/Plugin : dlerror={why} No plugin found (libnccl-net.so), using internal implementation"]
        elif self.nccl <= (2, 21):
            lines = ["NET/Plugin: No plugin found (libnccl-net.so)", "NET/Plugin: Using internal network plugin."]
        elif self.nccl <= (2, 25):
            lines = ["NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin."]
        elif self.nccl <= (2, 26):
            lines = ["NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin."]
        else:
            lines = ["NET/Plugin: Could not find: libnccl-net.so"]
        return [*lines, *self.fallback(0)]

    def fallback(self, rank: int) -> list[str]:
        lines = ["NET/IB : No device found.", f"NET/Socket : Using [0]eth0:10.0.1.{rank // self.gpus + 7}<0>"]
        return [*lines, "Initialized NET plugin Socket"] if self.nccl >= (2, 27) else lines

    def plugin_lines(self, network: str, *, failed: bool) -> list[str]:
        lines = ["NET/Plugin: Loaded net plugin Libfabric (v10)"] if self.nccl >= (2, 26) else []
        if self.nccl >= (2, 28):
            lines += ["Successfully loaded external network plugin /opt/amazon/ofi-nccl/lib/libnccl-net.so"]
        ofi = ".".join(map(str, self.ofi)) + ".0"
        lines += [f"NET/OFI Initializing aws-ofi-nccl {ofi}", "NET/OFI Using Libfabric version 1.22"]
        lines += ["NET/OFI Plugin selected platform: AWS"] if self.ofi >= (1, 18) else []
        lines += [self.provider_line(network), "NET/OFI Using transport protocol SENDRECV"]
        if failed:
            source = "int nccl_net_ofi_create_plugin(nccl_net_ofi_plugin_t**):383"
            lines += [f"WARN {source} NCCL WARN NET/OFI aws-ofi-nccl initialization failed"]
            lines += ["Failed to initialize NET plugin Libfabric"] if self.nccl >= (2, 28) else []
        return lines

    def provider_line(self, network: str) -> str:
        name, fabric = ("tcp", "10.0.0.0/16") if network == "tcp" else ("efa", self.fabric)
        if self.ofi <= (1, 5):
            return f"NET/OFI Selected Provider is {name}"
        if self.ofi <= (1, 13):
            return f"NET/OFI Selected Provider is {name} (found {self.nics} nics)"
        return f"NET/OFI Selected provider is {name}, fabric is {fabric} (found {self.nics} nics)"

    def communicator(self, rank: int) -> list[str]:
        device, pointer = rank % self.gpus, f"0x{0x5500 + rank:x}"
        function = (
            "ncclCommInitRankConfig " if self.nccl >= (2, 24) else "ncclCommInitRank " if self.nccl >= (2, 21) else ""
        )
        init = (
            f"{function}comm {pointer} rank {rank} nranks {self.ranks} cudaDev {device} nvmlDev {device} "
            f"busId {38 + device}000 commId {self.comm_id} - Init "
        )
        topology = (
            f"comm {pointer} rank {rank} nRanks {self.ranks} nNodes {len(self.hosts)} localRanks {self.gpus} "
            f"localRank {device} MNNVL 0"
        )
        of_rank = f"[Rank {rank}] " if self.nccl >= (2, 29) else ""
        lines = [of_rank + init + "START", *([topology] if self.nccl >= (2, 20) else [])]
        lines += [
            f"Channel 0{c}/0{self.channels} : {' '.join(map(str, range(self.ranks)))}" for c in range(self.channels)
        ]
        lines += ["Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1", "P2P Chunksize set to 131072"]
        rings = [*self.ring(rank), self.connected()] if self.connect else []
        lines += [*rings, init + "COMPLETE"] if self.nccl <= (2, 21) else [init + "COMPLETE", *rings]
        where = f"comm {pointer} rank {rank} nranks {self.ranks} cudaDev {device} busId {38 + device}000"
        # Of a subsystem of its own, which is off by default, from 2.30 on.
        return [*lines, f"{where} - Destroy COMPLETE"] if self.nccl < (2, 30) else lines

    def connected(self) -> str:
        return "Connected all rings, use ring PXN 0 GDR 1" if self.nccl >= (2, 24) else "Connected all rings"

    def ring(self, rank: int) -> list[str]:
        """Receives first; only ranks at a host's border have lines of the network."""
        before, after = (rank - 1) % self.ranks, (rank + 1) % self.ranks
        lines = []
        for channel in range(self.channels):
            if self.host(before) != self.host(rank):
                lines += [f"{self._pair(channel, before, rank)} [receive] via {self.way(rank)}"]
        for channel in range(self.channels):
            if self.host(after) != self.host(rank):
                lines += [f"{self._pair(channel, rank, after)} [send] via {self.way(rank)}"]
            elif after != rank:
                lines += [f"{self._pair(channel, rank, after)} via P2P/CUMEM"]
        return lines

    def way(self, rank: int) -> str:
        return f"NET/{self.network_name(rank)}/0{self.gdr}"

    def _pair(self, channel: int, start: int, end: int) -> str:
        return f"Channel {channel:02d}/0 : {start}[{start % self.gpus}] -> {end}[{end % self.gpus}]"

    def but(self, **changes: object) -> "Run":
        return replace(self, **changes)  # type: ignore[arg-type]  # the fields' own types are checked where they are used


def through_ray(process: Process, *, number: int = 0, colour: bool = True, address: bool = True) -> str:
    """The prefix that Ray puts before each of a worker's lines; those on the driver's node have no address."""
    where = f", ip=10.0.1.{9 + number}" if address else ""
    name = f"(RayTrainWorker pid={process.pid}{where})"
    return f"\x1b[36m{name}\x1b[0m " if colour else f"{name} "
