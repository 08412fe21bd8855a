"""The network that NCCL is told to use: on EFA nodes only, and never against the user's own word."""

import pytest

from infra.instances import known
from infra.nccl_network import nccl_network


@pytest.mark.parametrize("name", ["g6.12xlarge", "g6e.24xlarge", "p5.48xlarge"])
@pytest.mark.parametrize("backend", ["auto", "nccl"])
def test_gpus_with_efa_take_the_plugins_network_or_fail(name: str, backend: str) -> None:
    assert nccl_network(known(name), backend=backend) == {"NCCL_NET": "Libfabric"}


def test_nothing_is_forced_without_efa_without_gpus_or_between_cpus() -> None:
    assert nccl_network(known("g6.xlarge"), backend="auto") == {}
    assert nccl_network(None, backend="auto") == {}
    assert nccl_network(known("g6.12xlarge"), backend="gloo") == {}
