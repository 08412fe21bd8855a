"""PURE: which change separates two runs, by kind: what they were given, what follows from that, what is not known."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from training.config import TINY_QWEN2
from workload.recorded_run import RecordedRun, at, text, version_of
from workload.run_facts import (
    ARGUMENT,
    CODE,
    DATA,
    ENVIRONMENT,
    IMAGE,
    KINDS,
    MODEL,
    NODE,
    OTHER,
    PLACEMENT,
    SETTING,
    VERSION,
    Fact,
    facts,
    setting_path,
)

Role = Literal["cause", "follows", "unknown", "aside"]

# Settings of what stands around a run: of who may do what, of waiting, of what is demanded of it, of when it all ends.
_ASIDE_SETTINGS = frozenset(
    {
        *("train", "expect", "jobRunId", "jobDeadlineSeconds", "trainMaxFailures", "recordsPath", "hfToken"),
        *("tags", "maxHourlyUsd", "capacityUntil", "ttlUntil", "gpuScaleToZeroAfterJob", "gpuFallbackZones"),
        *("eksAdmins", "eksEndpointCidrs", "eksLogs", "eksSecretsKey", "eksEbsCsi", "vpcCidr"),
        *("kubeconfig", "kubeNamespaceMode", "kubeReadySeconds", "kubeUnschedulableSeconds", "localDashboardPort"),
        *("storageExpireDays", "storageKeep", "rayPullSecret", "rayPrePull"),
        # Where charts of a version come from. What `addonMetrics` itself brings reads counters on the GPU nodes.
        *("addonImageMirror", "addonNvidiaPluginRepository", "addonEfaPluginRepository", "addonKubeRayRepository"),
        *("addonPrometheusRepository", "addonDcgmRepository", "addonPrometheusHost", "addonGrafanaHost"),
        *("addonMetricsNamespace", "addonMetricsLabels"),
    }
)
_ASIDE_PREFIXES = ("gate", "compare", "preflight")
_ASIDE_ARGUMENTS = frozenset({"arguments.deadline_s", "arguments.max_failures"})
_NAMED = 3
# What decides which sequences there are.
_DATA_FROM = ("arguments.seq_len", "arguments.attention")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """`role`: a `cause` was given to the run; what `follows` came of another cause, `because`; an `unknown` may be a
    change or none, since a record does not tell; what is `aside` cannot move a run. Of a place that a record does not
    have `in_a` or `in_b` is False."""

    kind: str
    path: str
    a: Any
    b: Any
    in_a: bool
    in_b: bool
    role: Role
    because: str = ""

    def as_json(self) -> dict[str, Any]:
        shown = {"kind": self.kind, "path": self.path, "role": self.role, "a": self.a, "b": self.b}
        missing = [side for side, there in (("a", self.in_a), ("b", self.in_b)) if not there]
        return shown | ({"because": self.because} if self.because else {}) | ({"absent": missing} if missing else {})


@dataclass(frozen=True, kw_only=True)
class RunDiff:
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    @property
    def causes(self) -> list[str]:
        """The kinds of what was changed."""
        return [kind for kind in KINDS if any(one.kind == kind and one.role == "cause" for one in self.differences)]

    @property
    def unknown(self) -> list[str]:
        """Of the other kinds those that may have been."""
        maybe = {one.kind for one in self.differences if one.role == "unknown"} - set(self.causes)
        return [kind for kind in KINDS if kind in maybe]

    @property
    def same(self) -> list[str]:
        """The kinds in which nothing differs."""
        return [kind for kind in KINDS if all(one.kind != kind for one in self.differences)]

    @property
    def conclusion(self) -> str:
        causes, unknown = self.causes, self.unknown
        doubt = f"; whether {_listed(unknown)} differs is not on record" if unknown else ""
        if not causes:
            return (
                f"nothing that was given to the runs differs{doubt or ': what moved is what two runs alike differ by'}"
            )
        if len(causes) == 1:
            places = [one.path for one in self.differences if one.role == "cause"]
            more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
            return f"one kind of change separates the runs: {causes[0]} ({', '.join(places[:_NAMED])}{more}){doubt}"
        return (
            f"{len(causes)} kinds of change separate the runs ({_listed(causes)}), so what moved can be put down to "
            f"none of them alone{doubt}; runs between them with one changed at a time tell"
        )


def compared(a: RecordedRun, b: RecordedRun) -> RunDiff:
    """What differs from `a` to `b`, in the order of the kinds."""
    of_a, of_b = facts(a), facts(b)
    changed = {path for path in of_a.keys() | of_b.keys() if not _equal(of_a.get(path), of_b.get(path))}
    told = {path for path in changed if not _repeated(path, changed)}
    found = [_difference(path, of_a.get(path), of_b.get(path)) for path in told]
    found += [*_unknown_image(of_a, of_b), *_unknown_model(of_a, of_b)]
    follows = _followed(found)
    order = {kind: place for place, kind in enumerate(KINDS)}
    ordered = sorted(follows, key=lambda one: (order[one.kind], one.path.startswith("settings."), one.path))
    return RunDiff(differences=tuple(ordered), notes=tuple(_notes(a, b)))


def alike(a: RecordedRun, b: RecordedRun) -> bool:
    """Whether the one is a repetition of the other, as far as is on record."""
    diff = compared(a, b)
    return not diff.causes and not diff.unknown


def _equal(a: Fact | None, b: Fact | None) -> bool:
    return a is not None and b is not None and a.value == b.value


def _repeated(path: str, changed: set[str]) -> bool:
    """A setting whose effect is told where it took place."""
    place = setting_path(path.removeprefix("settings.")) if path.startswith("settings.") else ""
    return bool(place) and any(f"{other}.".startswith(f"{place}.") for other in changed)


def _difference(path: str, a: Fact | None, b: Fact | None) -> Difference:
    known = a or b
    assert known is not None
    return Difference(
        kind=known.kind,
        path=path,
        a=a.value if a else None,
        b=b.value if b else None,
        in_a=a is not None,
        in_b=b is not None,
        role=_role(path, known.kind, a, b),
    )


def _role(path: str, kind: str, a: Fact | None, b: Fact | None) -> Role:
    one_sided = a is None or b is None or a.value is None or b.value is None
    if path in ("code.commit", "code.dirty") or path in _ASIDE_ARGUMENTS:
        return "aside"
    if path.startswith("settings."):
        name = path.removeprefix("settings.")
        # One that came with a newer version of the project, or went.
        return (
            "aside"
            if name in _ASIDE_SETTINGS or name.startswith(_ASIDE_PREFIXES) or a is None or b is None
            else "cause"
        )
    if path == "arguments.storage_path" and a and b and all(str(side.value).startswith("/") for side in (a, b)):
        # Where a machine or a pod has it mounted; of which kind it is, settings say.
        return "aside"
    if kind == OTHER or (one_sided and kind in (IMAGE, CODE, MODEL, DATA, NODE, PLACEMENT)):
        return "unknown"
    return "cause"


def _unknown_image(a: Mapping[str, Fact], b: Mapping[str, Fact]) -> list[Difference]:
    """Without digests two runs of one tag may have run two images; a machine's own packages are named by their lock."""
    if any(side["image.digest"].value or side["cluster.kind"].value == "local" for side in (a, b)):
        return []
    return [
        Difference(kind=IMAGE, path="image.digest", a=None, b=None, in_a=True, in_b=True, role="unknown"),
    ]


def _unknown_model(a: Mapping[str, Fact], b: Mapping[str, Fact]) -> list[Difference]:
    """Of one name without its files there may be two models; the tiny one is made by the code, of a seed."""
    name = a.get("arguments.model_id")
    if not _equal(name, b.get("arguments.model_id")) or name is None or name.value in (None, TINY_QWEN2):
        return []
    if any(side["model.identity"].value is not None for side in (a, b)):
        return []
    return [Difference(kind=MODEL, path="model.identity", a=None, b=None, in_a=True, in_b=True, role="unknown")]


def _followed(found: list[Difference]) -> list[Difference]:
    """Those that come of others among them, as such."""
    given = [one for one in found if one.role == "cause"]
    kinds = {one.kind for one in given}
    paths = {one.path for one in given if one.in_a and one.in_b}
    job = any(one.path.startswith("runtimeEnv.") for one in given)
    shape = next(
        (kind for kind in (IMAGE, NODE, PLACEMENT, ENVIRONMENT, SETTING) if _other_than_digest(given, kind)), ""
    )

    def because(one: Difference) -> str:
        if one.role not in ("cause", "unknown"):
            return ""
        if one.path.startswith("arguments.") and not (one.in_a and one.in_b):
            return CODE if CODE in kinds else ""
        if one.kind == VERSION:
            return IMAGE if IMAGE in kinds else ENVIRONMENT if job else ""
        if one.path.startswith("ranks.") and one.kind == ENVIRONMENT:
            return ENVIRONMENT if job else IMAGE if IMAGE in kinds else ""
        if one.path == "model.identity":
            return MODEL if "arguments.model_id" in paths else ""
        if one.path.startswith("data."):
            asked = {other.path for other in given if other.kind == DATA} & paths
            if any(not path.startswith("data.") for path in asked):
                return DATA
            # The model's tokenizer cuts the texts.
            return ARGUMENT if paths & set(_DATA_FROM) else MODEL if MODEL in kinds else ""
        if one.path == "cluster.nodes.ranks":
            return NODE if NODE in kinds else ""
        if one.path == "cluster.specDigest":
            return shape
        return ""

    return [
        dataclasses.replace(one, role="follows", because=reason) if (reason := because(one)) else one for one in found
    ]


def _other_than_digest(given: list[Difference], kind: str) -> bool:
    return any(one.kind == kind and one.path != "cluster.specDigest" for one in given)


def _notes(a: RecordedRun, b: RecordedRun) -> list[str]:
    notes = [f"{side}: {note}" for side, run in (("A", a), ("B", b)) for note in run.notes]
    versions = version_of(a.record), version_of(b.record)
    if versions[0] != versions[1]:
        notes.append(f"records of versions {versions[0]} and {versions[1]}: a field that only one has may be no change")
    for side, run in (("A", a), ("B", b)):
        if at(run.record, "code", "dirty"):
            commit = text(at(run.record, "code", "commit")) or "no commit"
            notes.append(f"{side} ran uncommitted code on {commit[:12]}: outside training/ it has no identity")
    return notes


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
