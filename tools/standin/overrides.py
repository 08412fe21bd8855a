"""PURE: which settings of an eks stack are changed so that it can run without an account, each with its reason."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from infra import instances
from infra.eks_network_reader import NOBODY
from tools.bed.volumes import STORAGE_CLASS
from workload.errors import BadInputError

PROJECT = "ray-train-efa"
# Somebody's, as EKS wants it: nobody but this machine reaches the stand-in's endpoint anyway.
ENDPOINT_CIDRS = ["1.1.1.1/32"]
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, kw_only=True)
class Override:
    """`value` None takes the setting out."""

    key: str
    was: Any
    value: Any
    reason: str

    def line(self) -> str:
        def shown(value: Any) -> str:
            return "not set" if value is None else str(value)

        return f"{self.key}: {shown(self.value)} (was {shown(self.was)}): {self.reason}"


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    key: str
    value: Any
    reason: str


def for_any(config: Mapping[str, Any], *, now: datetime) -> list[Override]:
    """What even a preview needs. `config` is a settings file's `config`, with its namespaces."""
    wanted = [
        _Wanted(key=key, value=None, reason="is encrypted for the stack's own backend, and nothing here needs it")
        for key, value in config.items()
        if _holds_secret(value)
    ]
    wanted.append(_Wanted(key="aws:allowedAccountIds", value=None, reason="the stand-in's account is none of yours"))
    wanted.append(_Wanted(key="aws:profile", value=None, reason="no credentials of yours are used"))
    if not any(map(_is_public, _get(config, "eksEndpointCidrs") or [])):
        reason = "must be an address of the internet; no call goes there"
        wanted.append(_Wanted(key=_full("eksEndpointCidrs"), value=ENDPOINT_CIDRS, reason=reason))
    until = str(_get(config, "capacityUntil") or "")
    if _get(config, "capacity", "reserve") == "reserve" and not _is_later(until, now):
        later = (now + timedelta(days=7)).strftime(_TIME)
        reason = "a reservation that has ended would not be made; this is in a week"
        wanted.append(_Wanted(key=_full("capacityUntil"), value=later, reason=reason))
    return _changes(config, wanted)


def for_bed(config: Mapping[str, Any], *, expect: str, charts: str) -> list[Override]:
    """What an `up` needs whose cluster is the test bed: `charts` is a folder with the add-ons' charts.

    `expect` efa leaves the expectation as it is: then the run ends refuted.
    """
    small = "this machine runs every pod"
    settings: list[tuple[str, Any, str]] = [
        ("trainBackend", "gloo", "no GPU stands behind the nodes' names"),
        ("trainModelId", "tiny-qwen2", "this machine trains it, on CPU"),
        ("trainDataset", "pydoc", "text that is there without a download"),
        ("trainResumeFrom", None, "the run starts from a fresh model"),
        ("trainSteps", "4", small),
        ("trainLr", "3e-3", "what a tiny model learns at"),
        ("trainCheckpointEvery", "4", "one checkpoint, at the end"),
        ("trainSeqLen", "64", small),
        ("trainBatchSize", "1", small),
        ("trainEvalBatches", "1", small),
        ("trainEvalEvery", None, small),
        ("trainNumWorkers", None, "every GPU the nodes have by name"),
        ("gateMaxEvalLoss", None, "says nothing about a tiny model"),
        ("jobPip", None, "nothing is downloaded"),
        ("jobDeadlineSeconds", "600", "a tiny run that takes longer hangs"),
        ("rayHeadCpu", "1", small),
        ("rayHeadMemory", "4Gi", small),
        ("rayWorkerCpu", "4", small),
        ("rayWorkerMemory", "8Gi", small),
        ("rayShmSize", "512Mi", small),
        ("rayTmpSize", "2Gi", small),
        ("eksStorage", "claim", "there is no S3 and no Lustre behind the stand-in: a folder of this machine"),
        ("storagePath", "runs", "a folder in that claim"),
        ("storageClass", STORAGE_CLASS, "the only one in a bed: a folder that every node shares"),
        ("storageClaim", None, "the bed's own"),
        ("storageSize", "1Gi", small),
        ("storageKeep", None, "goes with the bed"),
        ("addonNvidiaPluginRepository", charts, "the same chart, from this machine"),
        ("addonEfaPluginRepository", charts, "the same chart, from this machine"),
        ("addonKubeRayRepository", charts, "the same chart, from this machine"),
        ("addonMetrics", None, small),
    ]
    if expect != "efa":
        settings.insert(0, ("expect", expect, "ranks on CPU reach each other over gloo; --expect efa leaves it"))
    if smaller := _smaller(str(_get(config, "gpuInstanceType") or "")):
        settings.append(("gpuInstanceType", smaller, "one rank a node: this machine runs them all"))
    return _changes(config, [_Wanted(key=_full(key), value=value, reason=reason) for key, value, reason in settings])


def apply(config: Mapping[str, Any], overrides: list[Override]) -> dict[str, Any]:
    changed = dict(config)
    for override in overrides:
        changed.pop(override.key, None)
        if override.value is not None:
            changed[override.key] = override.value
    return changed


def check_platform(config: Mapping[str, Any], stack: str) -> None:
    """Raises BadInputError for a stack of another platform, or one that stands on what an account already has."""
    platform = _get(config, "platform", "local")
    if platform != "eks":
        raise BadInputError(f"stack {stack} is of platform {platform}: STANDIN stands in for AWS, which only eks uses")
    for key in ("eksExistingCluster", "gpuExistingGroup", "vpcId"):
        if value := _get(config, key):
            raise BadInputError(f"stack {stack} uses {key} {value}, which the stand-in's empty account does not have")
    capacity = str(_get(config, "capacity", "reserve"))
    if capacity.startswith("cr-"):
        raise BadInputError(f"stack {stack} uses reservation {capacity}, which the stand-in's empty account lacks")


def _changes(config: Mapping[str, Any], wanted: list[_Wanted]) -> list[Override]:
    return [
        Override(key=one.key, was=_public(config.get(one.key)), value=one.value, reason=one.reason)
        for one in wanted
        if config.get(one.key) != one.value
    ]


def _public(value: Any) -> Any:
    return "a secret" if _holds_secret(value) else value


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Mapping):
        return set(value) == {"secure"} or any(map(_holds_secret, value.values()))
    return isinstance(value, list) and any(map(_holds_secret, value))


def _smaller(instance_type: str) -> str:
    """The type of the same family with one GPU and EFA, where this one has more GPUs; "" where there is none."""
    try:
        given = instances.known(instance_type or "g6.12xlarge")
    except BadInputError:
        return ""
    if given.gpus <= 1:
        return ""
    alike = [instances.known(name) for name in instances.names()]
    fitting = [one for one in alike if one.gpus == 1 and one.efa_interfaces]
    same = [one for one in fitting if one.family == given.family]
    return min(same or fitting, key=lambda one: one.vcpus).name


def _is_public(cidr: object) -> bool:
    try:
        return ipaddress.IPv4Network(str(cidr)).is_global
    except ValueError:
        return cidr == NOBODY


def _is_later(until: str, now: datetime) -> bool:
    try:
        return datetime.strptime(until, _TIME).replace(tzinfo=now.tzinfo) > now + timedelta(hours=1)
    except ValueError:
        return False


def _get(config: Mapping[str, Any], key: str, default: Any = None) -> Any:
    return config.get(_full(key), default)


def _full(key: str) -> str:
    return f"{PROJECT}:{key}"
