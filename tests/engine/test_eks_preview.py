"""Previews of the eks stack as it is set up elsewhere: in a network that is there, and under the policy pack."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.project import ROOT
from tests.support.stack_plan import called, plan_of
from tests.support.standin_account import StandinAccount
from tests.support.standin_project import StandinProject

pytestmark = [
    pytest.mark.engine,
    pytest.mark.kubernetes_provider,
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    yield StandinProject(tmp_path_factory.mktemp("previews") / "project")


def test_the_policy_pack_has_nothing_against_the_example_stack(project: StandinProject) -> None:
    done = project.pulumi("preview", "--policy-pack", str(ROOT / "policy/analyzer"))
    assert done.returncode == 0, done.stdout
    assert "ray-train-efa@v" in done.stdout, "the pack was asked"
    assert "[mandatory]" not in done.stdout
    assert "[advisory]" not in done.stdout


def test_in_a_vpc_that_is_there_no_network_is_made_and_its_private_subnets_are_used(project: StandinProject) -> None:
    account = StandinAccount(project.account_folder)
    vpc = account.vpc()
    zones = {"us-west-2a": "10.0.0.0/20", "us-west-2b": "10.0.16.0/20"}
    subnets = {zone: account.subnet(vpc, cidr, zone) for zone, cidr in zones.items()}
    ids = [subnet.id for subnet in subnets.values()]
    project.set(vpcId=vpc.id, vpcPrivateSubnets=ids)
    steps = json.loads(project.must("preview", "--json"))["steps"]
    inputs: dict[str, Any] = {called(step["urn"]): step["newState"].get("inputs", {}) for step in steps}
    network = ("Vpc ", "Subnet ", "Route", "InternetGateway ", "NatGateway ", "Eip ", "VpcEndpoint ", "Network ")
    assert [name for name in plan_of(steps).created if name.startswith(network)] == []
    assert inputs["Cluster ray-eks-cluster-eksCluster"]["vpcConfig"]["subnetIds"] == ids
    assert inputs["NodeGroup ray-system-group"]["subnetIds"] == ids
    assert inputs["NodeGroup ray-gpu-group"]["subnetIds"] == [subnets["us-west-2b"].id]
    assert inputs["SecurityGroup ray-gpu-efa"]["vpcId"] == vpc.id
