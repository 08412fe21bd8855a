"""The command lines of `efactl runs` and `efactl image`; needs nothing but Python."""

import argparse

from efactl.arguments.types import add_json, add_places, add_stack, count
from efactl.command import Command, help_of
from workload.run_choice import NO_VERDICT

_VERDICTS = ("proven", "refuted", "unproven", NO_VERDICT)
_CHECK = "what the stack's image tag points at now, against the image of its last good run"
_EXIT_CODES = """exit codes:
  0  an `up` would run the image of the last good run
  4  it would run another, or there is no good run
  1  the registry could not be asked, for the reason given
  2  there is no such stack, or it runs no image

example:
  efactl image check -s dev --from runs --from s3://bucket/runs"""


def _runs(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="list|show|diff")
    summary = "one line a run, newest first"
    example = "efactl runs list -s dev --verdict proven --limit 5\nefactl runs list --from s3://bucket/runs --json"
    listing = actions.add_parser("list", **help_of(summary, example))
    listing.add_argument("-s", "--stack", help="only those of this stack, and look in its recordsPath too")
    listing.add_argument("--verdict", choices=_VERDICTS, help=f"only those; {NO_VERDICT}: failed, damaged, running")
    listing.add_argument("--limit", type=count, metavar="N", help="no more than the newest N")
    summary = "one run's record for readers; --json is the record itself"
    showing = actions.add_parser("show", **help_of(summary, "efactl runs show 11a676"))
    showing.add_argument("run", metavar="RUN", help="its id, or the beginning of it")
    summary = "which change separates two runs, and what moved"
    example = "efactl runs diff 11a676 ddb155 --from runs --from s3://bucket/runs"
    separating = actions.add_parser("diff", **help_of(summary, example))
    separating.add_argument("a", metavar="A", help="the earlier run: its id, or the beginning of it")
    separating.add_argument("b", metavar="B", help="the later run")
    for one in (showing, separating):
        one.add_argument("-s", "--stack", help="look in this stack's recordsPath too")
    for one in (listing, showing, separating):
        add_places(one)
        add_json(one)


def _image(command: argparse.ArgumentParser) -> None:
    actions = command.add_subparsers(dest="action", required=True, metavar="check")
    raw = argparse.RawDescriptionHelpFormatter
    check = actions.add_parser("check", help=_CHECK, description=_CHECK, epilog=_EXIT_CODES, formatter_class=raw)
    add_stack(check)
    add_places(check)
    add_json(check)


COMMANDS = (
    Command(
        name="runs",
        summary="recorded runs, here and in S3: list them, show one, or say what separates two",
        example="efactl runs list -s dev --verdict proven --limit 5\n"
        "efactl runs diff 11a676 ddb155 --from runs --from s3://bucket/runs",
        arguments=_runs,
        action="efactl.runs:runs",
    ),
    Command(
        name="image",
        summary=_CHECK,
        example="efactl image check -s dev",
        arguments=_image,
        action="efactl.image:image",
    ),
)
