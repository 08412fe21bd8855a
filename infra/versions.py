"""Every version this project pins; requirements.lock holds the Python packages behind them."""

from dataclasses import dataclass

# The versions inside public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1, which the local platform matches.
RAY = "2.58.0"
TORCH = "2.13.0"

# The oldest release with standard or extended support on EKS in the year these pins were made.
KUBERNETES_MINIMUM = "1.30"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A Helm chart at one version, its public repository, and the image it runs, without registry and with its tag."""

    name: str
    version: str
    repository: str
    registry: str
    image: str
    tag: str

    @property
    def image_reference(self) -> str:
        return f"{self.registry}/{self.image}:{self.tag}"


KUBERAY = "1.5.0"
NVIDIA_DEVICE_PLUGIN = "0.20.0"
# The chart counts on its own; below image 0.5.10 the plugin can announce more interfaces than there are.
EFA_DEVICE_PLUGIN = "v0.5.30"
EFA_DEVICE_PLUGIN_IMAGE = "v0.5.20"

KUBERAY_CHART = Chart(
    name="kuberay-operator",
    version=KUBERAY,
    repository="https://ray-project.github.io/kuberay-helm/",
    registry="quay.io",
    image="kuberay/operator",
    tag=f"v{KUBERAY}",
)
NVIDIA_CHART = Chart(
    name="nvidia-device-plugin",
    version=NVIDIA_DEVICE_PLUGIN,
    repository="https://nvidia.github.io/k8s-device-plugin",
    registry="nvcr.io",
    image="nvidia/k8s-device-plugin",
    tag=f"v{NVIDIA_DEVICE_PLUGIN}",
)
EFA_CHART = Chart(
    name="aws-efa-k8s-device-plugin",
    version=EFA_DEVICE_PLUGIN,
    repository="https://aws.github.io/eks-charts",
    registry="602401143452.dkr.ecr.us-west-2.amazonaws.com",
    image="eks/aws-efa-k8s-device-plugin",
    tag=EFA_DEVICE_PLUGIN_IMAGE,
)
