import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.job import PROJECT
from training import evidence
from training.nccl_lines import VARIABLE, NcclLines
from training.worker_setup import PIP_VARIABLE

CPU = torch.device("cpu")
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22)\n"


def test_variables_that_a_library_set_by_itself_are_told() -> None:
    """As NCCL does with /etc/nccl.conf: behind Python's back."""
    ctypes.CDLL(None).setenv(b"NCCL_SOCKET_IFNAME_TEST", b"^docker0,lo=1", 1)
    assert "NCCL_SOCKET_IFNAME_TEST" not in os.environ
    try:
        told = evidence.so_far(CPU, NcclLines(0))["environment"]
    finally:
        ctypes.CDLL(None).unsetenv(b"NCCL_SOCKET_IFNAME_TEST")
    assert told["NCCL_SOCKET_IFNAME_TEST"] == "^docker0,lo=1"


def test_variables_of_other_names_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFA_TEST_TOKEN", "hush")
    assert "hush" not in str(evidence.so_far(CPU, NcclLines(0)))


@pytest.mark.parametrize(("text", "version"), [(PROPRIETARY, "550.54.15"), (OPEN, "580.159.04")])
def test_the_drivers_versions_are_told_where_there_are_drivers(
    text: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "NVIDIA_DRIVER", tmp_path / "nvidia")
    monkeypatch.setattr(evidence, "EFA_DRIVER", tmp_path / "efa")
    assert not {"nvidia_driver", "efa_driver", "cuda"} & evidence.so_far(CPU, NcclLines(0))["versions"].keys()
    (tmp_path / "nvidia").write_text(text)
    (tmp_path / "efa").write_text("2.17.2g\n")
    versions = evidence.so_far(CPU, NcclLines(0))["versions"]
    assert (versions["nvidia_driver"], versions["efa_driver"]) == (version, "2.17.2g")


@pytest.mark.parametrize("given", [None, "/mine/%h.%p"])
def test_the_hook_leads_nccl_to_a_file_in_rays_session_unless_the_user_named_one(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PIP_VARIABLE, raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    if given:
        monkeypatch.setenv(VARIABLE, given)
    program = (
        "import os; from pathlib import Path; from training import worker_setup;"
        f"worker_setup.session_directory = lambda: Path({str(tmp_path)!r});"
        f"worker_setup.prepare_worker(); worker_setup.raise_if_unprepared(); print(os.environ[{VARIABLE!r}])"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == (given or f"{tmp_path}/nccl/nccl.%h.%p.log")
    assert (tmp_path / "nccl").is_dir() == (given is None), "NCCL makes no directories"
