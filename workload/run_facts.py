"""PURE: what a run's record says of what ran, each fact with its kind; what comes anew with every run is none."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from workload.recorded_run import RecordedRun, at, mappings, number, text

IMAGE, CODE, VERSION, DRIVER = "image", "code", "component version", "driver"
ARGUMENT, MODEL, DATA, ENVIRONMENT, SETTING = "argument", "model", "data", "environment", "setting"
NODE, PLACEMENT, RESTART, OTHER = "node", "placement", "restart", "other field"
KINDS = (IMAGE, VERSION, DRIVER, CODE, ARGUMENT, MODEL, DATA, ENVIRONMENT, SETTING, NODE, PLACEMENT, RESTART, OTHER)

_DATA_ARGUMENTS = frozenset({"dataset", "validation_dataset", "validation_share", "dataset_format", "text_field"})
_ARGUMENT_KINDS = {
    **dict.fromkeys(_DATA_ARGUMENTS, DATA),
    **dict.fromkeys(("num_workers", "worker_resource"), NODE),
    "model_id": MODEL,
    "storage_path": PLACEMENT,
    "pip": ENVIRONMENT,
}
# A variable's value that names the run's own files.
_OWN_FILES = frozenset({"NCCL_DEBUG_FILE"})
_SETTING_KINDS = {
    "rayImage": IMAGE,
    "rayVersion": VERSION,
    "gpuAmiRelease": DRIVER,
    **dict.fromkeys(("jobEnv", "jobPip", "rayEnv"), ENVIRONMENT),
    **dict.fromkeys(("gpuInstanceType", "gpuNodes", "gpuEfa", "rayTrainersPerNode"), NODE),
    **dict.fromkeys(("localWorkerNodes", "localTrainersPerNode", "trainNumWorkers"), NODE),
    **dict.fromkeys(("platform", "gpuZone", "gpuPlacementGroup", "gpuMarket", "gpuExistingGroup"), PLACEMENT),
    **dict.fromkeys(("gpuNodeSelector", "capacity", "kubeContext", "kubeNamespace", "kubeClusterId"), PLACEMENT),
    **dict.fromkeys(("eksName", "eksExistingCluster", "storagePath"), PLACEMENT),
}
_SETTING_PATHS = {
    "rayImage": "image.reference",
    "storagePath": "arguments.storage_path",
    "platform": "cluster.kind",
    "jobEnv": "runtimeEnv.env",
    "jobPip": "runtimeEnv.pip",
}
# The run's own name, and where it went on: the steps of its attempts say so much of it as can be compared.
_OF_EACH_RUN = frozenset({"run_id", "goes_on_from"})
# Of the record's parts those whose facts are told by `facts`, by figures, or new with every run.
_READ = frozenset(
    {
        *("schema", "submissionId", "attempt", "status", "startedAt", "endedAt", "stack", "image", "code", "cluster"),
        *("arguments", "runtimeEnv", "settings", "versions", "transport", "verdict", "quality", "throughput", "memory"),
        *("evaluation", "losses", "checkpoint", "checkpoints", "data", "profile", "attempts", "timings", "log", "cost"),
        "model",
    }
)
_READ_BELOW: Mapping[str, frozenset[str]] = {
    "image": frozenset({"reference", "digest"}),
    "code": frozenset({"trainingDigest", "commit", "dirty"}),
    "cluster": frozenset({"kind", "name", "session", "specDigest", "rayVersion", "nodes"}),
    "runtimeEnv": frozenset({"pip", "env", "secretEnvNames"}),
    "transport": frozenset({"attempt", "worldSize", "ranks", "report", "matrix", "hosts"}),
    "verdict": frozenset({"expect", "value", "reasons", "judgedAt"}),
    "quality": frozenset({"passed", "reasons"}),
    "throughput": frozenset({"tokensPerSecond", "tokensPerStep", "stepSeconds", "splitSeconds", "mfu"}),
    "memory": frozenset({"peakBytesByRank"}),
    "evaluation": frozenset(
        {"lossBefore", "lossAfter", "perplexityBefore", "perplexityAfter", "tokens", "metrics"},
    ),
    "log": frozenset({"path", "connections"}),
    "cost": frozenset({"hourlyUsd"}),
    "model": frozenset({"identity"}),
}
_NODE_FIELDS = frozenset({"id", "host", "ranks", "machine", "zone", "instanceType"})
_RANK_FIELDS = frozenset(
    {
        *("rank", "local_rank", "node_rank", "node_id", "node_ip", "hostname", "pid", "attempt", "backend", "device"),
        *("device_name", "job_environment", "packages", "versions", "environment", "peak_memory_bytes", "env"),
        *("transport_lines", "resumed_from_step", "trained_steps", "must_move", "efa_devices", "lines", "sha256"),
    }
)


class Fact(NamedTuple):
    kind: str
    value: Any


def facts(run: RecordedRun) -> dict[str, Fact]:
    """By the path in the record; a value is JSON, None where the record has the place and nothing in it."""
    return dict(_facts(run))


def setting_path(name: str) -> str:
    """Where a record tells what became of the setting."""
    if name.startswith("train") and name[5:6].isupper():
        return "arguments." + "".join(f"_{one.lower()}" if one.isupper() else one for one in name[5:]).lstrip("_")
    return _SETTING_PATHS.get(name, "")


def _facts(run: RecordedRun) -> Iterator[tuple[str, Fact]]:
    record = run.record
    yield "image.reference", Fact(IMAGE, at(record, "image", "reference"))
    yield "image.digest", Fact(IMAGE, at(record, "image", "digest"))
    for name in ("trainingDigest", "commit", "dirty"):
        yield f"code.{name}", Fact(CODE, at(record, "code", name))
    yield "cluster.rayVersion", Fact(VERSION, at(record, "cluster", "rayVersion"))
    yield "cluster.kind", Fact(PLACEMENT, at(record, "cluster", "kind"))
    yield "cluster.specDigest", Fact(PLACEMENT, at(record, "cluster", "specDigest"))
    yield from _versions(run)
    for name, value in _items(at(record, "arguments")):
        if name not in _OF_EACH_RUN:
            yield f"arguments.{name}", Fact(_ARGUMENT_KINDS.get(name, ARGUMENT), value)
    yield "model.identity", Fact(MODEL, at(record, "model", "identity"))
    for name, value in _items(at(record, "data")):
        yield f"data.{name}", Fact(DATA, value)
    yield from _environment(run)
    for name, value in _items(at(record, "settings")):
        yield f"settings.{name}", Fact(_setting_kind(name), value)
    yield from _machines(run)
    yield from _attempts(record)
    yield from _others(run)


def _versions(run: RecordedRun) -> Iterator[tuple[str, Fact]]:
    """Of every rank: one that runs something else than the others is seen."""
    told = [at(run.record, "versions"), *(rank.get("versions") for rank in run.ranks)]
    for name, value in _over_all(told):
        yield f"versions.{name}", Fact(DRIVER if name.endswith("_driver") else VERSION, value)


def _environment(run: RecordedRun) -> Iterator[tuple[str, Fact]]:
    for name in ("pip", "secretEnvNames"):
        yield f"runtimeEnv.{name}", Fact(ENVIRONMENT, at(run.record, "runtimeEnv", name))
    for name, value in _items(at(run.record, "runtimeEnv", "env")):
        yield f"runtimeEnv.env.{name}", Fact(ENVIRONMENT, value)
    for part in ("environment", "packages"):
        for name, value in _over_all([rank.get(part) for rank in run.ranks]):
            if name not in _OWN_FILES:
                yield f"ranks.{part}.{name}", Fact(ENVIRONMENT, value)


def _machines(run: RecordedRun) -> Iterator[tuple[str, Fact]]:
    nodes = run.nodes
    types = {name: count for name, count in sorted(run.node_types.items()) if name}
    yield "cluster.nodes.count", Fact(NODE, len(nodes))
    yield "cluster.nodes.instanceType", Fact(NODE, _counted(types))
    yield "ranks.device", Fact(NODE, _counted(dict(sorted(run.devices.items()))))
    spread = [
        sorted(int(rank) for rank in node.get("ranks") or [] if number(rank) is not None) for node in _listed(nodes)
    ]
    yield "cluster.nodes.ranks", Fact(PLACEMENT, sorted(spread))
    zones = sorted({zone for node in nodes if (zone := text(node.get("zone")))})
    yield "cluster.nodes.zone", Fact(PLACEMENT, ", ".join(zones) or None)
    for name in sorted({name for node in nodes for name in node} - _NODE_FIELDS):
        yield f"cluster.nodes.{name}", Fact(OTHER, _alike([node.get(name) for node in nodes]))
    for name in sorted({name for rank in run.ranks for name in rank} - _RANK_FIELDS):
        yield f"ranks.{name}", Fact(OTHER, _alike([rank.get(name) for rank in run.ranks]))


def _listed(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [node for node in nodes if isinstance(node.get("ranks"), list)]


def _attempts(record: Mapping[str, Any]) -> Iterator[tuple[str, Fact]]:
    resumed = [attempt.get("resumedFromStep") for attempt in mappings(record.get("attempts"))]
    yield "attempts", Fact(RESTART, resumed)


def _others(run: RecordedRun) -> Iterator[tuple[str, Fact]]:
    """What this version knows nothing of, by its path."""
    for name, value in _items(run.record):
        if name not in _READ:
            yield from _flat(name, value)
        elif name in _READ_BELOW:
            for below, inner in _items(value):
                if below not in _READ_BELOW[name]:
                    yield from _flat(f"{name}.{below}", inner)


def _flat(path: str, value: Any) -> Iterator[tuple[str, Fact]]:
    """Without recursion: what is foreign may be nested as deep as it likes."""
    waiting = [(path, value)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, Mapping) and value:
            waiting += [(f"{path}.{name}", inner) for name, inner in _items(value)]
        else:
            yield path, Fact(OTHER, value)


def _setting_kind(name: str) -> str:
    if name in _SETTING_KINDS:
        return _SETTING_KINDS[name]
    path = setting_path(name)
    return _ARGUMENT_KINDS.get(path.removeprefix("arguments."), ARGUMENT) if path else SETTING


def _over_all(told: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """By name: the one value, or all that there are."""
    names = sorted({name for one in told for name, _ in _items(one)})
    for name in names:
        yield name, _alike([value for one in told for key, value in _items(one) if key == name])


def _alike(values: Sequence[Any]) -> Any:
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    return different[0] if len(different) == 1 else sorted(different, key=str)


def _counted(counts: Mapping[str, int]) -> str | None:
    return " + ".join(f"{count} x {name}" for name, count in counts.items()) or None


def _items(value: Any) -> list[tuple[str, Any]]:
    return [(str(name), inner) for name, inner in value.items()] if isinstance(value, Mapping) else []
