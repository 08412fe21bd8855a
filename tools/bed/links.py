"""A pod's network link: cut, healed, shaped. `pod` is what the agent writes about a running pod."""

import subprocess
from collections.abc import Mapping
from typing import Any

from tools.bed.errors import BedError


def cut(bed_network: str, pod: Mapping[str, Any]) -> None:
    _run("ip", "-n", bed_network, "link", "set", str(pod["veth"]), "down")


def heal(bed_network: str, pod: Mapping[str, Any]) -> None:
    _run("ip", "-n", bed_network, "link", "set", str(pod["veth"]), "up")


def shape(bed_network: str, pod: Mapping[str, Any], mbit: float) -> None:
    """Limits both directions to `mbit` Mbit/s; 0 takes the limit away."""
    bucket = ("tbf", "rate", f"{mbit}mbit", "burst", "128kb", "latency", "100ms")
    for network, device in ((bed_network, str(pod["veth"])), (str(pod["netns"]), "eth0")):
        qdisc = ("tc", "-n", network, "qdisc")
        if mbit:
            _run(*qdisc, "replace", "dev", device, "root", *bucket)
        else:
            _run(*qdisc, "delete", "dev", device, "root")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BedError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
