"""The table of instance types against EC2's own answers, and what an unknown type is told."""

import gzip
import json
from pathlib import Path

import moto
import pytest

from infra.instances import known, names
from workload.errors import BadInputError

ANSWERS = json.loads(
    gzip.decompress((Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz").read_bytes())
)


@pytest.mark.parametrize("name", names())
def test_every_row_is_what_ec2_says(name: str) -> None:
    row, answer = known(name), ANSWERS[name]
    [gpu] = answer["GpuInfo"]["Gpus"]
    assert (row.gpu_name, row.gpus) == (gpu["Name"], gpu["Count"])
    assert row.vcpus == answer["VCpuInfo"]["DefaultVCpus"]
    assert row.memory_gib * 1024 == answer["MemoryInfo"]["SizeInMiB"]
    assert row.efa_interfaces == answer["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)


def test_the_types_that_people_train_on_with_efa_are_there() -> None:
    sizes = ("8xlarge", "12xlarge", "16xlarge", "24xlarge", "48xlarge")
    for name in (
        *(f"{family}.{size}" for family in ("g5", "g6", "g6e") for size in sizes),
        "p4d.24xlarge",
        "p5.48xlarge",
    ):
        assert known(name).efa_interfaces >= 1, name


@pytest.mark.parametrize(("name", "expected"), [("g6.12xlarge", False), ("g6e.48xlarge", False), ("p5.48xlarge", True)])
def test_gpudirect_rdma_is_expected_of_the_p_series_alone(name: str, expected: bool) -> None:
    assert known(name).gpudirect_rdma is expected


def test_an_unknown_type_is_named_with_the_known_ones() -> None:
    with pytest.raises(BadInputError, match=r"'g6.13xlarge'.*g6\.12xlarge"):
        known("g6.13xlarge")
