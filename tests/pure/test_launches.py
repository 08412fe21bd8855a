"""When a node group's launch is not worth waiting for."""

from datetime import UTC, datetime, timedelta
from typing import Any

from capacity.cause import Cause
from capacity.launches import of_activities, of_health

START = datetime(2026, 11, 1, tzinfo=UTC)
NONE_LEFT = (
    "We currently do not have sufficient g6.12xlarge capacity in the Availability Zone you requested (us-west-2b). "
    "Our system will be working on provisioning additional capacity. Launching EC2 instance failed."
)
FLEETS = "You've reached your quota for maximum Fleet Requests for this account. Launching EC2 instance failed."


def activity(number: int, code: str, message: str = "") -> dict[str, Any]:
    at = START + timedelta(minutes=number)
    return {"ActivityId": str(number), "StartTime": at, "StatusCode": code, "StatusMessage": message}


def test_the_newest_failure_counts_and_says_why() -> None:
    found = of_activities([activity(2, "Failed", NONE_LEFT), activity(1, "Successful")], known=())
    assert found is not None
    assert (found.sorted.cause, found.sorted.retry, found.text) == (Cause.CAPACITY, "next-zone", NONE_LEFT)


def test_an_account_quota_is_not_taken_for_a_zone_without_capacity() -> None:
    found = of_activities([activity(1, "Failed", FLEETS)], known=())
    assert found is not None
    assert (found.sorted.cause, found.sorted.retry) == (Cause.QUOTA, "stop")


def test_what_may_still_come_is_waited_for() -> None:
    failed = activity(1, "Failed", NONE_LEFT)
    assert of_activities([failed, activity(2, "InProgress")], known=()) is None
    assert of_activities([failed, activity(2, "Successful")], known=()) is None
    assert of_activities([], known=()) is None


def test_failures_from_before_do_not_count() -> None:
    assert of_activities([activity(1, "Failed", NONE_LEFT)], known={"1"}) is None


def test_a_failure_that_nobody_knows_or_that_passes_is_not_hopeless() -> None:
    assert of_activities([activity(1, "Failed", "something new")], known=()) is None
    assert of_activities([activity(1, "Failed", "Throttling: Rate exceeded")], known=()) is None


def test_a_health_issue_is_read_by_its_words_before_its_code() -> None:
    found = of_health([{"code": "AsgInstanceLaunchFailures", "message": NONE_LEFT, "resourceIds": []}])
    assert found is not None
    assert found.sorted.cause is Cause.CAPACITY
    assert of_health([]) is None
    assert of_health([{"code": "InternalFailure", "message": "we are looking into it"}]) is None
