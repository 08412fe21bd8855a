"""The pinned versions are the same wherever they stand."""

import re
from pathlib import Path

import pytest

from infra import versions

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("package", "version"), [("ray", versions.RAY), ("torch", versions.TORCH)])
def test_the_environment_is_locked_to_the_version_the_cluster_declares(package: str, version: str) -> None:
    assert re.search(rf'"{package}(\[.*\])?=={re.escape(version)}"', (ROOT / "pyproject.toml").read_text())
    assert re.search(
        rf"^{package}(\[.*\])?=={re.escape(version)} ", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
