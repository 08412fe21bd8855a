"""The command line of ray-train-efa."""

import argparse
import importlib
import math
import sys
from collections.abc import Sequence

from efactl.exit_codes import MEANINGS, ExitCode
from workload.errors import BadInputError, ReportedError
from workload.verdict import EXPECTATIONS

STACK_COMMANDS = {
    "up": "bring the stack up: cluster, job, verdict; the exit code says how it went",
    "outputs": "the main figures of the stack's last run",
    "stop": "stop the stack's running job; the cluster stays",
    "down": "destroy the stack and show that nothing is left",
}
COMPARE = "run the stack's job over EFA and over TCP by turns, and say how much faster the one is"
PLAN_MEMORY = "whether the stack's job fits its GPUs' memory, and the largest batch that does; nothing is started"
TRANSPORT = "judge NCCL logs from any launcher: over what did the hosts communicate?"


def parser() -> argparse.ArgumentParser:
    codes = "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items())
    top = argparse.ArgumentParser(
        prog="efactl",
        description="Ray Train on EKS with EFA: bring it up, run the job, prove the transport.",
        epilog=f"exit codes:\n{codes}\n\nexample:\n  efactl up -s local && efactl outputs -s local --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands_of = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in STACK_COMMANDS.items():
        _add_stack(commands_of.add_parser(name, help=summary, description=summary))
    _add_compare(commands_of.add_parser("compare", help=COMPARE, description=COMPARE))
    _add_plan_memory(commands_of.add_parser("plan-memory", help=PLAN_MEMORY, description=PLAN_MEMORY))
    _add_transport(commands_of.add_parser("transport", help=TRANSPORT, description=TRANSPORT))
    return top


def _add_stack(command: argparse.ArgumentParser) -> None:
    command.add_argument("-s", "--stack", default="local", help="the stack, as in Pulumi.STACK.yaml (default: local)")
    command.add_argument("--json", action="store_true", help="print facts as JSON on standard output")


def _add_compare(command: argparse.ArgumentParser) -> None:
    _add_stack(command)
    command.add_argument("--repeats", type=_count, metavar="N", help="runs of each arm, at least 3")
    command.add_argument("--steps", type=_count, metavar="N", help="optimizer steps of a run, the first 3 not counted")
    command.add_argument(
        "--bandwidth",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure the bus bandwidth of all-reduces in each arm too",
    )
    command.add_argument(
        "--min-speedup", type=_ratio, metavar="X", help="fail where the first arm is not X times as fast, noise counted"
    )


def _add_plan_memory(command: argparse.ArgumentParser) -> None:
    _add_stack(command)
    command.add_argument("--gpu", metavar="NAME", help="plan for this GPU (L4, H100, ...) instead of the stack's own")


def _add_transport(command: argparse.ArgumentParser) -> None:
    command.add_argument("files", nargs="+", metavar="FILE", help="a log, or several of one run; - is standard input")
    command.add_argument("--expect", required=True, choices=EXPECTATIONS, help="what the hosts should have used")
    command.add_argument("--hosts", type=_count, metavar="N", help="how many hosts must have taken part")
    command.add_argument("--ranks", type=_count, metavar="N", help="how many ranks must have taken part")
    command.add_argument("--nics", type=_count, metavar="N", help="how many EFA interfaces each host must have found")
    command.add_argument("--gdr", action="store_true", help="demand GPUDirect RDMA (instance types that have it)")
    command.add_argument("--json", action="store_true", help="print verdict and facts as JSON on standard output")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 up")
    return int(text)


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    try:
        return int(_do(asked))
    except ReportedError as error:
        print(f"efactl {asked.command}: {error}", file=sys.stderr)
        return int(ExitCode.BAD_INPUT if isinstance(error, BadInputError) else ExitCode.FAILED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


def _do(asked: argparse.Namespace) -> ExitCode:
    # Imported where needed: Ray alone takes a second, and `transport` works where there is neither Ray nor Pulumi.
    if asked.command == "transport":
        from efactl.transport import transport
        from workload.verdict import Wanted

        if asked.gdr and asked.expect != "efa":
            raise BadInputError(f"--gdr goes with --expect efa: {asked.expect} has no GPUDirect RDMA")
        wanted = Wanted(expect=asked.expect, hosts=asked.hosts, ranks=asked.ranks, nics=asked.nics, gdr=asked.gdr)
        return transport(asked.files, wanted, as_json=asked.json)
    from efactl.stack import Stack

    if asked.command == "compare":
        from efactl.compare import compare

        return compare(
            Stack(asked.stack),
            repeats=asked.repeats,
            steps=asked.steps,
            bandwidth=asked.bandwidth,
            min_speedup=asked.min_speedup,
            as_json=asked.json,
        )
    if asked.command == "plan-memory":
        from efactl.plan_memory import plan

        return plan(Stack(asked.stack), gpu=asked.gpu, as_json=asked.json)
    action = getattr(importlib.import_module("efactl.commands"), asked.command)
    code: ExitCode = action(Stack(asked.stack), as_json=asked.json)
    return code


if __name__ == "__main__":
    sys.exit(main())
