"""The cluster of a stack on the kubernetes platform: reachable, new enough, the rights on it, what it lacks."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from efactl.doctor.finding import Finding, fail, ok, warn
from efactl.doctor.subject import Subject

if TYPE_CHECKING:
    from infra.settings import Settings


def cluster(subject: Subject, settings: "Settings") -> Iterator[Finding]:
    """What the program itself asks of the cluster before it declares anything."""
    kubernetes = settings.kubernetes
    assert kubernetes is not None, "of the kubernetes platform alone"
    from infra.cluster_checks import needed_permissions, notes, problems
    from infra.cluster_facts import read_facts
    from workload.kubernetes_access import KubernetesError

    try:
        facts = read_facts(kubernetes, lambda seen: needed_permissions(seen, kubernetes))
    except KubernetesError as error:
        yield fail("cluster", str(error), "`kubectl cluster-info` must work too; see kubeconfig, kubeContext")
        return
    yield ok("cluster", f"Kubernetes {facts.version} at {facts.server} ({kubernetes.access.named})")
    standing = problems(facts, kubernetes, stack=subject.stack)
    for problem in standing:
        yield fail("cluster", problem, "as it says; docs/kubernetes.md, docs/rbac/")
    for note in notes(facts, kubernetes):
        yield warn("cluster", note)
    if not standing and not facts.denied:
        yield ok("permissions", f"this user has every right that the stack needs in namespace {kubernetes.namespace}")
