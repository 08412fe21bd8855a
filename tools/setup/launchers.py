"""The commands that set-up adds to the environment: .venv/bin/pulumi and .venv/bin/efactl."""

import shlex
from pathlib import Path

from tools.setup import pins

# -c and not a module search path in the environment: the project must not become importable in every process that
# efactl starts, or a training job that forgot to ship a file would still find it here.
RUN_EFACTL = (
    "import runpy, sys; sys.path[0] = sys.argv.pop(1); runpy.run_module('efactl', run_name='__main__', alter_sys=True)"
)


def texts(cli: Path, project: Path = pins.PROJECT) -> dict[Path, str]:
    """Path and text of each launcher of `project`, for a CLI at `cli`. Both paths without symbolic links on the way."""
    binaries, quoted = project / ".venv" / "bin", shlex.quote(str(project))
    template = (pins.PULUMI_RECIPE / "launcher.sh").read_text()
    pulumi = template.replace("@PROJECT@", quoted).replace("@CLI@", shlex.quote(str(cli)))
    efactl = (
        "#!/bin/sh\n"
        "# Written by set-up: the project's command line, with this environment first on PATH.\n"
        f"project={quoted}\n"
        "PATH=$project/.venv/bin:$PATH\n"
        "export PATH\n"
        f'exec "$project/.venv/bin/python" -c {shlex.quote(RUN_EFACTL)} "$project" "$@"\n'
    )
    return {binaries / "pulumi": pulumi, binaries / "efactl": efactl}


def write(cli: Path) -> None:
    """Writes the launchers that are not there or differ; a running shell keeps the file it has open."""
    for path, text in texts(cli).items():
        if path.exists() and path.read_text(errors="replace") == text:
            continue
        partial = path.with_suffix(".partial")
        partial.write_text(text)
        partial.chmod(0o755)
        partial.replace(path)
