"""How long the eks stack `dev` takes from nothing to its verdict, on the real engine, without an account.

AWS is a stand-in whose durations are modelled on a scaled clock; Kubernetes, KubeRay, Ray and the job are real and run
on this machine, with nodes that are names and images that nobody has to pull. The wall time of one `up` is held against
the longest chain that no order can shorten (modelled durations on the same clock, and what this very run measured of
what really ran), and against the seed's order, one script after another under the same durations. The smaller the
scale, the heavier what the engine and the program themselves cost.

    python -m benchmarks.eks_bring_up [--scale 0.4]
"""

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.parts import bring_up_steps, engine_events
from benchmarks.parts.critical_path import Span, Step, length, longest_chain, taken
from benchmarks.parts.milestones import Milestones
from tests.support.standin_project import StandinProject
from tools.bed import start_bed
from tools.diagram import resources
from tools.setup.console import SetupError

LIMIT = 1.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.4, help="real seconds in a modelled one")
    scale = parser.parse_args().scale
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; {scale:g} s for a modelled second")
    bring_up_steps.listed(print)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        start_bed(Path(name) / "bed", nodes=(), operator=False, devices="by plugin") as bed,
    ):
        project = StandinProject(Path(name) / "project", bed=bed, scenario={"scale": scale})
        try:
            # Whoever brings a stack up has looked at it before.
            project.must("preview")
            with Milestones(bed, gpu_nodes=2) as seen:
                whole, spans = bring_up(project)
            measured = measured_by(seen.at, spans)
            report(whole, measured, scale)
            trace(project, whole, spans, scale)
        finally:
            project.set_scenario()
            project.clean()


def bring_up(project: StandinProject) -> tuple[Span, dict[str, Span]]:
    """The whole `up`, process start to process end, and the engine's steps in it by URN."""
    command = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--json", "-s", project.stack]
    began = time.monotonic()
    with subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        spans, errors = engine_events.followed(process.stdout)
    ended = time.monotonic()
    if process.returncode:
        sys.exit("the up failed:\n" + "\n".join(errors))
    return Span(began=began, ended=ended), spans


def measured_by(at: Mapping[str, float], spans: Mapping[str, Span]) -> bring_up_steps.Measured:
    job = next(span for urn, span in spans.items() if urn.endswith("::train"))
    return bring_up_steps.Measured(
        devices=at["devices"] - at["GPU nodes"],
        worker_image=at["worker image"] - at["GPU nodes"],
        head_image=at["head image"] - at["system nodes"],
        operator=at["Ray pods"] - max(at["system nodes"], at["RayCluster"]),
        ray=at["Ray"] - at["Ray pods"],
        job=job.seconds,
    )


def report(whole: Span, measured: bring_up_steps.Measured, scale: float) -> None:
    print(
        "measured seconds of what really ran: "
        + ", ".join(f"{name} {took:.1f}" for name, took in vars(measured).items())
    )
    chain = longest_chain(bring_up_steps.needed(measured, scale=scale))
    row = bring_up_steps.in_a_row(measured, scale=scale)
    print(f"longest unavoidable chain: {length(chain):.1f} s: {told(chain)}")
    print(f"the seed's order: {length(row):.1f} s: {told(row)}")
    print(f"up to verdict: {whole.seconds:.1f} s")
    print(f"against the longest chain: {whole.seconds / length(chain):.3f} (limit {LIMIT})")
    at_once = longest_chain(bring_up_steps.needed(dataclasses.replace(measured, operator=0), scale=scale))
    print(f"against the chain without the operator's start: {whole.seconds / length(at_once):.3f}")
    print(f"the seed's order against up: {length(row) / whole.seconds:.2f}")


def told(steps: list[Step]) -> str:
    return ", ".join(f"{step.name} {step.seconds:.1f}" for step in steps)


def trace(project: StandinProject, whole: Span, spans: Mapping[str, Span], scale: float) -> None:
    """The chain that the engine really went: what each step on it waited for last, and the time between the two."""
    found = resources.read({"steps": [{"newState": state} for state in project.state()]})
    chain = taken(
        {urn: span for urn, span in spans.items() if urn in found and found[urn].type != resources.STACK},
        {urn: sorted(waited_for(urn, found)) for urn in found},
    )
    modelled = {call["urn"]: call["seconds"] * scale for call in project.calls() if call["operation"] == "create"}
    print("the chain that the engine went: seconds from the start, its own, of these modelled, idle before it")
    before = whole.began
    for urn in chain:
        span, name = spans[urn], f"{found[urn].kind} {urn.rpartition('::')[2]}"
        took = f"{span.seconds:7.1f} {modelled.get(urn, 0.0):7.1f}"
        print(f"  {span.began - whole.began:7.1f} {took} {max(span.began - before, 0.0):6.1f}  {name}")
        before = span.ended
    print(f"  {before - whole.began:7.1f} {whole.ended - before:7.1f} {0:7.1f} {0:6.1f}  the engine's end")


def waited_for(urn: str, found: Mapping[str, resources.Resource]) -> set[str]:
    """What a component waits for, so does all that is in it."""
    resource = found[urn]
    return set(resource.after) | (waited_for(resource.parent, found) if resource.parent in found else set())


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(str(error))
