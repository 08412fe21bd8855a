"""The driver: checks what can be checked before a rank starts, starts the ranks, and reports."""

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from training import packages
from training.errors import TrainingError, first_line
from training.failure import root_cause
from training.job_config import GPU, JobConfig
from training.job_kind import Config, JobKind, RankTask
from training.record import JobReport
from training.run_directory import RunDirectory
from training.worker_setup import HOOK, PIP_VARIABLE, load_secrets, node_directory, working_directory

EXIT_FAILED = 1
EXIT_BAD_ARGUMENT = 2
# What NCCL's own process groups wait for a rank that does not answer; less where the deadline leaves no second attempt.
COLLECTIVE_S, COLLECTIVES_IN_DEADLINE = 600, 4
ASK_RAY_S = 5.0
# How long a driver that is past its deadline waits for what the run stored: whoever follows it gives it 30 s in all.
STORED_S = 8.0
# Long enough for cold imports and for a lost node to be replaced; after it the wait counts as a failure.
GROUP_START_S = 300
_OWN_VARIABLES = {PIP_VARIABLE, "RAY_ADDRESS", "__RAY_WORKER_PROCESS_SETUP_HOOK_ENV_VAR"}


def main(kind: JobKind[Config], argv: Sequence[str]) -> int:
    """Returns the exit code; the last line on stdout is the job's record."""
    report = kind.report(started_at=time.time())
    try:
        report.config = config = kind.parse(argv)
    except TrainingError as refusal:
        report.finish(str(refusal))
        return EXIT_BAD_ARGUMENT
    watchdog = threading.Timer(config.deadline_s, _give_up, (report, config))
    watchdog.daemon = True
    watchdog.start()
    error: str | None = None
    try:
        _run(kind, config, report)
    except TrainingError as failure:
        error = str(failure)
    except Exception as failure:
        traceback.print_exc()
        error = root_cause(failure, RunDirectory.of(config).hosts())
    if not report.finish(error):
        watchdog.join()  # the deadline was faster: it ends this process when it has told so
    return 0 if error is None else EXIT_FAILED


def _give_up(report: JobReport, config: JobConfig) -> None:
    """End this process, and with it, by Ray's doing, every rank: also where ranks or storage hang."""
    told = True
    try:
        passed = f"--deadline_s {config.deadline_s:g}: the deadline passed before"
        why = "; ".join([f"{passed} the run ended", *_state_of_cluster(config, report)])
        if not report.finish(why, stored_within_s=STORED_S):
            # The main thread was faster, and returns once it has printed the record.
            told = not report.printed(within_s=STORED_S)
            if told:
                print(f"[error] {passed} --storage_path {config.storage_path} gave what the record needs", flush=True)
    finally:
        if told:
            os._exit(EXIT_FAILED)


def _state_of_cluster(config: JobConfig, report: JobReport) -> list[str]:
    """What Ray says of its nodes, where it says so at once: this is for a run in which something does not answer."""
    said: list[str] = []

    def ask() -> None:
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            said.extend(missing_ranks(ray.nodes(), config.worker_resource, report.world_size, report.lost_before))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ASK_RAY_S)
    return said


def missing_ranks(
    nodes: Sequence[Mapping[str, Any]], resource: str, world_size: int, lost_before: Collection[str]
) -> list[str]:
    """Why not every rank has a place, from `ray.nodes()`; empty where each has one.

    `lost_before`: the ids of nodes lost before the run began. Ray remembers them, and they explain nothing.
    """
    alive = [node for node in nodes if node["Alive"]]
    left = int(sum(node["Resources"].get(resource, 0) for node in alive))
    if left >= world_size:
        return []
    living = {node["NodeManagerHostname"] for node in alive}
    dead = [node for node in nodes if not node["Alive"] and node["NodeID"] not in lost_before]
    lost = {node["NodeManagerHostname"]: node["NodeManagerAddress"] for node in dead}
    names = ", ".join(f"{name} ({address})" for name, address in lost.items() if name not in living)
    gone = f"Ray has lost node {names} and has" if names else "Ray has"
    return [f"{gone} {left} {resource} where {world_size} ranks take one each"]


def collective_seconds(deadline_s: float) -> int:
    """How long a rank waits for another in a collective: cut off from each other, ranks would wait for ever."""
    return max(1, int(min(COLLECTIVE_S, deadline_s / COLLECTIVES_IN_DEADLINE)))


def _run(kind: JobKind[Config], config: Config, report: JobReport) -> None:
    secret_names = load_secrets(working_directory())
    RunDirectory.of(config).create()
    config = report.config = kind.check(config)

    # Before Ray is imported, which reads them. Cold imports of torch on every rank exceed Ray's own minute.
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", str(min(GROUP_START_S, int(config.deadline_s) + 1)))
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
    # Otherwise every line a rank prints appears twice: once as it is, once through Ray Train's logger.
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")
    if config.worker_resource != GPU:
        # Preemption notices come from clouds; elsewhere the watcher is one more process that imports Ray Train.
        os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")
    importing = time.time()
    import ray

    connecting = time.time()
    report.timings["driver_import_s"] = connecting - importing
    _connect(config)
    report.timings["ray_init_s"] = time.time() - connecting
    if config.pip:
        packages.activate(config.pip, node_directory())
    report.lost_before = frozenset(node["NodeID"] for node in ray.nodes() if not node["Alive"])
    report.world_size = count_ranks(config, ray.cluster_resources())
    print(f"[{config.mark}] {kind.describe(config, report.world_size)}", flush=True)
    preparing = time.time()
    prepared = kind.prepare(config)
    report.timings["prepare_s"] = time.time() - preparing
    _fit(kind, config, report, secret_names, prepared)


def _connect(config: JobConfig) -> None:
    import ray

    # Never address="auto", which takes whatever cluster it finds on the machine.
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        raise TrainingError("no Ray cluster to join: RAY_ADDRESS is not set; submit this as a Ray job")
    # Ray merges this with the runtime_env the job was submitted with. The address is for Ray Train's own helpers,
    # which look for a cluster by themselves and fail where the machine has two.
    runtime_env: dict[str, Any] = {
        "worker_process_setup_hook": HOOK,
        "env_vars": {PIP_VARIABLE: json.dumps(list(config.pip)), "RAY_ADDRESS": address},
    }
    try:
        ray.init(address=address, runtime_env=runtime_env)
    except ConnectionError as error:
        raise TrainingError(f"no Ray cluster to join at RAY_ADDRESS {address}: {first_line(error)}") from error


def count_ranks(config: JobConfig, resources: dict[str, float]) -> int:
    """Raises TrainingError where the cluster has fewer than --num_workers asks for, or none."""
    available = int(resources.get(config.worker_resource, 0))
    if available == 0:
        raise TrainingError(f"--worker_resource {config.worker_resource}: the cluster has none; every rank takes one")
    if config.num_workers > available:
        raise TrainingError(
            f"--num_workers {config.num_workers}: the cluster has {available} {config.worker_resource!r} "
            f"(--worker_resource), of which every rank takes one"
        )
    return config.num_workers or available


def _fit(
    kind: JobKind[Config], config: Config, report: JobReport, secret_names: Sequence[str], prepared: str | None
) -> None:
    importing = time.time()
    import ray
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    from training.new_attempts import NewAttempts

    report.timings["driver_import_s"] += time.time() - importing
    scaling = ScalingConfig(num_workers=report.world_size, use_gpu=True)
    if config.worker_resource != GPU:
        scaling = ScalingConfig(num_workers=report.world_size, resources_per_worker={config.worker_resource: 1})
    environment = ray.get_runtime_context().runtime_env.get("env_vars", {})
    task = RankTask(
        config=config,
        job_environment=tuple(sorted({*environment, *secret_names} - _OWN_VARIABLES)),
        started_at=time.time(),
        prepared=prepared,
    )
    run = RunDirectory.of(config)
    # Ray's own list of the run's checkpoints: it fails where one of them is gone, and ours come and go without it.
    run.folder.delete("checkpoint_manager_snapshot.json")
    parent = run.parent
    TorchTrainer(
        kind.run_rank,
        train_loop_config=task,
        torch_config=TorchConfig(backend=config.process_group, timeout_s=collective_seconds(config.deadline_s)),
        scaling_config=scaling,
        run_config=RunConfig(
            name=config.run_name,
            storage_path=parent.ray_path,
            storage_filesystem=parent.ray_file_system(),
            failure_config=FailureConfig(max_failures=config.max_failures),
            callbacks=[NewAttempts(config)],
        ),
    ).fit()
