"""The arguments of `efactl logs`."""

import argparse

from efactl.arguments.types import add_stack
from efactl.command import Command
from efactl.exit_codes import ExitCode


def _arguments(command: argparse.ArgumentParser) -> None:
    add_stack(command)
    command.add_argument("-f", "--follow", action="store_true", help="to the end of the job; Ctrl-C ends this alone")
    lines = command.add_mutually_exclusive_group()
    lines.add_argument("--rank", type=_rank, metavar="N", help="the lines of one rank, in all attempts")
    lines.add_argument("--nccl", action="store_true", help="NCCL's lines, of all ranks")
    lines.add_argument("--driver", action="store_true", help="what the job's own program prints, without the ranks")


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 0 up")
    return int(text)


COMMAND = Command(
    name="logs",
    summary="the log of the running job, else of the last run; all of it, a rank's, NCCL's or the driver's lines",
    example="efactl logs -s dev -f --rank 0\nefactl logs -s dev --nccl | efactl transport - --expect efa",
    arguments=_arguments,
    action="efactl.arguments.logs:logs",
)


def logs(asked: argparse.Namespace) -> ExitCode:
    from efactl.logs import logs as carry_out
    from efactl.stack import Stack
    from workload import log_selection

    select: log_selection.Select = log_selection.everything
    if asked.rank is not None:
        select = log_selection.OfRank(asked.rank)
    elif asked.nccl or asked.driver:
        select = log_selection.nccl if asked.nccl else log_selection.driver
    return carry_out(Stack(asked.stack), select, follow=asked.follow)
