"""Streams of bytes from and to S3, as torch and others expect files to be."""

import io
from typing import IO, Any

READ_AHEAD = 16 * 1024 * 1024
"""Bytes. One request fetches many small tensors side by side; at most this much is fetched in vain per file."""
IN_FLIGHT = 256 * 1024 * 1024
"""Bytes of an object that may be on their way to S3, and in memory, at once."""


def reading(file: Any) -> IO[bytes]:
    """`file` as pyarrow opens it for random access."""
    return io.BufferedReader(file, READ_AHEAD)


class Upload(io.RawIOBase):
    """pyarrow's output stream, which uploads what it was given in the background."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._unflushed = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        # A copy: pyarrow keeps a reference only, and torch hands over memory that it uses again at once.
        written = int(self._stream.write(bytes(data)))
        self._unflushed += written
        if self._unflushed > IN_FLIGHT:
            self._stream.flush()
            self._unflushed = 0
        return written

    def flush(self) -> None:
        """torch flushes after every tensor, and pyarrow's flush waits until S3 has all of it: close() does that."""

    def tell(self) -> int:
        return int(self._stream.tell())

    def close(self) -> None:
        if not self.closed:
            try:
                self._stream.close()
            finally:
                super().close()
