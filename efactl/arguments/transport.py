"""The arguments of `efactl transport`."""

import argparse

from efactl.arguments.types import count
from efactl.command import Command
from efactl.exit_codes import ExitCode
from workload.errors import BadInputError
from workload.verdict import EXPECTATIONS


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("files", nargs="+", metavar="FILE", help="a log, or several of one run; - is standard input")
    command.add_argument("--expect", required=True, choices=EXPECTATIONS, help="what the hosts should have used")
    command.add_argument("--hosts", type=count, metavar="N", help="how many hosts must have taken part")
    command.add_argument("--ranks", type=count, metavar="N", help="how many ranks must have taken part")
    command.add_argument("--nics", type=count, metavar="N", help="how many EFA interfaces each host must have found")
    command.add_argument("--gdr", action="store_true", help="demand GPUDirect RDMA (instance types that have it)")
    command.add_argument("--json", action="store_true", help="print verdict and facts as JSON on standard output")


COMMAND = Command(
    name="transport",
    summary="judge NCCL logs from any launcher: over what did the hosts communicate?",
    example="NCCL_DEBUG=INFO torchrun ... >job.log 2>&1; efactl transport job.log --expect efa --hosts 2",
    arguments=_arguments,
    action="efactl.arguments.transport:transport",
)


def transport(asked: argparse.Namespace) -> ExitCode:
    from efactl.transport import transport as judge
    from workload.verdict import Wanted

    if asked.gdr and asked.expect != "efa":
        raise BadInputError(f"--gdr goes with --expect efa: {asked.expect} has no GPUDirect RDMA")
    wanted = Wanted(expect=asked.expect, hosts=asked.hosts, ranks=asked.ranks, nics=asked.nics, gdr=asked.gdr)
    return judge(asked.files, wanted, as_json=asked.json)
