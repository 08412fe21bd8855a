"""What stands in the way of a node group that is there already: each problem with a remedy, and none where it fits."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from infra.eks_settings import GpuNodesSettings
from infra.existing_node_group import NodeGroupFacts, TaintFacts, problems
from infra.instances import known

GROUP = NodeGroupFacts(
    name="gpu",
    cluster="prod",
    status="ACTIVE",
    instance_types=("g6.12xlarge",),
    ami_type="AL2023_x86_64_NVIDIA",
    labels={"role": "gpu-worker"},
    taints=(TaintFacts(key="nvidia.com/gpu", value="present", effect="NO_SCHEDULE"),),
    zones=("us-west-2a",),
    desired=2,
    largest=4,
)


def settings(**changes: Any) -> GpuNodesSettings:
    made = GpuNodesSettings(
        instance=known("g6.12xlarge"),
        nodes=2,
        zone="",
        existing_group="gpu",
        disk_gib=200,
        disk_throughput=500,
        disk_iops=3000,
        ami_release="",
        security_groups=(),
        labels={"role": "gpu-worker"},
    )
    return dataclasses.replace(made, **changes)


def found(group: NodeGroupFacts = GROUP, gpu: GpuNodesSettings | None = None, zone: str = "", **changes: Any) -> str:
    return "\n".join(problems(dataclasses.replace(group, **changes), gpu or settings(), zone=zone))


def test_a_group_that_fits_has_no_problem() -> None:
    assert found() == ""
    assert found(zone="us-west-2a", desired=3) == ""


def test_what_cannot_be_told_from_the_group_is_left_to_its_nodes() -> None:
    assert found(instance_types=()) == "", "the type stands in a launch template"
    assert found(ami_type="CUSTOM", taints=()) == ""


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("UPDATING", "wait"),
        ("DELETING", "name another"),
        ("CREATE_FAILED", "delete it"),
        ("DEGRADED", "aws eks describe-nodegroup --cluster-name prod --nodegroup-name gpu"),
    ],
)
def test_a_group_that_is_not_active_is_said_to_be_what_it_is(status: str, said: str) -> None:
    line = found(status=status)
    assert status in line
    assert said in line


@pytest.mark.parametrize("types", [("g6.24xlarge",), ("g6.12xlarge", "g6.24xlarge")])
def test_workers_ask_for_what_one_type_has(types: tuple[str, ...]) -> None:
    assert "gpuInstanceType" in found(instance_types=types)


@pytest.mark.parametrize("ami", ["AL2023_x86_64_STANDARD", "AL2_x86_64_GPU", "AL2023_x86_64_NEURON"])
def test_nodes_have_a_driver_that_is_new_enough(ami: str) -> None:
    assert ami in found(ami_type=ami)


def test_a_missing_or_wrong_label_is_given_with_the_command_that_sets_it() -> None:
    for labels in ({}, {"role": "other"}):
        line = found(labels=labels)
        assert "update-nodegroup-config --cluster-name prod --nodegroup-name gpu" in line
        assert "addOrUpdateLabels={role=gpu-worker}" in line
        assert "gpuNodeSelector" in line


@pytest.mark.parametrize(
    ("taint", "shown"),
    [
        (TaintFacts(key="team", value="a", effect="NO_SCHEDULE"), "team=a:NoSchedule"),
        (TaintFacts(key="nvidia.com/gpu", value="", effect="NO_EXECUTE"), "nvidia.com/gpu:NoExecute"),
    ],
)
def test_a_taint_that_no_worker_tolerates_is_named(taint: TaintFacts, shown: str) -> None:
    assert shown in found(taints=(*GROUP.taints, taint))


def test_a_taint_that_keeps_nobody_out_is_no_problem() -> None:
    assert found(taints=(TaintFacts(key="team", value="a", effect="PREFER_NO_SCHEDULE"),)) == ""


def test_efa_does_not_leave_a_zone() -> None:
    two = ("us-west-2a", "us-west-2b")
    assert "EFA does not leave a zone" in found(zones=two)
    assert "EFA does not leave a zone" in found(zones=two, zone="us-west-2a"), "nodes come into both"
    assert found(zones=two, gpu=settings(instance=known("g6.4xlarge")), instance_types=("g6.4xlarge",)) == ""
    assert "not in gpuZone us-west-2c" in found(zone="us-west-2c")


def test_a_group_that_is_too_small_is_given_with_the_command_that_enlarges_it() -> None:
    assert "--scaling-config desiredSize=2" in found(desired=1)
    assert "--scaling-config maxSize=2,desiredSize=2" in found(desired=1, largest=1)


def test_every_problem_is_said_at_once() -> None:
    assert len(found(status="UPDATING", labels={}, desired=0).splitlines()) == 3


def test_facts_are_read_from_the_providers_answer() -> None:
    answer = SimpleNamespace(
        node_group_name="gpu",
        cluster_name="prod",
        status="ACTIVE",
        instance_types=["g6.12xlarge"],
        ami_type="AL2023_x86_64_NVIDIA",
        labels={"role": "gpu-worker"},
        taints=[SimpleNamespace(key="nvidia.com/gpu", value="present", effect="NO_SCHEDULE")],
        scaling_configs=[SimpleNamespace(desired_size=2.0, max_size=4, min_size=0)],
    )
    assert NodeGroupFacts.of(answer, zones=["us-west-2a", "us-west-2a"]) == GROUP
