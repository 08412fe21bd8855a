"""PURE: a `TransportReport` as a text that fits a state or a record, to be judged again without its log."""

import base64
import functools
import zlib
from typing import TYPE_CHECKING

from workload.nccl.report import TransportReport

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class ReportUnreadableError(ValueError):
    """A text that is none of `packed`'s, or was damaged."""


def packed(report: TransportReport) -> str:
    """Compressed JSON in base64: some ten bytes a channel. However long it is, it is kept: what was dropped could not
    be judged again, and workload/nccl/log.py limits what a report holds."""
    return base64.b64encode(zlib.compress(_adapter().dump_json(report), 9)).decode("ascii")


def unpacked(text: str) -> TransportReport:
    """Raises ReportUnreadableError."""
    try:
        plain = zlib.decompress(base64.b64decode(text, validate=True))
        return _adapter().validate_json(plain)
    except (ValueError, zlib.error) as error:
        raise ReportUnreadableError(str(error).partition("\n")[0]) from None


@functools.cache
def _adapter() -> "TypeAdapter[TransportReport]":
    # A tenth of a second that no run over gloo should pay.
    from pydantic import TypeAdapter

    return TypeAdapter(TransportReport)
