"""What runs is the same tomorrow: charts, add-ons and images at versions that stay."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .pods import worker_pods
from .resources import DAEMON_SET, HELM_RELEASE, RAY_CLUSTER, UNKNOWN, Resource, ResourceRule, at, mapping, mappings

_CHARTS = (HELM_RELEASE, "kubernetes:helm.sh/v3:Chart", "kubernetes:helm.sh/v4:Chart")
_ADDON = "aws:eks/addon:Addon"
_EXACT = re.compile(r"v?\d+\.\d+\.\d+([-+][A-Za-z0-9.+-]+)?")
_WORKLOADS = (
    DAEMON_SET,
    "kubernetes:apps/v1:Deployment",
    "kubernetes:apps/v1:StatefulSet",
    "kubernetes:batch/v1:Job",
)
_POD = "kubernetes:core/v1:Pod"


def chart_is_pinned(release: Resource) -> Iterator[str]:
    chart, version = release.props.get("chart"), release.props.get("version")
    if UNKNOWN in (chart, version):
        return
    # A chart in a folder has the version it has.
    folder = "/" in str(chart) and "://" not in str(chart)
    if not folder and not _EXACT.fullmatch(str(version or "")):
        yield (
            f"chart {chart} has version {version or 'not set'}, which another chart can answer to tomorrow: set one "
            "exact version, like 1.2.3"
        )


def addon_is_pinned(addon: Resource) -> Iterator[str]:
    if not addon.props.get("addonVersion"):
        yield (
            f"add-on {addon.props.get('addonName')} has no addonVersion, so EKS chooses one: set it "
            "(aws eks describe-addon-versions lists them)"
        )


def images_are_pinned(workload: Resource) -> Iterator[str]:
    for where, pod in _pods(workload):
        for container in [*mappings(pod.get("initContainers")), *mappings(pod.get("containers"))]:
            image = container.get("image")
            if isinstance(image, str) and (what := _unpinned(image)):
                yield (
                    f"container {container.get('name')} of {where} runs {image}, which {what}: name a tag that stays, "
                    "or a digest (@sha256:...)"
                )


def _unpinned(image: str) -> str:
    if "@sha256:" in image:
        return ""
    tag = image.rpartition("/")[2].partition(":")[2]
    if not tag:
        return "has no tag and so is latest"
    return "moves with every release" if tag == "latest" else ""


def _pods(workload: Resource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if workload.type == RAY_CLUSTER:
        yield "the head", mapping(at(workload.props, "spec", "headGroupSpec", "template", "spec"))
        for name, pod in worker_pods(workload):
            yield f"worker group {name}", pod
    elif workload.type == _POD:
        yield "the pod", mapping(workload.props.get("spec"))
    else:
        yield "the pod template", mapping(at(workload.props, "spec", "template", "spec"))


RESOURCE_RULES = (
    ResourceRule(
        name="charts-pinned",
        description="A Helm chart has one exact version.",
        types=_CHARTS,
        check=chart_is_pinned,
    ),
    ResourceRule(
        name="addons-pinned",
        description="An EKS add-on has a version.",
        types=(_ADDON,),
        check=addon_is_pinned,
    ),
    ResourceRule(
        name="images-pinned",
        description="A container's image has a tag other than latest, or a digest.",
        types=(RAY_CLUSTER, _POD, *_WORKLOADS),
        check=images_are_pinned,
    ),
)
