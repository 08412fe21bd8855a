"""What bills whether it is used or not."""

from collections.abc import Iterator

from .resources import Resource, ResourceRule


def reservation_ends(reservation: Resource) -> Iterator[str]:
    props = reservation.props
    if props.get("endDateType") != "limited" or not props.get("endDate"):
        yield (
            f"its endDateType is {props.get('endDateType') or 'not set'} and its endDate "
            f"{props.get('endDate') or 'not set'}, so it bills until it is cancelled: set endDateType to limited and "
            "endDate to a fixed time (capacityUntil)"
        )


RESOURCE_RULES = (
    ResourceRule(
        name="reservation-has-an-end",
        description="A capacity reservation ends by itself, whatever becomes of the stack.",
        types=("aws:ec2/capacityReservation:CapacityReservation",),
        check=reservation_ends,
    ),
)
