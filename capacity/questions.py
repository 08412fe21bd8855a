"""The questions put to one region, each read-only and independent of the others."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from capacity import price_list, reading
from capacity.answers import Missing, Price, Quota, TypeFacts, Zone
from capacity.aws import Access, client, told_by
from capacity.quotas import QuotaFamily
from capacity.reading import Held
from capacity.request import Request
from infra import instances


def regions(access: Access) -> dict[str, str]:
    """Every region there is, enabled or not, with its opt-in state."""
    answer = client("ec2", access=access).describe_regions(AllRegions=True)
    return {one["RegionName"]: one.get("OptInStatus", "") for one in answer["Regions"]}


def prices(request: Request, access: Access) -> dict[str, Price]:
    """The on-demand price in every region, of one call."""
    pages = client("pricing", price_list.API_REGION, access=access).get_paginator("get_products")
    asked = {"ServiceCode": "AmazonEC2", "Filters": price_list.filters(request.instance_type)}
    return price_list.by_region(pages.paginate(**asked))


@dataclass(frozen=True, kw_only=True)
class Ec2Questions:
    """Put through a client of the region. `page` is called with each page of a long answer."""

    request: Request
    region: str
    family: QuotaFamily | None
    ec2: Any
    page: Callable[[], None]

    def all(self) -> dict[str, Callable[[], Any]]:
        """By the part of the answers that each gives."""
        asked: dict[str, Callable[[], Any]] = {
            "zones": self.zones,
            "offered": self.offered,
            "type": self.type,
            "running": self.running,
            "held": self.held,
            "scores": self.scores,
        }
        if self.request.spot:
            asked["spot_prices"] = self.spot_prices
        return asked

    def zones(self) -> tuple[Zone, ...]:
        return reading.zones(self.ec2.describe_availability_zones(AllAvailabilityZones=False))

    def offered(self) -> tuple[str, ...]:
        return reading.offered(
            self._pages(
                "describe_instance_type_offerings",
                LocationType="availability-zone",
                Filters=[{"Name": "instance-type", "Values": [self.request.instance_type]}],
            )
        )

    def type(self) -> TypeFacts | Missing:
        name = self.request.instance_type
        return reading.type_facts(name, self._types([name]))

    def running(self) -> int | Missing:
        if self.family is None:
            return _no_quota(self.request)
        filters = [
            {"Name": "instance-type", "Values": list(self.family.patterns)},
            {"Name": "instance-state-name", "Values": list(reading.RUNNING)},
        ]
        pages = self._pages("describe_instances", Filters=filters)
        vcpus, untold = reading.running(self.family, pages, spot=self.request.spot)
        return vcpus + self._vcpus(untold)

    def held(self) -> Held:
        pages = self._pages("describe_capacity_reservations", Filters=[{"Name": "state", "Values": ["active"]}])
        found, idle = reading.reservations(self.request.instance_type, self.family, list(pages), now=datetime.now(UTC))
        # What is kept free counts on demand alone.
        owners = {} if self.request.spot else idle
        return Held(reservations=found, idle_vcpus={owner: self._vcpus(counts) for owner, counts in owners.items()})

    def scores(self) -> dict[str, int]:
        # A region at a time: of several together only the ten best zones are told.
        pages = self._pages(
            "get_spot_placement_scores",
            InstanceTypes=[self.request.instance_type],
            TargetCapacity=self.request.nodes,
            TargetCapacityUnitType="units",
            SingleAvailabilityZone=True,
            RegionNames=[self.region],
        )
        return reading.scores(self.region, pages)

    def spot_prices(self) -> dict[str, Price]:
        now = datetime.now(UTC)
        pages = self._pages(
            "describe_spot_price_history",
            InstanceTypes=[self.request.instance_type],
            ProductDescriptions=["Linux/UNIX"],
            StartTime=now,
        )
        return reading.spot_prices(pages, today=f"{now:%Y-%m-%d}")

    def _vcpus(self, counts: Mapping[str, int]) -> int:
        known = {name: instances.known(name).vcpus for name in counts if name in instances.names()}
        rest = sorted(set(counts) - set(known))
        if rest:
            known |= reading.vcpus_by_type(self._types(rest))
        return sum(count * known.get(name, 0) for name, count in counts.items())

    def _types(self, names: list[str]) -> Iterator[Mapping[str, Any]]:
        # By filter: a type that a region does not have is then no error.
        return self._pages("describe_instance_types", Filters=[{"Name": "instance-type", "Values": names}])

    def _pages(self, operation: str, **asked: Any) -> Iterator[Mapping[str, Any]]:
        for page in self.ec2.get_paginator(operation).paginate(**asked):
            self.page()
            yield page


def quota(request: Request, region: str, family: QuotaFamily | None, access: Access) -> Quota | Missing:
    """The value applied to this account, else AWS's default."""
    if family is None:
        return _no_quota(request)
    quotas = client("service-quotas", region, access=access)
    asked = {"ServiceCode": "ec2", "QuotaCode": family.code}
    try:
        return reading.quota(quotas.get_service_quota(**asked), family, applied=True)
    except ClientError as error:
        if told_by(error)[0] != "NoSuchResourceException":
            raise
    return reading.quota(quotas.get_aws_default_service_quota(**asked), family, applied=False)


def _no_quota(request: Request) -> Missing:
    kind = "spot" if request.spot else "on-demand"
    return Missing(code="", text=f"which {kind} quota {request.instance_type} counts against is not known here")
