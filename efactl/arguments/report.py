"""The arguments of `efactl report`."""

import argparse

from efactl.arguments.types import add_json, add_places
from efactl.command import Command
from efactl.exit_codes import ExitCode


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "run", metavar="RUN", help="a run's id, the beginning of it, or the path of its folder or record, also s3://..."
    )
    command.add_argument("other", metavar="OTHER", nargs="?", help="a second run, set beside the first")
    page = "the page (default: beside the record, of a run in S3 report-ID.html here; - is standard output)"
    command.add_argument("-o", "--out", metavar="FILE", help=page)
    of = "the first run's stack: its state tells how it was brought up, and its recordsPath is looked in too"
    command.add_argument("-s", "--stack", help=of)
    add_places(command)
    add_json(command)


COMMAND = Command(
    name="report",
    summary="a run as one HTML page that loads nothing: verdict, transport, curves, memory, time, record",
    example="efactl report ddb155\nefactl report ddb155 -s dev\nefactl report 11a676 ddb155 -o update.html\n"
    "efactl report ddb155 --from s3://bucket/runs",
    arguments=_arguments,
    action="efactl.arguments.report:report",
)


def report(asked: argparse.Namespace) -> ExitCode:
    from efactl.report import report as write

    return write(asked.run, asked.other, out=asked.out, as_json=asked.json, stack=asked.stack, places=asked.places)
