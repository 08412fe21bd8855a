"""Pure: a bandwidth job's rows as nccl-tests 2.19 lays them out.

torch.distributed reduces in place only, so the out-of-place columns say N/A.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_COLUMNS = ("time", "algbw", "busbw", "#wrong")
_UNITS = ("(us)", "(GB/s)", "(GB/s)", "")
_NO_ROOT = -1


def table(rows: Sequence[Mapping[str, Any]], *, backend: str, ranks: int, iterations: int, warm_up: int) -> list[str]:
    """The lines of a whole table; `rows` are those of the job's record."""
    wrong = sum(row["wrong"] for row in rows)
    average = sum(row["busbw_gbs"] for row in rows) / len(rows)
    return [
        f"# all_reduce by torch.distributed over {backend}, {ranks} ranks; in place; "
        f"time is the slowest rank's mean of {iterations} iterations after {warm_up}",
        "#",
        f"# {'':>10}  {'':>12}  {'':>8}  {'':>6}  {'':>6}           out-of-place                       in-place",
        "# " + _line("size", "count", "type", "redop", "root", _COLUMNS, _COLUMNS, first=10),
        "# " + _line("(B)", "(elements)", "", "", "", _UNITS, _UNITS, first=10),
        *(_row(row) for row in rows),
        f"# {'Out of bounds values':<20} : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# {'Avg bus bandwidth':<20} : {average:g}",
        "#",
    ]


def _row(row: Mapping[str, Any]) -> str:
    in_place = (f"{row['time_us']:.2f}", f"{row['algbw_gbs']:.2f}", f"{row['busbw_gbs']:.2f}", str(row["wrong"]))
    return _line(row["bytes"], row["count"], row["type"], row["op"], _NO_ROOT, ("N/A",) * 4, in_place)


def _line(*words: Any, first: int = 12) -> str:
    size, count, kind, operation, root, out_of_place, in_place = words
    start = f"{size:>{first}}  {count:>12}  {kind:>8}  {operation:>6}  {root:>6}"
    figures = [
        f"  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}" for time, algbw, busbw, wrong in (out_of_place, in_place)
    ]
    return (start + "".join(figures)).rstrip()
