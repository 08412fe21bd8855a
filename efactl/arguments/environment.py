"""The arguments of `efactl up` and `efactl down`: a stack, or an environment of one stack a region."""

import argparse

from efactl.arguments.types import add_json
from efactl.command import Command
from efactl.exit_codes import ExitCode
from workload.errors import BadInputError


def _stack_or_none(command: argparse.ArgumentParser) -> None:
    """No default: whether it was given counts."""
    command.add_argument("-s", "--stack", help="the stack, as in Pulumi.STACK.yaml (default: local)")
    add_json(command)


def _up_arguments(command: argparse.ArgumentParser) -> None:
    _stack_or_none(command)
    command.add_argument("--beside", action="store_true", help="also where the same environment is up in a region")
    of_env = command.add_argument_group("wherever the GPU nodes are to be had", "in place of a stack")
    of_env.add_argument("--env", metavar="ENV", help="as in Pulumi.ENV.yaml; each region tried is a stack ENV-<region>")
    of_env.add_argument("--regions", metavar="A,B", help="regions to look at (default: all)")
    of_env.add_argument("--plan", action="store_true", help="show places and costs, and change nothing")
    of_env.add_argument("-y", "--yes", action="store_true", help="go ahead without the question")
    of_env.add_argument("--train", action="store_true", help="run the job once everything is up")
    of_env.add_argument("--max-hourly", type=float, metavar="USD", help="the most that an hour of all of it may cost")
    of_env.add_argument(
        "--ttl", default="", metavar="4h", help="AWS takes the GPU nodes away after so long, come what may"
    )


def _down_arguments(command: argparse.ArgumentParser) -> None:
    _stack_or_none(command)
    command.add_argument("--env", metavar="ENV", help="in place of a stack: ENV and every ENV-<region>")


UP = Command(
    name="up",
    summary="bring the stack up: cluster, job, verdict; the exit code says how it went",
    example="efactl up -s local && efactl outputs -s local --json\nefactl up --env dev --ttl 4h --train",
    arguments=_up_arguments,
    action="efactl.arguments.environment:up",
)
DOWN = Command(
    name="down",
    summary="destroy the stack and show that nothing of it is left that bills",
    example="efactl down -s dev --json\nefactl down --env dev",
    arguments=_down_arguments,
    action="efactl.arguments.environment:down",
)


def up(asked: argparse.Namespace) -> ExitCode:
    _check_one(asked)
    if asked.env is not None:
        if asked.beside:
            raise BadInputError("--beside goes with -s: --env goes on with what is up")
        return _brought_up(asked)
    of_env = (asked.plan, asked.train, asked.ttl, asked.regions is not None, asked.max_hourly is not None)
    if any(of_env):
        raise BadInputError(
            "--regions, --plan, --train, --ttl and --max-hourly go with --env; a stack has settings for them"
        )
    from efactl import commands
    from efactl.region_stacks import check_alone
    from efactl.stack import Stack

    stack = Stack(_stack(asked))
    if not asked.beside:
        check_alone(stack.name)
    return commands.up(stack, as_json=asked.json)


def down(asked: argparse.Namespace) -> ExitCode:
    _check_one(asked)
    if asked.env is not None:
        from efactl.down_env import down_env

        return down_env(asked.env, as_json=asked.json)
    from efactl.down import down as carry_out
    from efactl.stack import Stack

    return carry_out(Stack(_stack(asked)), as_json=asked.json)


def _check_one(asked: argparse.Namespace) -> None:
    if asked.env is not None and asked.stack is not None:
        raise BadInputError(f"-s {asked.stack} and --env {asked.env} are two things: give one of them")


def _stack(asked: argparse.Namespace) -> str:
    return "local" if asked.stack is None else str(asked.stack)


def _brought_up(asked: argparse.Namespace) -> ExitCode:
    from capacity.request import regions_from
    from efactl.bring_up import Wanted, bring_up

    return bring_up(
        Wanted(
            env=asked.env,
            regions=regions_from("all" if asked.regions is None else asked.regions),
            plan_only=asked.plan,
            yes=asked.yes,
            train=asked.train,
            max_hourly=asked.max_hourly,
            ttl=asked.ttl,
            as_json=asked.json,
        )
    )
