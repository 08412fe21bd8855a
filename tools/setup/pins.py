"""The oldest versions that set-up accepts, and where it reads those it installs: the locks and the go.mod files."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
LOCK = PROJECT / "requirements.lock"
VENV = PROJECT / ".venv"
UV_LOCK = PROJECT / "tools" / "setup" / "uv.lock.txt"
GO_LOCK = PROJECT / "tools" / "setup" / "go.lock.txt"
PULUMI_RECIPE = PROJECT / "tools" / "pulumi"

UV_MINIMUM = (0, 5, 0)
# 3.200 is the oldest CLI that this program's project file and the 3.27x Python SDK were written against.
PULUMI_MINIMUM = (3, 200, 0)

Version = tuple[int, int, int]


def parse_version(text: str) -> Version | None:
    """The first `1.2.3` in a program's version answer (a missing third number counts as 0), or None."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def show(version: Version) -> str:
    return ".".join(map(str, version))


def locked_version(lock: Path, package: str) -> str:
    """The version that a hashed requirements file pins for `package`."""
    found = re.search(rf"^{re.escape(package)}==(\S+)", lock.read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"{lock} does not pin {package}")
    return found[1]


def module_version(go_mod: Path, module: str) -> str:
    """The version, without its v, that a go.mod requires of `module` (`go` itself included)."""
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)}\s+v?(\d\S*)", go_mod.read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"{go_mod} does not require {module}")
    return found[1]


def pulumi_version() -> str:
    return module_version(PULUMI_RECIPE / "cli" / "go.mod", "github.com/pulumi/pulumi/pkg/v3")
