"""The run record names the pods that really ran: those of the beginning, and those that came since."""

from typing import Any

from workload.placement import merged
from workload.run_record import image_digest


def pod(name: str, node: str, digest: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"ray.io/node-type": "worker"}},
        "spec": {"nodeName": node},
        "status": {
            "podIP": "10.0.0.9",
            "containerStatuses": [{"name": "ray-worker", "image": "ray:1", "imageID": f"registry/ray@sha256:{digest}"}],
        },
    }


BEFORE = [
    {"name": "w1", "node": "gpu-1", "zone": "a", "instance_type": "g6.12xlarge", "image_id": "registry/ray@sha256:aa"}
]


def test_a_replacement_is_named_with_the_machine_it_came_on() -> None:
    first, second = merged(BEFORE, [pod("w1", "gpu-1", "aa"), pod("w2", "gpu-1", "bb")])
    assert first is BEFORE[0]
    assert (second["name"], second["zone"], second["instance_type"]) == ("w2", "a", "g6.12xlarge")
    assert image_digest([first, second]) == "sha256:aa, sha256:bb", "a moving tag shows"


def test_a_node_that_was_not_known_before_has_no_more_than_its_name() -> None:
    _, second = merged(BEFORE, [pod("w2", "gpu-9", "aa")])
    assert second["node"] == "gpu-9"
    assert "zone" not in second
