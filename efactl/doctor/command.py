"""`efactl doctor`: everything that an `up` needs, looked at without changing anything."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from efactl.colour import coloured
from efactl.doctor import aws, machine, room, stack, tools
from efactl.doctor.finding import Finding, as_document, fail, lines_of, passed, warn
from efactl.doctor.subject import Subject
from efactl.exit_codes import ExitCode
from efactl.stack_names import FOLDER, file_of

Check = Callable[[Subject], Iterator[Finding]]
# In the order of the list. What waits for a program or a network comes side by side.
CHECKS: tuple[Check, ...] = (
    machine.python,
    machine.packages,
    machine.place,
    machine.room,
    machine.git,
    tools.pulumi,
    tools.kubernetes_plugin,
    tools.aws,
    stack.backend,
    aws.account,
    room.capacity,
)


def doctor(asked: argparse.Namespace) -> ExitCode:
    """Exit code 0 where nothing fails, 1 otherwise. Raises BadInputError where there is no such stack."""
    file_of(asked.stack, FOLDER)
    findings = examined(asked.stack)
    if asked.json:
        print(json.dumps(as_document(findings, asked.stack), indent=2))
    else:
        for line in lines_of(findings, colour=coloured(os.environ, terminal=sys.stdout.isatty())):
            print(line)
    return ExitCode.OK if passed(findings) else ExitCode.FAILED


def examined(name: str, folder: Path = FOLDER) -> list[Finding]:
    subject, findings = stack.subject_of(folder, name)
    with ThreadPoolExecutor(len(CHECKS)) as pool:
        side_by_side = [pool.submit(_looked, check, subject) for check in CHECKS]
        of_stack = _looked(stack.settings, subject)
        about_machine = [finding for future in side_by_side for finding in future.result()]
    return [*about_machine, *findings, *of_stack]


def _looked(check: Check, subject: Subject) -> list[Finding]:
    """One look that goes wrong must not hide what the others found."""
    name = check.__name__.replace("_", " ")
    findings = []
    try:
        for finding in check(subject):
            findings.append(finding)
    except ImportError as error:
        findings.append(warn(name, f"not looked at: {error}", "make setup"))
    except Exception as error:
        what = f"could not be looked at: {type(error).__name__}: {error}"
        findings.append(fail(name, what, "run it again; if it stays, it is a fault of this program: report it"))
    return findings
