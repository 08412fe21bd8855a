"""`efactl compare`: the job of the stack's last run in two arms by turns."""

import contextlib
import dataclasses
import json
import math
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

from efactl.exit_codes import ExitCode
from efactl.region_stacks import hint
from efactl.stack import FOLDER, JOB_TYPE, Stack, plain
from training.bus_bandwidth import bytes_of
from workload.arms import Arms, arms_of
from workload.bandwidth_result import NO_SIZE
from workload.compare_runs import TEXT, Compared, carry_out
from workload.comparison import LEAST_REPEATS, failures, result_of
from workload.comparison_plan import Plan
from workload.errors import BadInputError, ReportedError
from workload.job import FIXED_ENV, RUN_VARIABLE
from workload.job_spec import training_digest
from workload.ray_train_job import job_request
from workload.signal_handlers import heeded
from workload.verdict import wanted_of

# As Pulumi.yaml has it, for stacks of older ones.
STEPS = 13
_BY_STATUS = {
    "refuted": ExitCode.REFUTED,
    "unproven": ExitCode.UNPROVEN,
    "failed": ExitCode.FAILED,
    "interrupted": ExitCode.INTERRUPTED,
}


def compare(
    stack: Stack,
    *,
    repeats: int | None,
    steps: int | None,
    bandwidth: bool,
    min_speedup: float | None,
    as_json: bool,
) -> ExitCode:
    """What is None is as the stack's settings have it. Standard output gets the result, standard error what goes on."""
    # The stack's paths are relative to its program.
    with contextlib.chdir(FOLDER):
        plan = _plan(stack, repeats=repeats, steps=steps, bandwidth=bandwidth, min_speedup=min_speedup)
        with _interruption() as interrupt:
            done = carry_out(plan, say=_note, interrupt=interrupt)
        text = done.report.read_text(encoding="utf-8")
        print(text.rstrip() if as_json else done.report.with_name(TEXT).read_text(encoding="utf-8").rstrip())
        _note(f"kept in {done.report.parent}")
    return _exit_code(done, plan)


def _plan(stack: Stack, *, repeats: int | None, steps: int | None, bandwidth: bool, min_speedup: float | None) -> Plan:
    resource = stack.resource(JOB_TYPE)
    if resource is None or not resource.get("outputs"):
        advice = hint(stack.name, f"`efactl up -s {stack.name}` makes one")
        raise ReportedError(f"stack {stack.name} holds no run to compare with; {advice}")
    inputs = plain(resource["inputs"])
    head = stack.head()
    if head is None:
        advice = hint(stack.name, f"`efactl up -s {stack.name}` brings one up")
        raise ReportedError(f"stack {stack.name} has no Ray head: {advice}")
    if training_digest(Path("training")) != inputs["training_digest"]:
        raise ReportedError(
            f"training/ is not what the stack's last run ran: `efactl up -s {stack.name}` runs it, then compare"
        )
    configured = int(stack.config("compareRepeats") or 0)
    return Plan(
        request=dataclasses.replace(job_request(inputs), head=head),
        wanted=wanted_of(inputs),
        settings=inputs["settings"],
        arms=_arms(stack.config("compareArms"), inputs["expect"]),
        repeats=repeats or configured or LEAST_REPEATS,
        steps=steps or int(stack.config("compareSteps") or STEPS),
        sizes=_sizes(stack.config("preflightSizes")) if bandwidth else None,
        min_ratio=min_speedup or _number("compareMinSpeedup", stack.config("compareMinSpeedup")),
    )


def _arms(setting: Any, expect: str) -> Arms:
    return arms_of(_value("compareArms", setting, dict, "an object"), expect, reserved=(*FIXED_ENV, RUN_VARIABLE))


def _sizes(setting: Any) -> list[str]:
    sizes = [str(size).strip() for size in _value("preflightSizes", setting, list, "a list")]
    for size in sizes:
        if bytes_of(size) is None:
            raise BadInputError(f"preflightSizes: '{size}' {NO_SIZE}")
    return sizes


def _value(name: str, setting: Any, kind: type, what: str) -> Any:
    """A setting of that kind, as a value or as JSON text; empty is an empty one."""
    value = setting
    if isinstance(setting, str):
        try:
            value = json.loads(setting) if setting else None
        except ValueError:
            raise BadInputError(f"{name}: '{setting}' is not {what}") from None
    if value is not None and not isinstance(value, kind):
        raise BadInputError(f"{name}: '{value}' is not {what}")
    return value or kind()


def _number(name: str, setting: Any) -> float | None:
    """A setting as the program takes it: empty is none."""
    if setting is None or setting == "":
        return None
    try:
        value = float(setting)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise BadInputError(f"{name}: '{setting}' must be a finite number above 0")
    return value


def _exit_code(done: Compared, plan: Plan) -> ExitCode:
    result = result_of(done.comparison)
    if result["status"] != "complete":
        return _BY_STATUS[result["status"]]
    return ExitCode.SLOW if failures(result, plan.min_ratio) else ExitCode.OK


@contextlib.contextmanager
def _interruption() -> Iterator[Event]:
    """An event that the first Ctrl-C or TERM sets; a second one interrupts for good."""
    event = Event()

    def heard() -> None:
        _note("interrupted: the running job is being stopped")
        event.set()

    def first(_number: int, _frame: object) -> None:
        for number in before:
            signal.signal(number, signal.default_int_handler)
        # Elsewhere: what is interrupted here may hold the event's lock, or be printing.
        Thread(target=heard, daemon=True).start()

    before = {number: signal.getsignal(number) for number in heeded((signal.SIGINT, signal.SIGTERM))}
    try:
        for number in before:
            signal.signal(number, first)
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
