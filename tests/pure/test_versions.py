"""The pinned versions are the same wherever they stand."""

import re
from pathlib import Path

import pytest

from infra import versions

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("package", "version"), [("ray", versions.RAY), ("torch", versions.TORCH)])
def test_the_environment_is_locked_to_the_version_the_cluster_declares(package: str, version: str) -> None:
    assert re.search(rf'"{package}(\[.*\])?=={re.escape(version)}"', (ROOT / "pyproject.toml").read_text())
    assert re.search(
        rf"^{package}(\[.*\])?=={re.escape(version)} ", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )


CHARTS = [versions.KUBERAY_CHART, versions.NVIDIA_CHART, versions.EFA_CHART]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_every_chart_is_pinned_and_public(chart: versions.Chart) -> None:
    assert re.fullmatch(r"v?\d+\.\d+\.\d+", chart.version), "a range or a moving tag is another chart tomorrow"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", chart.tag)
    assert re.fullmatch(r"https://[a-z0-9.-]+/[a-z0-9/-]+", chart.repository)
    assert re.fullmatch(r"[a-z0-9.-]+\.[a-z]+/[a-z0-9/-]+:v\d+\.\d+\.\d+", chart.image_reference)


def test_the_efa_plugin_counts_interfaces_right() -> None:
    assert tuple(int(part) for part in versions.EFA_DEVICE_PLUGIN_IMAGE.removeprefix("v").split(".")) >= (0, 5, 10)


def test_the_oldest_kubernetes_is_a_release() -> None:
    assert re.fullmatch(r"1\.\d\d", versions.KUBERNETES_MINIMUM)
