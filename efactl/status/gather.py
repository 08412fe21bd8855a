"""Everything that `efactl status` shows, asked side by side: a JSON document whose parts stand or fail alone."""

import contextlib
import dataclasses
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from efactl import gate
from efactl.region_stacks import up_elsewhere
from efactl.stack import FOLDER, JOB_TYPE, Stack
from efactl.stack_secrets import configured_secrets
from efactl.status import job_part, kubernetes_parts, last_run, ray_part
from efactl.status.asking import Asked, UnreachableError, or_unreachable, unreachable
from efactl.status.cluster_objects import ClusterObjects, Objects
from efactl.status.head_calls import HeadCalls
from efactl.status.state import NODES_TYPE, ReadStack, cost, declared_cluster, node_selector, secrets_in
from workload.head import Head
from workload.recorded_run import RecordedRun, mappings, recorded
from workload.redaction import Redactor
from workload.run_folder import LOG, RECORD, regular

# The state comes first, since it says where all else is: a status takes both at most.
STATE_S, PART_S = 10.0, 5.0
PARTS = ("nodes", "pods", "rayCluster", "ray", "job", "lastRun", "cost")


def document(stack: Stack, *, runs: Path = FOLDER / "runs") -> dict[str, Any]:
    """`stack`, and the PARTS; each of them None where a platform has no such thing, or {"unreachable": reason}."""
    now = datetime.datetime.now(datetime.UTC)
    resources = Asked(stack.resources, limit_s=STATE_S)
    secrets = Asked(lambda: configured_secrets(stack), limit_s=STATE_S)
    whole: dict[str, Any] = {"askedAt": now.isoformat(timespec="seconds")}
    try:
        held = resources.answer()
    except UnreachableError as error:
        reason = unreachable(f"the stack's state cannot be read: {error}")
        return whole | {"stack": _stack_part(stack, None, None)} | dict.fromkeys(PARTS, reason)
    parts = _parts(ReadStack(stack, held), secrets, now, runs)
    try:
        known = secrets.answer()
    except UnreachableError:
        known = []
    redacted: dict[str, Any] = _redacted(parts, Redactor([*secrets_in(held), *known]))
    return whole | redacted


def _parts(read: ReadStack, secrets: Asked[list[str]], now: datetime.datetime, runs: Path) -> dict[str, Any]:
    head = read.head()
    elsewhere = None if read.is_up else Asked(lambda: up_elsewhere(read.name), limit_s=PART_S)
    with contextlib.ExitStack() as tunnel:
        asked = tunnel.enter_context(contextlib.closing(_OfHead(head, secrets, now, runs))) if head else None
        where = _local(read) if read.config("platform") == "local" else _kubernetes(read, head)
        return {
            "stack": _stack_part(read, read, head) | {"upElsewhere": _names(elsewhere)},
            **where,
            "ray": or_unreachable(asked.ray) if asked else None,
            "job": or_unreachable(asked.job) if asked else None,
            "lastRun": _last_run(read, runs),
            "cost": cost(read, now),
        }


def _names(elsewhere: Asked[list[str]] | None) -> list[str]:
    try:
        return elsewhere.answer() if elsewhere else []
    except UnreachableError:
        return []


def _stack_part(stack: Stack, read: ReadStack | None, head: Head | None) -> dict[str, Any]:
    declared = declared_cluster(read, head) if read else None
    platform = stack.config("platform")
    zone = read.outputs_of(NODES_TYPE).get("ready_zone") if read else None
    return {
        "name": stack.name,
        "platform": platform,
        "region": stack.foreign_config("aws:region") if platform == "eks" else None,
        "zone": stack.config("gpuZone") or zone or None if platform != "local" else None,
        "namespace": declared.namespace or None if declared else None,
        "instanceType": stack.config("gpuInstanceType") if platform != "local" else None,
        "workersWanted": declared.workers if declared else head.nodes if head else None,
        "isUp": read.is_up if read else None,
        "upElsewhere": [],
    }


def _local(read: ReadStack) -> dict[str, Any]:
    if not read.local_directory:
        return {"nodes": [], "pods": None, "rayCluster": None}
    from efactl.status import local_parts

    directory = Path(read.local_directory)
    head = read.head()
    workers = head.nodes if head else 0
    nodes = Asked(lambda: local_parts.nodes_part(directory), limit_s=PART_S)
    cluster = Asked(lambda: local_parts.ray_cluster_part(directory, name=read.name, workers=workers), limit_s=PART_S)
    return {"nodes": or_unreachable(nodes.answer), "pods": None, "rayCluster": or_unreachable(cluster.answer)}


def _kubernetes(read: ReadStack, head: Head | None) -> dict[str, Any]:
    declared = declared_cluster(read, head)
    access = read.cluster() or (head.access if head else None)
    if access is None:
        return {"nodes": [], "pods": [], "rayCluster": None}
    patience = float(read.config("kubeUnschedulableSeconds") or 0)
    fixed = "" if read.config("kubeClusterId") else read.cluster_id
    objects = ClusterObjects(access, declared, cluster_id=fixed, limit_s=PART_S)

    def nodes() -> Any:
        holding: Objects = ()
        with contextlib.suppress(UnreachableError):
            holding = objects.pods() if declared else ()
        return kubernetes_parts.nodes_part(objects.nodes(), node_selector(read), holding)

    def pods() -> Any:
        return kubernetes_parts.pods_part(objects.pods(), objects.events(), unschedulable_seconds=patience)

    def ray_cluster() -> Any:
        assert declared is not None
        return kubernetes_parts.ray_cluster_part(declared, objects.seen(), unschedulable_seconds=patience)

    return {
        "nodes": or_unreachable(nodes),
        "pods": or_unreachable(pods) if declared else [],
        "rayCluster": or_unreachable(ray_cluster) if declared else None,
    }


class _OfHead:
    """What the head is asked, over one tunnel: Ray's view, the table of jobs, the running job's log."""

    def __init__(self, head: Head, secrets: Asked[list[str]], now: datetime.datetime, runs: Path) -> None:
        self._secrets, self._now, self._runs = secrets, now, runs
        calls = self._calls = HeadCalls(head, limit_s=PART_S)
        self._ray = Asked(lambda: _ray(calls, head), limit_s=PART_S)
        self._table = Asked(lambda: mappings(calls.get("/api/jobs/")), limit_s=PART_S)
        self._log = Asked(self._log_lines, limit_s=PART_S)

    def close(self) -> None:
        self._calls.close()

    def ray(self) -> dict[str, Any]:
        return self._ray.answer()

    def job(self) -> dict[str, Any]:
        table = self._table.answer()
        running = job_part.running_job(table)
        if running is None:
            return job_part.job_part(table, job_part.Progress(), self._now, log="")
        trouble = ""
        try:
            lines = self._log.answer()
        except UnreachableError as error:
            lines, trouble = self._lines_here(str(running["submission_id"])), str(error)
        accumulate = job_part.accumulate_of(str(running.get("entrypoint") or ""))
        progress = job_part.progress_of(lines, accumulate=accumulate)
        return job_part.job_part(table, self._without_secrets(progress), self._now, log=trouble)

    def _log_lines(self) -> list[str]:
        running = job_part.running_job(self._table.answer())
        if running is None:
            return []
        return str(self._calls.get(f"/api/jobs/{running['submission_id']}/logs").get("logs") or "").splitlines()

    def _lines_here(self, submission_id: str) -> list[str]:
        """As far as an `up` of this machine has followed it."""
        try:
            return regular(self._runs / submission_id / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []

    def _without_secrets(self, progress: job_part.Progress) -> job_part.Progress:
        """Where the job's secrets are not known, what it says may hold one."""
        try:
            self._secrets.answer()
        except UnreachableError:
            return dataclasses.replace(progress, says=None)
        return progress


def _ray(calls: HeadCalls, head: Head) -> dict[str, Any]:
    version = calls.get(ray_part.VERSION)
    nodes, groups = (ray_part.rows(calls.get(path)) for path in (ray_part.NODES, ray_part.PLACEMENT_GROUPS))
    return ray_part.ray_part(head, version=version, nodes=nodes, groups=groups)


def _last_run(read: ReadStack, runs: Path) -> dict[str, Any] | None:
    job = read.outputs_of(JOB_TYPE)
    folder = runs / str(job.get("submission_id") or "")
    record: RecordedRun | None = None
    with contextlib.suppress(OSError):
        content = regular(folder / RECORD).read_text(encoding="utf-8", errors="replace")
        record = recorded(content, folder=folder.name, place=str(folder))
    judged: Mapping[str, Any] = {}
    if (record is None or record.problem) and (resource := read.resource(JOB_TYPE)):
        judged = gate.judged_by_state(resource, read.config("gateMaxEvalLoss"))
    return last_run.last_run_part(job, judged, record)


def _redacted(value: Any, redact: Redactor) -> Any:
    """Every text of it; keys are this program's own."""
    if isinstance(value, dict):
        return {key: _redacted(item, redact) for key, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item, redact) for item in value]
    return redact(value) if isinstance(value, str) else value
