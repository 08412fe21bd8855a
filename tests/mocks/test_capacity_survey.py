"""`efactl capacity` against an AWS on loopback: what is asked, what is made of the answers, and what goes wrong."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import botocore.session  # type: ignore[import-untyped]
import pytest

from capacity import at_once, aws
from capacity.answers import Missing
from capacity.pulumi_cli import PulumiCli
from capacity.request import Request
from capacity.survey import survey
from efactl import kept_environment, region_stacks
from efactl import stack as stacks
from efactl.__main__ import main
from tests.support import capacity_account
from tests.support.capacity_account import CapacityAccount, Fault, instance, reservation
from tests.support.patient import Patient
from tests.support.project import ROOT
from tools.standin.iam_policy import actions_of, allowing, not_allowed
from workload.errors import ReportedError

POLICY = json.loads((Path(__file__).parents[2] / "docs/iam/capacity-read.json").read_text())
ON_DEMAND, SPOT = "L-DB2E81BA", "L-3819A6DF"
ODD = "config:\n  ray-train-efa:platform: eks\n"
DENIED = "You are not authorized to perform this operation."


@pytest.fixture(scope="module")
def serving() -> Iterator[CapacityAccount]:
    with capacity_account.serving() as account:
        yield account


@pytest.fixture
def account(serving: CapacityAccount) -> CapacityAccount:
    """With quota for four nodes in two regions."""
    capacity_account.emptied(serving)
    for region in ("us-west-2", "us-east-1"):
        serving.quotas[region, ON_DEMAND] = 192.0
        serving.quotas[region, SPOT] = 192.0
    return serving


class Said:
    """What a command printed and returned."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.json: dict[str, Any] = json.loads(out) if out.startswith("{") else {}

    @property
    def plan(self) -> list[str]:
        return [one["zone"] for one in self.json["plan"]]

    def of(self, zone: str) -> dict[str, Any]:
        return next(one for one in self.json["candidates"] if zone in (one["zone"], one["region"]))

    def reasons(self, zone: str) -> str:
        return "; ".join(self.of(zone)["reasons"])


class Efactl:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *more: str, regions: str = "us-west-2") -> Said:
        self._capsys.readouterr()
        code = main(["capacity", "--regions", regions, *more])
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)


def ending(after: timedelta) -> dict[str, Any]:
    """What a reservation with an end has."""
    return {"EndDateType": "limited", "EndDate": (datetime.now(UTC) + after).replace(microsecond=0)}


@pytest.fixture
def efactl(capsys: pytest.CaptureFixture[str]) -> Efactl:
    return Efactl(capsys)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of environment `odd`, whose file a test writes anew where it is to be another one."""
    (tmp_path / "Pulumi.odd.yaml").write_text(ODD)
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    for module in (kept_environment, region_stacks, stacks):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(PulumiCli, "resources", lambda _self, _stack: None)
    return tmp_path


def test_a_region_with_quota_gives_its_zones_that_offer_the_type(account: CapacityAccount, efactl: Efactl) -> None:
    said = efactl("--json", regions="us-east-1")
    assert said.code == 0
    assert said.json["needed_vcpus"] == 96
    assert {"us-east-1a", "us-east-1b"} < set(said.plan)
    assert "us-east-1e" not in said.plan
    assert "offers no g6.12xlarge" in said.reasons("us-east-1e")
    assert said.of("us-east-1e")["zone_id"] == "use1-az3"
    assert said.json["type"] == {"vcpus": 48, "gpus": 4, "gpu_name": "L4", "efa_interfaces": 1}


def test_the_json_has_every_field_of_the_contract(account: CapacityAccount, efactl: Efactl) -> None:
    said = efactl("--json").json
    assert {"instance_type", "nodes", "needed_vcpus", "candidates", "plan"} <= set(said)
    fields = "region zone zone_id offered quota_vcpus used_vcpus spot_score reservations probe usd_per_hour eligible"
    assert {*fields.split(), "reasons"} <= set(said["candidates"][0])
    assert set(said["plan"][0]) == {"region", "zone", "zone_id"}


def test_every_region_that_there_is_has_a_row(account: CapacityAccount, efactl: Efactl) -> None:
    account.opt_in["ap-east-1"] = "not-opted-in"
    said = efactl("--json", regions="all")
    there = {one["region"] for one in said.json["candidates"]}
    assert len(there) > 30
    assert there == set(botocore.session.get_session().get_available_regions("ec2"))
    assert said.plan[0].startswith("us-")
    assert "not enabled for this account" in said.reasons("ap-east-1")
    assert "ap-east-1" not in account.asked_for("DescribeInstanceTypeOfferings")


def test_progress_goes_to_standard_error_and_counts(account: CapacityAccount, efactl: Efactl) -> None:
    said = efactl("--json", regions="us-west-2,us-east-1")
    assert "(1 of 2)" in said.err
    assert "(2 of 2)" in said.err
    assert "us-west-2: 4 of 4 zones offer g6.12xlarge" in said.err


def test_what_runs_counts_against_the_quota_over_all_pages(account: CapacityAccount, efactl: Efactl) -> None:
    running = [instance("g4dn.12xlarge"), instance("g5.xlarge", cores=2), instance("gr6.4xlarge", cores=8)]
    others = [instance("g6.12xlarge", lifecycle="spot"), instance("p5.48xlarge", cores=96), instance("m7i.large")]
    account.instances["us-west-2"] = [*running, *others, instance("g6.12xlarge", state="stopped")]
    said = efactl("--json")
    assert said.of("us-west-2a")["used_vcpus"] == 48 + 4 + 16
    assert said.code == 0


def test_too_little_headroom_puts_a_region_out_and_says_what_to_ask_for(
    account: CapacityAccount, efactl: Efactl
) -> None:
    account.instances["us-west-2"] = [instance("g6.12xlarge") for _ in range(3)]
    said = efactl("--json", regions="us-west-2,us-east-1")
    assert said.plan[0].startswith("us-east-1")
    assert "192 vCPU, 144 in use, and 2 x g6.12xlarge need 96: ask for 240" in said.reasons("us-west-2a")


def test_the_spot_quota_does_not_stand_in_for_the_on_demand_one(account: CapacityAccount, efactl: Efactl) -> None:
    account.quotas["us-west-2", ON_DEMAND] = 64.0
    said = efactl("--json")
    assert said.code == 7
    assert f"quota {ON_DEMAND} is 64 vCPU" in said.reasons("us-west-2a")
    account.spot["us-west-2"] = {"us-west-2a": "1.5", "us-west-2b": "1.4", "us-west-2c": "1.6"}
    assert efactl("--json", "--spot").code == 0


def test_without_an_applied_quota_the_default_counts(account: CapacityAccount, efactl: Efactl) -> None:
    del account.quotas["us-west-2", ON_DEMAND]
    said = efactl("--json")
    assert said.code == 7
    assert f"quota {ON_DEMAND} (AWS's default) is 0 vCPU" in said.reasons("us-west-2a")
    account.defaults[ON_DEMAND] = 768.0
    assert efactl("--json").of("us-west-2a")["quota_vcpus"] == 768.0


def test_a_quota_that_may_not_be_read_is_said_and_puts_nothing_out(account: CapacityAccount, efactl: Efactl) -> None:
    account.faults = [Fault("GetServiceQuota", "AccessDeniedException", DENIED, region="us-west-2", times=9)]
    said = efactl("--json", regions="us-west-2,us-east-1")
    assert said.code == 0
    assert said.of("us-west-2a")["eligible"]
    assert "the quota was not told: AccessDeniedException" in "; ".join(said.of("us-west-2a")["notes"])
    assert said.plan[0].startswith("us-east-1"), "a quota that is known to be enough is better than one that is not"


@pytest.mark.parametrize("operation", ["DescribeInstances", "DescribeCapacityReservations", "GetSpotPlacementScores"])
def test_a_missing_permission_is_a_note_in_the_rows(account: CapacityAccount, efactl: Efactl, operation: str) -> None:
    account.faults = [Fault(operation, "UnauthorizedOperation", DENIED, status=403, times=9)]
    said = efactl("--json")
    assert said.code == 0
    assert "UnauthorizedOperation" in "; ".join(said.of("us-west-2a")["notes"])


def test_offerings_that_may_not_be_read_leave_no_place(account: CapacityAccount, efactl: Efactl) -> None:
    account.faults = [Fault("DescribeInstanceTypeOfferings", "UnauthorizedOperation", DENIED, status=403, times=9)]
    said = efactl("--json")
    assert said.code == 7
    assert "whether it offers g6.12xlarge was not told: UnauthorizedOperation" in said.reasons("us-west-2a")
    assert said.of("us-west-2a")["offered"] is None


def test_a_region_that_throttles_to_the_end_has_that_as_its_reason(account: CapacityAccount, efactl: Efactl) -> None:
    account.faults = [
        Fault("*", "RequestLimitExceeded", "Request limit exceeded.", status=503, region="eu-west-1", times=99)
    ]
    said = efactl("--json", regions="us-west-2,eu-west-1")
    assert said.code == 0
    assert "RequestLimitExceeded" in said.reasons("eu-west-1")


def test_a_region_that_is_denied_by_the_organisation_has_that_as_its_reason(
    account: CapacityAccount, efactl: Efactl
) -> None:
    text = f"{DENIED} with an explicit deny in a service control policy"
    account.faults = [Fault("*", "UnauthorizedOperation", text, status=403, region="eu-west-1", times=99)]
    account.faults.append(Fault("*", "AccessDeniedException", text, region="eu-west-1", times=99))
    said = efactl("--json", regions="us-west-2,eu-west-1")
    assert said.code == 0
    assert "service control policy" in said.reasons("eu-west-1")


def test_a_region_that_closes_every_connection_has_a_row(account: CapacityAccount, efactl: Efactl) -> None:
    account.faults = [Fault("*", region="eu-west-1", times=99)]
    said = efactl("--json", regions="us-west-2,eu-west-1")
    assert said.code == 0
    assert said.of("eu-west-1")["zone"] is None
    assert said.reasons("eu-west-1")


def test_a_region_that_hangs_is_given_up_and_holds_up_no_other(
    account: CapacityAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capacity.survey.AtOnce", Patient)
    account.silent = {"eu-west-1"}
    lines: list[str] = []
    request = Request(regions=("us-west-2", "eu-west-1"))
    west, silent = sorted(survey(request, lines.append, patience=1.0), key=lambda one: one.region, reverse=True)
    assert west.region == "us-west-2"
    assert west.trouble is None
    assert silent.trouble is not None
    assert silent.trouble.code == "NoAnswer"
    assert any("eu-west-1: NoAnswer" in line for line in lines)


def test_an_answer_that_nobody_can_read_is_a_reason_too(account: CapacityAccount, efactl: Efactl) -> None:
    account.held["us-west-2"] = [{"State": "active", "InstanceType": "g6.12xlarge"}]
    said = efactl("--json")
    assert said.code == 0
    assert "could not be read" in "; ".join(said.of("us-west-2a")["notes"])


def test_regions_that_may_not_be_listed_are_those_that_the_sdk_knows(account: CapacityAccount, efactl: Efactl) -> None:
    account.faults = [Fault("DescribeRegions", "UnauthorizedOperation", DENIED, status=403)]
    said = efactl("--json", regions="all")
    assert said.code == 0
    assert len({one["region"] for one in said.json["candidates"]}) > 30
    assert "which regions there are was not told" in said.err


def test_an_own_reservation_comes_first_and_needs_no_quota(account: CapacityAccount, efactl: Efactl) -> None:
    account.quotas["us-west-2", ON_DEMAND] = 0.0
    account.held["us-west-2"] = [
        reservation("cr-small", "us-west-2a", free=1),
        reservation("cr-other", "us-west-2a", type_="g5.12xlarge"),
        reservation("cr-fits", "us-west-2b"),
    ]
    said = efactl("--json", regions="us-west-2,us-east-1")
    assert said.plan[0] == "us-west-2b"
    assert said.of("us-west-2b")["reservation"] == "cr-fits"
    assert [one["id"] for one in said.of("us-west-2a")["reservations"]] == ["cr-small"]
    assert not said.of("us-west-2a")["eligible"]


def test_a_shared_reservation_counts_and_says_whose_it_is(account: CapacityAccount, efactl: Efactl) -> None:
    account.quotas["us-west-2", ON_DEMAND] = 0.0
    shared = reservation("cr-shared", "us-west-2z", OwnerId="999999999999", AvailabilityZoneId="usw2-az2")
    account.held["us-west-2"] = [shared]
    said = efactl("--explain")
    assert said.code == 0
    told = "cr-shared in us-west-2a, of account 999999999999, targeted, 2 of 2 free: fits"
    assert told in said.out
    assert any(told in line for line in efactl("--explain", "--json").json["explanation"])


def test_a_reservation_that_cannot_take_the_nodes_is_named_with_the_reason(
    account: CapacityAccount, efactl: Efactl
) -> None:
    unfit: list[tuple[dict[str, Any], str]] = [
        ({"Tags": [{"Key": "ray-train-efa/name", "Value": "ray-dev"}]}, "of stack ray-dev"),
        ({"Tags": [{"Key": "ray-train-efa:probe", "Value": "x"}]}, "left by a probe"),
        ({"ReservationType": "capacity-block"}, "a capacity-block"),
        ({"InstancePlatform": "Windows"}, "for Windows"),
        ({"Tenancy": "dedicated"}, "of dedicated tenancy"),
        ({"Interruptible": True}, "interruptible"),
    ]
    account.quotas["us-west-2", ON_DEMAND] = 0.0
    account.held["us-west-2"] = [
        reservation(f"cr-{number}", "us-west-2a", **more) for number, (more, _) in enumerate(unfit)
    ]
    said = efactl("--explain")
    assert said.code == 7
    for number, (_, why) in enumerate(unfit):
        assert f"cr-{number} in us-west-2a, own, targeted, 2 of 2 free: not used: {why}" in said.out


def test_a_reservation_that_ends_within_an_hour_is_not_used(account: CapacityAccount, efactl: Efactl) -> None:
    account.quotas["us-west-2", ON_DEMAND] = 0.0
    account.held["us-west-2"] = [reservation("cr-over", "us-west-2b", **ending(timedelta(minutes=59)))]
    said = efactl("--explain")
    assert said.code == 7
    assert "not used: it ends within an hour" in said.out


def test_a_reservation_that_has_an_end_says_when(account: CapacityAccount, efactl: Efactl) -> None:
    more = ending(timedelta(minutes=61))
    account.held["us-west-2"] = [reservation("cr-fits", "us-west-2b", **more)]
    said = efactl("--json").of("us-west-2b")
    assert said["reservation"] == "cr-fits"
    assert f"reservation cr-fits ends at {more['EndDate']:%Y-%m-%dT%H:%M:%SZ}" in "; ".join(said["notes"])


def test_what_own_reservations_keep_free_counts_against_the_quota(account: CapacityAccount, efactl: Efactl) -> None:
    account.held["us-west-2"] = [
        reservation("cr-1", "us-west-2a", free=1),
        reservation("cr-2", "us-west-2b", free=2, type_="g5.12xlarge"),
        reservation("cr-3", "us-west-2b", free=9, OwnerId="999999999999"),
        reservation("cr-4", "us-west-2b", free=9, State="expired"),
    ]
    said = efactl("--json")
    assert said.of("us-west-2c")["used_vcpus"] == 3 * 48
    assert "(144 of it kept by reservations)" in said.reasons("us-west-2c")


def test_spot_takes_scores_and_prices_of_each_zone(account: CapacityAccount, efactl: Efactl) -> None:
    account.scores["us-west-2"] = {"usw2-az1": 3, "usw2-az2": 9, "usw2-az3": 9, "usw2-az4": 1}
    account.spot["us-west-2"] = {"us-west-2b": "1.1", "us-west-2a": "2.5", "us-west-2c": "2.0", "us-west-2d": "1.0"}
    said = efactl("--json", "--spot")
    assert said.plan == ["us-west-2c", "us-west-2a", "us-west-2b", "us-west-2d"]
    assert said.of("us-west-2c")["usd_per_hour"] == 4.0
    assert said.of("us-west-2d")["spot_score"] == 1
    assert said.json["market"] == "spot"


def test_spot_scores_that_are_used_up_for_the_day_are_said(account: CapacityAccount, efactl: Efactl) -> None:
    account.faults = [Fault("GetSpotPlacementScores", "MaxConfigLimitExceeded", "Too many configurations.", times=9)]
    said = efactl("--json", "--spot")
    assert said.code == 0
    assert "MaxConfigLimitExceeded" in "; ".join(said.of("us-west-2a")["notes"])


def test_prices_come_from_the_price_list_with_their_date(account: CapacityAccount, efactl: Efactl) -> None:
    account.prices = {"us-west-2": 5.0, "eu-west-1": 5.5, "us-east-1": 4.0}
    said = efactl("--json", regions="us-west-2,us-east-1")
    row = said.of("us-west-2a")
    assert (row["usd_per_hour"], row["price_as_of"], row["price_source"]) == (10.0, "2026-11-20", "Price List API")
    assert said.plan[0].startswith("us-east-1"), "the cheaper one is tried first"


def test_prices_that_may_not_be_read_come_from_the_dated_table(account: CapacityAccount, efactl: Efactl) -> None:
    account.faults = [Fault("GetProducts", "AccessDeniedException", DENIED)]
    row = efactl("--json").of("us-west-2a")
    assert (row["price_source"], row["price_as_of"]) == ("table", "2026-09-10")


def test_max_hourly_leaves_out_what_costs_more_or_an_unknown_price(account: CapacityAccount, efactl: Efactl) -> None:
    account.prices = {"us-west-2": 5.0, "us-east-1": 4.0}
    account.quotas["eu-west-3", ON_DEMAND] = 192.0
    said = efactl("--json", "--max-hourly", "9", regions="us-west-2,us-east-1,eu-west-3")
    assert {zone[:-1] for zone in said.plan} == {"us-east-1"}
    assert "2 nodes cost 10.00 USD an hour: more than --max-hourly 9" in said.reasons("us-west-2a")
    assert "its price is not known" in said.reasons("eu-west-3b")


def test_the_table_is_for_people_and_ends_with_the_best(account: CapacityAccount, efactl: Efactl) -> None:
    said = efactl(regions="us-west-2,eu-west-1")
    assert "2 x g6.12xlarge (4 x L4, 48 vCPU, 1 EFA each), on-demand: 96 vCPU of quota" in said.out
    assert "Best: us-west-2b (usw2-az1)." in said.out
    assert "table of 2026-09-10" in said.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--nodes", "0"], "0 nodes: ask for a number of nodes from 1"),
        (["--instance-type", "g6.4xlarge"], "'g6.4xlarge' has no EFA"),
        (["--instance-type", "g6-12xlarge"], "is no instance type (is g6.12xlarge meant?)"),
        (["--instance-type", "g6.13xlarge"], "is known to EC2 in none of the regions that answered"),
        (["--instance-type", "m7i.large"], "has no GPU"),
        (["--instance-type", "g4dn.xlarge"], "'g4dn.xlarge' has no EFA"),
        (["--regions", "us-west-9"], "no such region: 'us-west-9' (is us-west-2 meant?)"),
        (["--regions", "us-west-2b"], "'us-west-2b' is a zone: its region is 'us-west-2'"),
        (["--regions", "all,us-west-2"], "'all' goes without other names"),
        (["--max-hourly", "-3"], "give an amount above 0"),
        (["--all"], "--all goes with --probe"),
        (["--write", "no-such"], "there is no Pulumi.no-such.yaml"),
    ],
)
def test_what_cannot_be_asked_is_said_with_what_to_do(
    account: CapacityAccount, efactl: Efactl, arguments: list[str], text: str
) -> None:
    said = efactl(*arguments)
    assert said.code == 2
    assert text in said.err
    assert said.out == ""


def test_credentials_that_do_not_work_end_it_at_once(account: CapacityAccount, efactl: Efactl) -> None:
    expired = "The security token included in the request is expired"
    account.faults = [Fault("*", "ExpiredToken", expired, status=403, times=99)]
    said = efactl(regions="all")
    assert said.code == 1
    assert "ExpiredToken" in said.err
    assert said.out == ""


def test_a_profile_that_is_not_there_is_said(
    account: CapacityAccount, efactl: Efactl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    # A session that was there before would go on with what it has.
    aws.forget()
    said = efactl(regions="us-west-2")
    assert said.code == 1
    assert "no-such-profile" in said.err


def test_a_probe_that_is_refused_moves_the_plan_on(account: CapacityAccount, efactl: Efactl) -> None:
    account.reservations.room = {"us-west-2b": 0}
    said = efactl("--json", "--probe")
    assert said.code == 0
    assert said.plan[0] == "us-west-2a"
    assert said.of("us-west-2a")["probe"]["outcome"] == "yes"
    assert "the probe was refused" in said.reasons("us-west-2b")
    assert account.reservations.billing() == []
    assert "places probed, for at most" in said.err
    assert said.json["probe_usd"] > 0


def test_a_probe_where_no_price_is_known_is_not_said_to_cost_nothing(account: CapacityAccount, efactl: Efactl) -> None:
    account.quotas["eu-west-3", ON_DEMAND] = 192.0
    said = efactl("--json", "--probe", regions="eu-west-3")
    assert account.reservations.made == 1
    assert said.json["probe_usd"] is None
    assert "1 of 2 places probed, for a price that is not known" in said.err


def test_a_probe_that_was_not_answered_moves_on_to_the_next_place(account: CapacityAccount, efactl: Efactl) -> None:
    account.faults = [Fault("CreateCapacityReservation", "RequestLimitExceeded", status=503)]
    said = efactl("--json", "--probe")
    assert said.code == 0
    assert said.of("us-west-2b")["probe"]["outcome"] == "unknown"
    assert said.of("us-west-2b")["eligible"]
    assert said.plan[0] == "us-west-2a"


def test_where_no_probe_was_answered_no_place_is_certain_and_nothing_is_written(
    account: CapacityAccount, efactl: Efactl, environment: Path
) -> None:
    account.faults = [Fault("CreateCapacityReservation", "RequestLimitExceeded", status=503, times=9)]
    said = efactl("--probe", "--write", "odd")
    assert said.code == 7
    assert (
        "no place is certain: of those that are left no probe was answered to the end, and nothing was written"
        in said.err
    )
    assert "Best: us-west-2b (usw2-az1), which its probe left open." in said.out
    assert len(account.asked_for("CreateCapacityReservation")) == 4
    assert [one.name for one in environment.glob("Pulumi.odd*")] == ["Pulumi.odd.yaml"]


@pytest.mark.parametrize("of", ["the command line", "the environment"])
def test_a_probe_on_spot_is_refused_before_anything_is_asked(
    account: CapacityAccount, efactl: Efactl, environment: Path, of: str
) -> None:
    (environment / "Pulumi.odd.yaml").write_text(f"{ODD}  ray-train-efa:gpuMarket: spot\n")
    said = efactl("--probe", *(["--spot"] if of == "the command line" else ["--write", "odd"]))
    assert said.code == 2
    assert "spot capacity cannot be reserved, so it cannot be probed" in said.err
    assert account.calls == []


def test_a_probe_refused_everywhere_is_no_capacity(account: CapacityAccount, efactl: Efactl) -> None:
    account.reservations.room = {f"us-west-2{letter}": 0 for letter in "abcd"}
    said = efactl("--json", "--probe")
    assert said.code == 7
    assert said.plan == []


def test_a_probe_that_cannot_be_cancelled_is_a_failure_and_nothing_is_written(
    account: CapacityAccount, efactl: Efactl, environment: Path
) -> None:
    account.faults = [Fault("CancelCapacityReservation", "UnauthorizedOperation", DENIED, times=9)]
    said = efactl("--json", "--probe", "--write", "odd")
    [id] = account.reservations.billing()
    assert said.code == 1
    assert f"--capacity-reservation-id {id}" in said.err
    assert f"reservation {id} is still there and bills, and nothing was written" in said.err
    assert [one.name for one in environment.glob("Pulumi.odd*")] == ["Pulumi.odd.yaml"]


def test_what_a_killed_probe_left_is_cancelled_also_where_it_takes_the_regions_whole_quota(
    account: CapacityAccount, efactl: Efactl
) -> None:
    account.quotas["us-west-2", ON_DEMAND] = 96.0
    tags = [{"Key": "ray-train-efa:probe", "Value": "by hand"}]
    left = {**reservation("cr-left", "us-west-2a", Tags=tags), "region": "us-west-2"}
    account.reservations.there["cr-left"] = left
    account.held["us-west-2"] = [left]
    said = efactl("--json", "--probe")
    assert account.reservations.billing() == []
    assert "cr-left of an earlier probe: cancelled" in said.err
    assert said.code == 0, "its vCPUs are free again"


def test_a_kept_place_is_looked_for_as_whom_the_environment_is_brought_up(
    account: CapacityAccount, efactl: Efactl, environment: Path
) -> None:
    (environment / "Pulumi.odd.yaml").write_text(f"{ODD}  aws:profile: odd-profile\n")
    said = efactl("--write", "odd")
    assert said.code == 1
    assert "odd-profile" in said.err


def test_another_account_than_the_environment_allows_is_asked_for_nothing_and_probed_in_no_zone(
    account: CapacityAccount, efactl: Efactl, environment: Path
) -> None:
    (environment / "Pulumi.odd.yaml").write_text(f'{ODD}  aws:allowedAccountIds: ["999999999999"]\n')
    said = efactl("--probe", "--write", "odd")
    assert said.code == 1
    assert f"of account {capacity_account.ACCOUNT}, and aws:allowedAccountIds has 999999999999" in said.err
    assert {name for _, name, _ in account.calls} == {"GetCallerIdentity"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config:\n  ray-train-efa:platform: local\n", "Pulumi.odd.yaml is for platform local, not eks"),
        (f"{ODD}  ray-train-efa:gpuMarket: capacity-block\n", "for a capacity block, whose zone is its own"),
    ],
)
def test_an_environment_that_no_place_can_be_kept_for_is_refused_before_anything_is_asked(
    account: CapacityAccount, efactl: Efactl, environment: Path, file: str, text: str
) -> None:
    (environment / "Pulumi.odd.yaml").write_text(file)
    said = efactl("--probe", "--write", "odd")
    assert said.code == 2
    assert text in said.err
    assert account.calls == []


def test_a_kept_place_is_asked_about_as_the_regions_file_has_it_else_the_base_and_as_the_command_line_says(
    account: CapacityAccount, efactl: Efactl, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_environment.KeptEnvironment, "write", lambda *_: None)
    account.quotas["us-west-2", SPOT] = 384.0

    def asked(*more: str) -> tuple[str, int, str]:
        said = efactl("--json", "--write", "odd", *more).json
        return said["instance_type"], said["nodes"], said["market"]

    assert asked() == ("g6.12xlarge", 2, "on-demand"), "as Pulumi.yaml has it"
    (environment / "Pulumi.odd.yaml").write_text(f"{ODD}  ray-train-efa:gpuNodes: 1\n  ray-train-efa:gpuMarket: spot\n")
    assert asked() == ("g6.12xlarge", 1, "spot")
    edited = f"{ODD}  aws:region: us-west-2\n  ray-train-efa:gpuNodes: '3'\n  ray-train-efa:gpuMarket: spot\n"
    (environment / "Pulumi.odd-us-west-2.yaml").write_text(f"{edited}  ray-train-efa:gpuInstanceType: g6.24xlarge\n")
    assert asked() == ("g6.24xlarge", 3, "spot")
    assert asked("--nodes", "2", "--no-spot", "--instance-type", "g6.12xlarge") == ("g6.12xlarge", 2, "on-demand")


def test_regions_files_that_differ_in_what_is_asked_about_are_told_apart_by_the_command_line(
    account: CapacityAccount, efactl: Efactl, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_environment.KeptEnvironment, "write", lambda *_: None)
    for region, nodes in (("us-west-2", 2), ("us-east-1", 3)):
        file = environment / f"Pulumi.odd-{region}.yaml"
        file.write_text(f"{ODD}  aws:region: {region}\n  ray-train-efa:gpuNodes: {nodes}\n")
    said = efactl("--write", "odd", regions="us-west-2,us-east-1")
    assert said.code == 2
    assert "gpuNodes is 3 in Pulumi.odd-us-east-1.yaml, 2 in Pulumi.odd-us-west-2.yaml: give --nodes" in said.err
    assert account.calls == []
    assert efactl("--json", "--write", "odd", "--nodes", "2", regions="us-west-2,us-east-1").json["nodes"] == 2
    assert efactl("--json", "--write", "odd", regions="us-east-1").json["nodes"] == 3
    # That of the third is to be made from the base.
    said = efactl("--write", "odd", regions="us-west-2,eu-west-1")
    assert said.code == 0
    (environment / "Pulumi.odd.yaml").write_text(f"{ODD}  ray-train-efa:gpuNodes: 4\n")
    said = efactl("--write", "odd", regions="us-west-2,eu-west-1")
    assert said.code == 2
    assert "gpuNodes is 2 in Pulumi.odd-us-west-2.yaml, 4 in Pulumi.odd.yaml: give --nodes" in said.err


def test_a_backend_that_cannot_be_used_is_told_before_anything_is_paid(
    account: CapacityAccount, efactl: Efactl, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_self: PulumiCli, stack: str) -> None:
        raise ReportedError(f"pulumi stack export --stack {stack}: error: no such bucket")

    monkeypatch.setattr(PulumiCli, "resources", refused)
    said = efactl("--probe", "--write", "odd")
    assert said.code == 1
    assert "no such bucket" in said.err
    assert account.reservations.made == 0


def test_a_region_that_nothing_can_be_written_for_is_neither_probed_nor_planned_and_says_why(
    account: CapacityAccount, efactl: Efactl, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_environment.KeptEnvironment, "write", lambda *_: None)
    account.prices = {"us-west-2": 5.0, "us-east-1": 4.0}
    own = "  aws:region: us-west-2\n  ray-train-efa:vpcId: vpc-1\n"
    (environment / "Pulumi.odd.yaml").write_text(ODD + own)
    said = efactl("--json", "--probe", "--write", "odd", regions="us-west-2,us-east-1")
    assert said.code == 0
    assert said.plan[0].startswith("us-west-2"), "the other one is the cheaper"
    assert said.reasons("us-east-1a") == "Pulumi.odd.yaml names vpcId, which us-east-1 does not have"
    assert set(account.asked_for("CreateCapacityReservation")) == {"us-west-2"}


def test_a_stack_that_holds_its_nodes_in_one_zone_leaves_no_other_zone_of_its_region_in_the_plan(
    account: CapacityAccount, efactl: Efactl, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_environment.KeptEnvironment, "write", lambda *_: None)
    (environment / "Pulumi.odd-us-west-2.yaml").write_text(f"{ODD}  aws:region: us-west-2\n")
    zone = {"availabilityZone": "us-west-2a"}
    state = [{"type": "aws:ec2/capacityReservation:CapacityReservation", "outputs": zone}]
    monkeypatch.setattr(PulumiCli, "resources", lambda _self, stack: state if stack == "odd-us-west-2" else None)
    said = efactl("--json", "--write", "odd")
    assert said.plan == ["us-west-2a"]
    assert "stack odd-us-west-2 holds GPU capacity in us-west-2a" in said.reasons("us-west-2b")


def test_what_is_held_already_is_not_probed(account: CapacityAccount, efactl: Efactl) -> None:
    account.held["us-west-2"] = [reservation("cr-fits", "us-west-2b")]
    said = efactl("--json", "--probe")
    assert said.code == 0
    assert "CreateCapacityReservation" not in {name for _, name, _ in account.calls}


def test_the_read_only_policy_allows_exactly_what_is_asked(account: CapacityAccount, efactl: Efactl) -> None:
    del account.quotas["us-west-2", ON_DEMAND]
    efactl("--json")
    efactl("--json", "--spot")
    prefix = {"service-quotas": "servicequotas"}
    made = {f"{prefix.get(service, service)}:{operation}" for service, operation, _ in account.calls}
    # No policy has to allow the question who is asking.
    made -= {"sts:GetCallerIdentity"}
    assert not_allowed(POLICY, made) == []
    unused = [
        action for statement in POLICY["Statement"] for action in actions_of(statement) if not _used(action, made)
    ]
    assert unused == [], "allowed, and never asked"
    assert all(allowing(POLICY, action) for action in made)


def _used(action: str, made: set[str]) -> bool:
    return action in made


def test_answers_are_fit_for_json(account: CapacityAccount) -> None:
    account.held["us-west-2"] = [reservation("cr-1", "us-west-2a", EndDateType="limited", EndDate=datetime.now(UTC))]
    account.faults = [Fault("GetServiceQuota", "AccessDeniedException", DENIED)]
    (answers,) = survey(Request(regions=("us-west-2",)), lambda _line: None)
    assert isinstance(answers.quota, Missing)
    said = json.loads(json.dumps(answers.as_dict()))
    assert said["quota"]["missing"]["code"] == "AccessDeniedException"
    assert said["reservations"][0]["ends"].endswith("Z")


def test_the_patience_is_longer_than_a_retry_and_shorter_than_a_user(account: CapacityAccount) -> None:
    assert 10 <= at_once.PATIENCE_S <= 30
