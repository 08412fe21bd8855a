"""A probe says truly whether there is capacity, and leaves no reservation behind, whatever goes wrong on the way."""

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from capacity import probe_reservation
from capacity.aws import forget
from capacity.causes import Cause
from capacity.place import Place
from capacity.probe import PROBE_TAG, Probe, Prober, cancel_leftovers, probe, total_usd
from capacity.request import Request
from tests.support.aws_server import AwsServer, Fault
from tests.support.patient import Patient
from tests.support.project import ROOT
from tools.standin.aws_wire import Asked

REQUEST = Request(instance_type="g6.12xlarge", nodes=2)
A, B, C = (Place(region="us-west-2", zone=f"us-west-2{letter}", zone_id=f"usw2-az{letter}") for letter in "abc")
EAST = Place(region="us-east-1", zone="us-east-1a", zone_id="use1-az1")
CREATE, CANCEL, DESCRIBE = "CreateCapacityReservation", "CancelCapacityReservation", "DescribeCapacityReservations"
# No test waits.
NOW = Prober(wait=lambda _seconds: None)


def probed(*places: Place, request: Request = REQUEST, all_places: bool = False, by: Prober = NOW) -> list[Probe]:
    return probe(request, places, all_places=all_places, say=lambda _line: None, by=by)


def outcomes(answers: list[Probe]) -> list[str]:
    return [answer.outcome for answer in answers]


def put(aws: AwsServer, owner: str, *, region: str = "us-west-2", age: timedelta = timedelta(), **more: Any) -> str:
    """A reservation that some probe has made."""
    kept = aws.reservations
    id = f"cr-{next(kept.numbers):017x}"
    kept.there[id] = {
        "CapacityReservationId": id,
        "State": "active",
        "InstanceType": "g6.12xlarge",
        "TotalInstanceCount": 2,
        "CreateDate": datetime.now(UTC) - age,
        "Tags": [{"Key": PROBE_TAG, "Value": owner}],
        "region": region,
        **more,
    }
    return id


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_zone_with_capacity_is_reserved_and_cancelled_and_the_next_one_is_not_asked(aws: AwsServer) -> None:
    first, second = probed(A, B)
    assert (first.outcome, second.outcome) == ("yes", "not-asked")
    assert second.text == "not asked: us-west-2a has it"
    assert aws.reservations.made == 1
    assert aws.reservations.there[first.reservation_id]["State"] == "cancelled"


def test_what_is_reserved_is_what_an_up_reserves_ends_by_itself_and_is_tagged(aws: AwsServer) -> None:
    began = datetime.now(UTC)
    [answer] = probed(A)
    made = aws.reservations.there[answer.reservation_id]
    assert (made["InstanceType"], made["TotalInstanceCount"]) == ("g6.12xlarge", 2)
    assert (made["InstancePlatform"], made["InstanceMatchCriteria"]) == ("Linux/UNIX", "targeted")
    assert made["EndDateType"] == "limited"
    assert made["EndDate"] - began < timedelta(minutes=20)
    assert {PROBE_TAG, "ray-train-efa/name"} <= {tag["Key"] for tag in made["Tags"]}


def test_all_places_are_asked_when_wanted(aws: AwsServer) -> None:
    aws.reservations.room = {B.zone: 1}
    answers = probed(A, B, EAST, all_places=True)
    assert outcomes(answers) == ["yes", "no", "yes"]
    assert answers[1].cause == Cause.CAPACITY
    assert aws.reservations.billing() == []


def test_without_capacity_the_next_zone_and_then_the_next_region_is_asked(aws: AwsServer) -> None:
    aws.reservations.room = dict.fromkeys((A.zone, B.zone), 0)
    answers = probed(A, B, EAST)
    assert outcomes(answers) == ["no", "no", "yes"]
    assert "InsufficientInstanceCapacity" in answers[0].text


def test_the_cost_is_the_price_of_the_seconds_and_of_a_minute_at_least(aws: AwsServer) -> None:
    ticks = iter([0.0, 4.0, 0.0, 180.0, 0.0, 5.0])
    by = Prober(wait=NOW.wait, seconds=lambda: next(ticks), hourly={"us-west-2": 6.0})
    short, long, unpriced = probed(A, B, EAST, all_places=True, by=by)
    assert (short.usd, long.usd) == (0.2, 0.6)
    assert "at most $0.2000" in short.text
    assert unpriced.usd is None
    assert "no price known" in unpriced.text
    assert total_usd([short, long]) == 0.8
    assert total_usd([short, long, unpriced]) is None, "no sum of the others is the most that it costs"


def test_what_may_still_be_there_costs_its_quarter_of_an_hour_and_the_hour_that_ec2_may_take_to_end_it(
    aws: AwsServer,
) -> None:
    by = Prober(wait=NOW.wait, hourly={"us-west-2": 6.0})
    aws.faults = [Fault(CREATE)]
    [unknown] = probed(A, by=by)
    aws.faults = [Fault(CANCEL, "UnauthorizedOperation", times=9)]
    [left] = probed(A, by=by)
    assert (unknown.outcome, left.outcome) == ("unknown", "left")
    assert unknown.usd == left.usd == 2 * 6.0 * 1.25
    assert all("at most $15.0000" in one.text for one in (unknown, left))


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("VcpuLimitExceeded", Cause.QUOTA),
        ("MaxFleetCountExceeded", Cause.QUOTA),
        ("UnauthorizedOperation", Cause.PERMISSION),
        ("OptInRequired", Cause.SETTING),
        ("AuthFailure", Cause.CREDENTIALS),
        ("InvalidParameterValue", Cause.SETTING),
    ],
)
def test_what_every_zone_of_a_region_would_repeat_is_asked_once_and_other_regions_still(
    aws: AwsServer, code: str, cause: Cause
) -> None:
    aws.faults = [Fault(CREATE, code, region="us-west-2", times=9)]
    refused, spared, other = probed(A, B, EAST)
    assert (refused.outcome, refused.cause) == ("no", cause)
    assert spared.outcome == "not-asked"
    assert "in all of us-west-2" in spared.text
    assert other.outcome == "yes"


@pytest.mark.parametrize(
    "code",
    [
        "InsufficientInstanceCapacity",
        "InsufficientReservedInstanceCapacity",
        "ReservationCapacityExceeded",
        "Unsupported",
        "MaxSpotInstanceCountExceeded",
        "SpotMaxPriceTooLow",
    ],
)
def test_what_the_next_zone_may_have_moves_on_to_it(aws: AwsServer, code: str) -> None:
    aws.faults = [Fault(CREATE, code, "There is none.")]
    refused, other = probed(A, B)
    assert (refused.outcome, refused.cause, other.outcome) == ("no", Cause.CAPACITY, "yes")


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("RequestLimitExceeded", Cause.THROTTLED),
        ("Unavailable", Cause.UNAVAILABLE),
        ("InternalError", Cause.UNAVAILABLE),
    ],
)
def test_what_says_nothing_of_the_zone_is_no_refusal_and_closes_no_region(
    aws: AwsServer, code: str, cause: Cause
) -> None:
    aws.faults = [Fault(CREATE, code, status=503)]
    unanswered, next_zone = probed(A, B)
    assert (unanswered.outcome, unanswered.cause) == ("unknown", cause)
    assert next_zone.outcome == "yes"


def test_a_region_that_cannot_be_reached_is_not_called_without_capacity(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    forget()
    try:
        [unreached] = probed(A)
    finally:
        monkeypatch.undo()
        forget()
    assert (unreached.outcome, unreached.cause, unreached.usd) == ("unknown", Cause.UNAVAILABLE, 0.0)


def test_a_reservation_whose_answer_was_lost_is_found_by_its_tag_and_cancelled(aws: AwsServer) -> None:
    aws.faults = [Fault(CREATE, done=True)]
    [answer] = probed(A)
    assert aws.reservations.made == 1
    assert aws.reservations.billing() == []
    assert answer.outcome == "yes"


def test_one_that_shows_up_late_is_found_all_the_same(aws: AwsServer) -> None:
    aws.faults = [Fault(CREATE, "InternalError", "An internal error has occurred", status=500, done=True)]
    # The first look is for what earlier probes left.
    aws.reservations.hidden = 3
    [answer] = probed(A)
    assert (answer.outcome, aws.reservations.billing()) == ("yes", [])


def test_an_answer_lost_and_nothing_found_is_not_called_a_no(aws: AwsServer) -> None:
    aws.faults = [Fault(CREATE)]
    answer, other = probed(A, B)
    assert (answer.outcome, answer.cause) == ("unknown", Cause.UNAVAILABLE)
    assert "the next probe looks again" in answer.text
    assert other.outcome == "yes", "it says nothing of the region's other zones"


def test_what_an_unanswered_probe_left_is_cancelled_by_the_next(aws: AwsServer) -> None:
    aws.faults = [Fault(CREATE, done=True), Fault(DESCRIBE, "InternalError", status=500, times=5)]
    [first] = probed(A)
    assert (first.outcome, len(aws.reservations.billing())) == ("unknown", 1)
    aws.faults = []
    said: list[str] = []
    probe(REQUEST, [A], say=said.append, by=NOW)
    assert aws.reservations.billing() == []
    assert any("of an earlier probe: cancelled" in line for line in said)


def test_an_insufficient_capacity_that_comes_with_status_500_is_a_plain_no(aws: AwsServer) -> None:
    aws.reservations.room = {A.zone: 0}
    [answer] = probed(A)
    assert answer.outcome == "no"
    assert len(aws.asked_for(DESCRIBE)) == 1, "only the look for leftovers"


def test_a_pending_reservation_that_fails_is_no_capacity(aws: AwsServer) -> None:
    aws.reservations.born = "pending"

    def settle(asked: Asked) -> None:
        if asked.operation == DESCRIBE:
            for one in aws.reservations.there.values():
                one["State"] = "failed"

    aws.on_call = settle
    [answer] = probed(A)
    assert (answer.outcome, answer.cause) == ("no", Cause.CAPACITY)


def test_a_pending_reservation_that_stays_pending_is_cancelled_and_proves_nothing(aws: AwsServer) -> None:
    aws.reservations.born = "pending"
    [answer] = probed(A)
    assert (answer.outcome, aws.reservations.billing()) == ("unknown", [])
    assert "not confirmed it" in answer.text


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InvalidCapacityReservationId.NotFound", "InternalError"])
def test_a_cancellation_that_is_refused_for_a_moment_is_tried_again(aws: AwsServer, code: str) -> None:
    aws.faults = [Fault(CANCEL, code, status=503, times=3)]
    [answer] = probed(A)
    assert (answer.outcome, aws.reservations.billing()) == ("yes", [])


def test_a_cancellation_whose_answer_was_lost_is_seen_to_be_done(aws: AwsServer) -> None:
    aws.faults = [Fault(CANCEL, done=True)]
    [answer] = probed(A)
    assert answer.outcome == "yes"
    assert len(aws.asked_for(CANCEL)) == 1


def test_a_reservation_that_may_be_made_and_not_cancelled_is_said_with_the_command_and_no_other_is_made(
    aws: AwsServer,
) -> None:
    aws.faults = [Fault(CANCEL, "UnauthorizedOperation", "You are not authorized to perform this operation.", times=9)]
    left, spared = probed(A, EAST, all_places=True)
    assert (left.outcome, left.cause) == ("left", Cause.PERMISSION)
    command = f"aws ec2 cancel-capacity-reservation --region us-west-2 --capacity-reservation-id {left.reservation_id}"
    assert command in left.text
    assert spared.outcome == "not-asked"
    assert aws.reservations.made == 1


def test_what_a_process_that_is_gone_left_is_found_by_tag_on_every_page_and_cancelled(aws: AwsServer) -> None:
    owner = probe_reservation.new_owner().replace(f"/{os.getpid()}/", f"/{ended_process()}/")
    ids = {put(aws, owner) for _ in range(5)} | {put(aws, owner, region="us-east-1")}
    found = cancel_leftovers(["us-west-2", "us-east-1", "us-west-2"], lambda _line: None, by=NOW)
    assert {one.id for one in found} == ids
    assert aws.reservations.billing() == []


def test_a_probe_that_is_at_work_elsewhere_is_let_be_until_it_is_old(aws: AwsServer) -> None:
    other = "0123456789ab/17/token"
    working, old = put(aws, other), put(aws, other, age=timedelta(minutes=11))
    mine = put(aws, probe_reservation.new_owner().replace(f"/{os.getpid()}/", f"/{os.getppid()}/"))
    # A process that has its number by now: the probe's own was done in seconds.
    old_number = put(
        aws, probe_reservation.new_owner().replace(f"/{os.getpid()}/", f"/{os.getppid()}/"), age=timedelta(minutes=11)
    )
    unreadable = put(aws, "by hand")
    found = cancel_leftovers(["us-west-2"], lambda _line: None, by=NOW)
    assert {one.id for one in found} == {old, old_number, unreadable}
    assert set(aws.reservations.billing()) == {working, mine}


def test_two_that_clean_up_at_once_do_not_fall_over_each_other(aws: AwsServer) -> None:
    id = put(aws, "by hand")

    def other_was_faster(asked: Asked) -> None:
        if asked.operation == CANCEL:
            aws.reservations.there[id]["State"] = "cancelled"

    aws.on_call = other_was_faster
    [found] = cancel_leftovers(["us-west-2"], lambda _line: None, by=NOW)
    assert (found.id, found.problem) == (id, "")


def test_a_region_that_does_not_answer_hides_no_other_ones_leftovers(aws: AwsServer) -> None:
    id = put(aws, "by hand", region="us-east-1")
    aws.faults = [Fault(DESCRIBE, "AuthFailure", region="eu-south-2", times=9)]
    silent, found = cancel_leftovers(["eu-south-2", "us-east-1"], lambda _line: None, by=NOW)
    assert "AuthFailure" in silent.problem
    assert (found.id, aws.reservations.billing()) == (id, [])


def test_a_region_that_hangs_holds_up_nothing_and_is_said(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capacity.probe.AtOnce", Patient)
    id = put(aws, "by hand", region="us-east-1")
    speak, said = threading.Event(), list[str]()

    def hang(asked: Asked) -> None:
        if asked.region == "eu-south-2":
            speak.wait(120)

    aws.on_call = hang
    try:
        _silent, found = cancel_leftovers(["eu-south-2", "us-east-1"], said.append, by=NOW, patience=1.0)
    finally:
        speak.set()
    assert found.id == id
    assert any(line.startswith("eu-south-2: whether an earlier probe has left something is not known") for line in said)


def test_without_the_right_to_look_for_leftovers_the_probe_goes_on(aws: AwsServer) -> None:
    aws.faults = [Fault(DESCRIBE, "UnauthorizedOperation")]
    assert outcomes(probed(A)) == ["yes"]


def test_an_error_of_the_program_itself_leaves_no_reservation(aws: AwsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(probe_reservation, "settled", broken)
    with pytest.raises(ZeroDivisionError):
        probed(A)
    assert (aws.reservations.made, aws.reservations.billing()) == (1, [])


def test_an_error_of_the_program_itself_whose_reservation_cannot_be_cancelled_says_how_to(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(probe_reservation, "settled", broken)
    aws.faults = [Fault(CANCEL, "UnauthorizedOperation", times=9)]
    said: list[str] = []
    with pytest.raises(ZeroDivisionError):
        probe(REQUEST, [A], say=said.append, by=NOW)
    [id] = aws.reservations.billing()
    assert f"--capacity-reservation-id {id}" in said[-1]


class Interrupted:
    """A probe's process, met by a signal while EC2 is at work on one of its calls."""

    def __init__(self, aws: AwsServer, operation: str, number: int) -> None:
        self.process: subprocess.Popen[str] | None = None
        self._started = threading.Event()
        self._aws, self._operation, self._number = aws, operation, number
        aws.on_call = self._meet
        command = [sys.executable, "-m", "tests.support.probe_process", A.zone, B.zone]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._started.set()
        self.said, _ = self.process.communicate(timeout=120)

    def _meet(self, asked: Asked) -> None:
        if asked.operation == self._operation:
            self._started.wait()
            assert self.process is not None
            self._aws.on_call = lambda _asked: None
            self.process.send_signal(self._number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("operation", [CREATE, CANCEL])
def test_an_interruption_waits_for_the_cancellation_and_ends_the_probe(
    aws: AwsServer, operation: str, number: signal.Signals
) -> None:
    met = Interrupted(aws, operation, number)
    assert met.process is not None
    assert met.process.returncode == 130, met.said
    assert "interrupted: the reservation in us-west-2a is to be cancelled first" in met.said
    assert (aws.reservations.made, aws.reservations.billing()) == (1, []), "the second zone is not asked any more"


def test_an_interrupted_probe_whose_reservation_cannot_be_cancelled_says_which_and_how_to(aws: AwsServer) -> None:
    aws.faults = [Fault(CANCEL, "UnauthorizedOperation", times=9)]
    met = Interrupted(aws, CREATE, signal.SIGINT)
    assert met.process is not None
    assert met.process.returncode == 130, met.said
    [id] = aws.reservations.billing()
    assert f"aws ec2 cancel-capacity-reservation --region us-west-2 --capacity-reservation-id {id}" in met.said


def test_what_a_killed_probe_leaves_the_next_one_cancels(aws: AwsServer) -> None:
    met = Interrupted(aws, CANCEL, signal.SIGKILL)
    assert met.process is not None
    # EC2 has the call that the process died over; this is the account in which it never arrived.
    [id] = aws.reservations.there
    aws.reservations.there[id]["State"] = "active"
    assert outcomes(probed(B)) == ["yes"]
    assert aws.reservations.billing() == []
