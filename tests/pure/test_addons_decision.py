"""Which add-ons a stack installs, under which name, from where, and on which nodes."""

from typing import Any

import pytest

from infra import versions
from infra.addon_decision import AddonFound, decide, release_name
from infra.addon_release import chart_source
from infra.addons import AddonsArgs, efa_values, kuberay_values, nvidia_values
from infra.instances import known
from infra.kubernetes_settings import AddonSettings
from workload.errors import BadInputError

OURS = "ray-train-kuberay-operator"
NONE = AddonFound(present=False)
THEIRS = AddonFound(present=True, release="kuberay")
BY_HAND = AddonFound(present=True)
OWN = AddonFound(present=True, ours=True, release=OURS)


@pytest.mark.parametrize(
    ("mode", "found", "install", "reason"),
    [
        ("auto", NONE, True, "has none"),
        ("auto", THEIRS, False, "Helm release kuberay"),
        ("auto", BY_HAND, False, "not made by Helm"),
        ("auto", OWN, True, "this stack installed it"),
        ("auto", None, False, "may not look"),
        ("install", NONE, True, "is install"),
        ("install", THEIRS, True, "is install"),
        ("install", None, True, "is install"),
        ("existing", THEIRS, False, "is existing"),
        ("existing", None, False, "is existing"),
    ],
)
def test_an_add_on_is_installed_where_it_is_needed_and_nobody_elses(
    mode: str, found: AddonFound | None, install: bool, reason: str
) -> None:
    made = decide(setting="addonKubeRay", mode=mode, needed="Ray clusters", found=found, release=OURS)
    assert made.install is install
    assert reason in made.reason


@pytest.mark.parametrize("mode", ["auto", "install", "existing"])
def test_what_no_worker_needs_is_not_installed_even_on_demand(mode: str) -> None:
    assert not decide(setting="addonEfaPlugin", mode=mode, needed="", found=NONE, release=OURS).install


def test_existing_that_is_not_there_is_refused_with_what_to_set() -> None:
    with pytest.raises(BadInputError, match=r"addonKubeRay is existing, but the cluster has none.*auto or install"):
        decide(setting="addonKubeRay", mode="existing", needed="Ray clusters", found=NONE, release=OURS)


def test_existing_does_not_take_away_what_this_stack_installed() -> None:
    with pytest.raises(BadInputError, match=f"this stack's own Helm release {OURS}, which would be removed"):
        decide(setting="addonKubeRay", mode="existing", needed="Ray clusters", found=OWN, release=OURS)


@pytest.mark.parametrize("namespace", ["ray", "a" * 63, "b" * 27, "b" * 28, f"{'c' * 18}-{'d' * 30}"])
@pytest.mark.parametrize("chart", [versions.NVIDIA_CHART, versions.EFA_CHART, versions.KUBERAY_CHART])
def test_releases_are_named_after_the_namespace_within_helms_limit(namespace: str, chart: versions.Chart) -> None:
    name = release_name(namespace, chart)
    assert len(name) <= 53
    assert name.endswith(chart.name), "a chart names its objects after a release that contains its own name"
    assert "--" not in name
    assert name != release_name(namespace[:-1] + "x", chart)


def args(**changes: Any) -> AddonsArgs:
    auto = AddonSettings(mode="auto", repository="https://charts.example")
    values: dict[str, Any] = {
        "namespace": "ray-train",
        "instance": known("g6.12xlarge"),
        "node_selector": {"role": "gpu-worker"},
        "nvidia_plugin": auto,
        "efa_plugin": auto,
        "kuberay": auto,
        "image_mirror": "",
        "found": dict.fromkeys(("nvidia-device-plugin", "aws-efa-k8s-device-plugin", "kuberay-operator"), NONE),
        "ready_seconds": 900,
        "kubeconfig": "",
        "kube_context": "",
        **changes,
    }
    return AddonsArgs(**values)


@pytest.mark.parametrize(
    ("instance", "installed"),
    [
        ("g6.12xlarge", {"nvidia-device-plugin", "aws-efa-k8s-device-plugin", "kuberay-operator"}),
        ("g6.4xlarge", {"nvidia-device-plugin", "kuberay-operator"}),
        ("", {"kuberay-operator"}),
    ],
)
def test_device_plugins_go_with_the_devices_of_the_instance_type(instance: str, installed: set[str]) -> None:
    decisions = args(instance=known(instance) if instance else None).decisions()
    assert {name for name, decision in decisions.items() if decision.install} == installed


@pytest.mark.parametrize(
    ("repository", "source"),
    [
        (
            "https://charts.example",
            {
                "chart": "kuberay-operator",
                "version": versions.KUBERAY,
                "repository_opts": {"repo": "https://charts.example"},
            },
        ),
        (
            "oci://registry.example/charts/",
            {"chart": "oci://registry.example/charts/kuberay-operator", "version": "1.5.0"},
        ),
        ("/srv/charts", {"chart": "/srv/charts/kuberay-operator"}),
        ("charts/", {"chart": "charts/kuberay-operator"}),
    ],
)
def test_charts_come_from_a_repository_a_registry_or_a_folder(repository: str, source: dict[str, Any]) -> None:
    """A folder's chart has the version it has; asking for another is a difference that never goes away."""
    assert chart_source(versions.KUBERAY_CHART, repository) == source


@pytest.mark.parametrize("values", [nvidia_values, efa_values, kuberay_values])
def test_a_mirror_replaces_the_registry_of_every_image_and_nothing_else(values: Any) -> None:
    public, mirrored = values(args())["image"], values(args(image_mirror="registry.example/mirror"))["image"]
    registry = public["repository"].partition("/")[0]
    assert mirrored["repository"] == public["repository"].replace(registry, "registry.example/mirror")
    assert mirrored["tag"] == public["tag"]


def test_the_operator_keeps_off_gpu_nodes_and_says_what_it_needs() -> None:
    values = kuberay_values(args())
    [term] = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {expression["operator"] for expression in term["matchExpressions"]} == {"NotIn"}
    assert values["resources"]["requests"].keys() == {"cpu", "memory"}


def test_plugins_tolerate_the_gpu_taint_and_find_nodes_without_nvidias_labels() -> None:
    taint = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert taint in nvidia_values(args())["tolerations"]
    assert taint in efa_values(args())["tolerations"]
    affinity = nvidia_values(args())["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = [{e["key"] for e in term["matchExpressions"]} for term in affinity["nodeSelectorTerms"]]
    assert {"role"} in labels
    assert {"nvidia.com/gpu.present"} in labels
    unlabelled = nvidia_values(args(node_selector={}))["affinity"]["nodeAffinity"]
    terms = unlabelled["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert all(term["matchExpressions"] for term in terms), "an empty term matches no node"
