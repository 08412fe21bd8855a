"""The Nodes that a stand-in node group launches look as EKS makes them, and can be told apart."""

import json
from typing import Any

import pytest

from tools.bed.nodes import DEVICES_ANNOTATION, EFA, GPU, manifest
from tools.standin.bed_nodes import NodeGroup, name_of, node_spec, shape_of
from workload.errors import BadInputError

TAINT = {"key": GPU, "value": "present", "effect": "NO_SCHEDULE"}
ROLE = {"role": "gpu-worker"}


def node(**changes: Any) -> dict[str, Any]:
    group: dict[str, Any] = {
        "cluster": "ray-dev",
        "name": "ray-dev-gpu",
        "instance_type": "g6.12xlarge",
        "count": 2,
        "zone": "us-west-2b",
        "labels": ROLE,
        "taints": [TAINT],
        "efa": 1,
    }
    spec = node_spec(NodeGroup(**{**group, **changes}), "i-0abc")
    return manifest(spec, agent_port=1, devices_published=False, kubelet_version="1.34.3")


def test_a_gpu_node_has_the_groups_labels_and_taints_and_its_instance_behind_it() -> None:
    made = node()
    labels = made["metadata"]["labels"]
    assert labels["role"] == "gpu-worker"
    assert labels["eks.amazonaws.com/nodegroup"] == "ray-dev-gpu"
    assert labels["node.kubernetes.io/instance-type"] == "g6.12xlarge"
    assert labels["topology.kubernetes.io/zone"] == "us-west-2b"
    assert made["spec"]["taints"] == [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
    assert made["spec"]["providerID"] == "aws:///us-west-2b/i-0abc"


def test_its_devices_wait_for_their_plugins() -> None:
    made = node()
    assert json.loads(made["metadata"]["annotations"][DEVICES_ANNOTATION]) == {GPU: 4, EFA: 1}
    assert {GPU, EFA} & set(made["status"]["allocatable"]) == set()


@pytest.mark.parametrize(
    ("changes", "devices"),
    [
        ({"efa": 0}, {GPU: 4}),
        ({"gpu_driver": False}, {EFA: 1}),
        ({"instance_type": "m7i.xlarge", "efa": 0}, {}),
        ({"instance_type": "p5.48xlarge", "efa": 32}, {GPU: 8, EFA: 32}),
    ],
)
def test_a_node_has_what_its_type_its_image_and_its_launch_template_give_it(
    changes: dict[str, Any], devices: dict[str, int]
) -> None:
    assert json.loads(node(**changes)["metadata"]["annotations"][DEVICES_ANNOTATION]) == devices


def test_nothing_is_on_a_node_that_its_group_does_not_say() -> None:
    made = node(labels={}, taints=[])
    assert made["spec"]["taints"] == []
    assert {"role", "nvidia.com/gpu.present"} & set(made["metadata"]["labels"]) == set()


def test_nodes_have_ec2s_names() -> None:
    assert name_of("i-0abc", "us-east-1a") == "i-0abc.ec2.internal"
    assert name_of("i-0abc", "eu-north-1c") == "i-0abc.eu-north-1.compute.internal"


def test_a_type_that_nobody_knows_is_refused() -> None:
    assert shape_of("m7i.xlarge").cpus == 4
    with pytest.raises(BadInputError, match=r"t2\.nano"):
        shape_of("t2.nano")
