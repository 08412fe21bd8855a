"""A small clone to run the real set-up in: its own caches and PATH, real uv, one tiny package, no network."""

import base64
import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.setup import pins, uv

# Answers `pulumi version` and nothing else.
CLI = "#!/bin/sh\necho v{version}\n"
# Stands in for the compiler: `go build -o DIR` writes the binaries, `go list -m` names a folder with the two scripts.
GO = r"""#!/bin/sh
here=$(dirname "$0")
case $1 in
  version) echo "go version go9.9.9 linux/amd64" ;;
  list) echo "$here/module" ;;
  build)
    echo "$*" >>"$here/builds"
    sleep "$(cat "$here/seconds")"
    while [ "$1" != -o ]; do shift; done
    for package; do name=${package##*/}; done
    printf '#!/bin/sh\necho v@VERSION@\n' >"$2/$name"
    chmod 755 "$2/$name" ;;
esac
"""


class SmallClone:
    """What a newcomer has after `git clone`, with a lock of one package. `run` runs set-up and returns (code, text)."""

    def __init__(self, root: Path, installer: Path) -> None:
        self.root = root
        self.project, self.programs, self.cache = root / "clone", root / "programs", root / "cache"
        for folder in (self.project, self.programs, root / "wheels", root / "home"):
            folder.mkdir()
        shutil.copytree(pins.PROJECT / "tools", self.project / "tools", ignore=shutil.ignore_patterns("__pycache__"))
        (root / "uv.toml").write_text(f"no-index = true\nfind-links = ['{root / 'wheels'}']\n")
        self.lock("1.0")
        (self.programs / "uv").symlink_to(installer)
        (self.programs / "python3.11").symlink_to(sys.executable)

    @property
    def venv(self) -> Path:
        return self.project / ".venv"

    def lock(self, version: str) -> None:
        """Makes a wheel of the package `tiny` and pins it."""
        wheel = self.root / "wheels" / f"tiny-{version}-py3-none-any.whl"
        folder = f"tiny-{version}.dist-info"
        files = {
            # Of another length for each version: bytecode goes by size and second, and tests are quick.
            "tiny.py": f"VERSION = '{version}'\n" + "\n" * int(version[0]),
            f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n",
            f"{folder}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = []
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
                digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
                record.append(f"{name},sha256={digest},{len(text)}")
            archive.writestr(f"{folder}/RECORD", "\n".join([*record, f"{folder}/RECORD,,", ""]))
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (self.project / "requirements.lock").write_text(f"tiny=={version} \\\n    --hash=sha256:{digest}\n")

    def program(self, name: str, text: str) -> Path:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def add_cli(self, version: str, language_host: bool = True) -> Path:
        """Puts a Pulumi CLI on PATH."""
        if language_host:
            for name in ("pulumi-language-python", "pulumi-language-python-exec", "pulumi-resource-pulumi-python"):
                self.program(name, "#!/bin/sh\n")
        return self.program("pulumi", CLI.format(version=version))

    def add_go(self, seconds: float = 0) -> None:
        """Puts a compiler on PATH that takes so long for each build."""
        self.program("go", GO.replace("@VERSION@", pins.pulumi_version()))
        (self.programs / "seconds").write_text(str(seconds))
        for script in ("python/cmd/pulumi-language-python-exec", "python/dist/pulumi-resource-pulumi-python"):
            path = self.programs / "module" / script
            path.parent.mkdir(parents=True)
            path.write_text("#!/bin/sh\n")

    def builds(self) -> int:
        log = self.programs / "builds"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def environment(self, **variables: str) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "XDG_CACHE_HOME": str(self.cache),
            "UV_CONFIG_FILE": str(self.root / "uv.toml"),
            # Nothing listens on port 1 of this machine: the download site is out of reach.
            "PULUMI_CLI_SITE": "http://127.0.0.1:1",
            **variables,
        }

    def start(self, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["/bin/sh", self.project / "tools" / "bootstrap.sh"],
            cwd=self.root,
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, **variables: str) -> tuple[int, str]:
        process = self.start(**variables)
        text, _ = process.communicate(timeout=120)
        return process.returncode, text

    def installed(self) -> str:
        """The version of the package in the environment."""
        command = [str(self.venv / "bin" / "python"), "-c", "import tiny; print(tiny.VERSION)"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="session")
def installer() -> Path:
    return uv.find()


@pytest.fixture
def small_clone(tmp_path: Path, installer: Path) -> SmallClone:
    return SmallClone(tmp_path.resolve(), installer)
