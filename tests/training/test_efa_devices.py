from pathlib import Path

import pytest

from training import efa_devices

ONE_BYTE = {"tx_bytes": "1", "rx_bytes": "1"}


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without any device."""
    monkeypatch.setattr(efa_devices, "CLASS", tmp_path / "sys")
    monkeypatch.setattr(efa_devices, "NODES", tmp_path / "dev")
    (tmp_path / "dev").mkdir()
    return tmp_path


def plug_in(
    machine: Path, name: str, counters: dict[str, str] = ONE_BYTE, *, vendor: str = "0x1d0f", ours: bool = True
) -> Path:
    """As the driver and the kernel lay a device out; returns the directory of its counters."""
    device = machine / "sys" / name
    (device / "device/infiniband_verbs" / f"uverbs-{name}").mkdir(parents=True)
    (device / "device/vendor").write_text(f"{vendor}\n")
    hardware = device / "ports/1/hw_counters"
    hardware.mkdir(parents=True)
    for counter, value in counters.items():
        (hardware / counter).write_text(f"{value}\n")
    if ours:
        (machine / "dev" / f"uverbs-{name}").touch()
    return hardware


def test_byte_counters_are_told_before_and_after(machine: Path) -> None:
    counters = plug_in(
        machine, "rdmap0s31", {"tx_bytes": "100", "rx_bytes": "7", "rdma_write_bytes": "50", "tx_pkts": "3"}
    )
    before = efa_devices.read()
    (counters / "tx_bytes").write_text(f"{2**63}\n")
    assert efa_devices.testimony(before, efa_devices.read()) == {
        "efa_devices": [
            {
                "name": "rdmap0s31",
                "before": {"rdma_write_bytes": 50, "rx_bytes": 7, "tx_bytes": 100},
                "after": {"rdma_write_bytes": 50, "rx_bytes": 7, "tx_bytes": 2**63},
            }
        ]
    }


def test_without_devices_nothing_is_told() -> None:
    assert efa_devices.testimony(efa_devices.read(), efa_devices.read()) == {}


def test_devices_of_other_makers_and_of_other_containers_are_not_ours(machine: Path) -> None:
    plug_in(machine, "mlx5_0", vendor="0x15b3")
    plug_in(machine, "rdmap1s31", ours=False)
    plug_in(machine, "rdmap0s31")
    (machine / "sys" / "without-pci").mkdir()
    assert list(efa_devices.read()) == ["rdmap0s31"]


@pytest.mark.parametrize(
    ("counters", "reason"),
    [
        ({"tx_bytes": "1"}, "it has no rx_bytes"),
        ({}, "it has no rx_bytes, tx_bytes"),
        ({"tx_bytes": "1", "rx_bytes": "N/A"}, "rx_bytes cannot be read: invalid literal"),
    ],
)
def test_counters_that_cannot_be_read_are_a_reason_and_never_a_zero(
    machine: Path, counters: dict[str, str], reason: str
) -> None:
    plug_in(machine, "rdmap0s31", counters)
    (device,) = efa_devices.testimony(efa_devices.read(), {})["efa_devices"]
    assert device.keys() == {"name", "reason"}
    assert efa_devices.testimony(efa_devices.read(), efa_devices.read())["efa_devices"][0]["reason"].startswith(
        f"after the steps: {reason}"
    )


def test_a_device_that_is_gone_after_the_steps_keeps_what_it_had_before(machine: Path) -> None:
    plug_in(machine, "rdmap0s31")
    assert efa_devices.testimony(efa_devices.read(), {})["efa_devices"] == [
        {
            "name": "rdmap0s31",
            "before": {"tx_bytes": 1, "rx_bytes": 1},
            "reason": "after the steps: the device was not there",
        }
    ]
