from pathlib import Path

import pytest

from training.s3 import S3Folder
from training.storage import Folder, LocalFolder, open_folder


def write(folder: Folder, name: str, *parts: bytes) -> None:
    folder.make()
    with folder.open_write(name) as stream:
        for part in parts:
            stream.write(part)


def test_bytes_come_back_from_anywhere_in_a_file(place: Folder) -> None:
    write(place / "run", "shard", b"0123", b"456789")
    with (place / "run").open_read("shard") as stream:
        stream.seek(3)
        assert stream.read(4) == b"3456"
        stream.seek(0)
        assert stream.read() == b"0123456789"


def test_a_file_that_is_renamed_takes_the_other_s_place(place: Folder) -> None:
    write(place, "new", b"new")
    write(place, "old", b"old")
    place.rename("new", "old")
    assert place.names() == ["old"]
    assert place.read("old") == "new"


def test_a_folder_has_files_and_no_more(place: Folder) -> None:
    write(place / "below", "file", b"")
    assert (place / "below").has("file")
    assert not (place / "below").has("other") and not place.has("below")


def test_a_file_that_is_not_there_says_so(place: Folder) -> None:
    place.make()
    with pytest.raises(FileNotFoundError), place.open_read("nothing"):
        pass


def test_removing_what_is_absent_is_no_error(place: Folder) -> None:
    (place / "nothing").remove()


def test_what_the_file_system_refuses_to_remove_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent failure would let an old checkpoint's files pass for a new one's."""
    write(LocalFolder(tmp_path / "run"), "file", b"")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.unlink", refuse)
    with pytest.raises(PermissionError):
        LocalFolder(tmp_path / "run").remove()


def test_two_ways_to_write_a_place_have_one_identity(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert LocalFolder(tmp_path / "link" / "run").identity == LocalFolder(tmp_path / "run").identity
    assert open_folder("s3://bucket/a/b/").identity == (S3Folder("bucket", "a") / "b").identity
    assert LocalFolder(tmp_path / "run").identity != LocalFolder(tmp_path / "other").identity
