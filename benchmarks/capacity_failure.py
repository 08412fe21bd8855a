"""How long a launch without capacity goes unnoticed: under `efactl up --env`, and under a plain `pulumi up`.

    python -m benchmarks.capacity_failure [--scale 0.05]

The engine is real, AWS a stand-in on a scaled clock: Auto Scaling writes a failed launch down after 15 modelled
seconds, EKS gives up on the node group after 1500 (tools/standin/node_group_rules.py has where that is from). Each
measurement is of the GPU node group's creation, from its begin to its end as the account saw it, in modelled seconds.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.bring_up_project import BringUpProject, bring_up_project
from tools.setup.console import SetupError
from tools.standin import tokens

MOST = 60.0
FULL, NEXT = "us-west-2b", "us-west-2a"
SCENARIO: Mapping[str, Any] = {"capacity": {FULL: {"g6.12xlarge": 0}}}


def creations(project: BringUpProject) -> list[dict[str, Any]]:
    """Of the GPU node group, in order."""
    return [
        call
        for call in project.calls()
        if (call["type"], call["operation"]) == (tokens.NODE_GROUP, "create") and call["urn"].endswith("gpu-group")
    ]


def measure(scale: float, folder: Path) -> dict[str, Any]:
    settings = {"capacity": "none", "capacityUntil": None}
    with bring_up_project(folder / "watched", scale=scale, **settings) as project:
        project.scenario(**SCENARIO)
        done = project.up_env()
        if done.returncode:
            sys.exit(f"the bring-up failed:\n{done.stdout}")
        failed, _came = creations(project)
        clusters = len(project.made("Cluster"))
        project.down_env()
    with bring_up_project(folder / "plain", scale=scale, gpuZone=FULL, **settings) as project:
        project.scenario(**SCENARIO)
        if project.up().returncode == 0:
            sys.exit("the plain up should have failed: its zone has no capacity")
        [plain] = creations(project)
        project.scenario()
        project.pulumi("destroy", "--yes", "--skip-preview")
    return {
        "found_after_s": round(failed["seconds"], 1),
        "plain_up_after_s": round(plain["seconds"], 1),
        "times_sooner": round(plain["seconds"] / failed["seconds"], 1),
        "control_planes_made": clusters,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.05, help="real seconds in a modelled one")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        found = measure(asked.scale, Path(name))
    print(json.dumps(found, indent=2))
    return 0 if found["found_after_s"] <= MOST else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SetupError as error:
        sys.exit(str(error))
