"""The arithmetic of the benchmarks of the eks stack."""

import dataclasses
import json
from typing import Any

import pytest

from benchmarks.parts import bring_up_steps, engine_events, flat_stack, milestones
from benchmarks.parts.bring_up_steps import Measured
from benchmarks.parts.critical_path import Span, Step, length, longest_chain, taken

MEASURED = Measured(devices=1, worker_image=2, head_image=3, operator=4, ray=20, job=10)


def test_the_longest_chain_is_the_one_that_ends_last() -> None:
    steps = [
        Step(name="network", seconds=5),
        Step(name="way out", seconds=50, needs=("network",)),
        Step(name="control plane", seconds=100, needs=("network",)),
        Step(name="nodes", seconds=20, needs=("way out", "control plane")),
    ]
    chain = longest_chain(steps)
    assert [step.name for step in chain] == ["network", "control plane", "nodes"]
    assert length(chain) == 125


def test_the_chain_taken_goes_back_through_what_was_waited_for_last() -> None:
    spans = {
        "early": Span(began=0, ended=1),
        "late": Span(began=0, ended=9),
        "middle": Span(began=9.5, ended=12),
        "end": Span(began=12, ended=20),
        "beside": Span(began=0, ended=15),
    }
    waits_for = {"end": ["middle"], "middle": ["early", "late", "a component without a span"]}
    assert taken(spans, waits_for) == ["late", "middle", "end"]


def test_a_bring_up_needs_what_the_control_plane_and_gpu_nodes_need_and_not_the_way_out() -> None:
    chain = longest_chain(bring_up_steps.needed(MEASURED, scale=1))
    assert [step.name for step in chain] == [
        "VPC",
        "subnets",
        "control plane",
        "OIDC provider",
        "node add-ons",
        "system nodes",
        "coredns",
        "job",
    ]
    quick_dns = [
        dataclasses.replace(step, seconds=0) if step.name == "coredns" else step
        for step in bring_up_steps.needed(MEASURED, scale=1)
    ]
    assert [step.name for step in longest_chain(quick_dns)][-4:] == ["system nodes", "operator", "Ray ready", "job"]


def test_the_scale_shortens_what_is_modelled_and_nothing_that_was_measured() -> None:
    steps = {step.name: step.seconds for step in bring_up_steps.needed(MEASURED, scale=0.5)}
    assert steps["control plane"] == bring_up_steps.modelled(bring_up_steps.MODELLED["control plane"]) / 2
    assert steps["job"] == MEASURED.job


def test_one_script_after_another_takes_what_the_chain_takes_and_all_that_stands_beside_it() -> None:
    scale = 0.5
    row = {step.name: step.seconds for step in bring_up_steps.in_a_row(MEASURED, scale=scale)}
    node_group = scale * bring_up_steps.modelled(bring_up_steps.MODELLED["node group"])
    assert row["deploy_node_group: GPU nodes"] == node_group
    assert row["deploy_ray_train_job: images pulled, Ray ready"] == MEASURED.head_image + MEASURED.ray
    chain = length(longest_chain(bring_up_steps.needed(MEASURED, scale=scale)))
    assert sum(row.values()) > chain + node_group


def test_the_steps_of_an_up_are_told_from_its_events() -> None:
    def event(kind: str, urn: str) -> str:
        return json.dumps({kind: {"metadata": {"urn": urn}}})

    failed = json.dumps({"diagnosticEvent": {"severity": "error", "message": "no capacity"}})
    lines = [event("resourcePreEvent", "a"), "not an event", event("resOutputsEvent", "a"), failed]
    spans, errors = engine_events.followed(lines)
    assert list(spans) == ["a"]
    assert spans["a"].seconds >= 0
    assert errors == ["no capacity"]


def item(name: str, *, ready: bool, labels: dict[str, str], **allocatable: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}], "allocatable": allocatable},
    }


def test_a_milestone_is_reached_when_all_that_belongs_to_it_is_ready() -> None:
    gpu = {"nvidia.com/gpu.present": "true"}
    devices = {"nvidia.com/gpu": "1", "vpc.amazonaws.com/efa": "1"}
    one, other = item("one", ready=True, labels=gpu, **devices), item("other", ready=True, labels=gpu)
    assert milestones.reached([one], [], [], gpu_nodes=2) == set()
    assert milestones.reached([one, other], [], [], gpu_nodes=2) == {"GPU nodes"}
    other["status"]["allocatable"] = devices
    system = item("system", ready=True, labels={})
    assert milestones.reached([one, other, system], [], [], gpu_nodes=2) == {"GPU nodes", "devices", "system nodes"}
    pods = [item(f"ray-{number}", ready=True, labels={"ray.io/cluster": "ray"}) for number in range(3)]
    assert milestones.reached([], pods, [{}], gpu_nodes=2) == {"RayCluster", "Ray pods", "Ray"}
    pods[0]["status"]["conditions"][0]["status"] = "False"
    assert milestones.reached([], pods, [{}], gpu_nodes=2) == {"RayCluster", "Ray pods"}


def state(type: str, name: str, parents: str = "", **more: Any) -> dict[str, Any]:
    return {"urn": f"urn:pulumi:dev::p::{parents}{type}::{name}", "type": type, "custom": True, **more}


def flat(*states: dict[str, Any]) -> list[dict[str, Any]]:
    return flat_stack.flattened({"steps": [{"newState": one} for one in states]})


def test_the_flat_program_has_the_resources_and_no_components() -> None:
    vpc = state("aws:ec2/vpc:Vpc", "vpc", inputs={"__defaults": ["region"], "cidrBlock": "10.0.0.0/16", "region": "x"})
    component = state("ray-train-efa:infra:Network", "network", custom=False)
    subnet = state(
        "aws:ec2/subnet:Subnet",
        "subnet",
        parents="ray-train-efa:infra:Network$",
        inputs={"vpcId": flat_stack.UNKNOWN, "tags": {"madeBy": "me"}},
        dependencies=[vpc["urn"]],
        propertyDependencies={"vpcId": [vpc["urn"]]},
    )
    assert flat(vpc, component, subnet) == [
        {
            "type": "aws:ec2/vpc:Vpc",
            "name": "vpc",
            "arguments": {"cidr_block": "10.0.0.0/16"},
            "provider": None,
            "after": [],
        },
        {
            "type": "aws:ec2/subnet:Subnet",
            "name": "subnet",
            "arguments": {"vpc_id": {"outputOf": 0}, "tags": {"madeBy": "me"}},
            "provider": None,
            "after": [0],
        },
    ]


def test_what_is_in_pulumi_eks_own_cluster_is_left_to_it_and_referred_to_through_it() -> None:
    provider = state("pulumi:providers:aws", "aws", inputs={"defaultTags": '{"tags": {}}', "version": "7.51.1"})
    vpc = state(flat_stack.VPC, "vpc", inputs={})
    component = state(flat_stack.CLUSTER, "eks", custom=False, dependencies=[vpc["urn"]])
    cluster = state(
        flat_stack.EKS_CLUSTER,
        "eks-eksCluster",
        parents=f"{flat_stack.CLUSTER}$",
        provider=f"{provider['urn']}::id",
        inputs={
            "name": "ray",
            "version": "1.35",
            "vpcConfig": {"subnetIds": ["s-1"], "endpointPrivateAccess": True, "endpointPublicAccess": False},
            "accessConfig": {"authenticationMode": "API"},
            "encryptionConfig": {"provider": {"keyArn": "arn"}},
            "upgradePolicy": {},
        },
    )
    addon = state(
        "aws:eks/addon:Addon",
        "cni",
        inputs={"clusterName": flat_stack.UNKNOWN},
        dependencies=[cluster["urn"], component["urn"]],
        propertyDependencies={"clusterName": [cluster["urn"]]},
    )
    found = flat(provider, vpc, component, cluster, addon)
    assert [one["name"] for one in found] == ["aws", "vpc", "eks", "cni"]
    assert found[0]["arguments"] == {"default_tags": {"tags": {}}}
    assert (found[2]["provider"], found[2]["after"]) == (0, [1])
    assert found[2]["arguments"]["vpc_id"] == {"outputOf": 1}
    assert found[2]["arguments"]["subnet_ids"] == ["s-1"]
    assert found[3]["arguments"] == {"cluster_name": {"outputOf": 2}}


@pytest.mark.parametrize("name", ["PROGRAM", "TRIVIAL"])
def test_the_programs_it_is_compared_with_are_python(name: str) -> None:
    compile(getattr(flat_stack, name), name, "exec")
