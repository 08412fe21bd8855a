"""The real Pulumi CLI with the stand-in's plugins and commands, its own home and its own backend."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from capacity import file_backend
from tools.setup import pins
from tools.setup.console import SetupError
from tools.standin import commands, plugins
from tools.standin.aws_cli import VARIABLE
from tools.standin.place import Place

# What would lead to an account, a cluster or a backend of the user's.
_FOREIGN = ("AWS_", "PULUMI_", "KUBECONFIG", "RAY_")


def environment(place: Place, inherited: Mapping[str, str]) -> dict[str, str]:
    """For the CLI and all that it starts: nothing in it leads to an account, a cluster or a backend of the user's."""
    path = os.pathsep.join([str(place.commands), str(pins.VENV / "bin"), inherited.get("PATH", os.defpath)])
    no_proxy = ",".join(filter(None, [inherited.get("no_proxy") or inherited.get("NO_PROXY"), "127.0.0.1,localhost"]))
    return {
        **{key: value for key, value in inherited.items() if not key.startswith(_FOREIGN)},
        "PATH": path,
        "PULUMI_HOME": str(place.home),
        "PULUMI_BACKEND_URL": file_backend.url_of(place.backend),
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # Every plugin is in the home; the engine would fetch the real ones.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
        VARIABLE: str(place.account),
        # The Kubernetes provider leaves a copy of each kubeconfig in the temporary folder.
        "TMPDIR": str(place.temporary),
        "no_proxy": no_proxy,
        "NO_PROXY": no_proxy,
    }


def prepare(place: Place) -> None:
    """The home's plugins and the `aws` command."""
    plugins.install(place.home)
    commands.write(place.commands)


def run(place: Place, command: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs `pulumi COMMAND` on the stack in this terminal; its exit code. An interrupt is the CLI's to answer."""
    line = ["pulumi", *command, "-s", place.stack, "--config-file", str(place.settings)]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    listen = None if before is signal.SIG_IGN else _listen_to_interrupts
    try:
        return subprocess.Popen(line, cwd=pins.PROJECT, env=env, preexec_fn=listen).wait()
    except FileNotFoundError:
        raise SetupError("there is no `pulumi`: run `make setup`") from None
    finally:
        signal.signal(signal.SIGINT, before)


def _listen_to_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
