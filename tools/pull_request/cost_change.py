"""PURE: what a change does to a stack's cost an hour, from the stack outputs of two previews."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class CostChange:
    """USD an hour while the stack is up, None where it is not told; `lines` says which parts of it move."""

    before: float | None
    after: float | None
    lines: tuple[str, ...] = ()
    prices_of: str = ""
    lacks: tuple[str, ...] = ()

    def text(self) -> str:
        if self.after is None:
            return "not known"
        least = "at least " if self.lacks else ""
        if self.before is None:
            return f"{least}{self.after:.2f} USD"
        if round(self.before, 4) == round(self.after, 4):
            return f"{least}{self.after:.2f} USD, unchanged"
        return f"{least}{self.before:.2f} → {self.after:.2f} USD ({self.after - self.before:+.2f})"


def cost_change(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> CostChange:
    """`before` None: the stack is new. Both are stack outputs (`hourlyCostUsd`, and `hourlyCost` on eks)."""
    old, new = _lines(before or {}), _lines(after)
    moved = [f"{what}: {_one(old.get(what))} → {_one(new.get(what))}" for what in {**old, **new}]
    detail = after.get("hourlyCost") or {}
    return CostChange(
        before=_number((before or {}).get("hourlyCostUsd")),
        after=_number(after.get("hourlyCostUsd")),
        lines=tuple(text for what, text in zip({**old, **new}, moved, strict=True) if old.get(what) != new.get(what))
        if before is not None
        else (),
        prices_of=str(detail.get("pricesOf") or ""),
        lacks=tuple(str(one) for one in detail.get("lacks") or ()),
    )


def _lines(outputs: Mapping[str, Any]) -> dict[str, tuple[int, float | None]]:
    lines = (outputs.get("hourlyCost") or {}).get("lines") or ()
    return {str(line["what"]): (int(line["count"]), _number(line.get("hourlyUsd"))) for line in lines}


def _one(line: tuple[int, float | None] | None) -> str:
    if line is None:
        return "none"
    count, usd = line
    return f"{count} for {'no known price' if usd is None else f'{usd:.3f}'}"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
