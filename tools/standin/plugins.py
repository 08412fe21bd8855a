"""Puts the stand-in plugins into a Pulumi home, where the CLI looks for the real ones."""

import os
import shlex
import sys
from importlib import metadata
from pathlib import Path

from tools.setup import kubernetes_provider, pins

_MODULES = {"aws": "tools.standin.aws_plugin", "eks": "tools.standin.eks_plugin"}


def install(home: Path) -> Path:
    """Writes launchers for aws and eks into `home`/plugins, links the Kubernetes provider beside them; returns `home`.

    Then PULUMI_HOME=`home` and RAY_TRAIN_EFA_STANDIN=FOLDER make the CLI use the account in FOLDER.
    """
    write_launchers(home)
    kubernetes_provider.link_into(home)
    return home


def write_launchers(home: Path) -> None:
    """The stand-ins alone."""
    for name, module in _MODULES.items():
        folder = _folder(home, name, metadata.version(f"pulumi-{name}"))
        launcher = folder / f"pulumi-resource-{name}"
        # -P: not the program's folder but this project's modules; the program may be another one.
        command = f'exec {shlex.quote(sys.executable)} -P -m {module} "$@"'
        text = f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(pins.PROJECT))} {command}\n"
        new = launcher.with_suffix(f".{os.getpid()}")
        new.write_text(text)
        new.chmod(0o755)
        new.replace(launcher)


def _folder(home: Path, name: str, version: str) -> Path:
    folder = home / "plugins" / f"resource-{name}-v{version}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
