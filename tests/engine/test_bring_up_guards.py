"""`efactl up --env` on the real engine, after a run that has left guards, refusals or what bills behind."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from efactl.exit_codes import ExitCode
from tests.support.bring_up_project import bring_up_project
from tools.standin import tokens

pytestmark = [pytest.mark.engine, pytest.mark.kubernetes_provider, pytest.mark.full]


def test_a_time_that_has_passed_since_does_not_keep_the_nodes_away(tmp_path: Path) -> None:
    with bring_up_project(tmp_path / "project") as project:
        assert project.up_env("-y", "--ttl", "4h").returncode == ExitCode.OK
        ahead = project.settings_of("dev-us-west-2")["ttlUntil"]
        assert f"until ttlUntil {ahead}, in " in project.up_env("--plan").stdout
        assert project.down_env().returncode == ExitCode.OK
        file = project.folder / "Pulumi.dev-us-west-2.yaml"
        past = (datetime.now(UTC) - timedelta(hours=20)).strftime("%Y-%m-%dT%H:00:00Z")
        file.write_text(re.sub(r"(ttlUntil|capacityUntil): .*", rf'\1: "{past}"', file.read_text()))
        done = project.up_env("-y")
        assert done.returncode == ExitCode.OK, done.stdout
        assert f"ttlUntil {past} has passed, and is taken out" in done.stdout
        there = [one.partition(" ")[0] for one in project.there()["us-west-2"]]
        assert (there.count("NodeGroup"), there.count("CapacityReservation"), there.count("Schedule")) == (2, 1, 0)
        groups = [one.inputs for one in project.remaining() if one.token == tokens.NODE_GROUP]
        assert sorted(int(one["scalingConfig"]["desiredSize"]) for one in groups) == [1, 2], "system and GPU nodes"
        assert not project.settings_of("dev-us-west-2")["ttlUntil"]
        assert project.down_env().returncode == ExitCode.OK


def test_one_that_stops_half_way_says_what_it_has_made_that_bills(tmp_path: Path) -> None:
    with bring_up_project(tmp_path / "project") as project:
        denied = {"code": "AccessDeniedException", "message": "User is not authorized to perform: eks:CreateCluster"}
        project.scenario(faults=[{"type": "Cluster", "operation": "create", "times": 0, **denied}])
        done = project.up_env("-y", "--json")
        assert done.returncode == ExitCode.FAILED, done.stdout
        assert "stack dev-us-west-2: still there, and billing: capacity reservation cr-" in done.stdout
        facts = json.loads(done.stdout[done.stdout.rindex("\n{\n") :])
        assert (facts["stack"], facts["left"]) == (None, ["dev-us-west-2"])
        assert any(one.startswith("capacity reservation cr-") for one in facts["billing"]["dev-us-west-2"])
        # Interrupted right after it was refused everywhere, and run again.
        asked = {"gpuInstanceType": "g6.12xlarge", "gpuNodes": "2", "gpuMarket": "on-demand"}
        asked |= {
            "capacity": "reserve",
            "gpuPlacementGroup": str(project.settings_of("dev").get("gpuPlacementGroup") or ""),
        }
        why = {"cause": "capacity", "retry": "next-zone", "what_to_do": "x", "code": "InsufficientInstanceCapacity"}
        place = {"region": "us-west-2", "zone": "us-west-2a", "zone_id": "usw2-az2"}
        refused = {"place": place, "sorted": why, "at": datetime.now(UTC).isoformat(), "asked": asked}
        journal = {"mine": ["us-west-2"], "refused": [refused]}
        (project.folder / ".state" / "up-dev.json").write_text(json.dumps(journal))
        assert "UTC: InsufficientInstanceCapacity in the run before this one" in project.up_env("--plan").stdout
        project.set(gpuNodes="1")
        assert "in the run before this one" not in project.up_env("--plan").stdout
        project.scenario()
        assert project.down_env().returncode == ExitCode.OK
