"""`efactl up --env` on the real engine: where it goes when a place has no capacity, and what is there in the end."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from efactl.exit_codes import ExitCode
from tests.support.bring_up_project import BringUpProject, bring_up_project
from tests.support.project import end_group, wait_for
from tools.standin import tokens

pytestmark = [pytest.mark.engine, pytest.mark.kubernetes_provider, pytest.mark.full]

TYPE = "g6.12xlarge"
WEST, EAST = ("us-west-2b", "us-west-2a", "us-west-2c"), ("us-east-2a", "us-east-2b")
ONE_OF = ("Vpc", "Cluster", "CapacityReservation", "PlacementGroup")


def full(*zones: str) -> dict[str, Any]:
    return {"capacity": {zone: {TYPE: 0} for zone in zones}}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[BringUpProject]:
    with bring_up_project(tmp_path / "project") as made:
        yield made


def ended(project: BringUpProject) -> None:
    """A `down` leaves nothing, in any region."""
    done = project.down_env()
    assert done.returncode == ExitCode.OK, done.stdout
    assert project.there() == {}


def test_a_plan_changes_nothing_and_without_a_terminal_nothing_is_done_unasked(project: BringUpProject) -> None:
    before = sorted(path.name for path in project.folder.iterdir())
    shown = project.up_env("--plan", "--ttl", "4h")
    assert shown.returncode == ExitCode.OK, shown.stdout
    assert "1. us-west-2b (usw2-az1), stack dev-us-west-2: about $9.70 an hour" in shown.stdout
    assert "4. us-east-2a (use2-az1), stack dev-us-east-2" in shown.stdout
    assert "until --ttl, in 4 h: at most $38.8" in shown.stdout
    refused = project.up_env("--ttl", "4h")
    assert refused.returncode == ExitCode.BAD_INPUT
    assert "-y goes ahead without the question" in refused.stdout
    dear = project.up_env("--plan", "--max-hourly", "9.5")
    assert dear.returncode == ExitCode.NO_CAPACITY
    assert "about $9.70 an hour, and --max-hourly is 9.5" in dear.stdout
    assert sorted(path.name for path in project.folder.iterdir()) == before
    assert project.calls() == []


def test_reservations_fail_over_three_zones_and_into_a_second_region_and_nothing_stays_behind(
    project: BringUpProject,
) -> None:
    project.set_secret("hfToken", "hf_clear-text-42")
    project.scenario(**full(*WEST))
    done = project.up_env("-y", "--ttl", "4h", "--max-hourly", "12")
    assert done.returncode == ExitCode.OK, done.stdout
    tried = [call["urn"] for call in project.calls() if call["error"] == "InsufficientInstanceCapacity"]
    assert len(tried) == len(WEST), "each zone once"
    there = project.there()
    assert set(there) == {"us-east-2"}, "what the first region had is ended"
    assert there["us-east-2"].count("CapacityReservation us-east-2a") == 1
    for kind in ("Vpc", "Cluster", "CapacityReservation"):
        assert len(project.made(kind, "us-east-2")) == 1
    assert len(project.made("NodeGroup", "us-east-2")) == 2, "system and GPU nodes"
    assert len(project.made("Vpc", "us-west-2")) == 1, "kept from zone to zone"
    for kind in ("Cluster", "NatGateway", "Eip", "NodeGroup", "CapacityReservation"):
        assert project.made(kind, "us-west-2") == [], "nothing that bills"
    west = [call for call in project.calls() if "dev-us-west-2" in call["urn"] and call["operation"] == "create"]
    assert sum(call["seconds"] for call in west) < 300, "seconds on the account's clock"
    settings = project.settings_of("dev-us-east-2")
    assert settings["ttlUntil"].endswith("Z")
    assert (settings["maxHourlyUsd"], settings["train"], settings["hfToken"]) == ("12", "false", "hf_clear-text-42")
    for file in (project.folder / ".state").glob("up-*"):
        assert "hf_clear-text-42" not in file.read_text(), f"{file.name} tells a secret"

    calls = len(project.calls())
    again = project.up_env()
    assert again.returncode == ExitCode.OK, again.stdout
    assert "1. us-east-2a" in again.stdout
    assert "where its nodes are" in again.stdout
    assert {call["operation"] for call in project.calls()[calls:]} == {"invoke"}, "it is up already"
    ended(project)


def test_where_no_place_has_the_nodes_nothing_is_kept(project: BringUpProject) -> None:
    project.scenario(**full(*WEST, *EAST))
    done = project.up_env()
    assert done.returncode == ExitCode.NO_CAPACITY, done.stdout
    assert "no place had the nodes: us-west-2b, us-west-2a, us-west-2c, us-east-2a, us-east-2b" in done.stdout
    assert project.there() == {}


def test_a_quota_stops_with_what_to_do_and_the_next_run_goes_on_from_there(project: BringUpProject) -> None:
    fault = {"type": "CapacityReservation", "operation": "create", "code": "VcpuLimitExceeded"}
    project.scenario(faults=[fault])
    done = project.up_env()
    assert done.returncode == ExitCode.FAILED, done.stdout
    assert "have it raised in Service Quotas" in done.stdout
    assert [project.made(kind) for kind in ("Cluster", "NatGateway", "CapacityReservation")] == [[], [], []]
    assert project.up_env().returncode == ExitCode.OK
    assert len(project.made("Vpc")) == 1
    ended(project)


def test_launched_straight_a_wait_without_hope_ends_in_a_minute_and_the_control_plane_stays(tmp_path: Path) -> None:
    with bring_up_project(tmp_path / "project", scale=0.03, capacity="none", capacityUntil=None) as project:
        project.scenario(**full(WEST[0]))
        done = project.up_env()
        assert done.returncode == ExitCode.OK, done.stdout
        assert "waiting for nodes is hopeless" in done.stdout
        [given_up] = [
            call
            for call in project.calls()
            if call["type"] == tokens.NODE_GROUP and call["error"] == "Cancelled" and call["urn"].endswith("gpu-group")
        ]
        assert given_up["seconds"] <= 60, "EKS itself says nothing for 1500"
        assert len(project.made("Vpc")) == len(project.made("Cluster")) == 1
        assert project.there()["us-west-2"].count("NodeGroup") == 2
        assert project.settings_of("dev-us-west-2")["gpuZone"] == WEST[1]
        ended(project)


@pytest.mark.parametrize("moment", ["capacity reservation: begun", "control plane: begun", "GPU nodes: begun"])
def test_interrupted_it_ends_in_order_and_the_same_command_goes_on(tmp_path: Path, moment: str) -> None:
    with bring_up_project(tmp_path / "project", scale=0.04, gpuPlacementGroup="cluster") as project:
        process = project.start_up_env()
        try:
            wait_for(lambda: moment in project.said(), seconds=120, what=moment)
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(timeout=60) == ExitCode.INTERRUPTED, project.said()
        finally:
            end_group(process)
        assert "run the same command again" in project.said()
        wait_for(lambda: not project.engines(), seconds=30, what="no engine is left")
        done = project.up_env()
        assert done.returncode == ExitCode.OK, done.stdout
        for kind in ONE_OF:
            assert (
                project.there()["us-west-2"].count(kind)
                + len([one for one in project.there()["us-west-2"] if one.startswith(f"{kind} ")])
                == 1
            ), kind
        ended(project)


def test_killed_again_and_again_it_still_makes_one_of_each(tmp_path: Path) -> None:
    moments = (tokens.VPC, tokens.CAPACITY_RESERVATION, tokens.NAT_GATEWAY, tokens.CLUSTER, tokens.NODE_GROUP)
    with bring_up_project(tmp_path / "project", scale=0.04, gpuPlacementGroup="cluster") as project:
        for token in moments:
            process = project.start_up_env()
            wait_for(lambda token=token: has(project, token), seconds=180, what=f"a {token}")
            project.kill_everything()
            process.wait(timeout=30)
        assert pending(project), "the last of them was being made"
        done = project.up_env()
        assert done.returncode == ExitCode.OK, done.stdout
        assert "was interrupted while it made" in done.stdout
        assert "taken over" in done.stdout
        there = [one.partition(" ")[0] for one in project.there()["us-west-2"]]
        assert {kind: there.count(kind) for kind in ONE_OF} == dict.fromkeys(ONE_OF, 1)
        assert (there.count("NatGateway"), there.count("Eip"), there.count("NodeGroup")) == (1, 1, 2)
        ended(project)


def has(project: BringUpProject, token: str) -> bool:
    return any(entry.token == token for entry in project.remaining())


def pending(project: BringUpProject) -> list[dict[str, Any]]:
    file = project.folder / ".state" / ".pulumi" / "stacks" / "ray-train-efa" / "dev-us-west-2.json"
    latest = json.loads(file.read_text())["checkpoint"]["latest"]
    found: list[dict[str, Any]] = latest.get("pending_operations") or []
    return found


def test_a_second_one_at_the_same_time_and_another_account_touch_nothing(tmp_path: Path) -> None:
    with bring_up_project(tmp_path / "project", scale=0.04) as project:
        first = project.start_up_env()
        try:
            wait_for(lambda: "control plane: begun" in project.said(), seconds=120, what="a control plane")
            second = project.up_env()
            assert second.returncode == ExitCode.FAILED, second.stdout
            assert "another pulumi is at work on stack dev-us-west-2" in second.stdout
            assert first.wait(timeout=200) == ExitCode.OK, project.said()
        finally:
            end_group(first)
        before, calls = project.there(), len(project.calls())
        project.scenario(account="999999999999")
        refused = project.up_env()
        assert refused.returncode == ExitCode.FAILED, refused.stdout
        assert "was made in account 123456789012" in refused.stdout
        assert (project.there(), len(project.calls())) == (before, calls)
        project.scenario()
        ended(project)


def test_a_reservation_that_is_made_and_a_launch_that_fails_go_on_to_the_next_zone(project: BringUpProject) -> None:
    fault = {"type": "NodeGroup", "operation": "create", "code": "InsufficientInstanceCapacity", "match": "gpu-group"}
    project.scenario(faults=[fault])
    done = project.up_env()
    assert done.returncode == ExitCode.OK, done.stdout
    there = project.there()["us-west-2"]
    assert [one for one in there if one.startswith("CapacityReservation")] == [f"CapacityReservation {WEST[1]}"]
    assert (there.count("NodeGroup"), len(project.made("Cluster")), len(project.made("Vpc"))) == (2, 1, 1)
    ended(project)
