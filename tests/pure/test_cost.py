"""The hourly estimate: the seed's figure, each thing that bills, and what is said where a price is not known."""

from dataclasses import replace
from datetime import date
from typing import Any
from unittest.mock import Mock

import pytest

from infra import instances
from infra.cost import Estimate, Line, estimate
from infra.eks_settings import (
    AwsSettings,
    CapacitySettings,
    ClusterSettings,
    EksSettings,
    EksStorageSettings,
    GpuNodesSettings,
    NetworkSettings,
    SystemNodesSettings,
)
from infra.prices import prices_of, regions
from infra.vpc_endpoints import plan_endpoints

# Pulumi.yaml's defaults; only their shapes matter here.
DEFAULT = EksSettings(
    name="ray-dev",
    tags={},
    aws=AwsSettings(
        region="us-west-2",
        profile="",
        assume_roles=(),
        allowed_account_ids=(),
        default_tags={},
        skip_credentials_validation=False,
    ),
    capacity=CapacitySettings(
        mode="reserve", reservation="", until="2027-01-31T18:00:00Z", market="on-demand", placement_group=""
    ),
    network=NetworkSettings(cidr="10.20.0.0/16", zones=(), nat="one", endpoints=("s3",), vpc_id="", private_subnets=()),
    cluster=ClusterSettings(
        existing="",
        version="1.34",
        endpoint_cidrs=("203.0.113.7/32",),
        admins=(),
        logs=("api",),
        secrets_key="",
        ebs_csi=False,
    ),
    system=SystemNodesSettings(instance_type="m7i.xlarge", nodes=1, disk_gib=150),
    gpu=GpuNodesSettings(
        instance=instances.known("g6.12xlarge"),
        nodes=2,
        zone="us-west-2b",
        existing_group="",
        disk_gib=200,
        disk_throughput=600,
        disk_iops=4000,
        ami_release="",
        security_groups=(),
        labels={"role": "gpu-worker"},
    ),
    storage=EksStorageSettings(kind="bucket", path="runs", expire_days=0, keep=False, fsx_gib=1200, fsx_throughput=250),
    kubernetes=Mock(),
)


def changed(room: str, **changes: Any) -> EksSettings:
    return replace(DEFAULT, **{room: replace(getattr(DEFAULT, room), **changes)})


def line(of: Estimate, word: str) -> Line:
    found = [one for one in of.lines if word in one.what]
    assert len(found) == 1, f"{word}: {[one.what for one in of.lines]}"
    return found[0]


def test_the_default_stack_is_within_5_percent_of_the_seeds_9_50_an_hour() -> None:
    assert estimate(DEFAULT, reserved=True).total == pytest.approx(9.50, rel=0.05)


def test_everything_that_bills_has_a_line() -> None:
    found = estimate(DEFAULT, reserved=False)
    assert line(found, "g6.12xlarge").hourly_usd == pytest.approx(2 * 4.6016)
    assert line(found, "m7i.xlarge").hourly_usd == pytest.approx(0.2016)
    assert line(found, "control plane").hourly_usd == 0.10
    assert line(found, "NAT gateway").hourly_usd == 0.045
    assert line(found, "public IPv4").hourly_usd == 0.005
    # 200 GiB, 475 MiB/s and 1000 IOPS beyond what gp3 has without paying more, twice, by the month.
    disks = 2 * (200 * 0.08 + 475 * 0.04 + 1000 * 0.005) / 730
    assert line(found, "200 GiB, GPU nodes").hourly_usd == pytest.approx(disks)
    assert line(found, "150 GiB, system nodes").hourly_usd == pytest.approx((150 * 0.08 + 375 * 0.04) / 730)
    assert found.total == pytest.approx(sum(one.hourly_usd or 0 for one in found.lines), abs=1e-4)
    assert found.lacks == ()


def test_a_reservation_is_a_line_of_its_own_and_costs_nothing_beside_the_nodes_inside_it() -> None:
    with_one, without = estimate(DEFAULT, reserved=True), estimate(DEFAULT, reserved=False)
    assert line(with_one, "capacity reservation of 2 x g6.12xlarge").hourly_usd == 0.0
    assert with_one.total == without.total
    [note] = [note for note in with_one.notes if "reservation" in note]
    assert "9.203" in note
    assert "2027-01-31T18:00:00Z" in note
    assert "idle" in note
    assert not any("reservation" in note for note in without.notes)


def test_no_gpu_nodes_cost_no_gpu_nodes() -> None:
    found = estimate(changed("gpu", nodes=0), reserved=False)
    assert not any("GPU" in one.what for one in found.lines)
    assert 0 < found.total < 0.5


@pytest.mark.parametrize(
    ("nat", "zones", "gateways"), [("one", ("a", "b", "c"), 1), ("per-zone", ("a", "b", "c"), 3), ("per-zone", (), 2)]
)
def test_nat_gateways_and_their_addresses_are_counted_by_zone(nat: str, zones: tuple[str, ...], gateways: int) -> None:
    found = estimate(changed("network", nat=nat), reserved=False, zones=zones)
    assert line(found, "NAT gateway").count == gateways
    assert line(found, "public IPv4").count == gateways


def test_private_ecr_is_two_interface_endpoints_in_each_zone_with_a_gateway_and_s3_none() -> None:
    zones = ("us-west-2b", "us-west-2a")
    one = estimate(changed("network", endpoints=("s3", "ecr")), reserved=False, zones=zones)
    assert line(one, "interface endpoint").count == 2
    each = estimate(changed("network", nat="per-zone", endpoints=("ecr",)), reserved=False, zones=zones)
    assert line(each, "interface endpoint").count == 4
    assert line(each, "interface endpoint").hourly_usd == pytest.approx(0.04)
    assert not any("interface endpoint" in one.what for one in estimate(DEFAULT, reserved=False).lines)


def test_without_a_gateway_there_are_the_endpoints_that_stand_in_for_it() -> None:
    found = estimate(changed("network", nat="none", endpoints=("s3", "ecr")), reserved=False)
    assert line(found, "interface endpoint").count == len(plan_endpoints(nat="none", asked=("ecr",)).interface) > 2
    assert not any("NAT" in one.what or "IPv4" in one.what for one in found.lines)


def test_an_existing_network_or_cluster_is_not_this_stacks_cost() -> None:
    in_vpc = estimate(changed("network", vpc_id="vpc-0123456789abcdef0", private_subnets=("a", "b")), reserved=False)
    assert not any("NAT" in one.what for one in in_vpc.lines)
    assert line(in_vpc, "control plane")
    in_cluster = estimate(changed("cluster", existing="shared"), reserved=False)
    assert {one.what for one in in_cluster.lines} == {"g6.12xlarge, GPU nodes", "gp3 disk of 200 GiB, GPU nodes"}


def test_lustre_is_priced_by_size_and_throughput() -> None:
    slow = line(estimate(changed("storage", kind="fsx"), reserved=False), "Lustre").hourly_usd
    fast = line(estimate(changed("storage", kind="fsx", fsx_throughput=1000), reserved=False), "Lustre").hourly_usd
    assert slow == pytest.approx(1200 * 0.21 / 730)
    assert fast == pytest.approx(1200 * 0.60 / 730)


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        (changed("capacity", market="spot", mode="none"), "2 x g6.12xlarge, GPU nodes (spot)"),
        (changed("gpu", instance=instances.known("p5e.48xlarge")), "2 x p5e.48xlarge, GPU nodes"),
        (changed("system", instance_type="m5.metal"), "1 x m5.metal, system nodes"),
        (changed("aws", region="eu-north-1"), "1 x EKS control plane"),
    ],
)
def test_what_has_no_known_price_stays_a_line_and_the_total_says_that_it_lacks_it(
    settings: EksSettings, lacking: str
) -> None:
    found = estimate(settings, reserved=False)
    assert lacking in found.lacks
    assert lacking in found.text().partition("without ")[2]
    assert "at least, USD an hour" in found.text()


def test_another_region_is_given_no_price_of_these() -> None:
    found = estimate(changed("aws", region="eu-north-1"), reserved=True)
    assert found.total == 0
    assert len(found.lacks) == len(found.lines) - 1  # the reservation is priced with its nodes
    assert "no price" in found.text()


def test_a_capacity_block_is_paid_already() -> None:
    found = estimate(changed("capacity", market="capacity-block", mode="held", reservation="cr-1"), reserved=False)
    assert line(found, "capacity block").hourly_usd == 0.0
    assert any("when it is bought" in note for note in found.notes)


def test_the_text_has_a_row_for_each_line_the_total_and_the_prices_date() -> None:
    found = estimate(DEFAULT, reserved=True)
    text = found.text()
    assert str(found.as_of) in text.splitlines()[0]
    assert "us-west-2" in text.splitlines()[0]
    for one in found.lines:
        assert any(f"{one.count} x {one.what}" in row and f"{one.hourly_usd:.3f}" in row for row in text.splitlines())
    assert "total, USD an hour" in text
    assert f"{found.total:.3f}" in text
    numbers = [row.rindex(".") for row in text.splitlines() if row.startswith("  ") and row[-4:-3] == "."]
    assert len(set(numbers)) == 1, "the decimal points are in one column"


def test_the_outputs_are_plain_values_with_the_prices_date() -> None:
    outputs = estimate(DEFAULT, reserved=True).outputs()
    assert outputs["pricesOf"] == date(2026, 9, 10).isoformat()
    assert outputs["totalUsd"] == pytest.approx(9.5, rel=0.05)
    assert {"what": "EKS control plane", "count": 1, "hourlyUsd": 0.1} in outputs["lines"]


@pytest.mark.parametrize("region", regions())
def test_every_known_type_but_p5e_has_a_price_in_every_region_of_the_table(region: str) -> None:
    priced = prices_of(region).instances
    assert {name for name in instances.names() if name not in priced} == {"p5e.48xlarge"}


def test_more_gpus_of_a_family_never_cost_less() -> None:
    priced = prices_of("us-east-1").instances
    known = [instances.known(name) for name in instances.names() if name in priced]
    for one in known:
        for other in known:
            if one.family == other.family and one.gpus < other.gpus and one.vcpus <= other.vcpus:
                assert priced[one.name] < priced[other.name], f"{one.name} against {other.name}"
