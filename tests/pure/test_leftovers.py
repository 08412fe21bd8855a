"""What efactl says of an eks stack that is half-way, and of what a destroy keeps."""

from datetime import UTC, datetime
from typing import Any

from efactl.leftovers import RESERVATION, kept, still_billing

BUCKET, KEY = "aws:s3/bucket:Bucket", "aws:kms/key:Key"


def resource(token: str, identifier: str, **more: Any) -> dict[str, Any]:
    return {"type": token, "id": identifier, "urn": f"urn:pulumi:dev::ray-train-efa::{token}::{identifier}", **more}


def test_what_bills_is_named_the_dearest_first_with_the_way_to_end_it() -> None:
    state = [
        resource("aws:ec2/natGateway:NatGateway", "nat-1"),
        resource(RESERVATION, "cr-1"),
        resource("aws:ec2/vpc:Vpc", "vpc-1"),
    ]
    billing, down, by_hand = still_billing(state, stack="dev", region="us-west-2")
    assert billing == "still there, and billing: capacity reservation cr-1, NAT gateway nat-1"
    assert "efactl down -s dev" in down
    assert by_hand.endswith("--region us-west-2 --capacity-reservation-id cr-1")


def test_nothing_is_said_of_what_costs_nothing_or_is_somebody_elses() -> None:
    held = resource(RESERVATION, "cr-held", external=True)
    assert still_billing([held, resource("aws:ec2/vpc:Vpc", "vpc-1")], stack="dev", region="us-west-2") == []


def test_a_destroy_names_what_it_keeps() -> None:
    state = [
        resource(BUCKET, "checkpoints", retainOnDelete=True),
        resource(KEY, "key-1"),
        resource("aws:ec2/vpc:Vpc", "vpc-1"),
    ]
    bucket, key = kept(state)
    assert bucket == "bucket checkpoints (storageKeep)"
    assert key.startswith("KMS key key-1")
    assert kept([resource(BUCKET, "checkpoints")]) == []


def test_a_reservation_past_its_end_bills_no_longer() -> None:
    held = {**resource(RESERVATION, "cr-1"), "outputs": {"endDate": "2026-12-01T18:00:00Z"}}
    before, after = datetime(2026, 12, 1, 17, tzinfo=UTC), datetime(2026, 12, 1, 19, tzinfo=UTC)
    assert len(still_billing([held], stack="dev", region="us-west-2", now=before)) == 3
    assert still_billing([held], stack="dev", region="us-west-2", now=after) == []
