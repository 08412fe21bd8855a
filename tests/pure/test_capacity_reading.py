"""AWS's answers as they are read, where no server is needed to give them; and requests that cannot be meant."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from capacity import price_list, reading
from capacity.answers import Missing, Price, TypeFacts
from capacity.quotas import quota_of
from capacity.request import Request, regions_from
from workload.errors import BadInputError


@pytest.mark.parametrize(
    ("name", "spot", "code"),
    [
        ("g6.12xlarge", False, "L-DB2E81BA"),
        ("gr6.4xlarge", False, "L-DB2E81BA"),
        ("vt1.3xlarge", True, "L-3819A6DF"),
        ("g6e.12xlarge", True, "L-3819A6DF"),
        ("p4d.24xlarge", False, "L-417A185B"),
        ("p5en.48xlarge", False, "L-417A185B"),
        ("p4d.24xlarge", True, "L-7212CCBC"),
        ("p5en.48xlarge", True, "L-C4BD4855"),
        ("p6-b200.48xlarge", True, None),
        ("trn1.32xlarge", False, None),
    ],
)
def test_each_family_has_its_quota(name: str, spot: bool, code: str | None) -> None:
    family = quota_of(name, spot=spot)
    assert (family and family.code) == code
    assert family is None or family.counts(name)


def test_local_zones_are_no_zones_for_efa() -> None:
    told = [
        {"ZoneName": "us-west-2-lax-1a", "ZoneId": "usw2-lax1-az1", "ZoneType": "local-zone"},
        {"ZoneName": "us-west-2a", "ZoneId": "usw2-az2", "ZoneType": "availability-zone", "State": "constrained"},
    ]
    (zone,) = reading.zones({"AvailabilityZones": told})
    assert (zone.name, zone.zone_id, zone.state) == ("us-west-2a", "usw2-az2", "constrained")


def test_a_type_without_efa_or_gpus_has_none_of_them() -> None:
    bare = {"InstanceType": "m7i.large", "VCpuInfo": {"DefaultVCpus": 2}, "SupportedUsageClasses": ["on-demand"]}
    facts = reading.type_facts("m7i.large", [{"InstanceTypes": [bare]}])
    assert facts == TypeFacts(name="m7i.large", vcpus=2, gpus=0, gpu_name="", efa_interfaces=0, spot=False)
    assert isinstance(reading.type_facts("m7i.huge", [{"InstanceTypes": [bare]}]), Missing)


def test_dedicated_hosts_and_capacity_blocks_count_against_other_quotas() -> None:
    one = {"InstanceType": "g6.12xlarge", "State": {"Name": "running"}}
    host = {**one, "Placement": {"Tenancy": "host"}}
    block = {**one, "InstanceLifecycle": "capacity-block"}
    family = quota_of("g6.12xlarge", spot=False)
    assert family is not None
    found = reading.running(family, [{"Reservations": [{"Instances": [one, host, block]}]}], spot=False)
    assert found == (0, {"g6.12xlarge": 1}), "without CpuOptions the type says how many vCPUs it has"


def test_of_spot_prices_the_latest_counts() -> None:
    def told(hour: int, price: str) -> dict[str, Any]:
        at = datetime(2026, 11, 30, hour, tzinfo=UTC)
        return {"AvailabilityZone": "us-west-2a", "SpotPrice": price, "Timestamp": at}

    pages = [{"SpotPriceHistory": [told(9, "1.5")]}, {"SpotPriceHistory": [told(11, "2.5"), told(7, "0.5")]}]
    assert reading.spot_prices(pages, today="2026-11-30")["us-west-2a"].usd == 2.5


def test_a_quota_without_a_value_is_missing() -> None:
    family = quota_of("g6.12xlarge", spot=False)
    assert family is not None
    reason = {"ErrorCode": "SERVICE_QUOTA_NOT_AVAILABLE_ERROR", "ErrorMessage": "not yet"}
    assert reading.quota({"Quota": {"ErrorReason": reason}}, family, applied=True) == Missing(
        code="SERVICE_QUOTA_NOT_AVAILABLE_ERROR", text="not yet"
    )


def product(**attributes: str) -> str:
    rate = {"unit": "Hrs", "pricePerUnit": {"USD": "4.6016"}}
    told = {
        "product": {"attributes": {"locationType": "AWS Region", **attributes}},
        "terms": {"OnDemand": {"x": {"priceDimensions": {"y": rate}}}},
        "publicationDate": "2026-11-20T00:00:00Z",
    }
    return json.dumps(told)


def test_the_price_list_is_read_region_by_region_without_local_zones() -> None:
    local = product(regionCode="us-west-2-lax-1", locationType="AWS Local Zone")
    told = price_list.by_region([{"PriceList": [product(regionCode="us-west-2"), local, json.dumps({"product": {}})]}])
    assert told == {"us-west-2": Price(usd=4.6016, as_of="2026-11-20", source="Price List API")}


def test_without_the_price_list_the_table_counts_and_without_both_the_reason() -> None:
    refused = Missing(code="AccessDeniedException", text="not allowed")
    table = price_list.price_in("us-west-2", "g6.12xlarge", refused)
    assert isinstance(table, Price)
    assert (table.usd, table.source) == (4.6016, "table")
    assert price_list.price_in("eu-west-3", "g6.12xlarge", refused) == refused
    assert isinstance(price_list.price_in("eu-west-3", "g6.12xlarge", {}), Missing)


def test_regions_are_named_with_commas_each_once() -> None:
    assert regions_from("us-west-2, us-east-1") == ("us-west-2", "us-east-1")
    assert regions_from("all") is None
    assert Request(regions=("us-west-2", "us-west-2")).regions == ("us-west-2",)


@pytest.mark.parametrize("text", ["", " , ", "all us-west-2"])
def test_no_region_or_all_beside_others_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        regions_from(text)


def test_a_type_without_efa_is_answered_with_those_of_its_family_that_have_it() -> None:
    with pytest.raises(BadInputError, match=r"one of g6\.8xlarge, g6\.12xlarge, .*g6\.48xlarge$"):
        Request(instance_type="g6.xlarge")
