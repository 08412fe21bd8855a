"""What each efactl command does: every one prints facts, as JSON where asked, and returns its exit code."""

import contextlib
import dataclasses
import datetime
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capacity.left import lines
from efactl import leftovers, reasons
from efactl.exit_codes import ExitCode
from efactl.stack import CLUSTER_GUARD_TYPE, FOLDER, JOB_TYPE, KUBERNETES_PROVIDER_TYPE, Stack, plain
from workload import job
from workload.errors import ReportedError
from workload.head import Head
from workload.kubernetes_access import KubernetesAccess, KubernetesError
from workload.kubernetes_api import FORBIDDEN, KubernetesApi

# The Kubernetes provider's own switch: it drops from the state what it cannot ask the cluster to delete.
FORGET = "PULUMI_K8S_DELETE_UNREACHABLE"


def up(stack: Stack, *, as_json: bool) -> ExitCode:
    """`pulumi up` without questions; where a gate failed it, the exit code says which."""
    for line in stack.release_dead_locks():
        _note(line)
    began = datetime.datetime.now(datetime.UTC)
    refresh = ["--refresh"] if _reservation_ended(stack) else []
    status = stack.run(["up", "--yes", "--skip-preview", *refresh], aside=as_json)
    run = _run(stack)
    if as_json:
        print(json.dumps(run, indent=2))
    if status == 0:
        return ExitCode.OK
    _note_billing(stack)
    reason = reasons.of_job(run, began) or reasons.of_measurements(FOLDER / "runs", began)
    return reason or (ExitCode.INTERRUPTED if _goes_on(stack) else ExitCode.FAILED)


def outputs(stack: Stack, *, as_json: bool) -> ExitCode:
    """The main figures of the stack's last run that SUCCEEDED, from its state and record."""
    run = _run(stack)
    if not run:
        _note(f"stack {stack.name} holds no run; `efactl up -s {stack.name}` makes one")
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
        raise ReportedError(f"stack {stack.name} has no Ray head: nothing runs")
    stopped = job.stop(head, say=_note)
    if as_json:
        print(json.dumps({"stopped": stopped}))
    else:
        print(f"stopped {', '.join(stopped)}" if stopped else "no job is running")
    return ExitCode.OK


def down(stack: Stack, *, as_json: bool) -> ExitCode:
    """`pulumi destroy`, then a look at what is left: processes here, ended by pid; in AWS, by tag, what bills.

    In a Kubernetes cluster a running job is stopped first, so that it ends in order and not with its pods. A cluster
    that cannot be reached, or another account, is said at once, and nothing is touched; a cluster of the stack's own
    goes with it.
    """
    facts, code = destroyed(stack, aside=as_json)
    if as_json:
        print(json.dumps(facts))
    return code


def destroyed(stack: Stack, *, aside: bool) -> tuple[dict[str, Any], ExitCode]:
    """What `down` does, and its facts; `aside` leaves standard output to them."""
    for line in stack.release_dead_locks():
        _note(line)
    made = None
    if stack.config("platform") == "eks":
        # boto3 and what comes with it: no other platform should pay for its import.
        from efactl import teardown

        made = teardown.made_where(stack, stack.resources())
    # Not the head's: a stack whose Ray cluster never came up, or is half destroyed, has objects in the cluster too.
    cluster = None if stack.config("platform") == "local" else stack.cluster()
    made_here = stack.config("platform") == "eks" and not stack.config("eksExistingCluster")
    answers = cluster is not None and _cluster_answers(stack, cluster, made_here=made_here)
    if answers and (head := stack.head()):
        _stop_jobs(head)
    forget = cluster is not None and not answers and not made_here
    # Nothing can be deleted there, and the provider would fail on each Helm release (pulumi-kubernetes#2675).
    command = ["state", "delete", "--all", "--force", "--yes"] if forget else ["destroy", "--yes", "--skip-preview"]
    if answers and _reservation_ended(stack):
        command.append("--refresh")
    kept_in_aws = leftovers.kept(stack.resources()) if stack.config("platform") == "eks" else []
    status = stack.run(command, aside=aside)
    ended: list[int] = []
    if stack.config("platform") == "local" and status == 0:
        from infra import local_nodes

        ended = list(local_nodes.stop(local_nodes.cluster_directory(FOLDER, stack.name), say=_note))
    if status != 0:
        _note_billing(stack)
    left = teardown.look(made, _note) if made is not None and status == 0 else []
    kept = sorted(path.parent.name for path in (FOLDER / "runs").glob("*/record.json"))
    complete = status == 0 and not any(one.matters for one in left)
    if complete and not aside:
        records = "1 run record" if len(kept) == 1 else f"{len(kept)} run records"
        rest = f" but {', '.join(kept_in_aws)}" if kept_in_aws else ""
        print(f"nothing of stack {stack.name} is left{rest}; runs/ keeps {records}")
    for line in lines([one for one in left if one.matters or one.id not in " ".join(kept_in_aws)]):
        print(line, file=sys.stderr if aside else sys.stdout)
    facts = {
        "destroyed": status == 0,
        "endedBesides": ended,
        "recordsKept": kept,
        "keptInAws": kept_in_aws,
        "left": [dataclasses.asdict(one) for one in left],
    }
    return facts, ExitCode.OK if complete else ExitCode.FAILED


def _note_billing(stack: Stack) -> None:
    if stack.config("platform") != "eks":
        return
    region = stack.foreign_config("aws:region") or "REGION"
    # A state that cannot be read is not what the command failed by.
    with contextlib.suppress(ReportedError):
        for line in leftovers.still_billing(stack.resources(), stack=stack.name, region=region):
            _note(line)


def _reservation_ended(stack: Stack) -> bool:
    """Whether AWS has ended it by itself: then it cannot be cancelled, and only a refresh forgets it."""
    until = stack.config("capacityUntil")
    if stack.config("platform") != "eks" or not until:
        return False
    return datetime.datetime.fromisoformat(until) <= datetime.datetime.now(datetime.UTC)


def _cluster_answers(stack: Stack, cluster: KubernetesAccess, *, made_here: bool) -> bool:
    """Whether the cluster answers; raises ReportedError where it does not and is not to be forgotten."""
    api = KubernetesApi(cluster)
    try:
        api.get("/version", doing="looking for the cluster")
    except KubernetesError as error:
        if error.status == FORBIDDEN:
            return True
        if error.status:
            raise
        if stack.config("platform") == "eks":
            provider = leftovers.provider_of_apart(stack.resources())
            if made_here and provider is None:
                _note(f"{error}: no job could be stopped first; what the cluster holds goes with it")
                return False
            provider = provider or (stack.resource(KUBERNETES_PROVIDER_TYPE) or {}).get("urn")
            volumes = ", and its claim's volume is yours to delete" if made_here else ""
            raise ReportedError(
                f"{error}. Nothing was destroyed: run again once the cluster answers. If it is gone for good, "
                f"`pulumi state delete '{provider}' --target-dependents -s {stack.name}` forgets what it "
                f"held{volumes}; then run this again for what is left in AWS"
            ) from None
        if os.environ.get(FORGET) != "true":
            raise ReportedError(
                f"{error}. Nothing was destroyed: run again once the cluster answers. If it is gone for good, "
                f"`{FORGET}=true efactl down -s {stack.name}` forgets what it held"
            ) from None
        _note(f"{error}: what the cluster held is forgotten ({FORGET})")
        return False
    held = stack.resource(CLUSTER_GUARD_TYPE)
    if held is not None and not stack.config("kubeClusterId") and (now := api.identity) != held["id"]:
        raise ReportedError(
            f"stack {stack.name} is on cluster {held['id']}, {cluster.named} leads to {now}: nothing was destroyed. "
            f"Lead it back; if the stack's cluster is gone for good, `pulumi state delete --all -s {stack.name}`"
        )
    return True


def _stop_jobs(head: Head) -> None:
    try:
        if job.unfinished(head):
            job.stop(head, say=_note)
    except ReportedError as error:
        _note(f"no job could be stopped first: {error}")


def _run(stack: Stack) -> dict[str, Any]:
    """The contract's `run`, from the job in state and the latest judgement in its record; empty without a job."""
    resource = stack.resource(JOB_TYPE)
    if resource is None or not resource.get("outputs"):
        return {}
    state = plain(resource["outputs"])
    record = _record(state["record"])
    verdict = record.get("verdict", {})
    return {
        "submissionId": state["submission_id"],
        "status": state["status"],
        "verdict": verdict.get("value"),
        "verdictReasons": verdict.get("reasons", []),
        "judgedAt": verdict.get("judgedAt"),
        "qualityPassed": record.get("quality", {}).get("passed"),
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


def _record(path: str) -> Mapping[str, Any]:
    file = FOLDER / Path(path)
    if not file.exists():
        return {}
    record: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return record


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _note(line: str) -> None:
    print(line, file=sys.stderr)
