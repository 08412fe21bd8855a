"""PURE: what an EC2 instance type brings: GPUs, CPU, memory, EFA interfaces.

Taken 2026-11-29 from EC2's own answer (DescribeInstanceTypes, as moto 5.2.5 keeps it). GPUDirect RDMA is not in that
answer: AWS names the P series for it (aws/aws-ofi-nccl#547: g6e has none).
"""

from dataclasses import dataclass

from workload.errors import BadInputError


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One EC2 type. `efa_interfaces` is the most it can have, one a network card; 0 where it has no EFA."""

    name: str
    gpus: int
    gpu_name: str
    vcpus: int
    memory_gib: int
    efa_interfaces: int
    gpudirect_rdma: bool

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]


# (type, GPUs, GPU, vCPUs, memory in GiB, EFA interfaces)
_ROWS = (
    ("g5.8xlarge", 1, "A10G", 32, 128, 1),
    ("g5.12xlarge", 4, "A10G", 48, 192, 1),
    ("g5.16xlarge", 1, "A10G", 64, 256, 1),
    ("g5.24xlarge", 4, "A10G", 96, 384, 1),
    ("g5.48xlarge", 8, "A10G", 192, 768, 1),
    ("g6.8xlarge", 1, "L4", 32, 128, 1),
    ("g6.12xlarge", 4, "L4", 48, 192, 1),
    ("g6.16xlarge", 1, "L4", 64, 256, 1),
    ("g6.24xlarge", 4, "L4", 96, 384, 1),
    ("g6.48xlarge", 8, "L4", 192, 768, 1),
    ("g6e.8xlarge", 1, "L40S", 32, 256, 1),
    ("g6e.12xlarge", 4, "L40S", 48, 384, 1),
    ("g6e.16xlarge", 1, "L40S", 64, 512, 1),
    ("g6e.24xlarge", 4, "L40S", 96, 768, 2),
    ("g6e.48xlarge", 8, "L40S", 192, 1536, 4),
    ("p4d.24xlarge", 8, "A100", 96, 1152, 4),
    ("p4de.24xlarge", 8, "A100", 96, 1152, 4),
    ("p5.48xlarge", 8, "H100", 192, 2048, 32),
    ("p5e.48xlarge", 8, "H200", 192, 2048, 32),
    ("p5en.48xlarge", 8, "H200", 192, 2048, 16),
    # Without EFA: what a first try costs least on.
    ("g5.xlarge", 1, "A10G", 4, 16, 0),
    ("g5.2xlarge", 1, "A10G", 8, 32, 0),
    ("g5.4xlarge", 1, "A10G", 16, 64, 0),
    ("g6.xlarge", 1, "L4", 4, 16, 0),
    ("g6.2xlarge", 1, "L4", 8, 32, 0),
    ("g6.4xlarge", 1, "L4", 16, 64, 0),
    ("g6e.xlarge", 1, "L40S", 4, 32, 0),
    ("g6e.2xlarge", 1, "L40S", 8, 64, 0),
    ("g6e.4xlarge", 1, "L40S", 16, 128, 0),
)

_TYPES = {
    name: InstanceType(
        name=name,
        gpus=gpus,
        gpu_name=gpu_name,
        vcpus=vcpus,
        memory_gib=memory_gib,
        efa_interfaces=efa_interfaces,
        gpudirect_rdma=name.startswith("p"),
    )
    for name, gpus, gpu_name, vcpus, memory_gib, efa_interfaces in _ROWS
}


def known(name: str) -> InstanceType:
    """The type of that name. Raises BadInputError, with the names there are, for any other."""
    try:
        return _TYPES[name]
    except KeyError:
        raise BadInputError(f"instance type '{name}' is not known here; known are {', '.join(_TYPES)}") from None


def names() -> list[str]:
    return list(_TYPES)
