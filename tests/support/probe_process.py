"""A probe in a process of its own, to be interrupted or killed: `python -m tests.support.probe_process ZONE...`."""

import sys

from capacity.place import Place
from capacity.probe import probe
from capacity.request import Request


def main() -> int:
    places = [Place(region=zone[:-1], zone=zone, zone_id=zone) for zone in sys.argv[1:]]
    try:
        probe(Request(), places, all_places=True, say=lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
