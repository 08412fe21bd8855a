"""The Pulumi CLI from Pulumi's own download site, checked against its published SHA-256 sums."""

import hashlib
import os
import platform
import shutil
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tools.setup import cache, pins
from tools.setup.console import HEARTBEAT_SECONDS, SetupError, elapsed, say

SITE = "https://get.pulumi.com/releases/sdk"
ANSWER_SECONDS = 5.0
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def site() -> str:
    return os.environ.get("PULUMI_CLI_SITE", SITE).rstrip("/")


def build_name() -> str:
    """`linux-x64` and the like, as in the names of the release files."""
    return f"{platform.system().lower()}-{MACHINES.get(platform.machine().lower(), platform.machine())}"


def entry_name() -> str:
    return f"pulumi-v{pins.pulumi_version()}-{build_name()}"


def cached() -> Path | None:
    cli = cache.root() / entry_name() / "bin" / "pulumi"
    return cli if cli.exists() else None


def fetch() -> Path:
    """Downloads the pinned release into the cache and returns the CLI's path; SetupError says why it cannot."""
    version, archive = pins.pulumi_version(), f"{entry_name()}.tar.gz"
    sums = _quick_answer(f"{site()}/pulumi-{version}-checksums.txt")
    expected = next((line.split()[0] for line in sums.splitlines() if line.split()[1:] == [archive]), None)
    if expected is None:
        raise SetupError(f"{site()} has no {archive}")

    def make(target: Path) -> None:
        say("pulumi", f"downloading {site()}/{archive}")
        began = time.monotonic()
        with tempfile.TemporaryFile(dir=target) as file:
            actual = _download(f"{site()}/{archive}", file)
            if actual != expected:
                raise SetupError(f"{archive} has SHA-256 {actual}, its checksums file says {expected}")
            file.seek(0)
            _unpack(file, target / "bin")
        say("pulumi", f"downloaded and checked in {elapsed(began)}")

    return cache.provide(entry_name(), "pulumi", "bin/pulumi", make) / "bin" / "pulumi"


def _open(url: str, seconds: float) -> IO[bytes]:
    if not url.startswith(("https://", "http://")):
        raise SetupError(f"PULUMI_CLI_SITE must be an http(s) address, not {url!r}")
    opened: IO[bytes] = urllib.request.urlopen(url, timeout=seconds)  # noqa: S310 (scheme checked above)
    return opened


def _quick_answer(url: str) -> str:
    """A small text file, or SetupError after ANSWER_SECONDS, name look-up and every address tried included."""
    result: list[str | Exception] = []

    def ask() -> None:
        try:
            with _open(url, ANSWER_SECONDS) as response:
                result.append(response.read(1_000_000).decode())
        except (OSError, ValueError, SetupError) as error:
            result.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    if not result:
        raise SetupError(f"{url} did not answer within {ANSWER_SECONDS:.0f} s")
    if isinstance(result[0], Exception):
        reason = getattr(result[0], "reason", None) if isinstance(result[0], urllib.error.URLError) else None
        raise SetupError(f"{url}: {reason or result[0]}")
    return result[0]


def _download(url: str, file: IO[bytes]) -> str:
    """Copies the answer into `file`, saying now and then how far it is; returns its SHA-256."""
    began = told = time.monotonic()
    digest, size = hashlib.sha256(), 0
    try:
        with _open(url, 30) as response:
            while block := response.read(1 << 20):
                digest.update(block)
                size += file.write(block)
                if time.monotonic() - told >= HEARTBEAT_SECONDS:
                    told = time.monotonic()
                    say("pulumi", f"  {elapsed(began)} {size >> 20} MiB")
    except OSError as error:
        raise SetupError(f"{url} broke off after {size >> 20} MiB: {error}") from None
    return digest.hexdigest()


def _unpack(archive: IO[bytes], target: Path) -> None:
    """The CLI and what it needs for Python: the other languages' hosts are most of the archive."""
    target.mkdir()
    extract: Callable[[tarfile.TarInfo], IO[bytes] | None]
    with tarfile.open(fileobj=archive, mode="r:gz") as files:
        extract = files.extractfile
        for member in files:
            name = Path(member.name).name
            content = extract(member) if member.isfile() and (name == "pulumi" or "python" in name) else None
            if content is not None:
                with content, (target / name).open("wb") as copy:
                    shutil.copyfileobj(content, copy)
                (target / name).chmod(0o755)
