"""The command line of ray-train-efa. A new command is one `Command` of efactl/arguments, in COMMANDS."""

import argparse
import os
import sys
from collections.abc import Sequence

from efactl import completion, interruption
from efactl.arguments import (
    capacity,
    compare,
    doctor,
    environment,
    logs,
    plan_memory,
    report,
    run,
    runs,
    stack,
    status,
    transport,
    ui,
)
from efactl.arguments import (
    completion as completion_arguments,
)
from efactl.exit_codes import MEANINGS, ExitCode
from workload.errors import BadInputError, ReportedError

# As `efactl --help` lists them. Nothing here imports what a command does: Ray alone takes a second, and some commands
# work where there is neither Ray nor Pulumi.
COMMANDS = (
    capacity.COMMAND,
    plan_memory.COMMAND,
    environment.UP,
    *stack.COMMANDS,
    environment.DOWN,
    run.COMMAND,
    ui.COMMAND,
    doctor.COMMAND,
    status.COMMAND,
    logs.COMMAND,
    compare.COMMAND,
    transport.COMMAND,
    *runs.COMMANDS,
    report.COMMAND,
    completion_arguments.COMMAND,
)


def parser() -> argparse.ArgumentParser:
    codes = "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items())
    top = argparse.ArgumentParser(
        prog="efactl",
        description="Ray Train on EKS with EFA: bring it up, run the job, prove the transport.",
        epilog=f"exit codes:\n{codes}\n\nexample:\n  efactl up -s local && efactl outputs -s local --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands_of = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands_of)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == [completion.COMPLETE]:
        return int(completion.complete(parser(), given[1:]))
    asked = parser().parse_args(given)
    command = next(one for one in COMMANDS if one.name == asked.command)
    try:
        return _flushed(command.do(asked))
    except ReportedError as error:
        print(f"efactl {asked.command}: {error}", file=sys.stderr)
        return int(ExitCode.BAD_INPUT if isinstance(error, BadInputError) else ExitCode.FAILED)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except ModuleNotFoundError as error:
        said = f"the package {error.name} is not installed here: `make setup` installs what is missing"
        print(f"efactl {asked.command}: {said}; `efactl doctor` looks at the rest", file=sys.stderr)
        return int(ExitCode.FAILED)
    except BrokenPipeError:
        # Whoever read it (head, a pager) has gone; the rest goes nowhere, also at this process's end.
        _to_nowhere(1, 2)
        return int(ExitCode.FAILED)
    except OSError as error:
        print(f"efactl {asked.command}: {error}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:
            # A disk that is full is full at this process's end too.
            _to_nowhere(1)
        return int(ExitCode.FAILED)


def _to_nowhere(*descriptors: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in descriptors:
        os.dup2(nowhere, number)


def _flushed(code: ExitCode) -> int:
    """What cannot be written is known before the end."""
    if sys.stdout is not None:
        sys.stdout.flush()
    return int(code)


if __name__ == "__main__":
    interruption.keep()
    sys.exit(main())
