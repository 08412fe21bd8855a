"""PURE: on-demand prices of one instance type in every region, from the Price List API, else from the dated table."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from capacity.answers import Missing, Price
from infra.prices import prices_of

# https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html: the API's own endpoints are few, and
# each answers for all regions.
API_REGION = "us-east-1"
# One product a region: Linux without licences, on shared hosts, not in a reservation.
_PLAIN = {"operatingSystem": "Linux", "tenancy": "Shared", "capacitystatus": "Used", "preInstalledSw": "NA"}


def filters(instance_type: str) -> list[dict[str, str]]:
    """For GetProducts."""
    wanted = {"instanceType": instance_type, **_PLAIN}
    return [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]


def by_region(pages: Iterable[Mapping[str, Any]]) -> dict[str, Price]:
    """What the API says, by region; a product that cannot be read is left out."""
    found = {}
    for text in (text for page in pages for text in page["PriceList"]):
        product = json.loads(text) if isinstance(text, str) else text
        attributes = product.get("product", {}).get("attributes", {})
        # A local zone is sold as a region of its own.
        if attributes.get("locationType", "AWS Region") != "AWS Region" or not attributes.get("regionCode"):
            continue
        usd = _usd(product)
        if usd is not None:
            as_of = str(product.get("publicationDate", ""))[:10]
            found[attributes["regionCode"]] = Price(usd=usd, as_of=as_of, source="Price List API")
    return found


def price_in(region: str, instance_type: str, told: Mapping[str, Price] | Missing) -> Price | Missing:
    """The API's price if there is one, else the table's."""
    if not isinstance(told, Missing) and region in told:
        return told[region]
    table = prices_of(region)
    usd = table.instances.get(instance_type)
    if usd is not None:
        return Price(usd=usd, as_of=table.as_of.isoformat(), source="table")
    if isinstance(told, Missing):
        return told
    return Missing(code="", text=f"there is no on-demand price of {instance_type} here")


def _usd(product: Mapping[str, Any]) -> float | None:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            try:
                usd = float(dimension["pricePerUnit"]["USD"])
            except (KeyError, ValueError):
                continue
            if dimension.get("unit") == "Hrs" and math.isfinite(usd) and usd > 0:
                return usd
    return None
