"""What EC2 and EKS do with reservations and with nodes that are rolled, and the stand-in does."""

import datetime
from pathlib import Path

import pytest

from tests.pure.test_standin_rules import failed, refused
from tests.support.standin_account import ZONE, StandinAccount
from tools.standin import durations, tokens
from tools.standin.account import Entry
from tools.standin.errors import AwsError

DAY = 86_400


def in_days(number: float) -> str:
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=number)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def account(tmp_path: Path) -> StandinAccount:
    return StandinAccount(tmp_path)


class TestRoll:
    """The provider changes version and template first, then the rest; EKS rolls the nodes in between."""

    def reserved(self, account: StandinAccount) -> tuple[Entry, Entry]:
        """A template that names a reservation of two, and two nodes in it."""
        cluster, reservation = account.cluster(), account.reservation(2)
        template = account.template(reservation=reservation)
        config = {"maxUnavailablePercentage": 100, "updateStrategy": "MINIMAL"}
        return template, account.nodes(cluster, template, updateConfig=config)

    def without_target(self, account: StandinAccount, template: Entry) -> dict[str, str]:
        """Its next version, which leaves the reservation out."""
        inputs = {name: value for name, value in template.inputs.items() if name != "capacityReservationSpecification"}
        urn = f"urn:pulumi:test::p::{template.token}::made"
        newer = account.cloud.update(template.token, urn, template.id, inputs)
        return {"id": newer.id, "version": str(newer.outputs["latestVersion"])}

    def test_nodes_on_their_way_to_none_are_rolled_before_they_go(self, account: StandinAccount) -> None:
        template, nodes = self.reserved(account)
        none = {"desiredSize": 0, "minSize": 0, "maxSize": 1}
        gone = account.change(nodes, launchTemplate=self.without_target(account, template), scalingConfig=none)
        assert gone.hidden["running"]["count"] == 0
        seconds = account.calls(token=tokens.NODE_GROUP, operation="update")[-1]["seconds"]
        roll, resize = (durations.seconds(tokens.NODE_GROUP, "update", resize=resize) for resize in (False, True))
        assert seconds == roll + resize

    def test_a_roll_out_of_the_reservation_needs_capacity_of_its_own_and_old_nodes_are_gone_by_then(
        self, tmp_path: Path
    ) -> None:
        account = StandinAccount(tmp_path, capacity={ZONE: {"g6.12xlarge": 2}})
        template, nodes = self.reserved(account)
        newer = self.without_target(account, template)
        none = {"desiredSize": 0, "minSize": 0, "maxSize": 1}
        with pytest.raises(AwsError, match=r"AsgInstanceLaunchFailures: .*InsufficientInstanceCapacity"):
            account.change(nodes, launchTemplate=newer, scalingConfig=none)
        left = account.there(tokens.NODE_GROUP, nodes.id)
        assert (left.outputs["status"], left.hidden["running"]["count"]) == ("DEGRADED", 0)
        assert left.inputs == nodes.inputs, "EKS has neither the new version nor the new size"
        account.scenario()
        again = account.change(left, launchTemplate=newer, scalingConfig=none)
        assert (again.outputs["status"], again.inputs["scalingConfig"]) == ("ACTIVE", none)

    def test_only_so_many_nodes_end_first_as_may_be_unavailable(self, tmp_path: Path) -> None:
        account = StandinAccount(tmp_path, capacity={ZONE: {"g6.12xlarge": 2}})
        template, nodes = self.reserved(account)
        nodes = account.change(nodes, updateConfig={"maxUnavailable": 1, "updateStrategy": "MINIMAL"})
        with refused("AsgInstanceLaunchFailures"):
            account.change(nodes, launchTemplate=self.without_target(account, template))
        assert account.there(tokens.NODE_GROUP, nodes.id).hidden["running"]["count"] == 1

    def test_a_roll_that_launches_first_needs_room_for_one_more_and_leaves_the_old_nodes(self, tmp_path: Path) -> None:
        account = StandinAccount(tmp_path, capacity={ZONE: {"g6.12xlarge": 2}})
        cluster, template = account.cluster(), account.template()
        nodes = account.nodes(cluster, template)
        newer = {"id": account.change(template, metadataOptions={"httpTokens": "required"}).id, "version": "2"}
        with refused("AsgInstanceLaunchFailures"):
            account.change(nodes, launchTemplate=newer)
        left = account.there(tokens.NODE_GROUP, nodes.id)
        assert (left.outputs["status"], left.hidden["running"]["count"]) == ("ACTIVE", 2)

    def test_a_roll_that_came_through_stays_where_more_nodes_cannot_be_had(self, tmp_path: Path) -> None:
        account = StandinAccount(tmp_path, capacity={ZONE: {"g6.12xlarge": 3}})
        cluster, template = account.cluster(), account.template()
        nodes = account.nodes(cluster, template)
        newer = {"id": account.change(template, metadataOptions={"httpTokens": "required"}).id, "version": "2"}
        four = {"desiredSize": 4, "minSize": 4, "maxSize": 4}
        with refused("AsgInstanceLaunchFailures"):
            account.change(nodes, launchTemplate=newer, scalingConfig=four)
        left = account.there(tokens.NODE_GROUP, nodes.id)
        assert left.inputs["launchTemplate"]["version"] == "2"
        assert left.inputs["scalingConfig"] == nodes.inputs["scalingConfig"]


class TestReservation:
    def test_past_its_end_it_reads_as_gone_and_until_then_cannot_be_cancelled_or_changed(
        self, account: StandinAccount
    ) -> None:
        group = account.make(tokens.PLACEMENT_GROUP, name="gpu", strategy="cluster")
        made = account.reservation(
            endDateType="limited", endDate=in_days(1), placementGroupArn=group.outputs["arn"], tags={}
        )
        assert account.cloud.read(tokens.CAPACITY_RESERVATION, "", made.id) is not None
        account.scenario(ahead=2 * DAY, quotas={"L-DB2E81BA": 96})
        with refused("IncorrectState"):
            account.delete(made)
        with refused("IncorrectState"):
            account.change(made, endDate=in_days(9))
        account.reservation(2)
        account.delete(group)
        assert account.cloud.read(tokens.CAPACITY_RESERVATION, "", made.id) is None
        account.delete(made)

    def test_its_date_is_that_of_the_accounts_clock(self, account: StandinAccount) -> None:
        end = in_days(1 / 24)
        account.cluster()
        made = account.reservation(endDateType="limited", endDate=end)
        with account.cloud.account.open() as records:
            records.add("clock", 3600)
        assert account.cloud.read(tokens.CAPACITY_RESERVATION, "", made.id) is None

    def test_it_stays_in_its_placement_group_whatever_an_update_says(self, account: StandinAccount) -> None:
        first, second = (
            account.make(tokens.PLACEMENT_GROUP, name=name, strategy="cluster").outputs["arn"] for name in "ab"
        )
        made = account.reservation(placementGroupArn=first)
        changed = account.change(made, placementGroupArn=second, instanceCount=1)
        assert (changed.outputs["placementGroupArn"], changed.outputs["instanceCount"]) == (first, 1)

    def test_its_end_lies_ahead_and_goes_with_its_kind(self, account: StandinAccount) -> None:
        with refused("InvalidParameterValue"):
            account.reservation(endDateType="limited", endDate="2020-01-01T00:00:00Z")
        with refused("InvalidParameterCombination"):
            account.reservation(endDateType="limited")

    def test_nodes_fit_type_zone_count_and_state(self, account: StandinAccount) -> None:
        cluster, reservation = account.cluster(), account.reservation(2)
        template = account.template(reservation=reservation)
        with failed("ReservationCapacityExceeded"):
            account.nodes(cluster, template, 3)
        account.delete(account.there(tokens.NODE_GROUP, "ray:gpu"))
        account.nodes(cluster, template, 2)

    def test_an_expired_reservation_takes_no_nodes(self, account: StandinAccount) -> None:
        cluster = account.cluster()
        reservation = account.reservation(endDateType="limited", endDate=in_days(1))
        account.scenario(ahead=2 * DAY)
        with failed("ReservationCapacityExceeded"):
            account.nodes(cluster, account.template(reservation=reservation))

    def test_the_template_and_the_reservation_agree_on_the_placement_group(self, account: StandinAccount) -> None:
        cluster = account.cluster()
        group = account.make(tokens.PLACEMENT_GROUP, name="gpu", strategy="cluster")
        template = account.template(reservation=account.reservation(), group="gpu")
        with failed("InsufficientInstanceCapacity"):
            account.nodes(cluster, template)
        inside = account.reservation(placementGroupArn=group.outputs["arn"])
        target = {"capacityReservationTarget": {"capacityReservationId": inside.id}}
        template = account.change(template, capacityReservationSpecification=target)
        nodes = account.nodes(cluster, template, name="second")
        with refused("InvalidPlacementGroup.InUse"):
            account.delete(group)
        account.delete(nodes)
        account.delete(inside)
        account.delete(group)

    def test_only_a_minimal_update_fits_a_full_reservation(self, account: StandinAccount) -> None:
        cluster, reservation = account.cluster(), account.reservation(2)
        template = account.template(reservation=reservation)
        nodes = account.nodes(cluster, template)
        template = account.change(template, metadataOptions={"httpTokens": "required"})
        newer = {"id": template.id, "version": "2"}
        minimal = {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
        with refused("AsgInstanceLaunchFailures"):
            account.change(nodes, launchTemplate=newer)
        with refused("AsgInstanceLaunchFailures"):
            account.change(nodes, launchTemplate=newer, updateConfig=minimal)
        nodes = account.change(nodes, updateConfig=minimal)
        account.change(nodes, launchTemplate=newer)

    def test_no_nodes_need_no_room(self, account: StandinAccount) -> None:
        cluster, reservation = account.cluster(), account.reservation(1)
        account.nodes(cluster, account.template(reservation=reservation), 0)
