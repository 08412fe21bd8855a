"""The eks stack where AWS or its settings stop it early: what is there then, and what the next command does."""

from collections.abc import Iterator

import pytest

from tests.support.stack_plan import plan, set_foreign, unpermitted
from tests.support.standin_project import StandinProject
from tools.standin import tokens

pytestmark = [
    pytest.mark.engine,
    pytest.mark.kubernetes_provider,
]

# A VPC, its subnets, routes, gateways for S3 and the internet, roles, templates and groups cost nothing.
BILLING = {
    tokens.CAPACITY_RESERVATION,
    tokens.CLUSTER,
    tokens.NODE_GROUP,
    tokens.NAT_GATEWAY,
    tokens.EIP,
    tokens.KEY,
    tokens.LUSTRE,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    yield StandinProject(tmp_path_factory.mktemp("failures") / "project")


@pytest.fixture(scope="module")
def without_capacity(project: StandinProject) -> str:
    """What an `up` says that found no capacity to reserve."""
    fault = {"type": "CapacityReservation", "operation": "create", "code": "InsufficientInstanceCapacity"}
    project.set_scenario(faults=[fault])
    done = project.up()
    project.set_scenario()
    assert done.returncode != 0
    return done.stdout


def made(project: StandinProject) -> set[str]:
    """Types of what the account was asked to make and has made."""
    return {call["type"] for call in project.calls() if call["operation"] == "create" and not call["error"]}


def test_an_up_without_capacity_makes_nothing_that_bills(project: StandinProject, without_capacity: str) -> None:
    assert "api error InsufficientInstanceCapacity" in without_capacity
    assert made(project) & BILLING == set()
    assert {entry.token for entry in project.remaining()} & BILLING == set()


def test_what_aws_takes_once_is_refused_at_preview_before_anything_changes(
    project: StandinProject, without_capacity: str
) -> None:
    file = project.folder / "Pulumi.dev.yaml"
    before, asked, there = file.read_text(), len(project.calls()), project.state()
    key = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d"
    set_foreign(project, region="us-east-2")
    project.set(gpuZone="us-east-2b", eksName="other", eksSecretsKey=key, vpcCidr="10.30.0.0/16")
    refused = project.pulumi("preview")
    file.write_text(before)
    assert refused.returncode != 0
    for change in (
        "aws:region was 'us-west-2' and is 'us-east-2'",
        "eksName was 'ray-dev' and is 'other'",
        f"eksSecretsKey was '' and is '{key}'",
        "vpcCidr was '10.20.0.0/16' and is '10.30.0.0/16'",
        "vpcZones",
    ):
        assert change in refused.stdout, refused.stdout
    assert "Set it back" in refused.stdout
    assert {call["operation"] for call in project.calls()[asked:]} == {"invoke"}
    assert project.state() == there


def test_an_up_whose_credentials_expire_is_gone_on_with_by_the_next_one(
    project: StandinProject, without_capacity: str
) -> None:
    project.set_scenario(expire_after=len(project.calls()) + 30)
    done = project.up()
    project.set_scenario()
    assert done.returncode != 0
    assert "api error ExpiredToken" in done.stdout
    after = plan(project)
    assert {"Vpc ray-network-vpc", "CapacityReservation ray-reservation-capacity"} <= after.same
    assert {"Cluster ray-eks-cluster-eksCluster", "NodeGroup ray-gpu-group", "RunGate gate"} <= after.created
    assert after.replaced | after.updated | after.deleted == frozenset(), str(after)


def test_a_destroy_of_a_stack_made_half_way_leaves_nothing(project: StandinProject, without_capacity: str) -> None:
    project.must("destroy", "--yes", "--skip-preview")
    assert project.remaining() == []
    assert project.state() == []
    assert unpermitted(project) == []
