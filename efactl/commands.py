"""What each efactl command does: every one prints facts, as JSON where asked, and returns its exit code."""

import contextlib
import datetime
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capacity.ended import gpu_nodes, may_give_back, needs_refresh, reserved
from efactl import gate, leftovers, reasons
from efactl.event_log import events
from efactl.exit_codes import ExitCode
from efactl.region_stacks import hint
from efactl.stack import COMPARISON_GATE_TYPE, COMPARISON_TYPE, FOLDER, GATE_TYPE, JOB_TYPE, Stack, plain
from workload import job
from workload.errors import ReportedError
from workload.recorded_run import at
from workload.run_folder import regular


def up(stack: Stack, *, as_json: bool, targets: Sequence[str] = (), whole_run: bool = True) -> ExitCode:
    """`pulumi up` without questions; where a gate failed it, the exit code says which.

    `targets` are URNs that it keeps to, none being all. `whole_run` False: more of the run is due than they are, and
    needs the GPU nodes, so that gpuScaleToZeroAfterJob does not end them yet.
    """
    for line in stack.release_dead_locks():
        note(line)
    refresh = _settled(stack) if stack.config("platform") == "eks" else []
    began = datetime.datetime.now(datetime.UTC)
    kept_to = [word for urn in targets for word in ("--target", urn)]
    with tempfile.TemporaryDirectory(prefix="efactl-up-") as folder:
        log = Path(folder) / "events.json"
        command = ["up", "--yes", "--skip-preview", *refresh, *kept_to, "--event-log", str(log)]
        status = stack.run(command, aside=as_json)
        judged = gate.outcomes(events(log))
    run = _run(stack)
    reason = _reason(stack, run, judged, began) if status != 0 else None
    done = status == 0 or (bool(judged) and reason is not None)
    over = done and stack.is_on("gpuScaleToZeroAfterJob") and may_give_back(stack.resources())
    if over and whole_run:
        _give_back(stack, aside=as_json)
    elif over:
        note("gpuScaleToZeroAfterJob: not yet, since what measures beside the run is due on its GPU nodes")
        note_billing(stack)
    if as_json:
        print(json.dumps(run, indent=2))
    if status == 0:
        return ExitCode.OK
    if not over:
        note_billing(stack)
    return reason or (ExitCode.INTERRUPTED if _goes_on(stack) else ExitCode.FAILED)


def _reason(
    stack: Stack, run: Mapping[str, Any], judged: Mapping[str, bool], began: datetime.datetime
) -> ExitCode | None:
    """Why an `up` failed, where a gate or a measurement did it; `judged` are the gates that it came to."""
    if judged.get(GATE_TYPE) is False and (code := reasons.of_job(run)) is not None:
        return code
    if (code := reasons.of_measurements(FOLDER / "runs", began)) is not None:
        return code
    comparison = stack.resource(COMPARISON_TYPE) if judged.get(COMPARISON_GATE_TYPE) is False else None
    return reasons.of_comparison(plain(comparison.get("outputs") or {})) if comparison else None


def _settled(stack: Stack) -> list[str]:
    """Options of the `up`, once what a killed one left open in AWS is brought to an end."""
    # boto3 and what comes with it: no other platform should pay for its import.
    from efactl import teardown

    resources = stack.resources()
    made = teardown.made_where(stack, resources)
    if made is not None and resources:
        resources = stack.settle(note, region=made.regions[0], name=made.name, access=made.access)
    if made is not None:
        teardown.end_late_logs(made, resources, note)
    return ["--refresh"] if needs_refresh(resources, now=datetime.datetime.now(datetime.UTC)) else []


def outputs(stack: Stack, *, as_json: bool) -> ExitCode:
    """The main figures of the stack's last run that SUCCEEDED, from its state and, where that is here, its record."""
    run = _run(stack)
    if not run:
        note(f"stack {stack.name} holds no run; {hint(stack.name, f'`efactl up -s {stack.name}` makes one')}")
        return ExitCode.FAILED
    if as_json:
        print(json.dumps(run, indent=2))
        return ExitCode.OK
    width = max(len(key) for key in run)
    for key, value in run.items():
        lines = value if isinstance(value, list) else [value]
        for index, line in enumerate(lines or ["-"]):
            print(f"{key if index == 0 else '':<{width}}  {_shown(line)}")
    return ExitCode.OK


def stop(stack: Stack, *, as_json: bool) -> ExitCode:
    """Stops the stack's running jobs and waits for their end; infrastructure stays."""
    head = stack.head()
    if head is None:
        raise ReportedError(f"stack {stack.name} has no Ray head: {hint(stack.name, 'nothing runs')}")
    stopped = job.stop(head, say=note)
    if as_json:
        print(json.dumps({"stopped": stopped}))
    else:
        print(f"stopped {', '.join(stopped)}" if stopped else "no job is running")
    return ExitCode.OK


def _give_back(stack: Stack, *, aside: bool) -> None:
    """The nodes that a job ran on cannot end in its own `up`. A gate that failed does not keep them, though it fails
    this one too: whether they are gone is the state's to say."""
    note("the run is done: an `up` gives its GPU nodes back (gpuScaleToZeroAfterJob)")
    passed = False
    try:
        passed = stack.run(["up", "--yes", "--skip-preview", "--continue-on-error"], aside=aside) == 0
    finally:
        if not _is_given_back(stack) or not passed:
            note_billing(stack)


def _is_given_back(stack: Stack) -> bool:
    """Says so, or what is left. A state that cannot be read is not what the command failed by."""
    with contextlib.suppress(ReportedError):
        left = stack.resources()
        nodes, instances = gpu_nodes(left), reserved(left)
        if not nodes and not instances:
            note("the GPU nodes are given back")
            return True
        note(f"NOT given back: the stack has {nodes} GPU nodes still, and a reservation of {instances}")
    return False


def note_billing(stack: Stack) -> None:
    """Says what of an eks stack that was left half-way still bills."""
    if stack.config("platform") != "eks":
        return
    region = stack.foreign_config("aws:region") or "REGION"
    # A state that cannot be read is not what the command failed by.
    with contextlib.suppress(ReportedError):
        for line in leftovers.still_billing(stack.resources(), stack=stack.name, region=region):
            note(line)


def _run(stack: Stack) -> dict[str, Any]:
    """The contract's `run`, from the job in state and the latest judgement; empty without a job."""
    resource = stack.resource(JOB_TYPE)
    if resource is None or not resource.get("outputs"):
        return {}
    state = plain(resource["outputs"])
    judged = _judgement(stack, resource, state["record"])
    return {
        "submissionId": state["submission_id"],
        "status": state["status"],
        "verdict": judged.get("verdict"),
        "verdictReasons": judged.get("verdictReasons") or [],
        "judgedAt": judged.get("judgedAt"),
        "qualityPassed": judged.get("qualityPassed"),
        "tokensPerSecond": state["tokens_per_second"],
        "evalLossBefore": state["eval_loss_before"],
        "evalLossAfter": state["eval_loss_after"],
        "checkpoint": state.get("checkpoint"),
        "record": state["record"],
    }


def _goes_on(stack: Stack) -> bool:
    """Whether a job still runs. In a terminal ^C is a key that pulumi reads: no signal tells of it here."""
    head = stack.head()
    try:
        return head is not None and bool(job.unfinished(head))
    except ReportedError:
        return False


def _judgement(stack: Stack, job: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The record's; where that is on another machine or, as is then said, cannot be read, the gate's by the state."""
    try:
        record = json.loads(regular(FOLDER / path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        if not isinstance(error, FileNotFoundError):
            note(f"the record {path} cannot be read ({error}): the run is judged by the state")
        return gate.judged_by_state(job, stack.config("gateMaxEvalLoss"))
    return {
        "verdict": at(record, "verdict", "value"),
        "verdictReasons": at(record, "verdict", "reasons"),
        "judgedAt": at(record, "verdict", "judgedAt"),
        "qualityPassed": at(record, "quality", "passed"),
    }


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def note(line: str) -> None:
    """Beside the facts, which have standard output to themselves."""
    print(line, file=sys.stderr)
