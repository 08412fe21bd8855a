"""PURE: values out of a record of which any part may be missing, or not what it should be."""

from collections.abc import Mapping, Sequence
from typing import Any

# Nothing that a run counts comes near it, and arithmetic with it stays finite.
_LARGEST = 1e30


def at(record: Any, *keys: str) -> Any:
    """What is under these keys; None where one is missing."""
    for key in keys:
        if not isinstance(record, Mapping):
            return None
        record = record.get(key)
    return record


def number(record: Any, *keys: str) -> float | None:
    """A number that can be drawn, else None."""
    value = at(record, *keys)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None


def mapping(record: Any, *keys: str) -> Mapping[str, Any]:
    value = at(record, *keys)
    return value if isinstance(value, Mapping) else {}


def mappings(record: Any, *keys: str) -> list[Mapping[str, Any]]:
    """Those entries of a list that are mappings."""
    value = at(record, *keys)
    return [one for one in value if isinstance(one, Mapping)] if _is_list(value) else []


def texts(record: Any, *keys: str) -> list[str]:
    value = at(record, *keys)
    return [str(one) for one in value] if _is_list(value) else []


def pairs(record: Any, *keys: str) -> list[tuple[float, float]]:
    """Those entries of a list that are two finite numbers."""
    value = at(record, *keys)
    if not _is_list(value):
        return []
    read = [
        (number({"x": one[0]}, "x"), number({"y": one[1]}, "y")) for one in value if _is_list(one) and len(one) == 2
    ]
    return [(x, y) for x, y in read if x is not None and y is not None]


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
