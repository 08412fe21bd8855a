"""PURE: numbers as a person reads them."""

import datetime
import math
from collections.abc import Sequence

GIB = 1 << 30
_BYTES = ((1 << 40, "TiB"), (GIB, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_NO_BREAK = "\N{NO-BREAK SPACE}"


def plain(value: float) -> str:
    """Four digits that say something, thousands set apart."""
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.3g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value == int(value) else f"{value:#.4g}"


def seconds(value: float) -> str:
    if abs(value) < 0.9995:
        return f"{value * 1000:.3g}{_NO_BREAK}ms"
    if abs(value) < 120:
        return f"{value:.3g}{_NO_BREAK}s"
    whole = round(value)
    if whole < 7200:
        return f"{whole // 60}{_NO_BREAK}min {whole % 60}{_NO_BREAK}s"
    return f"{whole // 3600}{_NO_BREAK}h {whole % 3600 // 60}{_NO_BREAK}min"


def moment(value: datetime.datetime) -> str:
    return f"{value.astimezone(datetime.UTC):%Y-%m-%d %H:%M} UTC"


def size(value: float) -> str:
    for unit, name in _BYTES:
        if abs(value) >= unit:
            return f"{value / unit:.3g}{_NO_BREAK}{name}"
    return f"{value:.0f}{_NO_BREAK}B"


def share(value: float) -> str:
    return f"{value * 100:.3g}{_NO_BREAK}%"


def usd(value: float) -> str:
    return f"${value:,.2f}" if value == 0 or abs(value) >= 0.1 else f"${value:.2g}"


def change(before: float, after: float) -> str:
    """Of the second against the first, in percent."""
    if before == after:
        return "the same"
    if before == 0:
        return "was 0"
    ratio = (after - before) / abs(before) * 100
    digits = 0 if abs(ratio) >= 100 else 1
    return f"{ratio:+,.{digits}f}{_NO_BREAK}%".replace("-", "\N{MINUS SIGN}")


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round values around `about` many, of which the first is at or below `low` and the last at or above `high`."""
    if not high > low:
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin
    raw = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= raw * 0.999), power * 10)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_labels(values: Sequence[float]) -> list[str]:
    """As short as tells them apart; large ones in thousands or millions."""
    step = abs(values[1] - values[0]) if len(values) > 1 else abs(values[0]) or 1.0
    largest = max(map(abs, values))
    scale, unit = next(((s, u) for s, u in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if largest >= 10 * s), (1.0, ""))
    decimals = max(0, -math.floor(math.log10(step / scale) + 1e-9))
    if decimals < 6 and not math.isclose(step / scale * 10**decimals, round(step / scale * 10**decimals), rel_tol=1e-6):
        decimals += 1
    return [_signed(f"{value / scale:,.{min(decimals, 8)}f}") + (unit if value else "") for value in values]


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")
