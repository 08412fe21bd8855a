"""`efactl up --env` on the real engine, in a region whose file an earlier run has left its guards in."""

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
        assert "ttlUntil" not in project.settings_of("dev-us-west-2")
        assert project.down_env().returncode == ExitCode.OK
