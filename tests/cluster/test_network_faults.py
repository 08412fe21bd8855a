"""What breaks under ranks that train: links, nodes, pods, disks. Training goes on or recovers, or ends with the reason.

One stack for all, so that each test also shows that the cluster got over the one before.
"""

import json
import math
import re
import secrets
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.bed_project import BedProject
from tests.support.cutting_proxy import CuttingProxy
from tests.support.project import wait_for
from tests.support.running_up import RunningUp, running_up
from tools.bed import Bed
from workload.head import Head, reach
from workload.jobs_api import JobsApi

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

# Bringing the cluster up or back, and a job, on a machine that is busy with more than this.
UP_S, JOB_S = 400.0, 400.0
# Large enough that a step takes about a second: log lines come in batches of one.
SIZE = {"trainBatchSize": 16, "trainSeqLen": 256, "trainEvalBatches": 1}
STEPS, ENDLESS = 30, 100_000
# Ray gives a silent node up after 5 checks, 3 s apart.
SHORT_S = 8.0


@pytest.fixture(scope="module")
def project(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BedProject]:
    project = BedProject(
        tmp_path_factory.mktemp("network-faults") / "project",
        bed,
        f"network-faults-{secrets.token_hex(3)}",
        quick=False,
        kubeReadySeconds=400,
    )
    yield project
    project.clean()


@pytest.fixture(scope="module")
def undisturbed(project: BedProject, bed: Bed) -> dict[str, Any]:
    """The record of a run to compare with, and under `wire` the bytes that a worker sent in a step."""
    trains(project, "undisturbed", steps=STEPS)
    with running_up(project) as up:
        wire = sent_in_a_step(project, bed, up, steps=STEPS // 2)
        up.succeeds(seconds=JOB_S)
        return {**record_of(up), "wire": wire}


def trains(project: BedProject, run_id: str, *, steps: int, **settings: Any) -> None:
    """Makes the next `up` a run of so many steps."""
    defaults = {"trainCheckpointEvery": 1000, "trainMaxFailures": 1, "jobDeadlineSeconds": 400}
    project.set(jobRunId=run_id, trainSteps=steps, **{**SIZE, **defaults, **settings})


def record_of(up: RunningUp) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((up.folder / "record.json").read_text())
    return record


def workers(project: BedProject) -> list[str]:
    return sorted(project.pods("worker"))


def sent_in_a_step(project: BedProject, bed: Bed, up: RunningUp, *, steps: int) -> float:
    """Bytes, by the counters of one worker's link, as a mean over steps; set-up is left out."""
    up.reaches(3, seconds=UP_S)
    pod = workers(project)[0]
    first, before = up.step, bed.moved(project.namespace, pod)[0]
    up.reaches(first + steps, seconds=UP_S)
    last, after = up.step, bed.moved(project.namespace, pod)[0]
    return (after - before) / (last - first)


def assert_same_losses(record: dict[str, Any], undisturbed: dict[str, Any]) -> None:
    """Up to the order in which gloo adds floats."""
    steps = min(len(record["losses"]), len(undisturbed["losses"]))
    for (step, loss), (_, expected) in zip(record["losses"][:steps], undisturbed["losses"][:steps], strict=True):
        assert math.isclose(loss, expected, rel_tol=1e-3), f"step {step}: {loss}, undisturbed {expected}"


def attempts_of(record: dict[str, Any]) -> list[int]:
    return [int(attempt["resumedFromStep"]) for attempt in record["attempts"]]


def test_the_bytes_of_a_step_are_what_sharding_needs(undisturbed: dict[str, Any], project: BedProject) -> None:
    said = re.search(r"tiny-qwen2: ([\d,]+) parameters", log_of(project, undisturbed))
    assert said
    parameters = int(said[1].replace(",", ""))
    # Gathered for the forward and the backward pass, reduced and scattered after it: each sends half between two.
    theory = 3 * parameters * 4 / 2
    assert 0.6 * theory < undisturbed["wire"] < 1.5 * theory


def log_of(project: BedProject, record: dict[str, Any]) -> str:
    return (project.folder / "runs" / str(record["submissionId"]) / "job.log").read_text()


def test_a_link_at_a_tenth_makes_training_slower_and_changes_nothing_else(
    project: BedProject, bed: Bed, undisturbed: dict[str, Any]
) -> None:
    usual = statistics.median(step_seconds(log_of(project, undisturbed), undisturbed))
    tenth = undisturbed["wire"] * 8 / usual / 10 / 1e6
    trains(project, "slow link", steps=16, jobDeadlineSeconds=600)
    with running_up(project) as up:
        up.reaches(2, seconds=UP_S)
        pod = workers(project)[0]
        bed.shape(project.namespace, pod, round(tenth, 2))
        before = bed.moved(project.namespace, pod)[0]
        try:
            up.succeeds(seconds=JOB_S)
            sent = bed.moved(project.namespace, pod)[0] - before
        finally:
            bed.shape(project.namespace, pod, 0)
        record = record_of(up)
    # The log lags behind the steps and shares the slow link: which steps were slow, only their own times tell.
    slow = [seconds for seconds in step_seconds(log_of(project, record), record) if seconds > 3 * usual]
    assert record["verdict"]["value"] == "proven"
    assert len(slow) >= 6
    assert statistics.median(slow) > 4 * usual
    assert 0.7 < sent / len(slow) / undisturbed["wire"] < 1.5
    assert_same_losses(record, undisturbed)


def step_seconds(log: str, record: dict[str, Any]) -> list[float]:
    tokens = int(record["throughput"]["tokensPerStep"])
    return [tokens / float(rate) for rate in re.findall(r"\[train\] step .* tokens/s (\d+)", log)]


def test_short_breaks_of_the_network_are_waited_out(project: BedProject, bed: Bed, undisturbed: dict[str, Any]) -> None:
    trains(project, "short breaks", steps=STEPS)
    with running_up(project) as up:
        up.reaches(2, seconds=UP_S)
        one, other = workers(project)
        bed.part(project.namespace, one, other)
        time.sleep(SHORT_S)
        bed.join(project.namespace, one, other)
        up.reaches(up.step + 2, seconds=UP_S)
        bed.cut(project.namespace, other)
        time.sleep(SHORT_S)
        bed.heal(project.namespace, other)
        up.succeeds(seconds=JOB_S)
        record = record_of(up)
    assert record["verdict"]["value"] == "proven"
    assert attempts_of(record) == [0]
    assert_same_losses(record, undisturbed)


def test_a_deleted_worker_is_replaced_and_training_goes_on_from_its_checkpoint(
    project: BedProject, bed: Bed, undisturbed: dict[str, Any]
) -> None:
    trains(project, "worker deleted", steps=STEPS, trainCheckpointEvery=4)
    with running_up(project) as up:
        up.reaches(6, seconds=UP_S)
        victim = workers(project)[-1]
        bed.kubectl("delete", "pod", victim, "-n", project.namespace, "--grace-period=1", "--wait=false")
        output = up.succeeds(seconds=JOB_S)
        record = record_of(up)
    assert up.submitted == {up.job}, "one run, whatever became of its ranks"
    started, resumed = attempts_of(record)
    assert (started, resumed % 4) == (0, 0)
    assert resumed >= 4
    assert f"resumed from step {resumed} (attempt 2)" in output
    assert victim not in {node["host"] for node in record["cluster"]["nodes"]}
    assert {node["host"] for node in record["cluster"]["nodes"]} == set(workers(project))
    assert record["verdict"]["value"] == "proven"
    assert_same_losses(record, undisturbed)


def test_training_goes_on_elsewhere_when_a_node_is_lost(
    project: BedProject, bed: Bed, undisturbed: dict[str, Any]
) -> None:
    trains(project, "node lost", steps=STEPS, trainCheckpointEvery=4)
    with running_up(project) as up:
        up.reaches(6, seconds=UP_S)
        pods = project.pods("worker")
        victim = max(pods)
        node = pods[victim].spec.node_name
        bed.cut(project.namespace, victim)
        bed.freeze_node(node)
        try:
            up.succeeds(seconds=JOB_S + 60)
            record = record_of(up)
            places = {pod.spec.node_name for pod in project.pods("worker").values()}
        finally:
            bed.thaw_node(node)
    assert node not in places
    assert up.submitted == {up.job}
    assert attempts_of(record)[-1] >= 4
    assert record["verdict"]["value"] == "proven"
    assert_same_losses(record, undisturbed)


def test_workers_that_stay_cut_off_from_each_other_end_the_run_with_that_reason(project: BedProject, bed: Bed) -> None:
    trains(project, "parted", steps=ENDLESS, trainMaxFailures=0, jobDeadlineSeconds=300)
    with running_up(project) as up:
        up.reaches(2, seconds=UP_S)
        one, other = workers(project)
        bed.part(project.namespace, one, other)
        try:
            output = up.fails(seconds=JOB_S)
        finally:
            bed.join(project.namespace, one, other)
        stood = up.step
    assert f"job {up.job} ended as FAILED" in output
    assert "do they reach each other?" in output
    assert one in output and other in output
    assert f"{stood}/{ENDLESS}" in output, "where training stood"
    assert f"full log: runs/{up.job}/job.log" in output


def test_a_worker_that_stays_cut_off_ends_the_run_by_its_deadline_with_its_name(project: BedProject, bed: Bed) -> None:
    deadline = 300
    trains(project, "cut off", steps=ENDLESS, trainCheckpointEvery=1000, jobDeadlineSeconds=deadline)
    with running_up(project) as up:
        up.reaches(2, seconds=UP_S)
        victim = workers(project)[-1]
        bed.cut(project.namespace, victim)
        try:
            output = up.fails(seconds=deadline + 60)
        finally:
            bed.heal(project.namespace, victim)
    assert f"job {up.job} ended as FAILED" in output
    assert f"--deadline_s {deadline}: the deadline passed" in output
    assert f"Ray has lost node {victim}" in output
    assert "1 GPU where 2 ranks take one each" in output
    assert f"full log: runs/{up.job}/job.log" in output


def test_the_driver_keeps_the_deadline_when_nobody_can_follow_it(project: BedProject, bed: Bed, tmp_path: Path) -> None:
    deadline = 150
    proxy = CuttingProxy(urlsplit(bed.server).port or 0)
    path = tmp_path / "through-proxy.kubeconfig"
    path.write_text(bed.kubeconfig.read_text().replace(bed.server, f"https://127.0.0.1:{proxy.port}"))
    path.chmod(0o600)
    trains(project, "nobody follows", steps=ENDLESS, jobDeadlineSeconds=deadline)
    project.set(kubeconfig=str(path))
    try:
        with running_up(project) as up:
            up.says(" submitted", seconds=UP_S)
            submitted = time.monotonic()
            up.says("ranks x", seconds=120)
            proxy.refusing = True
            proxy.cut()
            output = up.fails(seconds=150)
        assert "the Ray head has not answered for" in output
        assert re.search(r"the API server \S+ (cannot be reached|does not answer)", output), output
        assert f"job {up.job} goes on unseen, until its deadline at most" in output
        assert "The next `pulumi up`" in output
        with reach(head_of(project, bed)) as endpoint:
            api = JobsApi(endpoint)
            left = submitted + deadline + 30 - time.monotonic()
            wait_for(lambda: api.job(up.job).ended, seconds=left, what="the driver's own deadline")
            assert api.job(up.job).status == "FAILED"
            assert f"--deadline_s {deadline}: the deadline passed" in api.client.get_job_logs(up.job)
    finally:
        proxy.close()
        project.set(kubeconfig=str(bed.kubeconfig))


def head_of(project: BedProject, bed: Bed) -> Head:
    """The stack's head, for a look at it without the product's own resources."""
    ready = next(resource for resource in project.state() if resource["type"].endswith("RayClusterReady"))
    token = bed.kubectl(
        "get", "secret", "ray-auth-token", "-n", project.namespace, "-o", "go-template={{.data.token | base64decode}}"
    )
    return Head.from_inputs({**ready["inputs"]["head"], "token": token, "kubeconfig": str(bed.kubeconfig)})


def test_full_storage_is_named_at_the_first_checkpoint(project: BedProject, bed: Bed) -> None:
    """Last of all: the pods keep the small file system that is mounted over the claim's folder here."""
    folder = project.claim_folder()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    try:
        bed.kubectl("delete", "pods", "-n", project.namespace, "-l", "ray.io/cluster=ray", "--wait=false")
        trains(project, "full storage", steps=8, trainCheckpointEvery=2, trainMaxFailures=0)
        with running_up(project) as up:
            output = up.fails(seconds=UP_S + JOB_S)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    assert "--storage_path" in output
    assert "No space left on device" in output
    assert f"full log: runs/{up.job}/job.log" in output
