"""`efactl down`: a stack destroyed, and a look at what is left of it."""

import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from capacity.ended import needs_refresh
from capacity.left import lines
from efactl import leftovers
from efactl.commands import note, note_billing
from efactl.exit_codes import ExitCode
from efactl.region_stacks import hint
from efactl.stack import CLUSTER_GUARD_TYPE, FOLDER, KUBERNETES_PROVIDER_TYPE, Stack
from workload import job
from workload.errors import ReportedError
from workload.head import Head
from workload.kubernetes_access import KubernetesAccess, KubernetesError
from workload.kubernetes_api import FORBIDDEN, KubernetesApi

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


def destroyed(stack: Stack, *, aside: bool) -> tuple[dict[str, Any], ExitCode]:
    """What `down` does, and its facts; `aside` leaves standard output to them."""
    for line in stack.release_dead_locks():
        note(line)
    made, over = None, False
    if stack.config("platform") == "eks":
        # boto3 and what comes with it: no other platform should pay for its import.
        from efactl import teardown

        resources = stack.resources()
        made = teardown.made_where(stack, resources)
        if made is not None and resources:
            resources = stack.settle(note, region=made.regions[0], name=made.name, access=made.access)
        over = needs_refresh(resources, now=datetime.now(UTC))
    # Not the head's: a stack whose Ray cluster never came up, or is half destroyed, has objects in the cluster too.
    cluster = None if stack.config("platform") == "local" else stack.cluster()
    made_here = stack.config("platform") == "eks" and not stack.config("eksExistingCluster")
    answers = cluster is not None and _cluster_answers(stack, cluster, made_here=made_here)
    if answers and (head := stack.head()):
        _stop_jobs(head)
    forget = cluster is not None and not answers and not made_here
    # Nothing can be deleted there, and the provider would fail on each Helm release (pulumi-kubernetes#2675).
    command = ["state", "delete", "--all", "--force", "--yes"] if forget else ["destroy", "--yes", "--skip-preview"]
    if answers and over:
        command.append("--refresh")
    kept_in_aws = leftovers.kept(stack.resources()) if stack.config("platform") == "eks" else []
    status = stack.run(command, aside=aside)
    ended: list[int] = []
    if stack.config("platform") == "local" and status == 0:
        from infra import local_nodes

        ended = list(local_nodes.stop(local_nodes.cluster_directory(FOLDER, stack.name), say=note))
    if status != 0:
        note_billing(stack)
    left = teardown.look(made, note) if made is not None and status == 0 else []
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
        "left": [asdict(one) for one in left],
    }
    return facts, ExitCode.OK if complete else ExitCode.FAILED


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
