"""`make diagram`: docs/architecture.md with the graph of the stack `dev` as the program registers it now."""

import sys
import tempfile
from pathlib import Path

from tools.diagram import boxes, mermaid, resources
from tools.diagram.preview import previewed
from tools.setup import pins
from tools.setup.console import SetupError
from tools.standin.place import Place
from workload.errors import ReportedError

PAGE = pins.PROJECT / "docs" / "architecture.md"
STACK = "dev"


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="ray-train-efa-diagram-") as folder:
            drawing = now(Path(folder))
        before = PAGE.read_text()
        after = mermaid.into(before, drawing)
    except (ReportedError, SetupError) as error:
        print(f"diagram: failed: {error}", file=sys.stderr)
        return 1
    PAGE.write_text(after)
    what = "as it was" if after == before else "drawn anew"
    print(f"diagram: {PAGE.relative_to(pins.PROJECT)} {what}: {len(drawing.boxes)} boxes, {len(drawing.edges)} edges")
    return 0


def now(folder: Path) -> boxes.Drawing:
    """What the program registers now, with the stand-ins' files in `folder`."""
    return boxes.drawn(resources.read(previewed(Place(folder=folder / STACK, stack=STACK))))


if __name__ == "__main__":
    sys.exit(main())
