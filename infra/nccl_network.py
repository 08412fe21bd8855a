"""PURE: the network that NCCL is told to use, so that one that does not come up is an error and not a slow success."""

from collections.abc import Mapping

from infra.instances import InstanceType

# NCCL compares it with the plugin's own name, and fails where no plugin has it (NCCL 2.18-2.30, src/net.cc and
# plugin/net.cc). aws-ofi-nccl 1.13 and later call themselves so; up to 1.12 it is "AWS Libfabric".
LIBFABRIC = "Libfabric"


def nccl_network(instance: InstanceType | None, *, backend: str) -> Mapping[str, str]:
    """Environment of a job between GPUs with EFA; empty for any other. The job's own `NCCL_NET` goes before it."""
    if backend == "gloo" or instance is None or not instance.efa_interfaces:
        return {}
    return {"NCCL_NET": LIBFABRIC}
