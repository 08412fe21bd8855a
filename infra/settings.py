"""The one reader of configuration: a stack's settings, validated before the first resource, typed and frozen.

Pulumi.yaml declares every setting with its type and default; nothing here repeats a default. A setting's prefix is its
room: local*, kube*, addon*, gpu*, ray*, storage*, records*, train*, job*, gate*, preflight*, compare*; `trainSeqLen` is
training/train.py's `--seq_len`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import yaml

from infra.config_reader import ConfigReader
from infra.eks_settings import EksSettings
from infra.eks_settings_reader import read_eks
from infra.instances import InstanceType
from infra.kubernetes_settings import KubernetesSettings, read_kubernetes
from infra.measurement_settings import CompareSettings, PreflightSettings, read_compare, read_preflight
from infra.nccl_network import nccl_network
from infra.records_settings import RecordsSettings, read_records
from infra.train_settings import TrainSettings, check_train, read_train
from training.job_config import LONGEST_DEADLINE_S
from workload.errors import BadInputError, ReportedError
from workload.verdict import EXPECTATIONS

PROJECT = "ray-train-efa"
PLATFORMS = ("local", "kubernetes", "eks")

SECRETS = ("jobSecretEnv", "hfToken")
# The job sets these itself: evidence depends on them.
RESERVED_ENV = ("RAY_DEDUP_LOGS", "RAY_COLOR_PREFIX", "PYTHONUNBUFFERED", "RAY_TRAIN_EFA_RUN")
THE_JOB = "the job itself: its evidence depends on it"
_PINNED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?\s*(==\s*[^\s=].*|@\s*\S+)|.*\.whl")
_CREDENTIALS = re.compile(r"://[^/\s@]+@")
_LARGEST_PORT = 65535


class SettingsError(ReportedError):
    """One or more settings that cannot be used; the message names each with its value."""


@dataclass(frozen=True, kw_only=True)
class LocalSettings:
    """The Ray cluster of the local platform."""

    worker_nodes: int
    trainers_per_node: int
    object_store_mib: int
    dashboard_port: int

    @property
    def trainers(self) -> int:
        return self.worker_nodes * self.trainers_per_node


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """How a job is run: extra packages, environment, limits."""

    run_id: str
    deadline_seconds: int
    pip: tuple[str, ...]
    env: Mapping[str, str]
    secret_env_names: tuple[str, ...]
    secret_env: pulumi.Output[Mapping[str, str]] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of a stack's settings; `kubernetes` and `eks` on that platform only. `trains`: an `up` runs the job.

    `declared` holds the plain values under their own names, for the run record.
    """

    platform: str
    expect: str
    storage_path: str
    records: RecordsSettings
    local: LocalSettings
    kubernetes: KubernetesSettings | None
    eks: EksSettings | None
    train: TrainSettings
    job: JobSettings
    preflight: PreflightSettings
    compare: CompareSettings
    gate_max_eval_loss: float | None
    declared: Mapping[str, Any] = field(repr=False)
    trains: bool = True


def load_settings(project_file: Path = Path("Pulumi.yaml")) -> Settings:
    """Reads and validates the stack's configuration. Raises SettingsError with every problem found."""
    read = ConfigReader(PROJECT, yaml.safe_load(project_file.read_text())["config"])
    read.refuse_unknown()
    read.refuse_secret(other_than=SECRETS)
    platform = read.one_of("platform", PLATFORMS)
    kubernetes = read_kubernetes(read) if platform == "kubernetes" else None
    eks = read_eks(read) if platform == "eks" else None
    storage_path = read.text("storagePath", required=True)
    train = read_train(read)
    expect = read.one_of("expect", EXPECTATIONS)
    settings = Settings(
        platform=platform,
        expect=expect,
        storage_path=kubernetes.storage.seen_by_pods if kubernetes else storage_path,
        records=read_records(read),
        local=_local(read),
        kubernetes=kubernetes,
        eks=eks,
        train=train,
        job=_job(read, nccl_network(_instance(kubernetes, eks), backend=train.backend)),
        preflight=read_preflight(read),
        compare=read_compare(read, expect=expect, reserved=RESERVED_ENV),
        gate_max_eval_loss=read.positive_number("gateMaxEvalLoss"),
        declared=read.declared(without=SECRETS),
        trains=read.boolean("train"),
    )
    _check_together(read, settings)
    if read.problems:
        raise SettingsError(
            "\n".join(["settings that cannot be used:", *(f"  {problem}" for problem in read.problems)])
        )
    return settings


def _local(read: ConfigReader) -> LocalSettings:
    return LocalSettings(
        worker_nodes=read.integer("localWorkerNodes", at_least=1, at_most=16),
        trainers_per_node=read.integer("localTrainersPerNode", at_least=1, at_most=16),
        object_store_mib=read.integer("localObjectStoreMiB", at_least=80),
        dashboard_port=read.integer("localDashboardPort", at_least=0, at_most=_LARGEST_PORT),
    )


def _instance(kubernetes: KubernetesSettings | None, eks: EksSettings | None) -> InstanceType | None:
    if eks is not None:
        return eks.gpu.instance
    try:
        return kubernetes.instance if kubernetes is not None else None
    except BadInputError:  # a type that is not known, which is a problem already
        return None


def _job(read: ConfigReader, network: Mapping[str, str]) -> JobSettings:
    """`network` is what the platform's nodes call for; the user's own variables go before it."""
    pip = [str(requirement).strip() for requirement in read.json_value("jobPip", list)]
    for requirement in pip:
        if _CREDENTIALS.search(requirement):
            read.problem(
                "jobPip", _CREDENTIALS.sub("://***@", requirement), "holds a password, which would be on record"
            )
        elif not _PINNED.fullmatch(requirement):
            read.problem("jobPip", requirement, "is not pinned; write name==version, name @ url or a path to a wheel")
    env = read.environment("jobEnv", reserved=RESERVED_ENV, by=THE_JOB)
    secret_names = _secret_env_names(read)
    if both := sorted(set(env) & set(secret_names)):
        read.problem("jobEnv", ", ".join(both), "is also in jobSecretEnv; keep one of the two")
    return JobSettings(
        run_id=read.text("jobRunId"),
        deadline_seconds=read.integer("jobDeadlineSeconds", at_least=1, at_most=int(LONGEST_DEADLINE_S)),
        pip=tuple(pip),
        env={**network, **env},
        secret_env_names=secret_names,
        secret_env=read.secret_object("jobSecretEnv"),
    )


def _secret_env_names(read: ConfigReader) -> tuple[str, ...]:
    values = read.json_value("jobSecretEnv", dict)
    if values and not read.is_secret("jobSecretEnv"):
        how = "pulumi config set --secret --path 'jobSecretEnv.NAME' VALUE"
        read.problem("jobSecretEnv", ", ".join(sorted(values)), f"is kept in clear; encrypt it: {how}")
        return ()
    read.check_environment("jobSecretEnv", values, reserved=RESERVED_ENV, by=THE_JOB)
    for name, value in values.items():
        if not isinstance(value, str):
            read.problem("jobSecretEnv", name, "must have text as its value; put it in quotes")
    return tuple(sorted(values))


def _check_together(read: ConfigReader, settings: Settings) -> None:
    train, local = settings.train, settings.local
    if settings.platform == "local" and train.num_workers > local.trainers:
        have = f"the cluster's {local.trainers} trainers (localWorkerNodes x localTrainersPerNode)"
        read.problem("trainNumWorkers", train.num_workers, f"is more than {have}; 0 takes them all")
    if train.kill_at_step > train.steps:
        read.problem("trainKillAtStep", train.kill_at_step, f"is beyond trainSteps {train.steps}")
    if train.kill_at_step and train.max_failures == 0:
        read.problem("trainKillAtStep", train.kill_at_step, "needs trainMaxFailures of at least 1 to recover")
    check_train(read, train, worker_resource="trainer" if settings.expect == "gloo" else "GPU")
