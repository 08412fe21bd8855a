"""`make setup`: does what is missing and says what and why. Exit code 1 with the reason last.

`--stack NAME` adds the provider plugin that a stack of that platform needs.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from tools.setup import cache, environment, kubernetes_provider, launchers, pins, pulumi_cli
from tools.setup.console import SetupError, say


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.setup")
    parser.add_argument("--stack", default="", help="also what this stack's platform needs")
    stack = parser.parse_args().stack
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        with cache.locked(pins.LOCK, "set-up"):
            cli = _set_up()
            if kubernetes_provider.needed_by(stack):
                kubernetes_provider.install(cli)
    except SetupError as error:
        print(f"set-up: failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


def _set_up() -> Path:
    """The Pulumi CLI's path, once everything is there."""
    stale = environment.why_stale()
    if stale:
        say("python", f"{sys.version.split()[0]} ({sys.executable})")
        environment.install(stale)
    stamp = environment.read_stamp()
    circumstances = pulumi_cli.circumstances()
    cli = Path(stamp.get("cli", ""))
    chosen_anew = stamp.get("circumstances") != circumstances or not os.access(cli, os.X_OK)
    if chosen_anew:
        chosen = pulumi_cli.choose()
        cli = chosen.path
        facts = {"cli": str(cli), "cliVersion": chosen.version, "cliRoute": chosen.route}
        environment.write_stamp(circumstances=circumstances, **facts)
    launchers.write(cli)
    if not stale and not chosen_anew:
        version, route = stamp.get("cliVersion"), stamp.get("cliRoute")
        say("ready", f"nothing to install (Python {sys.version.split()[0]}, Pulumi CLI {version} from {route})")
    return cli


def _terminate(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
