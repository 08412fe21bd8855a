"""The byte counters of this node's EFA devices: what crossed the network, whatever a log says.

The driver keeps them per port since the device or the driver started (amzn-drivers, kernel/linux/efa/src/efa_verbs.c).
tx_bytes and rx_bytes are what the device sent and received; send_, recv_ (messages), rdma_read_, rdma_read_resp_,
rdma_write_, rdma_write_recv_ and retrans_bytes are those of one kind each. What AWS says of them is in the EC2 user
guide (efa-working-monitor); it does not say whether the first two have RDMA's bytes in them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

CLASS = Path("/sys/class/infiniband")
NODES = Path("/dev/infiniband")
AMAZON = "0x1d0f"
SENT, RECEIVED = "tx_bytes", "rx_bytes"

Readings = Mapping[str, Mapping[str, int] | str]
"""By device: bytes by counter, or why they cannot be read."""


def read() -> Readings:
    """Of the devices that this container may use: sysfs shows all of the machine's, /dev only the container's."""
    return {device.name: _counters(device) for device in sorted(CLASS.glob("*")) if _is_ours(device)}


def testimony(before: Readings, after: Readings) -> dict[str, Any]:
    """`efa_devices`: each device's counters before and after, or why they are missing; {} without devices."""
    devices = []
    for name in sorted({*before, *after}):
        device: dict[str, Any] = {"name": name}
        for when, readings in (("before", before), ("after", after)):
            counters = readings.get(name, "the device was not there")
            if isinstance(counters, str):
                device["reason"] = f"{when} the steps: {counters}"
            else:
                device[when] = counters
        devices.append(device)
    return {"efa_devices": devices} if devices else {}


def _is_ours(device: Path) -> bool:
    try:
        vendor = (device / "device/vendor").read_text().strip()
        nodes = list((device / "device/infiniband_verbs").iterdir())
    except OSError:
        return False
    return vendor == AMAZON and any((NODES / node.name).exists() for node in nodes)


def _counters(device: Path) -> dict[str, int] | str:
    counters: dict[str, int] = {}
    file = device
    try:
        for file in sorted(device.glob("ports/*/hw_counters/*_bytes")):
            counters[file.name] = counters.get(file.name, 0) + int(file.read_text())
    except (OSError, ValueError) as error:
        return f"{file.name} cannot be read: {error}"
    missing = {SENT, RECEIVED} - counters.keys()
    return f"it has no {', '.join(sorted(missing))}" if missing else counters
