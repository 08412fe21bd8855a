"""The arguments of `efactl capacity`."""

import argparse

from efactl.command import Command
from efactl.exit_codes import ExitCode
from workload.errors import BadInputError


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--regions", default="all", metavar="A,B", help="regions to look at (default: all)")
    # No defaults: with --write, what is not given here is as the environment's files have it.
    command.add_argument("--instance-type", metavar="TYPE", help="default: g6.12xlarge, or as ENV's files have it")
    command.add_argument(
        "--nodes", type=int, metavar="N", help="how many, in one zone (default: 2, or as ENV's files have it)"
    )
    command.add_argument(
        "--spot",
        action=argparse.BooleanOptionalAction,
        help="on the spot market, with its own quota and prices (default: on demand, or as ENV's files have it)",
    )
    command.add_argument("--max-hourly", type=float, metavar="USD", help="the most that the nodes may cost an hour")
    command.add_argument(
        "--probe", action="store_true", help="on demand: make and cancel a reservation, up to the first success"
    )
    command.add_argument("--all", action="store_true", help="with --probe: in every place that is eligible")
    command.add_argument("--explain", action="store_true", help="say why each place stands where it stands")
    command.add_argument("--write", default="", metavar="ENV", help="make Pulumi.ENV-REGION.yaml for the best place")
    command.add_argument("--json", action="store_true", help="print everything as JSON on standard output")


COMMAND = Command(
    name="capacity",
    summary="where the GPU nodes can stand: every region and zone side by side, best first, and why not the others",
    example="efactl capacity --regions us-west-2,us-east-1 --explain\nefactl capacity --probe --write dev",
    arguments=_arguments,
    action="efactl.arguments.capacity:capacity",
)


def capacity(asked: argparse.Namespace) -> ExitCode:
    from capacity.request import regions_from
    from efactl.capacity import Wanted
    from efactl.capacity import capacity as carry_out

    if asked.all and not asked.probe:
        raise BadInputError("--all goes with --probe: without it every place is looked at anyway")
    given = {"instance_type": asked.instance_type, "nodes": asked.nodes, "spot": asked.spot}
    return carry_out(
        Wanted(
            given={name: value for name, value in given.items() if value is not None},
            regions=regions_from(asked.regions),
            max_hourly=asked.max_hourly,
            probe=asked.probe,
            all_places=asked.all,
            write=asked.write,
            explained=asked.explain,
            as_json=asked.json,
        )
    )
