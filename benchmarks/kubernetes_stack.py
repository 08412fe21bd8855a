"""From the RayCluster declared to its job running, on one test bed: this product against kubectl and `ray job submit`.

Both put the same objects into a fresh namespace (token Secret, volume claim, RayCluster), wait until the pods are ready
and submit the same torch-free job. Measured from the RayCluster's appearance at the API server to the first statement
of the job's entry point, on this machine's clock. The rounds alternate. Also reported: the whole `up`, an
unchanged `up`, and how many API calls each makes.

    python -m benchmarks.kubernetes_stack [--rounds 3]
"""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra import instances, ray_cluster_manifest, ray_cluster_objects
from infra.ray_cluster_spec import SECRET_KEY, RayClusterSpec
from tests.support.bed_project import SETTINGS, BedProject
from tests.support.project import QUICK
from tools.bed import Bed, start_bed
from workload.kubernetes_access import KubernetesAccess

TOKEN = "benchmark"
STARTED = "/mnt/ray-train/started"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="bring-ups of each kind")
    rounds = parser.parse_args().rounds
    if shutil.which("kubectl") is None:
        sys.exit("this benchmark compares with kubectl, which is not on PATH")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="bench-") as name, start_bed(Path(name) / "bed") as bed:
        ours, plain = [], []
        for number in range(rounds):
            plain.append(by_hand(bed, f"plain-{number}"))
            ours.append(by_pulumi(bed, Path(name) / f"project-{number}", f"ours-{number}"))
            print(
                f"round {number + 1}: kubectl + ray job submit {plain[-1]:.1f} s, pulumi up {ours[-1]:.1f} s",
                flush=True,
            )
        ratio = statistics.median(ours) / statistics.median(plain)
        print(
            f"RayCluster declared -> job running, medians: {statistics.median(ours):.1f} s against "
            f"{statistics.median(plain):.1f} s, ratio {ratio:.2f}"
        )


def by_pulumi(bed: Bed, folder: Path, namespace: str) -> float:
    """Seconds from the RayCluster to the running job; prints the whole `up`, an unchanged one, and their API calls."""
    project = BedProject(folder, bed, namespace, jobEnv={"QUICK_PER_NODE": "1", "QUICK_STARTED": STARTED})
    try:
        with declared(bed, namespace) as at:
            first, calls = timed(bed, project)
        started = float((project.claim_folder() / Path(STARTED).name).read_text())
        again, unchanged = timed(bed, project)
        print(f"  up {first:.1f} s with {said(calls)}; unchanged {again:.1f} s with {said(unchanged)}", flush=True)
        return started - at[0]
    finally:
        project.clean()


def timed(bed: Bed, project: BedProject) -> tuple[float, Counter[str]]:
    before, began = requests(bed), time.monotonic()
    done = project.up()
    assert done.returncode == 0, done.stdout
    took = time.monotonic() - began
    return took, requests(bed) - before


def requests(bed: Bed) -> Counter[str]:
    """What Pulumi's provider and this product's own client asked of the API server, by kind."""
    return bed.api_requests("pulumi-kubernetes") + bed.api_requests("ray-train-efa") + bed.api_requests("OpenAPI")


def said(calls: Counter[str]) -> str:
    watches = sum(count for name, count in calls.items() if name.startswith("watch "))
    most = ", ".join(f"{count} {name}" for name, count in calls.most_common(3))
    return f"{calls.total()} API calls ({watches} watches; most: {most})"


def by_hand(bed: Bed, namespace: str) -> float:
    """What the documentation of KubeRay and Ray has one type, waiting with `kubectl wait`."""
    spec = RayClusterSpec(
        namespace=namespace,
        image="public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1",
        ray_version="2.58.0",
        instance=instances.known(str(SETTINGS["gpuInstanceType"])),
        nodes=2,
        zone="",
        node_selector={"role": "gpu-worker"},
        head_cpu=str(SETTINGS["rayHeadCpu"]),
        head_memory=str(SETTINGS["rayHeadMemory"]),
        worker_cpu=str(SETTINGS["rayWorkerCpu"]),
        worker_memory=str(SETTINGS["rayWorkerMemory"]),
        shm_size=str(SETTINGS["rayShmSize"]),
        tmp_size=str(SETTINGS["rayTmpSize"]),
        trainers_per_node=1,
        env={},
        claim="ray-storage",
    )
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": spec.token_secret, "namespace": namespace},
        "stringData": {SECRET_KEY: TOKEN},
    }
    bed.create_namespace(namespace)
    try:
        objects = [
            secret,
            ray_cluster_objects.network_policy(spec),
            ray_cluster_objects.volume_claim(spec, storage_class="", size="1Gi"),
            ray_cluster_manifest.ray_cluster(spec),
        ]
        with tempfile.TemporaryDirectory() as folder, declared(bed, namespace) as at:
            (Path(folder) / "objects.json").write_text(
                json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
            )
            bed.kubectl("apply", "--server-side", "-f", f"{folder}/objects.json")
            bed.kubectl(
                "wait", "-n", namespace, "raycluster/ray", "--for=condition=RayClusterProvisioned", "--timeout=240s"
            )
            with forwarded(bed, namespace) as address:
                submit(address)
            claim = json.loads(bed.kubectl("get", "pvc", "ray-storage", "-n", namespace, "-o", "json"))
            volume = json.loads(bed.kubectl("get", "pv", claim["spec"]["volumeName"], "-o", "json"))
            return float((Path(volume["spec"]["hostPath"]["path"]) / Path(STARTED).name).read_text()) - at[0]
    finally:
        bed.delete_namespace(namespace)


def submit(address: str) -> None:
    arguments = ["--steps", "4", "--num_workers", "2", "--storage_path", "/mnt/ray-train/runs", "--run_id", "plain"]
    runtime = {"env_vars": {"QUICK_STARTED": STARTED, "QUICK_PER_NODE": "1"}}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(QUICK, Path(folder) / "training", ignore=shutil.ignore_patterns("__pycache__"))
        command = [str(Path(sys.prefix) / "bin" / "ray"), "job", "submit", "--address", address]
        command += ["--working-dir", folder, "--runtime-env-json", json.dumps(runtime), "--"]
        environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
        job = shlex.split("python -m training.train") + arguments
        done = subprocess.run([*command, *job], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def forwarded(bed: Bed, namespace: str) -> Iterator[str]:
    """`kubectl port-forward` to the head's service, for as long as the context lasts."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["kubectl", f"--kubeconfig={bed.kubeconfig}", "-n", namespace, "port-forward", "svc/ray-head-svc"]
    process = subprocess.Popen([*command, f"{port}:8265"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert "Forwarding" in process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def declared(bed: Bed, namespace: str) -> Iterator[list[float]]:
    """A list whose first item is, once it happened, the time at which the namespace's RayCluster appeared."""
    from kubernetes import client, watch

    seen: list[float] = []
    api = client.CustomObjectsApi(KubernetesAccess(kubeconfig=str(bed.kubeconfig)).client())
    watching = watch.Watch()

    def look() -> None:
        events: Any = watching.stream(
            api.list_cluster_custom_object, "ray.io", "v1", "rayclusters", timeout_seconds=600
        )
        for event in events:
            if event["object"]["metadata"]["namespace"] == namespace:
                seen.append(time.time())
                return

    threading.Thread(target=look, daemon=True).start()
    yield seen
    watching.stop()


if __name__ == "__main__":
    main()
