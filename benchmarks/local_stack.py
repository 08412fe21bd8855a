"""How long the local stack takes, and where the time goes.

1. `up` from destroyed state to the verdict, with the split that the run record and the engine's output give.
2. An unchanged `up` against the unchanged `up` of a program with one trivial dynamic resource, alternating, same CLI.

    python -m benchmarks.local_stack [--ups 3] [--unchanged 7]
"""

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

from capacity import file_backend
from tests.support.project import Project

TRIVIAL = """
import pulumi
from one import One

One("one", {"value": 1})
"""
TRIVIAL_PROVIDER = """
from pulumi.dynamic import CreateResult, Resource, ResourceProvider


class Provider(ResourceProvider):
    serialize_as_secret_always = False

    def create(self, props):
        return CreateResult(id_="one", outs=props)


class One(Resource):
    def __init__(self, name, props, opts=None):
        super().__init__(Provider(), name, props, opts)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ups", type=int, default=3, help="bring-ups from destroyed state")
    parser.add_argument("--unchanged", type=int, default=7, help="unchanged ups of each program")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        project = Project(Path(folder) / "project", quick=False, trainSteps=60)
        try:
            for number in range(asked.ups):
                if number:
                    project.must("destroy", "--yes", "--skip-preview")
                bring_up(project)
            compare_unchanged(project, Path(folder) / "trivial", asked.unchanged)
        finally:
            project.clean()


def bring_up(project: Project) -> None:
    began = time.monotonic()
    done = project.up()
    total = time.monotonic() - began
    assert done.returncode == 0, done.stdout
    record = json.loads((project.folder / project.outputs()["run"]["record"]).read_text())
    timings = record["timings"]
    ray = re.search(r"Ray is up at \S+ \(([\d.]+) s\)", done.stdout)
    cluster = float(ray[1]) if ray else float("nan")
    named = {"Ray cluster": cluster} | {
        key.removesuffix("_s"): value for key, value in timings.items() if key != "total_s"
    }
    rest = total - cluster - timings["total_s"]
    split = ", ".join(f"{name} {seconds:.1f}" for name, seconds in named.items())
    print(f"up to verdict: {total:.1f} s (job driver {timings['total_s']:.1f}; engine, submission, record {rest:.1f})")
    print(f"  split in s: {split}")


def compare_unchanged(project: Project, folder: Path, rounds: int) -> None:
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: trivial\nruntime:\n  name: python\n")
    (folder / "__main__.py").write_text(TRIVIAL)
    (folder / "one.py").write_text(TRIVIAL_PROVIDER)
    (folder / ".state").mkdir()
    trivial = Project.__new__(Project)
    trivial.folder, trivial.stack = folder, "trivial"
    trivial.environment = {**project.environment, "PULUMI_BACKEND_URL": file_backend.url_of(folder / ".state")}
    trivial.must("stack", "init", "trivial")
    trivial.must("up", "--yes", "--skip-preview")
    times: dict[str, list[float]] = {"product": [], "trivial": []}
    for _ in range(rounds):
        for name, stack in (("product", project), ("trivial", trivial)):
            began = time.monotonic()
            stack.must("up", "--yes", "--skip-preview")
            times[name].append(time.monotonic() - began)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"unchanged up, {name}: median {medians[name]:.2f} s (min {min(values):.2f}, max {max(values):.2f})")
    print(f"ratio of medians: {medians['product'] / medians['trivial']:.2f}")


if __name__ == "__main__":
    main()
