"""The command line of ray-train-efa."""

import argparse
import sys
from collections.abc import Callable, Sequence

from efactl import commands
from efactl.exit_codes import MEANINGS, ExitCode
from efactl.stack import Stack
from workload.errors import BadInputError, ReportedError

COMMANDS: dict[str, tuple[Callable[..., ExitCode], str]] = {
    "up": (commands.up, "bring the stack up: cluster, job, verdict; the exit code says how it went"),
    "outputs": (commands.outputs, "the main figures of the stack's last run"),
    "stop": (commands.stop, "stop the stack's running job; the cluster stays"),
    "down": (commands.down, "destroy the stack and show that nothing is left"),
}


def parser() -> argparse.ArgumentParser:
    codes = "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items())
    top = argparse.ArgumentParser(
        prog="efactl",
        description="Ray Train on EKS with EFA: bring it up, run the job, prove the transport.",
        epilog=f"exit codes:\n{codes}\n\nexample:\n  efactl up -s local && efactl outputs -s local --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands_of = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, summary) in COMMANDS.items():
        command = commands_of.add_parser(name, help=summary, description=summary)
        command.add_argument(
            "-s", "--stack", default="local", help="the stack, as in Pulumi.STACK.yaml (default: local)"
        )
        command.add_argument("--json", action="store_true", help="print facts as JSON on standard output")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    action, _ = COMMANDS[asked.command]
    try:
        return int(action(Stack(asked.stack), as_json=asked.json))
    except ReportedError as error:
        print(f"efactl {asked.command}: {error}", file=sys.stderr)
        return int(ExitCode.BAD_INPUT if isinstance(error, BadInputError) else ExitCode.FAILED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
