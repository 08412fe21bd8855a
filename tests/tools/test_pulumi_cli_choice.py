"""Which Pulumi CLI set-up takes, and that it says why: PATH, then the official download, then a build."""

import functools
import hashlib
import http.server
import io
import shutil
import signal
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.project import wait_for
from tests.tools.conftest import SmallClone
from tools.setup import pins, pulumi_download

VERSION = pins.pulumi_version()
ARCHIVE = f"pulumi-v{VERSION}-{pulumi_download.build_name()}.tar.gz"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A download site: its address and its folder, which holds the pinned release and its checksums."""
    folder = tmp_path / "site"
    folder.mkdir()
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        for name in ("pulumi", "pulumi-language-python", "pulumi-language-python-exec", "pulumi-language-go"):
            text = f"#!/bin/sh\necho v{VERSION}\n".encode()
            member = tarfile.TarInfo(f"pulumi/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    digest = hashlib.sha256((folder / ARCHIVE).read_bytes()).hexdigest()
    (folder / f"pulumi-{VERSION}-checksums.txt").write_text(f"{'0' * 64}  another.tar.gz\n{digest}  {ARCHIVE}\n")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(folder)))
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    serving.join()
    server.server_close()


def entries(clone: SmallClone) -> list[str]:
    """What the cache holds, lock files aside."""
    return sorted(path.name for path in (clone.cache / "ray-train-efa").glob("*") if path.suffix != ".lock")


def test_a_cli_on_path_that_is_too_old_is_refused_with_the_reason(
    small_clone: SmallClone, site: tuple[str, Path]
) -> None:
    old = small_clone.add_cli("3.199.9")
    code, text = small_clone.run(PULUMI_CLI_SITE=site[0])
    assert code == 0, text
    assert f"{old} is version 3.199.9, older than the 3.200.0 this program needs" in text
    assert f"{VERSION}, official download" in text


def test_a_cli_on_path_without_its_language_host_is_refused_with_the_reason(small_clone: SmallClone) -> None:
    small_clone.add_cli("3.250.1", language_host=False)
    code, text = small_clone.run(PULUMI_CLI_FROM="path")
    assert code == 1
    assert "has no pulumi-language-python beside it or on PATH" in text


def test_the_download_is_checked_unpacked_and_kept_for_the_next_clone(
    small_clone: SmallClone, site: tuple[str, Path]
) -> None:
    code, text = small_clone.run(PULUMI_CLI_SITE=site[0])
    assert code == 0, text
    entry = small_clone.cache / "ray-train-efa" / ARCHIVE.removesuffix(".tar.gz")
    assert sorted(path.name for path in (entry / "bin").iterdir()) == [
        "pulumi",
        "pulumi-language-python",
        "pulumi-language-python-exec",
    ], "the hosts of other languages stay out"
    (small_clone.venv / ".ray-train-efa.json").unlink()
    code, text = small_clone.run()
    assert code == 0, text
    assert "downloaded earlier" in text


def test_a_download_that_differs_from_its_checksum_is_not_used(small_clone: SmallClone, site: tuple[str, Path]) -> None:
    sums = site[1] / f"pulumi-{VERSION}-checksums.txt"
    sums.write_text(f"{'ab' * 32}  {ARCHIVE}\n")
    code, text = small_clone.run(PULUMI_CLI_SITE=site[0], PULUMI_CLI_FROM="download")
    assert code == 1
    assert f"{ARCHIVE} has SHA-256" in text
    assert entries(small_clone) == []


def test_a_site_out_of_reach_is_said_and_the_cli_is_built(small_clone: SmallClone) -> None:
    small_clone.add_go()
    code, text = small_clone.run()
    assert code == 0, text
    assert "no Pulumi CLI on PATH; no official download (http://127.0.0.1:1/" in text
    assert "Connection refused" in text
    assert f"{VERSION}, built from its Go modules" in text
    (name,) = entries(small_clone)
    binaries = small_clone.cache / "ray-train-efa" / name / "bin"
    assert sorted(path.name for path in binaries.iterdir()) == [
        "pulumi",
        "pulumi-language-python",
        "pulumi-language-python-exec",
        "pulumi-resource-pulumi-python",
    ]
    assert all(path.stat().st_mode & 0o111 for path in binaries.iterdir())


def test_a_site_that_never_answers_is_given_up_after_seconds(small_clone: SmallClone) -> None:

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        code, text = small_clone.run(PULUMI_CLI_FROM="download", PULUMI_CLI_SITE=address)
    assert code == 1
    assert "did not answer within 5 s" in text or "timed out" in text


def test_an_unknown_route_is_refused(small_clone: SmallClone) -> None:
    code, text = small_clone.run(PULUMI_CLI_FROM="brew")
    assert code == 1
    assert "PULUMI_CLI_FROM is 'brew'; it must be one of path, download, build" in text


def test_our_own_launcher_on_path_is_not_taken_for_a_cli(small_clone: SmallClone) -> None:
    small_clone.add_cli("3.250.1")
    assert small_clone.run()[0] == 0
    (small_clone.programs / "pulumi").unlink()
    small_clone.add_go()
    path = f"{small_clone.venv / 'bin'}:{small_clone.environment()['PATH']}"
    code, text = small_clone.run(PATH=path)
    assert code == 0, text
    assert "no Pulumi CLI on PATH" in text


def test_a_cli_that_went_away_is_replaced_by_the_next_set_up(small_clone: SmallClone) -> None:
    small_clone.add_go()
    assert small_clone.run()[0] == 0
    (name,) = entries(small_clone)
    (small_clone.cache / "ray-train-efa" / name / "bin" / "pulumi").unlink()
    code, text = small_clone.run()
    assert code == 0, text
    assert small_clone.builds() == 4, "two binaries, built twice"


def test_an_interrupted_build_leaves_no_half_and_no_process(small_clone: SmallClone) -> None:
    small_clone.add_go(seconds=61.5)
    process = small_clone.start()
    deadline = time.monotonic() + 60
    while not small_clone.builds() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 130, text
    assert "interrupted" in text.splitlines()[-1]
    assert entries(small_clone) == []
    wait_for(
        lambda: ["sleep", "61.5"] not in [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])],
        seconds=30,
        what="the compiler has ended",
    )
    (small_clone.programs / "seconds").write_text("0")
    assert small_clone.run()[0] == 0


def test_two_clones_set_up_at_once_build_the_cli_once(small_clone: SmallClone) -> None:
    small_clone.add_go(seconds=1)
    twin = SmallCloneTwin(small_clone)
    first, second = small_clone.start(), twin.start()
    texts = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), texts
    assert small_clone.builds() == 2, "one engine and one language host"


class SmallCloneTwin(SmallClone):
    """A second clone on the same machine: other project folder, same caches and programs."""

    def __init__(self, other: SmallClone) -> None:
        self.root, self.programs, self.cache = other.root, other.programs, other.cache
        self.project = other.root / "twin"
        shutil.copytree(other.project, self.project, ignore=shutil.ignore_patterns(".venv"))
