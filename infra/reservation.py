"""Capacity for the GPU nodes, made sure of before anything bills."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pulumi
import pulumi_aws as aws

from infra.held_reservation import (
    MADE,
    PLATFORM,
    HeldReservation,
    check_cluster_group,
    check_combination,
    check_held,
)
from workload.errors import ReportedError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ReservationArgs:
    """`count` instances of `instance_type` in `zone`, reserved here where `reserve` is set, at most until `until`
    (UTC, 2026-12-01T18:00:00Z); or `held`, the id of a reservation that is there, to be used and never changed.

    `placement_group` is "" (none), "cluster" (one made here) or an existing one's name, whatever is reserved. Neither
    `reserve` nor `held` leaves the nodes without a reservation: expired, no nodes, spot, or not wanted.
    """

    name: str
    instance_type: str
    zone: str
    count: int
    until: str
    placement_group: str
    reserve: bool
    held: str = ""


class Reservation(pulumi.ComponentResource):
    """`id` and `placement_group` (a name) are what GPU nodes are launched into, and agree; None where there is none.

    `before_billing` is what everything that bills waits for. Raises BadInputError for what can never agree.
    """

    id: pulumi.Output[str] | None
    placement_group: pulumi.Output[str] | None
    before_billing: list[pulumi.Resource]

    def __init__(self, name: str, args: ReservationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:Reservation", name, None, opts)
        check_combination(held=args.held, placement_group=args.placement_group)
        group = self._placement_group(name, args)
        self.placement_group = group.name if group else None
        self.id = None
        self.before_billing = []
        if args.reserve:
            made = self._reserved(name, args, group)
            self.id, self.before_billing = made.id, [made]
        elif args.held:
            found = aws.ec2.CapacityReservation.get(f"{name}-held", args.held, pulumi.ResourceOptions(parent=self))
            self.id, self.before_billing = _checked(found, args), [found]
        self.register_outputs({"id": self.id, "placementGroup": self.placement_group})

    def _placement_group(self, name: str, args: ReservationArgs) -> aws.ec2.PlacementGroup | None:
        own = pulumi.ResourceOptions(parent=self)
        if not args.placement_group:
            return None
        if args.placement_group == MADE:
            return aws.ec2.PlacementGroup(f"{name}-group", strategy="cluster", tags={"Name": args.name}, opts=own)
        return aws.ec2.PlacementGroup.get(f"{name}-existing-group", args.placement_group, own)

    def _reserved(
        self, name: str, args: ReservationArgs, group: aws.ec2.PlacementGroup | None
    ) -> aws.ec2.CapacityReservation:
        arn = None
        if group is not None:
            arn = pulumi.Output.all(group.name, group.strategy, group.arn).apply(
                lambda found: _reported(lambda: check_cluster_group(*found))
            )
        return aws.ec2.CapacityReservation(
            f"{name}-capacity",
            availability_zone=args.zone,
            instance_type=args.instance_type,
            instance_count=args.count,
            instance_platform=PLATFORM,
            # Only our nodes name it: no other instance of the account can take it.
            instance_match_criteria="targeted",
            end_date_type="limited",
            end_date=args.until,
            placement_group_arn=arn,
            tags={"Name": args.name},
            # EC2 cannot move a reservation into another group, and the provider would report success without trying.
            # The new reservation comes before the old one goes: without capacity (or quota) for both the update fails
            # in seconds, with the nodes still running.
            opts=pulumi.ResourceOptions(parent=self, replace_on_changes=["placementGroupArn"]),
        )


def _checked(found: aws.ec2.CapacityReservation, args: ReservationArgs) -> pulumi.Output[str]:
    return pulumi.Output.all(
        instance_type=found.instance_type,
        zone=found.availability_zone,
        count=found.instance_count,
        platform=found.instance_platform,
        placement_group=found.placement_group_arn,
    ).apply(
        lambda seen: _reported(
            lambda: check_held(
                HeldReservation(
                    **{**seen, "placement_group": seen["placement_group"] or "", "count": int(seen["count"])},
                    id=args.held,
                ),
                instance_type=args.instance_type,
                zone=args.zone,
                count=args.count,
                placement_group=args.placement_group,
            )
        )
    )


def _reported(check: Callable[[], T]) -> T:
    """What is found out only while resources are registered is past the program's own handling of its errors."""
    try:
        return check()
    except ReportedError as error:
        raise pulumi.RunError(str(error)) from None
