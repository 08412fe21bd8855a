"""`efactl run`: a new run with other job settings, on what the stack has brought up already."""

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from efactl import commands
from efactl.event_log import events
from efactl.exit_codes import ExitCode
from efactl.region_stacks import check_alone
from efactl.run_plan import Plan, plan_of
from efactl.run_settings import applied, kept_by, replaced_whole, run_settings
from efactl.stack import FOLDER, JOB_TYPE, PROJECT, Stack
from workload.errors import BadInputError, ReportedError


class ChangedStack(Stack):
    """A stack as it is with the settings of another file; its own file is neither read nor written."""

    def __init__(self, name: str, file: Path) -> None:
        super().__init__(name)
        self.file = file

    def run(self, command: Sequence[str], *, aside: bool) -> int:
        return super().run([*command, "--config-file", str(self.file)], aside=aside)


def run(asked: argparse.Namespace) -> ExitCode:
    """Exit codes as `efactl up`; what would touch more than the run is refused before anything is changed."""
    stack = Stack(asked.stack)
    check_alone(stack.name)
    declared = yaml.safe_load((FOLDER / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
    settings = run_settings(asked.settings, declared, stack=stack.name, project=PROJECT)
    _check_running(stack, settings)
    if asked.again:
        settings = _once_more(stack, settings)
    if asked.keep:
        _check_keeping(stack, settings)
    with tempfile.TemporaryDirectory(prefix="efactl-run-") as folder:
        changed = ChangedStack(stack.name, Path(folder) / stack.file.name)
        text = applied(stack.file.read_text(encoding="utf-8"), settings, project=PROJECT)
        changed.file.write_text(text, encoding="utf-8")
        plan = _previewed(changed, Path(folder) / "events.json", aside=asked.json)
        if plan is None:
            return ExitCode.FAILED
        gives_back = plan.gives_back and _gives_back(stack)
        if plan.beyond and not gives_back:
            raise ReportedError(
                f"more than a run would change: {', '.join(plan.beyond)}. Nothing was done: "
                f"`efactl up -s {stack.name}` brings the stack to its settings first"
            )
        if plan.left_out:
            _note(f"left as it is, since it is no run: {', '.join(plan.left_out)}")
        if gives_back:
            _note(f"the run is done, its GPU nodes are still to be given back: {', '.join(plan.beyond)}")
        if asked.preview:
            if asked.json:
                print(json.dumps({"changes": plan.changes, "leftOut": plan.left_out}))
            return ExitCode.OK
        if asked.keep:
            _keep(stack, settings)
        if not plan.targets and not gives_back:
            return _nothing_due(stack, as_json=asked.json)
        targets = () if gives_back else plan.targets
        code = commands.up(changed, as_json=asked.json, targets=targets, whole_run=not plan.measures)
    _explain(stack, settings, asked, code)
    return code


def _check_running(stack: Stack, settings: Mapping[str, Any]) -> None:
    """Raises BadInputError where the program would declare no job: a run would end the one that the stack holds."""
    if str(settings.get("train", stack.config("train"))).lower() == "false":
        train = f"`efactl run -s {stack.name} train=true ...` runs it all the same"
        raise BadInputError(f"train is false for stack {stack.name}, so no job is run: {train}")
    if stack.config("platform") == "eks" and str(stack.config("gpuNodes")) == "0":
        raise BadInputError(f"gpuNodes is 0 for stack {stack.name}, so there is nothing to run a job on")


def _gives_back(stack: Stack) -> bool:
    """Whether the GPU nodes of a run that the state has are to be given back after it."""
    return stack.is_on("gpuScaleToZeroAfterJob") and stack.resource(JOB_TYPE) is not None


def _once_more(stack: Stack, settings: dict[str, Any]) -> dict[str, Any]:
    """Named after the run that it follows: interrupted and asked for again, it is the same one, and is followed."""
    if "jobRunId" in settings:
        raise BadInputError("--again sets jobRunId by itself: give one of the two")
    job = stack.resource(JOB_TYPE)
    return settings if job is None else {**settings, "jobRunId": f"after {job['id']}"}


def _previewed(stack: ChangedStack, log: Path, *, aside: bool) -> Plan | None:
    """What an `up` of the whole stack would change, shown by pulumi; None where the preview failed and has said why."""
    if stack.run(["preview", "--event-log", str(log)], aside=aside) != 0:
        return None
    return plan_of(events(log))


def _check_keeping(stack: Stack, settings: Mapping[str, Any]) -> None:
    if not settings:
        raise BadInputError("--keep writes settings into the stack's file, and none is given")
    if dashed := [path for path, value in kept_by(settings) if value.startswith("-")]:
        raise BadInputError(f"--keep cannot write {', '.join(dashed)}, which begins with '-': edit {stack.file.name}")


def _keep(stack: Stack, settings: Mapping[str, Any]) -> None:
    for name in replaced_whole(settings):
        stack.answer(["config", "rm", name])
    for path, value in kept_by(settings):
        stack.answer(["config", "set", "--path", "--type", "string", path, value])
    _note(f"kept in {stack.file.name}: {', '.join(settings)}")


def _nothing_due(stack: Stack, *, as_json: bool) -> ExitCode:
    _note(f"no run is due: the last one had these settings. `efactl run --again -s {stack.name}` repeats it")
    if as_json:
        commands.outputs(stack, as_json=True)
    return ExitCode.OK


def _explain(stack: Stack, settings: Mapping[str, Any], asked: argparse.Namespace, code: ExitCode) -> None:
    if not settings or asked.keep:
        return
    if code is ExitCode.INTERRUPTED:
        again = " ".join(filter(None, ["efactl run -s", stack.name, *asked.settings, "--again" if asked.again else ""]))
        _note(f"`{again}` follows the job again; the next `up` would ask for a run of {stack.file.name}'s settings")
        return
    _note(
        f"{stack.file.name} is as it was: the next `up` asks for a run of its settings again. `efactl run --keep ...` "
        f"with the same settings writes them there"
    )


def _note(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)
