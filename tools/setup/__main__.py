"""`make setup`: does what is missing and says what and why. Exit code 1 with the reason last."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from tools.setup import cache, environment, launchers, pins, pulumi_cli
from tools.setup.console import SetupError, say


def main() -> int:
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with cache.locked(pins.LOCK, "set-up"):
            _set_up()
    except SetupError as error:
        print(f"set-up: failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


def _set_up() -> None:
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


def _terminate(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
