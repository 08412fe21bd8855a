"""How long a preview of the eks stack `dev` takes, without an account: stand-in plugins for AWS and EKS.

Against a flat program that registers the same resources with the same plugins and has no components, no settings and
no questions to AWS, and against a program with one resource. The rounds alternate, each program with its own empty
stack. Also reported: how many resources there are, and how long the program's imports take.

    python -m benchmarks.eks_preview [--rounds 5]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.parts import flat_stack
from tools.diagram.preview import previewed
from tools.setup import pins
from tools.standin import engine, overrides, settings_file
from tools.standin.place import Place

STACK = "dev"
# What __main__.py imports, and what the eks platform adds.
IMPORTED = "infra.settings infra.platform infra.eks_platform workload.job_spec workload.ray_train_job workload.run_gate"
LIMITS = {"flat": 1.25, "one resource": 3.0}


@dataclass(frozen=True, kw_only=True)
class Program:
    """`folder` holds the program; `place` its stack, account and Pulumi home."""

    place: Place
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        env = engine.environment(self.place, os.environ)
        # The flat program's dynamic resources are those of this project.
        return {**env, "PYTHONPATH": str(pins.PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}

    def make(self, config: Mapping[str, Any]) -> None:
        self.place.make()
        engine.prepare(self.place)
        settings_file.create_stack(self.place, self.environment)
        settings_file.write(self.place, config)

    def preview(self, *options: str) -> str:
        command = ["pulumi", "preview", "--non-interactive", "-s", self.place.stack, *options]
        done = subprocess.run(
            [*command, "--config-file", str(self.place.settings)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{self.place.stack}: the preview failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="previews of each program")
    rounds = parser.parse_args().rounds
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        found = previewed(Place(folder=folder / "look", stack=STACK))
        programs = {
            STACK: product(folder),
            "flat": written(folder / "flat", flat_stack.PROGRAM, flat_stack.flattened(found)),
            "one resource": written(folder / "one", flat_stack.TRIVIAL, []),
        }
        print(counted(found, json.loads(programs["flat"].preview("--json"))))
        print(imports(rounds))
        for program in programs.values():
            program.preview()  # a first one fills caches
        compare(programs, rounds)


def product(folder: Path) -> Program:
    config = settings_file.read(STACK)
    program = Program(place=Place(folder=folder / STACK, stack=STACK), folder=pins.PROJECT)
    program.make(overrides.apply(config, overrides.for_any(config, now=datetime.now(UTC))))
    return program


def written(folder: Path, text: str, resources: Sequence[Mapping[str, Any]]) -> Program:
    """A program of its own, run with the same Python as the product."""
    source = folder / "program"
    source.mkdir(parents=True)
    (source / "Pulumi.yaml").write_text(
        "name: ray-train-efa\nruntime:\n  name: python\n"
        f"  options: {{toolchain: pip, virtualenv: {json.dumps(str(pins.VENV))}}}\n"
    )
    (source / "__main__.py").write_text(text)
    (source / "resources.json").write_text(json.dumps(resources))
    program = Program(place=Place(folder=folder / "standin", stack=folder.name), folder=source)
    program.make({"aws:region": "us-west-2"})
    return program


def counted(ours: Mapping[str, Any], flat: Mapping[str, Any]) -> str:
    """Refuses to compare where the flat program does not register the same resources."""
    mine, its = kinds(ours), kinds(flat)
    if mine != its:
        sys.exit(f"the flat program registers other resources: {mine - its} missing, {its - mine} too many")
    components = sum(1 for step in ours["steps"] if not step["newState"].get("custom")) - 1
    types = len({type for type, _ in mine})
    return f"{sum(mine.values())} resources of {types} types, in {components} components (2 of them pulumi-eks's)"


def kinds(preview: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    """Type and name of each resource that is not a component."""
    states = [step["newState"] for step in preview["steps"]]
    return Counter((state["type"], state["urn"].rpartition("::")[2]) for state in states if state.get("custom"))


def imports(rounds: int) -> str:
    """Medians of a fresh Python's imports: all that the program imports for this stack, and pulumi alone."""
    ours = statistics.median(imported(IMPORTED) for _ in range(rounds))
    bare = statistics.median(imported("pulumi") for _ in range(rounds))
    return f"imports of the program: {ours:.2f} s, of them pulumi itself {bare:.2f} s (medians)"


def imported(modules: str) -> float:
    code = f"import time; began = time.perf_counter(); import {', '.join(modules.split())}"
    command = [sys.executable, "-c", f"{code}; print(time.perf_counter() - began)"]
    done = subprocess.run(command, cwd=pins.PROJECT, capture_output=True, text=True, check=True)
    return float(done.stdout)


def compare(programs: Mapping[str, Program], rounds: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(rounds):
        for name, program in programs.items():
            began = time.monotonic()
            program.preview()
            times[name].append(time.monotonic() - began)
        print(
            f"round {number + 1}: " + ", ".join(f"{name} {took[-1]:.2f} s" for name, took in times.items()), flush=True
        )
    medians = {name: statistics.median(took) for name, took in times.items()}
    for name, took in times.items():
        print(f"preview, {name}: median {medians[name]:.2f} s (min {min(took):.2f}, max {max(took):.2f})")
    for name, limit in LIMITS.items():
        print(f"{STACK} against {name}: ratio of medians {medians[STACK] / medians[name]:.2f} (limit {limit})")


if __name__ == "__main__":
    main()
