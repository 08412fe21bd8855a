"""A stack on what an account has already: its cluster, its node group or its VPC, which all outlive the stack."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack_plan import plan, unpermitted
from tests.support.standin_account import StandinAccount
from tests.support.standin_project import StandinProject
from tools.bed import Bed, start_bed
from tools.standin import tokens
from tools.standin.account import Entry

pytestmark = pytest.mark.full

CLUSTER = "shared"
# Kinds of what a stack makes of AWS only where it is not there yet.
OF_A_CLUSTER = {"Cluster", "Addon", "OpenIdConnectProvider", "Key", "LogGroup", "Vpc", "Subnet", "NatGateway", "Eip"}
OF_A_GROUP = {"NodeGroup", "LaunchTemplate", "CapacityReservation", "SecurityGroup", "Role"}
GROUP: dict[str, Any] = {
    "name": "workers",
    "instanceTypes": ["g6.8xlarge"],
    "amiType": "AL2023_x86_64_NVIDIA",
    "labels": {"role": "gpu-worker", "nvidia.com/gpu.present": "true"},
    "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane without a node."""
    with start_bed(tmp_path_factory.mktemp("empty"), nodes=(), operator=False, devices="by plugin") as bed:
        yield bed


@pytest.fixture
def project(empty: Bed, tmp_path: Path) -> Iterator[StandinProject]:
    project = StandinProject(tmp_path / "project", bed=empty)
    try:
        yield project
    finally:
        project.clean()


@pytest.fixture
def account(project: StandinProject) -> StandinAccount:
    return StandinAccount(project.account_folder)


@pytest.fixture
def cluster(project: StandinProject, account: StandinAccount) -> Iterator[Entry]:
    """With a network and a system node of its own; the stack is told its name."""
    cluster = account.cluster(name=CLUSTER)
    account.make(tokens.ADDON, clusterName=CLUSTER, addonName="vpc-cni")
    system = account.nodes(cluster, account.make(tokens.LAUNCH_TEMPLATE, name="system", instanceType="m7i.xlarge"), 1)
    project.set(eksExistingCluster=CLUSTER)
    yield cluster
    project.clean()
    account.delete(system)


def kinds(names: frozenset[str]) -> set[str]:
    return {name.partition(" ")[0] for name in names}


def goes_up_and_leaves(project: StandinProject, before: list[Entry]) -> None:
    done = project.must("up", "--yes", "--skip-preview")
    assert project.outputs()["run"]["verdict"] == "proven", done
    assert project.changes() == {}
    project.must("destroy", "--yes", "--skip-preview")
    assert project.remaining() == before
    assert project.state() == []
    assert unpermitted(project) == []


def test_on_a_cluster_that_is_there_only_gpu_nodes_are_made_and_they_alone_go(
    project: StandinProject, cluster: Entry
) -> None:
    created = kinds(plan(project).created)
    assert created & OF_A_CLUSTER == set()
    assert created >= OF_A_GROUP
    goes_up_and_leaves(project, project.remaining())


def test_a_node_group_that_is_there_is_checked_used_and_kept(
    project: StandinProject, account: StandinAccount, cluster: Entry
) -> None:
    template = account.make(
        tokens.LAUNCH_TEMPLATE,
        name="workers",
        networkInterfaces=[{"deviceIndex": 0, "interfaceType": "efa", "networkCardIndex": 0}],
    )
    subnet = cluster.outputs["vpcConfig"]["subnetIds"][1]
    group = account.nodes(cluster, template, 2, subnetIds=[subnet], **GROUP)
    project.set(gpuExistingGroup="workers", capacity="none", gpuNodes=3)
    refused = project.pulumi("preview")
    assert refused.returncode != 0
    assert "node group workers has 2 nodes, gpuNodes is 3" in refused.stdout
    project.set(gpuNodes=2)
    assert kinds(plan(project).created) & (OF_A_CLUSTER | OF_A_GROUP) == set()
    goes_up_and_leaves(project, project.remaining())
    account.delete(group)


def test_in_a_vpc_that_is_there_a_stack_goes_up_and_leaves_the_vpc(
    project: StandinProject, account: StandinAccount
) -> None:
    vpc = account.vpc()
    zones = {"us-west-2a": "10.0.0.0/20", "us-west-2b": "10.0.16.0/20"}
    subnets = [account.subnet(vpc, cidr, zone) for zone, cidr in zones.items()]
    project.set(vpcId=vpc.id, vpcPrivateSubnets=[subnet.id for subnet in subnets])
    goes_up_and_leaves(project, project.remaining())
