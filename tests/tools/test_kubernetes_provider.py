"""Set-up brings the Kubernetes provider where a stack needs it, by the first route that works, and says which."""

import subprocess
from pathlib import Path

import pytest

from tools.setup import cache, kubernetes_provider, pins

# Notes what it is asked and installs as the real one does; without --file only where DOWNLOADS says that it can.
CLI = """#!/bin/sh
echo "$*" >>"$LOG"
case "$*" in
  *--file*) ;;
  *) [ -n "$DOWNLOADS" ] || { echo "error: downloading from : no such host" >&2; exit 1; } ;;
esac
plugin="$PULUMI_HOME/plugins/resource-kubernetes-$5"
mkdir -p "$plugin" && printf '#!/bin/sh\n' >"$plugin/pulumi-resource-kubernetes"
chmod 755 "$plugin/pulumi-resource-kubernetes"
"""


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "pulumi"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("DOWNLOADS", "")
    monkeypatch.setattr(pins, "VENV", tmp_path / "venv")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    path = tmp_path / "bin" / "pulumi"
    path.parent.mkdir()
    path.write_text(CLI)
    path.chmod(0o755)
    return path


def built_earlier() -> Path:
    entry = cache.root() / kubernetes_provider.entry_name()
    entry.mkdir(parents=True)
    (entry / kubernetes_provider.BINARY).touch(mode=0o755)
    return entry / kubernetes_provider.BINARY


def commands(tmp_path: Path) -> list[str]:
    log = tmp_path / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_the_official_download_is_tried_first(cli: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWNLOADS", "yes")
    kubernetes_provider.install(cli)
    assert commands(tmp_path) == [f"plugin install resource kubernetes v{kubernetes_provider.version()}"]
    assert kubernetes_provider.installed() is not None


def test_without_a_download_the_built_one_stands_beside_this_projects_pulumi_alone(
    cli: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = built_earlier()
    kubernetes_provider.install(cli)
    link = pins.VENV / "bin" / kubernetes_provider.BINARY
    assert link.resolve() == binary
    assert "no official download of kubernetes" in capsys.readouterr().out
    assert kubernetes_provider.installed() is None, "it may be older than it is asked for: not for other projects"
    kubernetes_provider.install(cli)
    assert len(commands(tmp_path)) == 1, "what was built is not asked for again"
    monkeypatch.setenv("DOWNLOADS", "yes")
    link.unlink()
    kubernetes_provider.install(cli)
    assert kubernetes_provider.installed() is not None


def test_the_official_one_takes_the_place_of_the_built_one(cli: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built_earlier()
    kubernetes_provider.install(cli)
    monkeypatch.setenv("DOWNLOADS", "yes")
    plugin = f"v{kubernetes_provider.version()}"
    subprocess.run([cli, "plugin", "install", "resource", "kubernetes", plugin], check=True)
    kubernetes_provider.install(cli)
    assert not (pins.VENV / "bin" / kubernetes_provider.BINARY).is_symlink()


def test_an_installed_one_is_left_alone(cli: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWNLOADS", "yes")
    kubernetes_provider.install(cli)
    kubernetes_provider.install(cli)
    assert len(commands(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("config:\n  ray-train-efa:platform: kubernetes\n", True),
        ("config:\n  ray-train-efa:platform: 'eks' # one region\n", True),
        ("config:\n  ray-train-efa:platform: local\n", False),
        ('config:\n  ray-train-efa:platform: "local"\n', False),
        ("config: {}\n", False),
    ],
)
def test_only_stacks_beyond_this_machine_need_it(tmp_path: Path, text: str, needed: bool) -> None:
    (tmp_path / "Pulumi.mine.yaml").write_text(text)
    assert kubernetes_provider.needed_by("mine", tmp_path) is needed


def test_a_stack_without_a_file_needs_nothing(tmp_path: Path) -> None:
    assert kubernetes_provider.needed_by("mine", tmp_path) is False
