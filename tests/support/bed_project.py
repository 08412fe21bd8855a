"""The product with a stack of the kubernetes platform, driven through the real Pulumi CLI against a bed."""

from pathlib import Path
from typing import Any

from kubernetes import client

from tests.support.project import Project
from tools.bed.bed import Bed
from tools.setup import kubernetes_provider
from workload.kubernetes_access import KubernetesAccess

STACK = "bed"
# Small pods: the bed's nodes are names, and this machine runs them all.
SETTINGS: dict[str, Any] = {
    "platform": "kubernetes",
    "expect": "gloo",
    "trainBackend": "gloo",
    "gpuInstanceType": "g6.8xlarge",
    "gpuNodes": 2,
    "addonNvidiaPlugin": "existing",
    "addonEfaPlugin": "existing",
    "addonKubeRay": "existing",
    "rayHeadCpu": "1",
    "rayHeadMemory": "4Gi",
    "rayWorkerCpu": "4",
    "rayWorkerMemory": "8Gi",
    "rayShmSize": "512Mi",
    "rayTmpSize": "2Gi",
    "storageSize": "1Gi",
    "kubeReadySeconds": 240,
    "jobDeadlineSeconds": 300,
    "jobEnv": {"QUICK_PER_NODE": "1"},
}


class BedProject(Project):
    """One stack in one namespace of a bed."""

    def __init__(self, folder: Path, bed: Bed, namespace: str, *, quick: bool = True, **settings: Any) -> None:
        self.bed, self.namespace = bed, namespace
        home = pulumi_home(folder.with_name(f"{folder.name}-pulumi"))
        # The provider leaves a copy of the kubeconfig in the temporary folder with every run.
        temporary = home / "tmp"
        temporary.mkdir(exist_ok=True)
        plugins = {"PULUMI_HOME": str(home), "TMPDIR": str(temporary)}
        chosen = {**SETTINGS, "kubeconfig": str(bed.kubeconfig), "kubeNamespace": namespace, **settings}
        self.api_client = KubernetesAccess(kubeconfig=str(bed.kubeconfig)).client()
        self.core = client.CoreV1Api(self.api_client)
        super().__init__(folder, stack=STACK, quick=quick, variables=plugins, **chosen)

    def pods(self, role: str = "") -> dict[str, Any]:
        """The Ray pods by name, those that are ending left out; `role` head or worker."""
        selector = "ray.io/cluster=ray" + (f",ray.io/node-type={role}" if role else "")
        pods = self.core.list_namespaced_pod(self.namespace, label_selector=selector).items
        return {pod.metadata.name: pod for pod in pods if pod.metadata.deletion_timestamp is None}

    def head(self) -> str:
        return next(iter(self.pods("head")))

    def claim_folder(self) -> Path:
        """Where this machine sees what the pods see as the checkpoints' volume."""
        claims = self.core.list_namespaced_persistent_volume_claim(self.namespace).items
        volume = self.core.read_persistent_volume(claims[0].spec.volume_name)
        return Path(volume.spec.host_path.path)

    def clean(self) -> None:
        for lock in (self.folder / ".state").rglob("locks/**/*.json"):
            lock.unlink()
        self.pulumi("destroy", "--yes", "--skip-preview")


def pulumi_home(folder: Path) -> Path:
    """A Pulumi home of its own that has the Kubernetes provider."""
    kubernetes_provider.link_into(folder)
    return folder
