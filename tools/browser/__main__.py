"""Fetches the browser that tests of the report page use: `python -m tools.browser`."""

import sys

from tools.browser.choice import fetched
from tools.setup.console import SetupError, say


def main() -> int:
    try:
        browser = fetched()
    except SetupError as error:
        print(f"tools.browser: {error}", file=sys.stderr)
        return 1
    say("browser", f"{browser.chromium}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
