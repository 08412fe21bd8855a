"""A pod's network link: cut, healed, shaped. `pod` is what the agent writes about a running pod."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from tools.bed.errors import BedError

NOBODY = "02:00:00:00:00:01"


def cut(bed_network: str, pod: Mapping[str, Any]) -> None:
    _run("ip", "-n", bed_network, "link", "set", str(pod["veth"]), "down")


def heal(bed_network: str, pod: Mapping[str, Any]) -> None:
    _run("ip", "-n", bed_network, "link", "set", str(pod["veth"]), "up")


def part(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Frames between these two pods go to an address that nobody has: lost without a word, and only between them."""
    for here, there in ((one, other), (other, one)):
        neighbour = ("neigh", "replace", str(there["ip"]), "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")
        _run("ip", "-n", str(here["netns"]), *neighbour)


def join(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    for here, there in ((one, other), (other, one)):
        _run("ip", "-n", str(here["netns"]), "neigh", "delete", str(there["ip"]), "dev", "eth0")


def moved(bed_network: str, pod: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes that the pod has sent and received so far, by its link's counters."""
    shown = json.loads(_run("ip", "-n", bed_network, "-json", "-statistics", "link", "show", str(pod["veth"])))
    counted = shown[0]["stats64"]
    return int(counted["rx"]["bytes"]), int(counted["tx"]["bytes"])


def shape(bed_network: str, pod: Mapping[str, Any], mbit: float) -> None:
    """Limits both directions to `mbit` Mbit/s; 0 takes the limit away."""
    bucket = ("tbf", "rate", f"{mbit}mbit", "burst", "128kb", "latency", "100ms")
    for network, device in ((bed_network, str(pod["veth"])), (str(pod["netns"]), "eth0")):
        qdisc = ("tc", "-n", network, "qdisc")
        if mbit:
            _run(*qdisc, "replace", "dev", device, "root", *bucket)
        else:
            _run(*qdisc, "delete", "dev", device, "root")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BedError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
