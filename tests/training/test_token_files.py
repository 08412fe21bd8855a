import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from training import token_files
from training.errors import TrainingError
from training.storage import LocalFolder
from training.token_files import TokenFile, TokenRows, write_rows

SEQ_LEN, FILES = 4, 40


@pytest.fixture
def rows(tmp_path: Path) -> TokenRows:
    """Of each file two, all with the file's number."""
    for number in range(FILES):
        write_rows(LocalFolder(tmp_path), f"{number}.tokens", np.full((2, SEQ_LEN + 1), number, dtype=np.uint32))
    return TokenRows(tmp_path, [TokenFile(f"{number}.tokens", 2) for number in range(FILES)], SEQ_LEN)


@contextmanager
def room_for(files: int) -> Iterator[None]:
    """No more than so many further open files in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = 1 + max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken + files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_files_than_a_process_may_open_are_read_in_any_order(
    rows: TokenRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_files, "_OPEN_FILES", 8)
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(2 * FILES), 3))
    with room_for(10):
        found = rows.read(order)
    assert found.tolist() == [[number // 2] * (SEQ_LEN + 1) for number in order.tolist()]
    rows.close()


def test_a_process_that_may_open_no_more_files_says_so(rows: TokenRows) -> None:
    others: list[int] = []
    with room_for(20):
        try:
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    others.append(os.open(os.devnull, os.O_RDONLY))
            with pytest.raises(TrainingError, match=r"^--dataset: node .*tokens.*raise its limit of open files"):
                rows.read(np.array([0]))
        finally:
            for descriptor in others:
                os.close(descriptor)


def test_a_file_that_loses_its_end_while_it_is_read_is_refused(rows: TokenRows, tmp_path: Path) -> None:
    os.truncate(tmp_path / "3.tokens", 30)
    assert rows.read(np.array([6])).tolist() == [[3] * (SEQ_LEN + 1)]
    with pytest.raises(TrainingError, match=r"3\.tokens is damaged"):
        rows.read(np.array([7]))
