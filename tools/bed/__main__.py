"""`python -m tools.bed build` builds the programs, `up` runs a bed until Ctrl-C, `why-not` says what is missing."""

import argparse
import signal
import sys
import tempfile
import threading
from pathlib import Path

from tools.bed import Bed, BedError, gpu_nodes, start_bed, system_node, why_not
from tools.bed import programs as bed_programs
from tools.bed.charts import chart_folder
from tools.bed.nodes import SHAPES
from tools.setup.console import SetupError
from workload.signal_handlers import heeded


def main() -> int:
    options = _parser().parse_args()
    try:
        if options.command == "why-not":
            print(why_not() or "nothing is missing")
            return 0
        if options.command == "build":
            print(bed_programs.build())
            return 0
        return _up(options)
    except (BedError, SetupError) as error:
        print(f"bed: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.bed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build what is missing in the cache")
    commands.add_parser("why-not", help="say why no bed can run here")
    up = commands.add_parser("up", help="run a bed until Ctrl-C or TERM")
    up.add_argument("--directory", type=Path, help="where its files go (default: a temporary folder)")
    up.add_argument("--gpu-nodes", type=int, default=2, metavar="N")
    up.add_argument("--instance-type", default="g6.8xlarge", choices=sorted(SHAPES))
    up.add_argument("--no-operator", action="store_true", help="leave the KubeRay operator to its Helm chart")
    up.add_argument("--devices", default="published", choices=("published", "by plugin"))
    return parser


def _up(options: argparse.Namespace) -> int:
    if reason := why_not():
        raise BedError(reason)
    asked_to_end = threading.Event()
    for number in heeded((signal.SIGINT, signal.SIGTERM)):
        signal.signal(number, lambda *_: asked_to_end.set())
    with tempfile.TemporaryDirectory(prefix="rtebed-") as temporary:
        nodes = (system_node(), *gpu_nodes(options.gpu_nodes, options.instance_type))
        folder = options.directory or Path(temporary)
        with start_bed(folder, nodes=nodes, operator=not options.no_operator, devices=options.devices) as bed:
            _describe(bed, [node.name for node in nodes])
            asked_to_end.wait()
            print("bed: ending", flush=True)
    return 0


def _describe(bed: Bed, nodes: list[str]) -> None:
    print(f"bed {bed.id}: {bed.server}, nodes {', '.join(nodes)}")
    print(f"export KUBECONFIG={bed.kubeconfig}")
    print(f"logs: {bed.directory / 'logs'}   pods: {bed.directory / 'agent'}   charts: {chart_folder()}")
    print("Ctrl-C ends it", flush=True)


if __name__ == "__main__":
    sys.exit(main())
