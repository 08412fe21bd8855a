"""An account for surveys of capacity: moto's regions, zones, offerings and types, and in front of it what moto lacks.

Every answer in pages comes two entries a page, so that a reader who takes the first page only is found out.
"""

import fnmatch
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.config import Config  # type: ignore[import-untyped]

from capacity import aws
from tests.support.aws_server import PAGE, AwsServer, Fault, Reservations
from tests.training.s3_server import ENVIRONMENT
from tools.standin import aws_wire
from tools.standin.aws_wire import Asked, Reply

__all__ = ["ACCOUNT", "CapacityAccount", "Fault", "instance", "reservation", "serving"]

# moto's own.
ACCOUNT = "123456789012"


class CapacityAccount(AwsServer):
    """Everything is by region; `quotas` by (region, code), and without an entry AWS's default in `defaults` holds."""

    def __init__(self, moto_port: int) -> None:
        super().__init__(moto_port)
        self._told: dict[tuple[str, bytes], Reply] = {}
        self.clear()

    def _of_moto(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Nothing is ever made in moto here, so it is asked each thing once."""
        region = aws_wire.read(method, path, headers, body).region
        if (region, body) not in self._told:
            self._told[region, body] = super()._of_moto(method, path, headers, body)
        return self._told[region, body]

    def clear(self) -> None:
        self.faults, self.calls = [], []
        self.reservations = Reservations()
        self.quotas: dict[tuple[str, str], float] = {}
        self.defaults: dict[str, float] = {"L-DB2E81BA": 0.0, "L-3819A6DF": 0.0}
        self.instances: dict[str, list[dict[str, Any]]] = {}
        self.held: dict[str, list[dict[str, Any]]] = {}
        self.scores: dict[str, dict[str, int]] = {}
        self.spot: dict[str, dict[str, str]] = {}
        self.prices: dict[str, float] = {}
        self.opt_in: dict[str, str] = {}
        self.silent: set[str] = set()
        self.speak = threading.Event()
        self.on_call = self._keep_silent

    def _keep_silent(self, asked: Asked) -> None:
        if asked.region in self.silent and asked.service in ("ec2", "service-quotas"):
            self.speak.wait(60)

    def _own(self, asked: Asked) -> Reply | None:
        # A probe asks by tag or by id, and has reservations of its own.
        if asked.operation == "DescribeCapacityReservations":
            filters = [one["Name"] for one in asked.parameters.get("Filters", [])]
            if filters != ["state"]:
                return super()._own(asked)
        operations: Mapping[str, Callable[[Asked], dict[str, Any] | None]] = {
            "DescribeRegions": self._regions,
            "DescribeInstances": self._instances,
            "DescribeCapacityReservations": self._held,
            "GetSpotPlacementScores": self._scores,
            "DescribeSpotPriceHistory": self._spot,
            "GetServiceQuota": lambda asked: self._quota(self.quotas.get((asked.region, _code(asked))), asked),
            "GetAWSDefaultServiceQuota": lambda asked: self._quota(self.defaults.get(_code(asked)), asked),
            "GetProducts": self._products,
        }
        if asked.operation not in operations:
            return super()._own(asked)
        answer = operations[asked.operation](asked)
        if answer is None:
            code = "NoSuchResourceException" if asked.service == "service-quotas" else "InternalError"
            return aws_wire.refusal(asked, code, "There is no such thing.")
        return aws_wire.answer(asked, answer)

    def _regions(self, _asked: Asked) -> dict[str, Any]:
        import boto3  # type: ignore[import-untyped]

        names = boto3.session.Session().get_available_regions("ec2")
        return {
            "Regions": [
                {"RegionName": name, "OptInStatus": self.opt_in.get(name, "opt-in-not-required"), "Endpoint": name}
                for name in names
            ]
        }

    def _instances(self, asked: Asked) -> dict[str, Any]:
        wanted = {one["Name"]: one["Values"] for one in asked.parameters["Filters"]}
        there = [
            one
            for one in self.instances.get(asked.region, [])
            if any(fnmatch.fnmatchcase(one["InstanceType"], pattern) for pattern in wanted["instance-type"])
            and one["State"]["Name"] in wanted["instance-state-name"]
        ]
        page = _page(asked, there)
        return {"Reservations": [{"Instances": [one]} for one in page.pop("page")], **page}

    def _held(self, asked: Asked) -> dict[str, Any]:
        page = _page(asked, self.held.get(asked.region, []))
        return {"CapacityReservations": page.pop("page"), **page}

    def _scores(self, asked: Asked) -> dict[str, Any]:
        given = asked.parameters
        assert given["RegionNames"] == [asked.region]
        assert str(given["SingleAvailabilityZone"]).lower() == "true"
        assert int(given["TargetCapacity"]) >= 1
        found = [
            {"Region": asked.region, "AvailabilityZoneId": zone, "Score": score}
            for zone, score in self.scores.get(asked.region, {}).items()
        ]
        page = _page(asked, found)
        return {"SpotPlacementScores": page.pop("page"), **page}

    def _spot(self, asked: Asked) -> dict[str, Any]:
        found = [
            {
                "AvailabilityZone": zone,
                "SpotPrice": price,
                "Timestamp": datetime.now(UTC),
                "InstanceType": "g6.12xlarge",
                "ProductDescription": "Linux/UNIX",
            }
            for zone, price in self.spot.get(asked.region, {}).items()
        ]
        page = _page(asked, found)
        return {"SpotPriceHistory": page.pop("page"), **page}

    def _quota(self, value: float | None, asked: Asked) -> dict[str, Any] | None:
        return None if value is None else {"Quota": {"QuotaCode": _code(asked), "Value": value}}

    def _products(self, asked: Asked) -> dict[str, Any]:
        wanted = {one["Field"]: one["Value"] for one in asked.parameters["Filters"]}
        page = _page(asked, [_product(region, wanted, usd) for region, usd in self.prices.items()])
        return {"PriceList": page.pop("page"), "FormatVersion": "aws_v1", **page}


def instance(type_: str, *, cores: int = 24, lifecycle: str = "", state: str = "running") -> dict[str, Any]:
    """Two threads a core."""
    return {
        "InstanceId": "i-0",
        "InstanceType": type_,
        "State": {"Name": state, "Code": 16},
        "CpuOptions": {"CoreCount": cores, "ThreadsPerCore": 2},
        "Placement": {"Tenancy": "default"},
        **({"InstanceLifecycle": lifecycle} if lifecycle else {}),
    }


def reservation(id: str, zone: str, *, free: int = 2, type_: str = "g6.12xlarge", **more: Any) -> dict[str, Any]:
    return {
        "CapacityReservationId": id,
        "OwnerId": ACCOUNT,
        "AvailabilityZone": zone,
        "InstanceType": type_,
        "InstancePlatform": "Linux/UNIX",
        "Tenancy": "default",
        "TotalInstanceCount": 2,
        "AvailableInstanceCount": free,
        "State": "active",
        "InstanceMatchCriteria": "targeted",
        "EndDateType": "unlimited",
        **more,
    }


def _code(asked: Asked) -> str:
    assert asked.parameters["ServiceCode"] == "ec2"
    return str(asked.parameters["QuotaCode"])


def _page(asked: Asked, there: Sequence[Any]) -> dict[str, Any]:
    start = int(asked.parameters.get("NextToken") or 0)
    more = {"NextToken": str(start + PAGE)} if start + PAGE < len(there) else {}
    return {"page": list(there[start : start + PAGE]), **more}


def _product(region: str, attributes: Mapping[str, str], usd: float) -> str:
    """As the Price List API writes one (docs.aws.amazon.com/awsaccountbilling/latest/aboutv2, "Reading JSON")."""
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{usd:.10f}"}}
    return json.dumps(
        {
            "product": {"attributes": {**attributes, "regionCode": region, "locationType": "AWS Region"}},
            "terms": {"OnDemand": {"SKU.TERM": {"priceDimensions": {"SKU.TERM.RATE": dimension}}}},
            "publicationDate": "2026-11-20T10:00:00Z",
        }
    )


@contextmanager
def serving() -> Iterator[CapacityAccount]:
    """An account without anything in it, and this process's environment led to it."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    account = CapacityAccount(int(moto.get_host_and_port()[1]))
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": account.url}.items():
                if value is None:
                    patch.delenv(name, raising=False)
                else:
                    patch.setenv(name, value)
            once = aws._PATIENCE.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
            patch.setattr(aws, "_PATIENCE", once)
            aws.forget()
            yield account
    finally:
        account.speak.set()
        account.close()
        moto.stop()
        aws.forget()


def emptied(account: CapacityAccount) -> CapacityAccount:
    """Of all but moto's own."""
    account.speak.set()
    account.clear()
    return account
