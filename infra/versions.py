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


@dataclass(frozen=True, kw_only=True)
class EksAddons:
    """The versions of EKS add-ons that go with one version of Kubernetes."""

    vpc_cni: str
    kube_proxy: str
    coredns: str
    pod_identity_agent: str
    ebs_csi: str
    fsx_csi: str


# AWS was not asked: these are each version's defaults as `aws eks describe-addon-versions` gave them to others in the
# summer of 2026, and they published; fsx_csi is one that was pinned elsewhere then. An add-on whose version EKS no
# longer offers fails with its name, a DaemonSet's before any node is made.
EKS = {
    "1.33": EksAddons(
        vpc_cni="v1.20.5-eksbuild.1",
        kube_proxy="v1.33.10-eksbuild.2",
        coredns="v1.12.4-eksbuild.10",
        pod_identity_agent="v1.3.10-eksbuild.3",
        ebs_csi="v1.60.1-eksbuild.1",
        fsx_csi="v1.9.0-eksbuild.1",
    ),
    "1.34": EksAddons(
        vpc_cni="v1.21.2-eksbuild.2",
        kube_proxy="v1.34.6-eksbuild.11",
        coredns="v1.12.4-eksbuild.17",
        pod_identity_agent="v1.3.10-eksbuild.3",
        ebs_csi="v1.62.0-eksbuild.1",
        fsx_csi="v1.9.0-eksbuild.1",
    ),
    "1.35": EksAddons(
        vpc_cni="v1.22.4-eksbuild.3",
        kube_proxy="v1.35.3-eksbuild.29",
        coredns="v1.13.2-eksbuild.31",
        pod_identity_agent="v1.3.10-eksbuild.3",
        ebs_csi="v1.66.0-eksbuild.1",
        fsx_csi="v1.9.0-eksbuild.1",
    ),
}
# The default of eksVersion.
EKS_CLUSTER = "1.35"

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
# Its chart brings Grafana; image and tag are those of the operator, which the others follow.
PROMETHEUS_CHART = Chart(
    name="kube-prometheus-stack",
    version="88.5.3",
    repository="https://prometheus-community.github.io/helm-charts",
    registry="quay.io",
    image="prometheus-operator/prometheus-operator",
    tag="v0.93.1",
)
DCGM_CHART = Chart(
    name="dcgm-exporter",
    version="4.8.2",
    repository="https://nvidia.github.io/dcgm-exporter/helm-charts",
    registry="nvcr.io",
    image="nvidia/k8s/dcgm-exporter",
    tag="4.5.3-4.8.2-distroless",
)
