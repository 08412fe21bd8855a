"""What a platform's GPU nodes let the verdict demand of a run."""

from dataclasses import replace

import pytest

from infra.instances import InstanceType, known
from infra.platform import Platform


def platform(instance: InstanceType | None) -> Platform:
    return Platform(head=None, storage="runs", hourly_cost_usd=None, instance=instance)


@pytest.mark.parametrize(
    ("name", "nics", "gdr"),
    [
        ("g6.12xlarge", 1, False),
        ("g6e.48xlarge", 4, False),
        ("p4d.24xlarge", 4, True),
        ("p5.48xlarge", 32, True),
        ("g6.xlarge", None, False),
    ],
)
def test_each_host_must_find_all_its_interfaces_and_reach_gpus_directly_where_the_type_can(
    name: str, nics: int | None, gdr: bool
) -> None:
    found = platform(known(name))
    assert (found.nics, found.gdr) == (nics, gdr)


def test_nothing_is_demanded_of_nodes_without_gpus_or_made_without_efa() -> None:
    for instance in (None, replace(known("p5.48xlarge"), efa_interfaces=0)):
        assert (platform(instance).nics, platform(instance).gdr) == (None, False)
