"""The eks platform as the program takes it: AWS is asked, what could not work is said, and the stack is declared."""

import dataclasses
from datetime import UTC, datetime

import pulumi
import pulumi_aws as aws

from infra import eks_checks, last_run
from infra.aws_facts import AwsFacts, read_aws_facts
from infra.cost import check_spending, estimate
from infra.eks_guard import EksGuard, fixed_settings
from infra.eks_kubeconfig import eks_kubeconfig
from infra.eks_ray import EksRay, EksRayArgs
from infra.eks_settings import EksSettings
from infra.existing_cluster import ExistingCluster
from infra.existing_network import ExistingNetwork, network_of_cluster, network_of_vpc
from infra.gpu_release import asks_for_last_run, note_of, released_because
from infra.kubernetes_ray import KubernetesRayArgs
from infra.platform import Platform
from infra.preflight import PreflightError, inspected
from infra.subnets import addresses_for, check_room
from infra.zones import ZonePlan, check_offered, choose_zones
from workload.errors import BadInputError
from workload.kubernetes_access import KubernetesAccess, KubernetesError
from workload.kubernetes_api import NOT_FOUND, KubernetesApi

POD_IDENTITY_AGENT = "/apis/apps/v1/namespaces/kube-system/daemonsets/eks-pod-identity-agent"


def eks_platform(settings: EksSettings, *, due: str = "") -> Platform:
    """`due` is the key of the run that the settings ask for.

    Raises PreflightError with every problem found, BadInputError for what the stack's guards refuse, AwsError where
    AWS cannot be asked.
    """
    now = datetime.now(UTC)
    declared, released = settings.gpu.nodes, _released_because(settings, due=due, now=now)
    if released:
        pulumi.log.warn(note_of(released, nodes=declared, past=settings.guards.ttl_over(now=now)))
        settings = settings.without_gpu_nodes()
    provider = aws_provider(settings)
    facts = read_aws_facts(settings, provider)
    found = eks_checks.problems(facts, settings)
    zones: ZonePlan | None = None
    subnets: ExistingNetwork | None = None
    try:
        if facts.subnets:
            if not settings.gpu.existing_group:
                check_offered(facts.zones, gpu_zone=settings.gpu.zone, gpu_type=settings.gpu.instance.name)
            subnets = _existing_network(facts, settings)
        else:
            check_room(settings.network.cidr, nodes=settings.gpu.nodes)
            zones = choose_zones(
                facts.zones,
                gpu_zone=settings.gpu.zone,
                gpu_type=settings.gpu.instance.name,
                given=settings.network.zones,
            )
            found += eks_checks.system_problems(facts, settings, zones.control_plane)
    except BadInputError as error:
        found.append(str(error))
    if found:
        where = f"account {facts.account}, {settings.aws.region}"
        raise PreflightError("\n".join([f"AWS ({where}) cannot take the stack:", *(f"  {line}" for line in found)]))
    for note in eks_checks.notes(settings, now=now):
        pulumi.log.warn(note)
    reserved = settings.capacity.reserves(nodes=settings.gpu.nodes, now=now)
    cost = estimate(settings, reserved=reserved, zones=zones.all if zones else ())
    pulumi.log.info(cost.text())
    check_spending(cost, settings.guards.max_hourly_usd)
    guard = EksGuard("ray-guard", fixed_settings(settings, facts, zones=zones, subnets=subnets))
    cluster = EksRay(
        "ray",
        EksRayArgs(
            settings=settings,
            facts=facts,
            zones=zones,
            subnets=subnets,
            reserve=reserved,
            ended=settings.capacity.ended(now=now),
            targets=settings.capacity.targets(nodes=settings.gpu.nodes, now=now),
            kept_nodes=declared if released else 0,
            existing=_inspected(settings, facts.cluster) if facts.cluster else None,
        ),
        # No value says that the settings may be what they are.
        pulumi.ResourceOptions(providers=[provider], depends_on=[guard]),
    )
    return Platform(
        head=cluster.head,
        pods=cluster.pods,
        storage=cluster.storage,
        hourly_cost_usd=cost.total,
        outputs={**cluster.outputs, "hourlyCost": cost.outputs(), "kubeconfig": cluster.kubeconfig},
        instance=settings.kubernetes.instance,
        run_key=due,
        run_again=settings.guards.zero_after_job and not released,
    )


def _released_because(settings: EksSettings, *, due: str, now: datetime) -> str:
    """What the stack ran last is asked only where it counts."""
    guards = settings.guards
    done = last_run.done() if asks_for_last_run(guards, now=now) else ""
    return released_because(guards, nodes=settings.gpu.nodes, due=due, done=done, now=now)


def aws_provider(settings: EksSettings) -> aws.Provider:
    """Of our own, so that everything carries the stack's tags, whatever makes it."""
    given = settings.aws
    return aws.Provider(
        "aws",
        region=given.region,
        profile=given.profile or None,
        assume_roles=[{"role_arn": arn} for arn in given.assume_roles] or None,
        allowed_account_ids=list(given.allowed_account_ids) or None,
        default_tags={"tags": settings.all_tags},
        skip_credentials_validation=given.skip_credentials_validation or None,
    )


def _existing_network(facts: AwsFacts, settings: EksSettings) -> ExistingNetwork:
    """For an existing node group no subnet is chosen: it has its own."""
    gpu, cluster = settings.gpu, facts.cluster
    if cluster and facts.group:
        return ExistingNetwork(
            vpc_id=cluster.vpc_id, private_subnets={}, control_plane_subnets=[], gpu_subnet=facts.group_subnet
        )
    addresses = 0 if facts.nodes_there else addresses_for(gpu.nodes)
    if cluster:
        return network_of_cluster(cluster.name, cluster.vpc_id, facts.subnets, gpu_zone=gpu.zone, addresses=addresses)
    return network_of_vpc(settings.network.vpc_id, facts.subnets, gpu_zone=gpu.zone, addresses=addresses)


def _inspected(settings: EksSettings, cluster: ExistingCluster) -> KubernetesRayArgs:
    """What a cluster that was there before has, asked as the stack itself will."""
    kubeconfig = eks_kubeconfig(
        name=cluster.name,
        endpoint=cluster.endpoint,
        certificate_authority=cluster.certificate_authority,
        region=settings.aws.region,
        profile=settings.aws.profile,
        assume_roles=settings.aws.assume_roles,
    )
    access = KubernetesAccess(kubeconfig=kubeconfig)
    if settings.storage.kind == "bucket":
        _check_pod_identity(access, cluster.name)
    kubernetes = dataclasses.replace(settings.kubernetes, access=access, cluster_id=cluster.arn)
    return inspected(kubernetes, nodes_made=not settings.gpu.existing_group)


def _check_pod_identity(access: KubernetesAccess, cluster: str) -> None:
    """Raises PreflightError where nothing on the nodes would hand a pod its identity: S3 would refuse the job."""
    api = KubernetesApi(access)
    try:
        api.get(POD_IDENTITY_AGENT, doing="looking for the Pod Identity agent")
    except KubernetesError as error:
        if error.status != NOT_FOUND:
            raise
        raise PreflightError(
            f"cluster {cluster} has no Pod Identity agent, through which the pods reach the bucket: "
            f"aws eks create-addon --cluster-name {cluster} --addon-name eks-pod-identity-agent"
        ) from None
