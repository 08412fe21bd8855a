"""A job's log, copied to a file over as many connections as it takes, with no line lost or doubled."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

RETRY_S = 1.0
SILENCE_S = 60.0
CLOSE_CHECKS, CLOSE_CHECK_S = 15, 0.2
FETCH_PAUSES_S = (1.0, 3.0, 10.0)


class LogClient(Protocol):
    """The two calls of Ray's JobSubmissionClient that carry a log."""

    def tail_job_logs(self, job_id: str) -> AsyncIterator[str]: ...

    def get_job_logs(self, job_id: str) -> str: ...


class LogStream:
    """Follows one job's log in a thread of its own.

    Every connection starts at the log's first character, since Ray's tail takes no offset: what earlier ones delivered
    is skipped by count. A connection that is silent for a minute is replaced, as a dead one looks just like that.
    """

    def __init__(
        self,
        client: LogClient,
        submission_id: str,
        path: Path,
        *,
        on_line: Callable[[str], None],
        redact: Callable[[str], str] = str,
    ) -> None:
        self._client = client
        self._submission_id = submission_id
        self._on_line = on_line
        self._redact = redact
        self._file = path.open("w", encoding="utf-8")
        self._received = 0
        self._partial = ""
        self._done = threading.Event()
        self._job_ended = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="job-log", daemon=True)
        self.connections = 0
        self.failure: str | None = None
        self.unwritten: str | None = None
        self._thread.start()

    def finish(self, *, wait_s: float) -> None:
        """Once the job has ended: waits for the stream's own end, then fetches whatever it did not deliver."""
        self._job_ended.set()
        self._thread.join(wait_s)
        self.abandon()
        self._fetch_rest()
        if self._partial:
            self._deliver(self._partial)
            self._partial = ""
        self._close_file()

    def abandon(self) -> None:
        """Stops the connection without waiting for the job; what was received is on disk."""
        self._done.set()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: self._task.cancel() if self._task else None)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._follow())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _follow(self) -> None:
        while not self._done.is_set():
            self.connections += 1
            try:
                await self._one_connection()
            except asyncio.CancelledError:
                raise
            except TimeoutError:
                continue
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
                await asyncio.sleep(RETRY_S)
            else:
                if await self._was_the_end():
                    return

    async def _was_the_end(self) -> bool:
        """A stream that ends by itself is the job's end, or a dashboard that restarts: the job's status tells."""
        for _ in range(CLOSE_CHECKS):
            if self._job_ended.is_set():
                return True
            await asyncio.sleep(CLOSE_CHECK_S)
        return False

    async def _one_connection(self) -> None:
        chunks = self._client.tail_job_logs(self._submission_id)
        seen = 0
        try:
            while True:
                chunk = await asyncio.wait_for(anext(chunks), SILENCE_S)
                self._take(chunk, seen)
                seen += len(chunk)
        except StopAsyncIteration:
            return
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]

    def _take(self, chunk: str, offset: int) -> None:
        """Accepts what of a chunk is not here yet; `offset` is the chunk's place in the log."""
        new = chunk[max(0, self._received - offset) :]
        if not new:
            return
        self._received = offset + len(chunk)
        *lines, self._partial = (self._partial + new).split("\n")
        for line in lines:
            self._deliver(line)

    def _deliver(self, line: str) -> None:
        line = self._redact(line)
        self._on_line(line)
        if self.unwritten is not None:
            return
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            self.unwritten = str(error)

    def _close_file(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            self.unwritten = self.unwritten or str(error)

    def _fetch_rest(self) -> None:
        for pause in (*FETCH_PAUSES_S, None):
            try:
                self._take(self._client.get_job_logs(self._submission_id), 0)
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
            else:
                self.failure = None
                return
            if pause is not None:
                time.sleep(pause)
