"""PURE: what several commands take, and the types of their options."""

import argparse
import math


def add_stack(command: argparse.ArgumentParser) -> None:
    command.add_argument("-s", "--stack", default="local", help="the stack, as in Pulumi.STACK.yaml (default: local)")


def add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print facts as JSON on standard output")


def add_stack_and_json(command: argparse.ArgumentParser) -> None:
    add_stack(command)
    add_json(command)


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 up")
    return int(text)


def ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return value


def add_places(command: argparse.ArgumentParser) -> None:
    places = (
        "where runs are: a folder of them, or one run's (repeat for several; default: the project's runs/, and the "
    )
    command.add_argument(
        "--from", action="append", dest="places", metavar="DIR|s3://...", help=f"{places}recordsPath of -s STACK)"
    )
