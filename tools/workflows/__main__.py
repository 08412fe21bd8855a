"""`python -m tools.workflows`: actionlint on the workflow files; exit code 1 with what it finds."""

import sys

from tools.setup import pins
from tools.setup.console import SetupError
from tools.workflows import actionlint


def main() -> int:
    files = sorted((pins.PROJECT / ".github" / "workflows").glob("*.yml"))
    try:
        said = actionlint.found(files)
    except SetupError as error:
        print(f"workflows: {error}", file=sys.stderr)
        return 1
    print(said, end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
