"""The `aws` command of the stand-in, to be put on PATH."""

import sys
from pathlib import Path

_LAUNCHER = """\
#!/bin/sh
# ray-train-efa stand-in: answers from the account in $RAY_TRAIN_EFA_STANDIN, and never asks AWS.
exec '{python}' -I -S '{program}' "$@"
"""


def write(folder: Path) -> None:
    """Writes `aws` into `folder`."""
    program = Path(__file__).with_name("aws_cli.py")
    launcher = folder / "aws"
    launcher.write_text(_LAUNCHER.format(python=sys.executable, program=program))
    launcher.chmod(0o755)
