"""What the add-ons' component registers, and what it leaves to others."""

from typing import Any

import pytest

from infra import versions
from infra.addon_decision import AddonFound
from infra.addons import Addons
from infra.instances import known
from infra.kubernetes_settings import AddonSettings
from tests.mocks.recording import Recording, run
from tests.pure.test_addons_decision import args

RELEASE = "kubernetes:helm.sh/v3:Release"
PENDING = "pulumi-python:dynamic/infra:HelmPending"
MARKER = "kubernetes:core/v1:ConfigMap"
NAMESPACE = "kubernetes:core/v1:Namespace"


def made_with(**changes: Any) -> Recording:
    return run(lambda: Addons("addons", args(**changes)) and None, {PENDING: {"note": "deployed"}})


def release(recording: Recording, chart: versions.Chart) -> Any:
    return next(r for r in recording.of_type(RELEASE) if r.name == f"addons-{chart.name}")


def test_all_of_it_is_the_components_own() -> None:
    assert {resource.parent for resource in made_with() if resource.name != "addons"} == {"addons"}


def test_every_release_is_pinned_and_has_a_limit_and_helm_waits_for_the_operator_alone() -> None:
    releases = made_with().of_type(RELEASE)
    assert len(releases) == 3
    for resource in releases:
        assert resource.inputs["atomic"] is (resource.name == f"addons-{versions.KUBERAY_CHART.name}")
        assert resource.inputs["skipAwait"] is not resource.inputs["atomic"]
        assert resource.inputs["version"]
        assert resource.inputs["timeout"] == 900
        assert resource.inputs["repositoryOpts"]["repo"] == "https://charts.example"


def test_plugins_stand_in_kube_system_and_the_operator_in_a_namespace_made_for_it() -> None:
    recording = made_with()
    assert release(recording, versions.NVIDIA_CHART).inputs["namespace"] == "kube-system"
    assert release(recording, versions.EFA_CHART).inputs["namespace"] == "kube-system"
    assert release(recording, versions.KUBERAY_CHART).inputs["namespace"] == "kuberay-system"
    assert recording.one(NAMESPACE).name in release(recording, versions.KUBERAY_CHART).dependencies


def test_a_release_follows_its_repair_and_its_marker_follows_it() -> None:
    recording = made_with()
    for chart in (versions.NVIDIA_CHART, versions.EFA_CHART, versions.KUBERAY_CHART):
        name = f"addons-{chart.name}"
        assert f"{name}-pending" in release(recording, chart).dependencies
        assert release(recording, chart).inputs["description"] == "deployed"
        assert release(recording, chart).inputs["replace"] is True, "a failed predecessor does not stand in the way"
        [marker] = [r for r in recording.of_type(MARKER) if r.name == f"{name}-deployed"]
        assert name in marker.dependencies
        [pending] = [r for r in recording.of_type(PENDING) if r.name == f"{name}-pending"]
        assert pending.inputs["marker"] == marker.inputs["metadata"]["name"]
        assert pending.inputs["namespace"] == marker.inputs["metadata"]["namespace"]
        assert pending.inputs["release"] == release(recording, chart).inputs["name"]


def test_device_plugins_do_not_wait_for_the_operator_nor_it_for_them() -> None:
    recording = made_with()
    names = {resource.name for resource in recording.of_type(RELEASE)}
    assert all(not (names & resource.dependencies) for resource in recording.of_type(RELEASE))


def test_workers_without_gpus_need_the_operator_alone() -> None:
    recording = made_with(instance=None)
    assert [r.name for r in recording.of_type(RELEASE)] == ["addons-kuberay-operator"]


def test_nothing_is_registered_where_the_cluster_has_all() -> None:
    found = dict.fromkeys(
        ("nvidia-device-plugin", "aws-efa-k8s-device-plugin", "kuberay-operator"), AddonFound(present=True)
    )
    assert [resource.name for resource in made_with(found=found)] == ["addons"]


def test_existing_add_ons_are_left_alone() -> None:
    existing = AddonSettings(mode="existing", repository="https://charts.example")
    recording = made_with(kuberay=existing, found={}, nvidia_plugin=existing, efa_plugin=existing)
    assert [resource.name for resource in recording] == ["addons"]


@pytest.mark.parametrize("type_name", ["g6.12xlarge", "g6.4xlarge"])
def test_a_folder_of_charts_is_taken_as_it_is(type_name: str) -> None:
    folder = AddonSettings(mode="install", repository="/srv/charts")
    recording = made_with(kuberay=folder, nvidia_plugin=folder, efa_plugin=folder, instance=known(type_name))
    for resource in recording.of_type(RELEASE):
        assert resource.inputs["chart"].startswith("/srv/charts/")
        assert not {"version", "repositoryOpts"} & resource.inputs.keys()
