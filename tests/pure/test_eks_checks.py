"""What stands in the way of an EKS stack, each with its remedy, and what is worth a note of one that has its way."""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
import pytest

from infra.aws_facts import AwsFacts, InstanceFacts
from infra.eks_checks import notes, problems, system_problems
from infra.existing_cluster import ExistingCluster
from infra.existing_node_group import NodeGroupFacts
from infra.zones import ZoneFacts
from tests.pure.test_eks_settings import load

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
INSTANCE = InstanceFacts(name="g6.12xlarge", gpus=4, vcpus=48, efa_interfaces=1)
CLUSTER = ExistingCluster(
    name="prod",
    arn="arn:aws:eks:us-west-2:123456789012:cluster/prod",
    endpoint="https://example.test",
    certificate_authority="Q0E=",
    version="1.34",
    status="ACTIVE",
    vpc_id="vpc-1",
    subnet_ids=("subnet-1",),
    security_group="sg-1",
)
GROUP = NodeGroupFacts(
    name="workers",
    cluster="prod",
    status="UPDATING",
    instance_types=("g6.12xlarge",),
    ami_type="AL2023_x86_64_NVIDIA",
    labels={"role": "gpu-worker"},
    taints=(),
    zones=("us-west-2b",),
    desired=2,
    largest=2,
)
ROLE = "arn:aws:iam::123456789012:role/teams/ml/admin"


@pytest.fixture(autouse=True)
def empty_config() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


def zone(letter: str, *offers: str) -> ZoneFacts:
    return ZoneFacts(name=f"us-west-2{letter}", zone_id=f"usw2-az{'abc'.index(letter) + 1}", offers=frozenset(offers))


def facts(**changes: Any) -> AwsFacts:
    made = AwsFacts(
        account="123456789012",
        caller="arn:aws:iam::123456789012:user/deployer",
        partition="aws",
        zones=tuple(zone(letter, "g6.12xlarge", "m7i.xlarge") for letter in "abc"),
        instance=INSTANCE,
        cli=True,
    )
    return dataclasses.replace(made, **changes)


def instance(**changes: Any) -> AwsFacts:
    return facts(instance=dataclasses.replace(INSTANCE, **changes))


def cluster(**changes: Any) -> AwsFacts:
    return facts(cluster=dataclasses.replace(CLUSTER, **changes))


def test_a_stack_that_fits_has_no_problem() -> None:
    assert problems(facts(), load()) == []
    assert problems(facts(cluster=CLUSTER), load(eksExistingCluster="prod")) == []


@pytest.mark.parametrize(
    ("seen", "settings", "said", "remedy"),
    [
        (
            facts(),
            {"aws_allowedAccountIds": ["210987654321"]},
            "these credentials belong to account 123456789012, and aws:allowedAccountIds has 210987654321",
            "use other credentials (aws:profile)",
        ),
        (
            facts(caller="arn:aws:iam::123456789012:user/deployer"),
            {"eksAdmins": ["arn:aws:iam::123456789012:user/deployer"]},
            "eksAdmins has arn:aws:iam::123456789012:user/deployer, who makes the cluster",
            "leave it out",
        ),
        (
            facts(caller="arn:aws:sts::123456789012:assumed-role/admin/me"),
            {"eksAdmins": [ROLE]},
            f"eksAdmins has {ROLE}, who makes the cluster",
            "leave it out",
        ),
        (facts(cli=False), {}, "there is no `aws` on PATH", "install the AWS CLI, version 2"),
        (
            instance(gpus=8),
            {},
            "EC2 says that g6.12xlarge has 8 GPUs and 48 vCPUs, infra/instances.py says 4 and 48",
            "correct the table",
        ),
        (instance(vcpus=64), {}, "has 4 GPUs and 64 vCPUs", "correct the table"),
        (
            instance(efa_interfaces=0),
            {},
            "EC2 says that g6.12xlarge has 0 EFA interfaces in us-west-2, infra/instances.py says 1",
            "set gpuEfa to false",
        ),
        (
            cluster(status="UPDATING"),
            {"eksExistingCluster": "prod"},
            "cluster prod is UPDATING",
            "wait until it is ACTIVE",
        ),
        (
            cluster(version="1.31"),
            {"eksExistingCluster": "prod", "eksStorage": "fsx"},
            "cluster prod runs Kubernetes 1.31, and the driver of eksStorage fsx is pinned for 1.33, 1.34",
            "upgrade it, or take a bucket",
        ),
        (
            facts(cluster=CLUSTER, group=GROUP),
            {"eksExistingCluster": "prod"},
            "node group workers is UPDATING",
            "wait until it is ACTIVE",
        ),
    ],
)
def test_each_problem_is_said_once_with_what_to_do(
    seen: AwsFacts, settings: dict[str, Any], said: str, remedy: str
) -> None:
    [line] = problems(seen, load(**settings))
    assert said in line
    assert line.endswith(remedy)


@pytest.mark.parametrize(
    ("seen", "settings", "why"),
    [
        (facts(), {"aws_allowedAccountIds": ["123456789012"]}, "it is the account"),
        (facts(), {"eksAdmins": [ROLE]}, "somebody else administers it too"),
        (
            facts(cluster=CLUSTER, caller="arn:aws:sts::123456789012:assumed-role/admin/me"),
            {"eksAdmins": [ROLE], "eksExistingCluster": "prod"},
            "who may administer a cluster that is there is its owner's matter",
        ),
        (instance(efa_interfaces=2), {}, "more than are used is no harm"),
        (instance(efa_interfaces=0), {"gpuEfa": False}, "none is asked for"),
        (cluster(version="1.31"), {"eksExistingCluster": "prod"}, "a bucket needs no driver"),
    ],
)
def test_what_is_no_problem_is_not_called_one(seen: AwsFacts, settings: dict[str, Any], why: str) -> None:
    assert problems(seen, load(**settings)) == [], why


def test_all_problems_are_said_at_once() -> None:
    seen = dataclasses.replace(instance(gpus=8, efa_interfaces=0), cli=False)
    assert len(problems(seen, load(aws_allowedAccountIds=["210987654321"]))) == 4


class TestSystemNodes:
    def test_their_type_is_in_each_zone_of_the_control_plane(self) -> None:
        seen = facts(zones=(zone("a", "m7i.xlarge"), zone("b", "g6.12xlarge"), zone("c", "m7i.xlarge")))
        assert system_problems(seen, load(), ("us-west-2a", "us-west-2c")) == []
        [line] = system_problems(seen, load(), ("us-west-2a", "us-west-2b"))
        assert "systemInstanceType m7i.xlarge is not offered in each zone" in line
        assert "us-west-2a, us-west-2b" in line
        assert "(it is in us-west-2a, us-west-2c)" in line
        assert line.endswith("choose another")

    def test_a_type_that_the_region_lacks_is_said_to_be_in_none_of_it(self) -> None:
        [line] = system_problems(facts(zones=(zone("a"), zone("b"))), load(), ("us-west-2a", "us-west-2b"))
        assert "it is in none of this region" in line

    def test_a_cluster_that_is_there_has_its_own(self) -> None:
        none = facts(zones=(zone("a"), zone("b")))
        assert system_problems(none, load(eksExistingCluster="prod"), ("us-west-2a",)) == []
        assert system_problems(none, load(), ()) == []


@pytest.mark.parametrize(
    ("left", "said", "remedy"),
    [
        (timedelta(0), "has passed: nothing is reserved any more", "set a later time, or capacity: none"),
        (-timedelta(days=3), "has passed: nothing is reserved any more", "set a later time, or capacity: none"),
        (timedelta(minutes=59), "is less than an hour away", "may end during bring-up"),
        (timedelta(days=15), "is 15 days away: until then the reservation bills", "a nearer time costs less"),
    ],
)
def test_an_end_of_the_reservation_that_may_surprise_is_worth_a_note(left: timedelta, said: str, remedy: str) -> None:
    until = (NOW + left).strftime("%Y-%m-%dT%H:%M:%SZ")
    [line] = notes(load(capacityUntil=until), now=NOW)
    assert line.startswith(f"capacityUntil {until} ")
    assert said in line
    assert remedy in line


@pytest.mark.parametrize(
    ("settings", "left", "why"),
    [
        ({}, timedelta(hours=1), "time enough for a bring-up"),
        ({}, timedelta(days=14), "not longer than a job takes"),
        ({"capacity": "none"}, timedelta(minutes=5), "nothing is reserved"),
        ({"gpuNodes": 0}, -timedelta(days=3), "there is nothing to reserve for"),
    ],
)
def test_other_ends_are_no_news(settings: dict[str, Any], left: timedelta, why: str) -> None:
    until = (NOW + left).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert notes(load(capacityUntil=until, **settings), now=NOW) == [], why
