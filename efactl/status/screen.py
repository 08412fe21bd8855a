"""PURE: a status document as one screen of plain text."""

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from efactl.region_stacks import up_as
from efactl.status.asking import why_unreachable
from workload.recorded_run import moment, text

_WIDTH = 12
_GIB = 1024**3


def lines(whole: Mapping[str, Any]) -> list[str]:
    """Nothing in them that a terminal takes for anything but text."""
    parts: Sequence[Callable[[Mapping[str, Any]], Iterator[str]]] = (
        (_stack, _unread)
        if why_unreachable(whole["cost"])
        else (_stack, _cost, _nodes, _pods, _ray_cluster, _ray, _job, _last_run)
    )
    return [text(line) or "" for part in parts for line in part(whole)]


def _row(label: str, said: str) -> str:
    return f"{label:<{_WIDTH}}{said}".rstrip()


def _part(label: str, found: Any, said: Iterator[str] | Sequence[str]) -> Iterator[str]:
    """The part's lines, the first behind its label; or why there are none."""
    if why := why_unreachable(found):
        yield _row(label, f"unreachable: {why}")
        return
    for index, line in enumerate(said):
        yield _row("" if index else label, line)


def _stack(whole: Mapping[str, Any]) -> Iterator[str]:
    stack = whole["stack"]
    wanted, kind = stack["workersWanted"], stack["instanceType"]
    where = [
        stack["platform"],
        stack["region"],
        f"zone {stack['zone']}" if stack["zone"] else None,
        f"namespace {stack['namespace']}" if stack["namespace"] else None,
        f"{_counted(wanted, 'worker node')} {f'of {kind} ' if kind else ''}declared" if wanted is not None else None,
    ]
    yield _row("stack", f"{stack['name']}: {', '.join(filter(None, where))}; {_clock(whole['askedAt'], day=True)}")
    if stack["isUp"] is False:
        names = stack["upElsewhere"]
        advice = up_as(stack["name"], names) if names else f"`efactl up -s {stack['name']}` brings it up"
        yield _row("", f"nothing of it is up; {advice}")


def _unread(whole: Mapping[str, Any]) -> Iterator[str]:
    """Of a state that cannot be read every part says the same."""
    yield _row("", why_unreachable(whole["cost"]))


def _cost(whole: Mapping[str, Any]) -> Iterator[str]:
    if whole["stack"]["isUp"] is not False:
        yield from _part("cost", whole["cost"], _cost_lines(whole["cost"]))


def _cost_lines(cost: Mapping[str, Any]) -> Iterator[str]:
    hourly, since = cost["hourlyUsd"], cost["upSince"]
    if hourly is None:
        told = "not known" if cost["lacks"] else "not known: the cluster is not this stack's to price"
    elif hourly == 0:
        told = "nothing an hour"
    else:
        told = f"{hourly:,.3f} USD an hour" + (f" at list prices of {cost['pricesOf']}" if cost["pricesOf"] else "")
    if since:
        told += f"; up since {_clock(since, day=True)} ({_lasting(cost['hoursUp'] * 3600)})"
        told += f", about {cost['sinceUpUsd']:,.2f} USD since" if hourly else ""
    yield told
    if cost["lacks"]:
        yield f"without {', '.join(cost['lacks'])}, whose price is not known"
    yield from cost["notes"]


def _nodes(whole: Mapping[str, Any]) -> Iterator[str]:
    if whole["stack"]["isUp"] is not False:
        yield from _part("nodes", whole["nodes"], _node_lines(whole["nodes"]))


def _node_lines(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not nodes:
        yield "none"
        return
    yield f"{sum(bool(node['ready']) for node in nodes)} of {len(nodes)} Ready"
    if "pid" in nodes[0]:
        header = ["NODE", "ROLE", "PID", "RESOURCES", "READY"]
        rows = [
            [node["name"], node["role"], node["pid"], _resources(node["resources"]), _ready(node)] for node in nodes
        ]
    else:
        header = ["NODE", "INSTANCE", "TYPE", "ZONE", "GPU", "EFA", "READY"]
        keys = ("name", "instanceId", "instanceType", "zone", "gpu", "efa")
        rows = [[*(node[key] for key in keys), _ready(node)] for node in nodes]
    yield from _table(header, rows)


def _resources(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_amount(name, value)}" for name, value in resources.items()) or "-"


def _ready(node: Mapping[str, Any]) -> str:
    return ("yes" if node["ready"] else "no") + (f" ({node['note']})" if node["note"] else "")


def _pods(whole: Mapping[str, Any]) -> Iterator[str]:
    if whole["pods"] is not None and whole["stack"]["isUp"] is not False:
        yield from _part("pods", whole["pods"], _pod_lines(whole["pods"]))


def _pod_lines(pods: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not pods:
        yield "none"
        return
    yield f"{sum(bool(pod['ready']) for pod in pods)} of {len(pods)} Ready"
    header = ["POD", "ROLE", "NODE", "PHASE", "RESTARTS", "READY"]
    keys = ("name", "role", "node", "phase", "restarts")
    yield from _table(header, [[*(pod[key] for key in keys), "yes" if pod["ready"] else "no"] for pod in pods])
    yield from (pod["problem"] for pod in pods if pod["problem"])


def _ray_cluster(whole: Mapping[str, Any]) -> Iterator[str]:
    cluster = whole["rayCluster"]
    if cluster is not None:
        yield from _part("RayCluster", cluster, _ray_cluster_lines(cluster))


def _ray_cluster_lines(cluster: Mapping[str, Any]) -> Iterator[str]:
    wanted, reported = cluster["workersWanted"], cluster["reported"]
    head = "head Ready" if cluster["headReady"] else "head not Ready"
    told = f"{cluster['name']}: {head}, {cluster['workersReady']} of {_counted(wanted, 'worker')} Ready"
    if reported is not None:
        state = reported["state"] or "no state"
        told += f"; KubeRay says {state}, {reported['availableWorkers']} of {wanted} available"
    yield told
    if cluster["problem"]:
        yield cluster["problem"]


def _ray(whole: Mapping[str, Any]) -> Iterator[str]:
    if whole["ray"] is not None:
        yield from _part("Ray", whole["ray"], _ray_lines(whole["ray"]))
    elif whole["stack"]["isUp"]:
        yield _row("Ray", "no head yet")


def _ray_lines(ray: Mapping[str, Any]) -> Iterator[str]:
    dead = f", {ray['nodesDead']} dead" if ray["nodesDead"] else ""
    shown = [
        f"{name} {_amount(name, held['reserved'])} of {_amount(name, held['total'])} reserved"
        if held["reserved"]
        else f"{name} {_amount(name, held['total'])}"
        for name, held in ray["resources"].items()
    ]
    yield "; ".join([f"{ray['version']}, {_counted(ray['nodesAlive'], 'node')} alive{dead}", ", ".join(shown)])
    if ray["problem"]:
        yield ray["problem"]


def _job(whole: Mapping[str, Any]) -> Iterator[str]:
    if whole["job"] is not None:
        yield from _part("job", whole["job"], _job_lines(whole["job"]))


def _job_lines(job: Mapping[str, Any]) -> Iterator[str]:
    running, ended = job["running"], job["lastEnded"]
    if running is None:
        yield "none runs"
        if ended:
            yield f"the last, {ended['submissionId']}, ended as {ended['status']} at {_clock(ended['endedAt'])}"
            if ended["message"] and ended["status"] != "SUCCEEDED":
                yield ended["message"]
        return
    since = f" for {_lasting(running['seconds'])}" if running["seconds"] is not None else ""
    yield f"{running['submissionId']} {running['status']}{since}"
    if running["step"] is not None:
        told = [f"step {running['step']}/{running['steps']}"]
        told += [f"loss {running['loss']:.4f}"] if running["loss"] is not None else []
        told += [f"{running['tokensPerSecond']:,.0f} tokens/s"] if running["tokensPerSecond"] else []
        told += [f"ETA {_lasting(running['etaSeconds'])}"] if running["etaSeconds"] is not None else []
        yield ", ".join(told)
    if running["says"]:
        yield running["says"]
    if running["logUnreachable"]:
        yield f"its log could not be read at the head ({running['logUnreachable']}): as far as it was followed here"
    if job["alsoRunning"]:
        yield f"beside it: {', '.join(job['alsoRunning'])}"


def _last_run(whole: Mapping[str, Any]) -> Iterator[str]:
    run = whole["lastRun"]
    if run is None:
        yield _row("last run", "none that SUCCEEDED")
        return
    yield from _part("last run", run, _last_run_lines(run))


def _last_run_lines(run: Mapping[str, Any]) -> Iterator[str]:
    ended = f" at {_clock(run['endedAt'], day=True)}" if run["endedAt"] else ""
    yield f"{run['submissionId']} {run['status']}{ended}"
    quality = {True: "quality passed", False: "quality not passed", None: "quality not judged"}[run["qualityPassed"]]
    told = [f"transport {run['verdict'] or 'verdict not known'} (expected {run['expect'] or '-'})", quality]
    told += [f"{run['tokensPerSecond']:,.0f} tokens/s"] if run["tokensPerSecond"] is not None else []
    before, after = run["evalLossBefore"], run["evalLossAfter"]
    told += [f"eval loss {before:.4f} -> {after:.4f}"] if before is not None and after is not None else []
    yield ", ".join(told)
    if run["verdict"] != "proven":
        yield from run["verdictReasons"]
    if run["note"]:
        yield run["note"]


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    cells = [list(header), *([("-" if cell is None else str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _amount(name: str, value: float) -> str:
    return f"{value / _GIB:.1f} GiB" if name.endswith("memory") else f"{value:g}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _clock(moment_text: str | None, *, day: bool = False) -> str:
    """In UTC."""
    when = moment(moment_text)
    if when is None:
        return "-"
    return when.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC" if day else "%H:%M:%S UTC")


def _lasting(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
