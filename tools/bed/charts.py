"""Local Helm charts with the names, values and objects of the public ones, for the product's `repository` settings."""

import hashlib
import shutil
from pathlib import Path

from tools.bed import programs
from tools.setup import cache

SOURCES = Path(__file__).with_name("charts")


def chart_folder() -> Path:
    """A folder with nvidia-device-plugin, aws-efa-k8s-device-plugin and kuberay-operator; builds what it needs."""
    kuberay = programs.build().kubernetes / "kuberay"
    digest = hashlib.sha256(str(kuberay).encode())
    for file in _sources():
        digest.update(f"\0{file.relative_to(SOURCES)}\0".encode() + file.read_bytes())
    return cache.provide(f"charts-{digest.hexdigest()[:12]}", "bed", "complete", lambda target: _make(kuberay, target))


def _sources() -> list[Path]:
    return sorted(file for file in SOURCES.rglob("*") if file.is_file())


def _make(kuberay: Path, target: Path) -> None:
    for source in _sources():
        copy = target / source.relative_to(SOURCES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(source.read_text().replace("@VERSION@", programs.kuberay_version()))
    operator = target / "kuberay-operator"
    for folder, files in {
        "crds": sorted((kuberay / "crds").glob("*.yaml")),
        "files": [kuberay / "operator" / "role.yaml", kuberay / "operator" / "leader_election_role.yaml"],
    }.items():
        (operator / folder).mkdir()
        for file in files:
            shutil.copyfile(file, operator / folder / file.name)
    (target / "complete").touch()
