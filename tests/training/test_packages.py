"""The packages here are built by the test and installed from its folder: no index is asked."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from training import packages
from training.errors import TrainingError
from training.worker_setup import PIP_VARIABLE, SECRETS_FILE, load_secrets

PROJECT = Path(__file__).parents[2]


def wheel(folder: Path, name: str, version: str) -> Path:
    """A wheel of one module that says its version."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}-{version}-py3-none-any.whl"
    information = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    return file


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip's own configuration is what says where packages come from, and the overlay's pip must follow it."""
    folder = tmp_path / "links"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def in_new_process(directory: Path, requirements: list[str], code: str) -> subprocess.CompletedProcess[str]:
    program = f"""
import sys
from pathlib import Path
from training import packages
packages.activate({requirements!r}, Path({str(directory)!r}))
{code}
"""
    return subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_package_of_the_job_is_importable_and_the_environment_stays_as_it_was(tmp_path: Path, links: Path) -> None:
    wheel(links, "efaprobe", "1.0")
    run = in_new_process(tmp_path / "node", ["efaprobe==1.0"], "import efaprobe, numpy; print(efaprobe.VERSION)")
    assert run.stdout.strip() == "1.0", run.stderr
    outside = subprocess.run([sys.executable, "-c", "import efaprobe"], capture_output=True, check=False)
    assert outside.returncode != 0, "the package went into the running environment"


def test_a_package_replaces_the_environment_s_version_for_the_job_and_its_children_only(
    tmp_path: Path, links: Path
) -> None:
    wheel(links, "iniconfig", "99.0")  # pytest brings another version
    code = (
        "import subprocess, iniconfig; print(iniconfig.VERSION, flush=True);"
        "subprocess.run([sys.executable, '-c', 'import iniconfig; print(iniconfig.VERSION)'], check=True)"
    )
    run = in_new_process(tmp_path / "node", ["iniconfig==99.0"], code)
    assert run.stdout.split() == ["99.0", "99.0"], run.stderr
    import iniconfig

    assert not hasattr(iniconfig, "VERSION")


def test_processes_of_one_node_build_the_overlay_once(tmp_path: Path, links: Path) -> None:
    wheel(links, "efaprobe", "1.0")
    program = (
        "from pathlib import Path; from training import packages;"
        f"packages.activate(['efaprobe'], Path({str(tmp_path / 'node')!r})); import efaprobe; print(efaprobe.__file__)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    places = {process.communicate(timeout=120)[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(places) == 1
    assert len([entry for entry in (tmp_path / "node").iterdir() if entry.is_dir()]) == 1


def test_what_is_installed_already_is_not_installed_again(tmp_path: Path, links: Path) -> None:
    links.mkdir()
    run = in_new_process(tmp_path / "node", ["numpy"], "import numpy; print(numpy.__file__)")
    assert str(tmp_path) not in run.stdout, run.stderr
    assert run.returncode == 0, run.stderr


def test_a_package_that_does_not_exist_is_one_error_with_what_pip_said(tmp_path: Path, links: Path) -> None:
    links.mkdir()
    with pytest.raises(TrainingError) as refusal:
        packages.activate(["efaprobe==7"], tmp_path / "node")
    told = str(refusal.value)
    assert told.startswith("--pip efaprobe==7: ") and "No matching distribution" in told
    assert "\n" not in told


def test_a_failed_installation_is_tried_anew(tmp_path: Path, links: Path) -> None:
    links.mkdir()
    assert in_new_process(tmp_path / "node", ["efaprobe"], "").returncode != 0
    wheel(links, "efaprobe", "1.0")
    assert in_new_process(tmp_path / "node", ["efaprobe"], "import efaprobe").returncode == 0


def test_a_worker_that_could_not_be_prepared_lives_to_tell_why(
    tmp_path: Path, links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links.mkdir()
    monkeypatch.setenv(PIP_VARIABLE, json.dumps(["efaprobe==7"]))
    program = (
        "from pathlib import Path; from training import worker_setup;"
        f"worker_setup.session_directory = lambda: Path({str(tmp_path / 'node')!r});"
        "worker_setup.prepare_worker(); print('alive', flush=True); worker_setup.raise_if_unprepared()"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "alive", run.stderr
    assert "TrainingError: --pip efaprobe==7: pip failed" in run.stderr


def test_secret_variables_reach_the_environment_and_only_their_names_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EFA_TEST_TOKEN", "")
    (tmp_path / SECRETS_FILE).write_text(json.dumps({"EFA_TEST_TOKEN": "hush"}))
    assert load_secrets(tmp_path) == ["EFA_TEST_TOKEN"]
    assert os.environ["EFA_TEST_TOKEN"] == "hush"
    assert "hush" not in "".join(capsys.readouterr())
