"""A log over connections that break: no line lost, none doubled, none cut."""

import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from workload import log_stream
from workload.log_stream import LogStream


class Breaking:
    """A log served in pieces by connections that end after a number of characters, in the middle of a line too."""

    def __init__(self, text: str, seed: int, *, breaks: int) -> None:
        self._text = text
        self._random = random.Random(seed)
        self._breaks = breaks

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        lasts = len(self._text)
        if self._breaks:
            self._breaks -= 1
            lasts = self._random.randrange(len(self._text))
        at = 0
        while at < lasts:
            size = min(self._random.randrange(1, 200), lasts - at)
            yield self._text[at : at + size]
            at += size
        if lasts < len(self._text):
            raise RuntimeError("WebSocket connection closed unexpectedly with close code 1006")

    def get_job_logs(self, job_id: str) -> str:
        return self._text


def follow(client: Breaking, path: Path, **options: object) -> tuple[LogStream, list[str]]:
    lines: list[str] = []
    stream = LogStream(client, "job", path, on_line=lines.append, **options)  # type: ignore[arg-type]
    stream.finish(wait_s=60)
    return stream, lines


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "RETRY_S", 0.0)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_breaks_the_file_holds_every_line_once(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    text = "".join(f"line {n} {'ä' * generator.randrange(40)}\n" for n in range(200))
    breaks = generator.randrange(6)
    stream, lines = follow(Breaking(text, seed, breaks=breaks), tmp_path / "job.log")
    assert (tmp_path / "job.log").read_text() == text, f"seed {seed}"
    assert lines == text.splitlines(), f"seed {seed}"
    assert stream.connections == breaks + 1
    assert stream.failure is None


def test_a_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    _, lines = follow(Breaking("one\ntwo", 1, breaks=1), tmp_path / "job.log")
    assert lines == ["one", "two"]


def test_the_end_is_fetched_when_no_connection_ever_held(tmp_path: Path) -> None:
    client = Breaking("one\ntwo\n", 1, breaks=10**9)
    lines: list[str] = []
    stream = LogStream(client, "job", tmp_path / "job.log", on_line=lines.append)
    stream.finish(wait_s=0.1)
    assert lines == ["one", "two"]


def test_secrets_are_out_before_anything_is_written_or_shown(tmp_path: Path) -> None:
    _, lines = follow(
        Breaking("token is hunter2000\n", 3, breaks=2),
        tmp_path / "job.log",
        redact=lambda line: line.replace("hunter2000", "***"),
    )
    assert lines == ["token is ***"]
    assert (tmp_path / "job.log").read_text() == "token is ***\n"


def test_a_full_disk_is_reported_and_the_lines_still_reach_the_reader() -> None:
    stream, lines = follow(Breaking("one\ntwo\n", 1, breaks=0), Path("/dev/full"))
    assert lines == ["one", "two"]
    assert stream.unwritten is not None
    assert "No space left" in stream.unwritten


class Restarting:
    """A dashboard that closes the stream in good order in the middle, and for a while gives no log at all."""

    def __init__(self, text: str, *, refusals: int = 0) -> None:
        self._text = text
        self._refusals = refusals
        self.connections = 0

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        self.connections += 1
        yield self._text[: len(self._text) // 2] if self.connections == 1 else self._text

    def get_job_logs(self, job_id: str) -> str:
        if self._refusals:
            self._refusals -= 1
            raise ConnectionError("refused")
        return self._text


def test_a_stream_that_closes_while_the_job_runs_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "CLOSE_CHECK_S", 0.01)
    lines: list[str] = []
    client = Restarting("one\ntwo\nthree\n")
    stream = LogStream(client, "job", tmp_path / "job.log", on_line=lines.append)
    until = time.monotonic() + 60
    while len(lines) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert lines == ["one", "two", "three"], "live, before the job's end is known"
    stream.finish(wait_s=60)
    assert lines == ["one", "two", "three"]


def test_the_end_of_a_log_is_asked_for_more_than_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "FETCH_PAUSES_S", (0.0, 0.0))
    lines: list[str] = []
    stream = LogStream(Restarting("one\ntwo\n", refusals=2), "job", tmp_path / "job.log", on_line=lines.append)
    stream.finish(wait_s=60)
    assert (lines, stream.failure) == (["one", "two"], None)


def test_a_log_that_stays_unreadable_is_told_from_one_without_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "FETCH_PAUSES_S", (0.0, 0.0))
    stream = LogStream(Restarting("one\n", refusals=99), "job", tmp_path / "job.log", on_line=lambda _line: None)
    stream.finish(wait_s=60)
    assert stream.failure == "ConnectionError: refused"
