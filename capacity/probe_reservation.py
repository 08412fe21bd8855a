"""One reservation made to see whether it can be made: asked for, found again by its tag, cancelled."""

import hashlib
import os
import platform
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil

from capacity.aws import AWS_ERRORS, Access, client, sorted_error
from capacity.causes import Cause
from capacity.place import Place

# Its value says who made it: machine, process, and what is the request's client token.
PROBE_TAG = "ray-train-efa:probe"
# The deployer's policy (docs/iam) lets nothing be made, or cancelled, without this one.
_NAME_TAG = {"Key": "ray-train-efa/name", "Value": "ray-probe"}
# A probe itself takes seconds. EC2 ends a reservation within the hour after its end date: so long one may bill.
LIVES = timedelta(minutes=15)
BILLS_AT_MOST = LIVES + timedelta(hours=1)
# A probe that is older than this is none in progress, whatever process has its number now.
_IN_PROGRESS = timedelta(minutes=10)
# In which it may bill.
THERE = ["active", "pending", "scheduled", "payment-pending", "assessing", "delayed"]
_GONE = ("cancelled", "cancelling", "expired", "failed", "unavailable", "unsupported")
PLATFORM = "Linux/UNIX"

Wait = Callable[[float], None]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A reservation that a probe has made; `owner` is its tag's value."""

    region: str
    id: str
    state: str
    owner: str
    created: datetime | None

    def left_behind(self, now: datetime) -> bool:
        """Whether the probe that made it is over: long ago, or its process gone from this machine."""
        machine, _, rest = self.owner.partition("/")
        process, _, _token = rest.partition("/")
        if not process.isdecimal() or self.created is None or now - self.created > _IN_PROGRESS:
            return True
        if machine != _machine():
            return False
        return int(process) == os.getpid() or not psutil.pid_exists(int(process))


def new_owner() -> str:
    """A tag's value for one reservation of this process."""
    return f"{_machine()}/{os.getpid()}/{uuid.uuid4().hex}"


def create(ec2: Any, place: Place, *, instance_type: str, count: int, owner: str, now: datetime) -> dict[str, Any]:
    """EC2's answer. The client token makes a repetition of the same request harmless."""
    tags = [{"Key": PROBE_TAG, "Value": owner}, {"Key": "Name", "Value": "ray-train-efa probe"}, _NAME_TAG]
    answer = ec2.create_capacity_reservation(
        ClientToken=owner.rpartition("/")[2],
        InstanceType=instance_type,
        InstancePlatform=PLATFORM,
        AvailabilityZone=place.zone,
        InstanceCount=count,
        # No instance of the account is drawn into it.
        InstanceMatchCriteria="targeted",
        EndDateType="limited",
        EndDate=(now + LIVES).replace(microsecond=0),
        TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tags}],
    )
    made: dict[str, Any] = answer["CapacityReservation"]
    return made


def find(region: str, owner: str = "", *, access: Access) -> list[Found]:
    """Those that are there and bill: of one request, or of every probe."""
    filters: list[dict[str, Any]] = [{"Name": "state", "Values": THERE}]
    if owner:
        filters.append({"Name": f"tag:{PROBE_TAG}", "Values": [owner]})
    else:
        filters.append({"Name": "tag-key", "Values": [PROBE_TAG]})
    pages = client("ec2", region, access=access).get_paginator("describe_capacity_reservations")
    return [found_of(region, one) for page in pages.paginate(Filters=filters) for one in page["CapacityReservations"]]


def find_soon(region: str, owner: str, *, access: Access, wait: Wait) -> Found | None:
    """One that may have been made a moment ago: EC2 shows what is new with some delay, and may not answer at once.

    None where it does not show up; raises one of AWS_ERRORS where EC2 did not answer to the end.
    """
    delays = (1.0, 2.0, 4.0, 8.0)
    for number, delay in enumerate(delays):
        try:
            found = find(region, owner, access=access)
        except AWS_ERRORS:
            if number == len(delays) - 1:
                raise
            found = []
        if found:
            return found[0]
        if number < len(delays) - 1:
            wait(delay)
    return None


def settled(region: str, made: dict[str, Any], *, access: Access, wait: Wait) -> str:
    """The state in which a reservation ends up that was not active at once."""
    state, id = str(made["State"]), str(made["CapacityReservationId"])
    for delay in (1.0, 2.0, 4.0):
        if state not in ("pending", "assessing"):
            break
        wait(delay)
        answer = client("ec2", region, access=access).describe_capacity_reservations(CapacityReservationIds=[id])
        state = str(answer["CapacityReservations"][0]["State"])
    return state


def cancel(region: str, id: str, *, access: Access, wait: Wait) -> None:
    """Returns once EC2 has taken the cancellation, or has ended it already. Raises one of AWS_ERRORS otherwise."""
    ec2 = client("ec2", region, access=access)
    delays: Sequence[float] = (1.0, 2.0, 4.0, 8.0)
    for delay in (*delays, None):
        try:
            ec2.cancel_capacity_reservation(CapacityReservationId=id)
        except AWS_ERRORS as error:
            if _ended(ec2, id):
                return
            # What may not be done at all is not tried again; NotFound is what EC2 does not show yet.
            if delay is None or sorted_error(error).cause in (Cause.PERMISSION, Cause.CREDENTIALS):
                raise
            wait(delay)
        else:
            return


def how_to_cancel(region: str, id: str, access: Access) -> str:
    return f"aws ec2 cancel-capacity-reservation --region {region} --capacity-reservation-id {id}{access.option}"


def _ended(ec2: Any, id: str) -> bool:
    try:
        found = ec2.describe_capacity_reservations(CapacityReservationIds=[id])["CapacityReservations"]
    except AWS_ERRORS:
        return False
    return bool(found) and found[0]["State"] in _GONE


def found_of(region: str, one: dict[str, Any]) -> Found:
    """From EC2's description."""
    tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])}
    created = one.get("CreateDate")
    return Found(
        region=region,
        id=str(one["CapacityReservationId"]),
        state=str(one["State"]),
        owner=tags.get(PROBE_TAG, ""),
        created=created.astimezone(UTC) if created else None,
    )


def _machine() -> str:
    """The same for this machine each time, and not its name."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:12]
