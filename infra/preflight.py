"""Before anything is declared on a cluster that is there: it is looked at, and what could not work is said at once."""

import dataclasses

import pulumi

from infra import versions
from infra.cluster_checks import needed_permissions, notes, problems
from infra.cluster_facts import read_facts
from infra.kubernetes_ray import KubernetesRayArgs
from infra.kubernetes_settings import KubernetesSettings
from workload.errors import ReportedError


class PreflightError(ReportedError):
    """The cluster lacks something; the message names each thing with its remedy."""


def inspected(settings: KubernetesSettings, *, nodes_made: bool = False) -> KubernetesRayArgs:
    """The platform's arguments, from the settings and what the cluster has. `nodes_made`: this stack makes the nodes.

    Raises PreflightError with every problem found, KubernetesError where the cluster cannot be asked.
    """
    settings = dataclasses.replace(settings, access=settings.access.with_context())
    facts = read_facts(settings, lambda seen: needed_permissions(seen, settings))
    facts = dataclasses.replace(facts, nodes_made=nodes_made)
    if found := problems(facts, settings, stack=pulumi.get_stack()):
        raise PreflightError("\n".join([f"this cluster ({facts.server}) cannot take the stack:", *_listed(found)]))
    for note in notes(facts, settings):
        pulumi.log.info(note)
    addons = {
        versions.NVIDIA_CHART: facts.nvidia_plugin,
        versions.EFA_CHART: facts.efa_plugin,
        versions.KUBERAY_CHART: facts.kuberay,
    }
    return KubernetesRayArgs(
        settings=settings,
        cluster_id=settings.cluster_id or facts.identity,
        found={chart.name: addon for chart, addon in addons.items() if addon is not None},
    )


def _listed(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
