"""`efactl down`: a stack destroyed, and a look at what is left of it."""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from capacity.ended import ended_reservations, needs_refresh
from capacity.left import Left, lines
from efactl import leftovers
from efactl.commands import note, note_billing
from efactl.exit_codes import ExitCode
from efactl.region_stacks import hint
from efactl.stack import CLUSTER_GUARD_TYPE, FOLDER, KUBERNETES_PROVIDER_TYPE, NoSuchStackError, Stack
from workload import job
from workload.errors import ReportedError
from workload.head import Head
from workload.kubernetes_access import KubernetesAccess, KubernetesError
from workload.kubernetes_api import FORBIDDEN, KubernetesApi

if TYPE_CHECKING:
    from efactl.teardown import Made

# The Kubernetes provider's own switch: it drops from the state what it cannot ask the cluster to delete.
FORGET = "PULUMI_K8S_DELETE_UNREACHABLE"


def down(stack: Stack, *, as_json: bool) -> ExitCode:
    """`pulumi destroy`, then a look at what is left: processes here, ended by pid; in AWS, by tag, what bills.

    In a Kubernetes cluster a running job is stopped first, so that it ends in order and not with its pods. A cluster
    that cannot be reached, or another account, is said at once, and nothing is touched; a cluster of the stack's own
    goes with it.
    """
    facts, code = destroyed(stack, aside=as_json)
    if elsewhere := hint(stack.name):
        note(elsewhere)
    if as_json:
        print(json.dumps(facts))
    return code


def destroyed(stack: Stack, *, aside: bool, is_base: bool = False) -> tuple[dict[str, Any], ExitCode]:
    """What `down` does, and its facts; `aside` leaves standard output to them.

    `is_base`: the settings of an environment, which the stacks of its regions are made from. Without a region, in its
    state or its file, there has been no stack of it.
    """
    for line in stack.release_dead_locks():
        note(line)
    try:
        resources = stack.resources()
    except NoSuchStackError as error:
        return _without_state(stack, error, aside=aside, is_base=is_base)
    platform = stack.config("platform")
    made, over = None, False
    if platform == "eks":
        # boto3 and what comes with it: no other platform should pay for its import.
        from efactl import teardown

        made = teardown.made_where(stack, resources)
        if made is not None and resources:
            resources = stack.settle(note, region=made.regions[0], name=made.name, access=made.access)
        over = needs_refresh(resources, now=datetime.now(UTC))
    # Not the head's: a stack whose Ray cluster never came up, or is half destroyed, has objects in the cluster too.
    cluster = None if platform == "local" else stack.cluster()
    made_here = platform == "eks" and not stack.config("eksExistingCluster")
    answers = cluster is not None and _cluster_answers(stack, cluster, made_here=made_here)
    if answers and (head := stack.head()):
        _stop_jobs(head)
    forget = cluster is not None and not answers and not made_here
    # Nothing can be deleted there, and the provider would fail on each Helm release (pulumi-kubernetes#2675).
    command = ["state", "delete", "--all", "--force", "--yes"] if forget else ["destroy", "--yes", "--skip-preview"]
    if answers and over:
        command.append("--refresh")
    elif over:
        # What lies in a cluster that does not answer cannot be asked for; the reservation that AWS has ended can.
        targets = [part for urn in ended_reservations(resources, now=datetime.now(UTC)) for part in ("--target", urn)]
        if targets:
            stack.run(["refresh", "--yes", "--skip-preview", *targets], aside=aside)
    kept_in_aws = leftovers.kept(stack.resources()) if platform == "eks" else []
    done = stack.run(command, aside=aside) == 0
    ended = _processes_ended(stack) if done else []
    if not done:
        note_billing(stack)
    elif made is not None:
        from efactl import teardown

        # A state that cannot be read once more is no reason not to look at what is left.
        with contextlib.suppress(ReportedError):
            teardown.end_late_logs(made, stack.resources(), note)
    left = _left_in_aws(stack, made, is_base=is_base)
    facts = _facts(destroyed=done, ended=ended, kept_in_aws=kept_in_aws, left=left)
    complete = done and _nothing_matters(left)
    if complete and not aside:
        number = len(facts["recordsKept"])
        records = "1 run record" if number == 1 else f"{number} run records"
        rest = f" but {', '.join(kept_in_aws)}" if kept_in_aws else ""
        print(f"nothing of stack {stack.name} is left{rest}; runs/ keeps {records}")
    # Where the destroy failed, what is free goes with the next one.
    shown = [one for one in left or () if one.matters or (done and one.id not in " ".join(kept_in_aws))]
    _print(lines(shown), aside=aside)
    return facts, ExitCode.OK if complete else ExitCode.FAILED


def _without_state(
    stack: Stack, error: NoSuchStackError, *, aside: bool, is_base: bool
) -> tuple[dict[str, Any], ExitCode]:
    """Its state may be in another backend, or lost: what can be looked at without one is looked at all the same.

    Raises the error where nothing can: a cluster's objects are told by the state alone.
    """
    platform = stack.config("platform")
    if platform == "kubernetes":
        raise error
    made = None
    if platform == "eks":
        from efactl import teardown

        made = teardown.made_where(stack, [])
    ended = _processes_ended(stack)
    left = _left_in_aws(stack, made, is_base=is_base)
    nothing = f"there is no stack {stack.name} in this backend: nothing was destroyed"
    _print([nothing, *lines(left or [])], aside=aside)
    facts = _facts(destroyed=False, ended=ended, kept_in_aws=[], left=left)
    return facts, ExitCode.OK if _nothing_matters(left) else ExitCode.FAILED


def _left_in_aws(stack: Stack, made: "Made | None", *, is_base: bool) -> list[Left] | None:
    """None where it could not be looked at; only an eks stack can have left anything."""
    if stack.config("platform") != "eks" or (made is None and is_base):
        return []
    if made is None:
        note(f"AWS was not looked at: neither the state of stack {stack.name} nor its file names a region (aws:region)")
        return None
    from efactl import teardown

    return teardown.look(made, note)


def _nothing_matters(left: Sequence[Left] | None) -> bool:
    return left is not None and not any(one.matters for one in left)


def _processes_ended(stack: Stack) -> list[int]:
    """Pids of this machine that were still a local stack's."""
    if stack.config("platform") != "local":
        return []
    from infra import local_nodes

    return list(local_nodes.stop(local_nodes.cluster_directory(FOLDER, stack.name), say=note))


def _facts(*, destroyed: bool, ended: list[int], kept_in_aws: list[str], left: Sequence[Left] | None) -> dict[str, Any]:
    return {
        "destroyed": destroyed,
        "endedBesides": ended,
        "recordsKept": sorted(path.parent.name for path in (FOLDER / "runs").glob("*/record.json")),
        "keptInAws": kept_in_aws,
        "left": None if left is None else [asdict(one) for one in left],
    }


def _print(said: Sequence[str], *, aside: bool) -> None:
    for line in said:
        print(line, file=sys.stderr if aside else sys.stdout)


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
                note(f"{error}: no job could be stopped first; what the cluster holds goes with it")
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
        note(f"{error}: what the cluster held is forgotten ({FORGET})")
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
            job.stop(head, say=note)
    except ReportedError as error:
        note(f"no job could be stopped first: {error}")
