"""`make lock`: requirements.lock from pyproject.toml for every platform and Python here, hashed, without host names.

Pins that still satisfy pyproject.toml stay; arguments go to `uv pip compile` (`--upgrade`, `--upgrade-package ray`).
"""

import subprocess
import sys
from pathlib import Path

from tools.setup import pins, uv
from tools.setup.console import SetupError


def main() -> int:
    try:
        installer = uv.find()
    except SetupError as error:
        print(f"lock: failed: {error}", file=sys.stderr)
        return 1
    options: list[str | Path] = ["--group", "dev", "--universal", "--python-version", "3.11", "--generate-hashes"]
    output: list[str | Path] = ["--no-emit-index-url", "--no-header", "--quiet", "-o", pins.LOCK]
    command: list[str | Path] = [installer, "pip", "compile", "pyproject.toml", *options, *output, *sys.argv[1:]]
    return subprocess.run(command, cwd=pins.PROJECT).returncode


if __name__ == "__main__":
    sys.exit(main())
