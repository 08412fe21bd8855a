"""The command line of ray-train-efa."""

import argparse
import importlib
import math
import os
import sys
from collections.abc import Sequence

from efactl.exit_codes import MEANINGS, ExitCode
from workload.errors import BadInputError, ReportedError
from workload.verdict import EXPECTATIONS

STACK_COMMANDS = {
    "up": "bring the stack up: cluster, job, verdict; the exit code says how it went",
    "outputs": "the main figures of the stack's last run",
    "stop": "stop the stack's running job; the cluster stays",
    "down": "destroy the stack and show that nothing of it is left that bills",
}
COMPARE = "run the stack's job over EFA and over TCP by turns, and say how much faster the one is"
CAPACITY = "where the GPU nodes can stand: every region and zone side by side, best first, and why not the others"
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
        command = commands_of.add_parser(name, help=summary, description=summary)
        _add_stack(command)
        if name == "up":
            _add_bring_up(command)
        if name == "down":
            command.add_argument("--env", metavar="ENV", help="in place of a stack: ENV and every ENV-<region>")
    _add_compare(commands_of.add_parser("compare", help=COMPARE, description=COMPARE))
    _add_capacity(commands_of.add_parser("capacity", help=CAPACITY, description=CAPACITY))
    _add_plan_memory(commands_of.add_parser("plan-memory", help=PLAN_MEMORY, description=PLAN_MEMORY))
    _add_transport(commands_of.add_parser("transport", help=TRANSPORT, description=TRANSPORT))
    return top


def _add_stack(command: argparse.ArgumentParser) -> None:
    command.add_argument("-s", "--stack", help="the stack, as in Pulumi.STACK.yaml (default: local)")
    command.add_argument("--json", action="store_true", help="print facts as JSON on standard output")


def _add_bring_up(command: argparse.ArgumentParser) -> None:
    of_env = command.add_argument_group("wherever the GPU nodes are to be had", "in place of a stack")
    of_env.add_argument("--env", metavar="ENV", help="as in Pulumi.ENV.yaml; each region tried is a stack ENV-<region>")
    of_env.add_argument("--regions", metavar="A,B", help="regions to look at (default: all)")
    of_env.add_argument("--plan", action="store_true", help="show places and costs, and change nothing")
    of_env.add_argument("-y", "--yes", action="store_true", help="go ahead without the question")
    of_env.add_argument("--train", action="store_true", help="run the job once everything is up")
    of_env.add_argument("--max-hourly", type=float, metavar="USD", help="the most that an hour of all of it may cost")
    of_env.add_argument(
        "--ttl", default="", metavar="4h", help="AWS takes the GPU nodes away after so long, come what may"
    )


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


def _add_capacity(command: argparse.ArgumentParser) -> None:
    command.add_argument("--regions", default="all", metavar="A,B", help="regions to look at (default: all)")
    command.add_argument("--instance-type", default="g6.12xlarge", metavar="TYPE", help="default: %(default)s")
    command.add_argument(
        "--nodes", type=int, default=2, metavar="N", help="how many, in one zone (default: %(default)s)"
    )
    command.add_argument("--spot", action="store_true", help="on the spot market, with its own quota and prices")
    command.add_argument("--max-hourly", type=float, metavar="USD", help="the most that the nodes may cost an hour")
    command.add_argument("--probe", action="store_true", help="make and cancel a reservation, up to the first success")
    command.add_argument("--all", action="store_true", help="with --probe: in every place that is eligible")
    command.add_argument("--explain", action="store_true", help="say why each place stands where it stands")
    command.add_argument("--write", default="", metavar="ENV", help="make Pulumi.ENV-REGION.yaml for the best place")
    command.add_argument("--json", action="store_true", help="print everything as JSON on standard output")


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
        return _flushed(_do(asked))
    except ReportedError as error:
        print(f"efactl {asked.command}: {error}", file=sys.stderr)
        return int(ExitCode.BAD_INPUT if isinstance(error, BadInputError) else ExitCode.FAILED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read it (head, a pager) has gone; the rest goes nowhere, also at this process's end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)
        return int(ExitCode.FAILED)


def _flushed(code: ExitCode) -> int:
    """What cannot be written is known before the end."""
    if sys.stdout is not None:
        sys.stdout.flush()
    return int(code)


def _do(asked: argparse.Namespace) -> ExitCode:
    # Imported where needed: Ray alone takes a second, and `transport` works where there is neither Ray nor Pulumi.
    if asked.command == "transport":
        from efactl.transport import transport
        from workload.verdict import Wanted

        if asked.gdr and asked.expect != "efa":
            raise BadInputError(f"--gdr goes with --expect efa: {asked.expect} has no GPUDirect RDMA")
        wanted = Wanted(expect=asked.expect, hosts=asked.hosts, ranks=asked.ranks, nics=asked.nics, gdr=asked.gdr)
        return transport(asked.files, wanted, as_json=asked.json)
    if asked.command == "capacity":
        from capacity.request import Request, regions_from
        from efactl.capacity import capacity

        if asked.all and not asked.probe:
            raise BadInputError("--all goes with --probe: without it every place is looked at anyway")
        request = Request(
            instance_type=asked.instance_type,
            nodes=asked.nodes,
            spot=asked.spot,
            regions=regions_from(asked.regions),
            max_hourly=asked.max_hourly,
        )
        return capacity(
            request,
            probe=asked.probe,
            all_places=asked.all,
            write=asked.write,
            explained=asked.explain,
            as_json=asked.json,
        )
    if asked.command in ("up", "down") and asked.env is not None and asked.stack is not None:
        raise BadInputError(f"-s {asked.stack} and --env {asked.env} are two things: give one of them")
    if asked.command == "up" and (asked.env is not None or _of_env(asked)):
        return _brought_up(asked)
    if asked.command == "down" and asked.env is not None:
        from efactl.down_env import down_env

        return down_env(asked.env, as_json=asked.json)
    from efactl.stack import Stack

    if asked.command == "compare":
        from efactl.compare import compare

        return compare(
            Stack(_stack(asked)),
            repeats=asked.repeats,
            steps=asked.steps,
            bandwidth=asked.bandwidth,
            min_speedup=asked.min_speedup,
            as_json=asked.json,
        )
    if asked.command == "plan-memory":
        from efactl.plan_memory import plan

        return plan(Stack(asked.stack), gpu=asked.gpu, as_json=asked.json)
    module = "efactl.down" if asked.command == "down" else "efactl.commands"
    action = getattr(importlib.import_module(module), asked.command)
    code: ExitCode = action(Stack(_stack(asked)), as_json=asked.json)
    return code


def _stack(asked: argparse.Namespace) -> str:
    return "local" if asked.stack is None else str(asked.stack)


def _of_env(asked: argparse.Namespace) -> bool:
    """Whether an option is given that only an environment's bring-up has."""
    given = (asked.regions, asked.max_hourly)
    return bool(asked.plan or asked.train or asked.ttl) or any(one is not None for one in given)


def _brought_up(asked: argparse.Namespace) -> ExitCode:
    from capacity.request import regions_from
    from efactl.bring_up import Wanted, bring_up

    if asked.env is None:
        raise BadInputError(
            "--regions, --plan, --train, --ttl and --max-hourly go with --env; a stack has settings for them"
        )
    return bring_up(
        Wanted(
            env=asked.env,
            regions=regions_from("all" if asked.regions is None else asked.regions),
            plan_only=asked.plan,
            yes=asked.yes,
            train=asked.train,
            max_hourly=asked.max_hourly,
            ttl=asked.ttl,
            as_json=asked.json,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
