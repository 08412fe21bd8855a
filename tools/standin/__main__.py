"""Runs an eks stack without an account: stand-in `aws` and `eks` plugins, and a real Kubernetes on this machine.

`preview` shows what a stack would make. `up` brings it up, job and verdict included, and leaves its cluster running;
`down` destroys it. Everything is kept under .state/standin/STACK; the exit code is Pulumi's.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from tools.bed import BedError
from tools.bed.charts import chart_folder
from tools.setup.console import SetupError
from tools.standin import bed_process, engine, overrides, settings_file
from tools.standin.account import Account
from tools.standin.place import Place
from workload.errors import ReportedError

EXPECTATIONS = ("gloo", "efa")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.standin", description=__doc__)
    parser.add_argument("command", choices=("preview", "up", "down"))
    parser.add_argument("-s", "--stack", default="dev", help="an eks stack, as in Pulumi.STACK.yaml (default: dev)")
    parser.add_argument(
        "--expect", default="gloo", choices=EXPECTATIONS, help="up: efa leaves what the stack expects, to end refuted"
    )
    asked = parser.parse_args(arguments)
    place = Place.of(asked.stack)
    try:
        if asked.command != "down":
            overrides.check_platform(settings_file.read(place.stack), place.stack)
        with place.alone():
            if asked.command == "down":
                return down(place)
            return up(place, asked.expect) if asked.command == "up" else preview(place, asked.expect)
    except (ReportedError, BedError, SetupError) as error:
        print(f"stand-in: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def preview(place: Place, expect: str) -> int:
    # Of a stack that is up, a preview shows what the next `up` would change.
    is_up = bed_process.running(place) is not None
    if not is_up and place.has_resources():
        place.remove()
    env = _made(place, expect=expect if is_up else "")
    return engine.run(place, ["preview"], env)


def up(place: Place, expect: str) -> int:
    if bed_process.running(place) is None:
        if place.has_resources():
            _say("the cluster of an earlier run is gone, and with it all that the state has: starting anew")
        bed_process.end(place)
        place.remove()
        place.make()
        _say("starting a Kubernetes cluster on this machine in place of EKS; nodes come with the node groups")
        bed_process.start(place)
    env = _made(place, expect=expect)
    code = engine.run(place, ["up", "--yes", "--skip-preview"], env)
    _say(f"the cluster stays up; `make down STACK={place.stack} STANDIN=1` ends it")
    return code


def down(place: Place) -> int:
    if bed_process.running(place) is None:
        bed_process.end(place)
        place.remove()
        _say(f"nothing of {place.stack} is up")
        return 0
    env = engine.environment(place, os.environ)
    code = engine.run(place, ["destroy", "--yes", "--skip-preview"], env)
    if code:
        _say("the cluster stays up, so that `down` can be tried again")
        return code
    left = [f"{entry.token} {entry.id}" for entry in Account(place.account).remaining()]
    bed_process.end(place)
    if left:
        _say("left in the stand-in account:", *left)
        return 1
    place.remove()
    _say("nothing is left in the stand-in account, and its cluster has ended")
    return 0


def _made(place: Place, *, expect: str) -> dict[str, str]:
    """Everything a run needs, and what was changed for it, said. `expect` empty: a preview without a cluster."""
    config = settings_file.read(place.stack)
    place.make()
    engine.prepare(place)
    env = engine.environment(place, os.environ)
    changed = overrides.for_any(config, now=datetime.now(UTC))
    config = overrides.apply(config, changed)
    if expect:
        more = overrides.for_bed(config, expect=expect, charts=str(chart_folder()))
        config, changed = overrides.apply(config, more), [*changed, *more]
    _say(f"Pulumi.{place.stack}.yaml, and no account: AWS and EKS are stand-ins", *(one.line() for one in changed))
    settings_file.create_stack(place, env)
    settings_file.write(place, config)
    return env


def _say(what: str, *lines: str) -> None:
    print("\n".join([f"stand-in: {what}", *(f"  {line}" for line in lines)]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
