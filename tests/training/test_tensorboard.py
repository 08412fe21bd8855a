import struct
from pathlib import Path
from typing import Any

import pytest

from tests.training.s3_server import BUCKET, S3Server
from training.errors import TrainingError
from training.s3 import S3Folder
from training.storage import Folder, LocalFolder
from training.tensorboard import EventFile, crc32c


def events(folder: Folder) -> list[Any]:
    """Read back by the record format's own rules and another project's protocol buffers."""
    from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped]

    (name,) = folder.names()
    assert "tfevents" in name, "that is how TensorBoard finds it"
    with folder.open_read(name) as stream:
        data = stream.read()
    found = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert data[8:12] == masked(data[:8])
        assert data[12 + length : 16 + length] == masked(data[12 : 12 + length])
        found.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return found


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32)


@pytest.mark.parametrize(
    ("data", "crc"),
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (bytes([255] * 32), 0x62A8AB43), (b"", 0)],
)
def test_the_checksum_is_that_of_its_standard(data: bytes, crc: int) -> None:
    """RFC 3720, appendix B.4."""
    assert crc32c(data) == crc


def test_scalars_come_back_under_their_steps(place: Folder) -> None:
    file = EventFile(place, first_step=1)
    file.add(1, {"train/loss": 5.25, "speed/tokens_per_second": 1234.5})
    file.add(300, {"train/loss": -0.5})
    file.publish()
    version, start, first, second = events(place)
    assert version.file_version == "brain.Event:2"
    assert start.session_log.status == start.session_log.START and start.step == 1
    assert {value.tag: value.simple_value for value in first.summary.value} == {
        "train/loss": 5.25,
        "speed/tokens_per_second": 1234.5,
    }
    assert (first.step, second.step) == (1, 300)
    assert second.summary.value[0].simple_value == -0.5
    assert second.wall_time >= first.wall_time > 1.7e9


def test_an_attempt_says_from_which_step_on_it_tells_anew(tmp_path: Path) -> None:
    EventFile(LocalFolder(tmp_path), first_step=21).publish()
    assert events(LocalFolder(tmp_path))[1].step == 21


def test_in_a_directory_a_step_is_seen_at_once_and_in_a_bucket_when_published(tmp_path: Path, s3: S3Server) -> None:
    local, remote = LocalFolder(tmp_path), S3Folder(BUCKET, "events")
    for folder in (local, remote):
        EventFile(folder, first_step=1).add(1, {"loss": 1.0})
    assert len(events(local)) == 3
    assert remote.names() == []


def test_what_is_published_again_and_again_is_told_once(place: Folder) -> None:
    file = EventFile(place, first_step=1)
    for step in range(1, 4):
        file.add(step, {"loss": 1.0})
        file.publish()
    file.publish()
    assert [event.step for event in events(place)[2:]] == [1, 2, 3]


def test_storage_that_refuses_is_an_error_and_not_a_wait(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"--storage_path: .* cannot be written"):
        EventFile(LocalFolder(tmp_path / "file"), first_step=1).add(1, {"loss": 1.0})
