"""The product's own program under its own policy pack: what it declares passes every rule."""

import json
from typing import Any

import pytest

from policy.rules.resources import RAY_CLUSTER, Resource
from tests.mocks.recording import Recording
from tests.mocks.test_eks_ray import declared, empty_config
from tests.pure.test_policy_rules import RULES, violations

__all__ = ["empty_config"]

PRIVATE = "123456789012.dkr.ecr.us-west-2.amazonaws.com"


def as_seen(recording: Recording) -> list[Resource]:
    """What the engine tells a pack about each resource: its inputs, and where each comes from."""
    refs: dict[str, dict[str, list[Resource]]] = {}
    found: dict[str, Resource] = {}
    for one in recording:
        # Resources of the mocks are named uniquely within a type.
        urn = f"{one.type}::{one.name}"
        refs[urn] = {}
        found[urn] = Resource(one.type, one.name, json.loads(json.dumps(one.inputs, default=str)), urn, refs[urn])
    for one in recording:
        for prop, sources in one.request.propertyDependencies.items():
            urns = ("::".join((urn.split("::")[2].rpartition("$")[2], urn.split("::")[3])) for urn in sources.urns)
            refs[f"{one.type}::{one.name}"][prop] = [found[urn] for urn in urns if urn in found]
    return list(found.values())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"eksStorage": "fsx"},
        {"gpuPlacementGroup": "cluster", "vpcNat": "per-zone"},
        {
            "vpcNat": "none",
            "vpcEndpoints": ["s3", "ecr"],
            "rayImage": f"{PRIVATE}/ray:train-ml-cuda-v1.1",
            "addonImageMirror": PRIVATE,
        },
        {"gpuInstanceType": "p5.48xlarge"},
        {"gpuInstanceType": "g6.xlarge", "expect": "socket"},
        {"gpuEfa": False, "expect": "socket"},
        {"gpuNodes": 0},
    ],
    ids=str,
)
def test_what_the_product_declares_passes_every_rule(changes: dict[str, Any]) -> None:
    resources = as_seen(declared(**changes))
    assert any(resource.type == RAY_CLUSTER for resource in resources)
    assert violations(resources) == []


def test_a_rules_types_are_types_that_the_product_or_its_components_declare() -> None:
    stacks = (declared(), declared(eksStorage="fsx"))
    declares = {resource.type for stack in stacks for resource in as_seen(stack)}
    # The remote component's, and what a user adds.
    declares.add("aws:eks/cluster:Cluster")
    for rule in RULES:
        types = getattr(rule, "types", ())
        assert not types or declares & set(types), rule.name


def test_a_users_own_environment_can_open_the_fallback_and_is_told() -> None:
    opened = as_seen(declared(rayEnv={"FI_PROVIDER": "tcp"}))
    assert {rule for rule, _, _ in violations(opened)} == {"nccl-fallback-closed"}
