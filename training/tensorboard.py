"""Scalars in TensorBoard's event files.

Written here: neither tensorboard nor TensorFlow is in Ray's images, and tensorboardX, which is, hands its events to a
thread: when that dies of a full disk its queue of ten fills, and training would wait for ever.

Records: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/lib/io/record_writer.h
Messages: tensorboard/compat/proto/event.proto and summary.proto
"""

import os
import socket
import struct
import time
from collections.abc import Mapping

from training.storage import Folder, LocalFolder, storage_errors

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5
_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected


class EventFile:
    """One attempt's. TensorBoard shows a directory's files as one run, and drops steps that a later file says anew."""

    def __init__(self, folder: Folder, first_step: int) -> None:
        """Nothing is written yet. `first_step`: from which on earlier files of the folder no longer count."""
        now = time.time()
        self._folder = folder
        self._name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}"
        self._told = _record(_field(1, now) + _field(3, b"brain.Event:2"))
        self._told += _record(_field(1, now) + _field(2, first_step) + _field(7, _field(1, 1)))  # SessionLog START
        self._published = 0

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        values = b"".join(_field(1, _field(1, tag.encode()) + _float(2, value)) for tag, value in scalars.items())
        self._told += _record(_field(1, time.time()) + _field(2, step) + _field(5, values))
        if isinstance(self._folder, LocalFolder):
            self.publish()

    def publish(self) -> None:
        """Make all of it seen: an object in S3 can but be written whole. Raises TrainingError naming --storage_path."""
        with storage_errors(self._folder):
            self._folder.make()
            if isinstance(self._folder, LocalFolder):
                with (self._folder.path / self._name).open("ab") as file:
                    file.write(self._told)
                self._told = b""
            elif len(self._told) > self._published:
                with self._folder.open_write(self._name) as stream:
                    stream.write(self._told)
                self._published = len(self._told)


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c(data: bytes) -> int:
    """Castagnoli's, which the standard library lacks (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]


def _field(number: int, value: float | bytes) -> bytes:
    """A field of a protocol buffer: a float is a double, an int a varint, bytes a string or a message."""
    if isinstance(value, bytes):
        return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)


def _float(number: int, value: float) -> bytes:
    return _varint(number << 3 | _FLOAT) + struct.pack("<f", value)


def _varint(value: int) -> bytes:
    told = b""
    while value >= 0x80:
        told += bytes([value & 0x7F | 0x80])
        value >>= 7
    return told + bytes([value])
