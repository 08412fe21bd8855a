"""PURE: what capacity is asked for, and which requests cannot be meant."""

import difflib
import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from infra import instances
from workload.errors import BadInputError

_TYPE = re.compile(r"[a-z]+[0-9][a-z0-9]*(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*")
_REGION = re.compile(r"[a-z]{2,3}(-[a-z]+)+-[0-9]+")
# GetSpotPlacementScores takes up to 2000, and nobody trains on more with this.
_MOST_NODES = 1000


@dataclass(frozen=True, kw_only=True)
class Request:
    """`nodes` instances of one type in one zone. `regions` None: every region there is.

    `max_hourly` is the most that the nodes together may cost, in USD an hour. Raises BadInputError for what cannot be.
    """

    instance_type: str = "g6.12xlarge"
    nodes: int = 2
    spot: bool = False
    regions: tuple[str, ...] | None = None
    max_hourly: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= _MOST_NODES:
            raise BadInputError(f"{self.nodes} nodes: ask for a number of nodes from 1 to {_MOST_NODES}")
        _check_type(self.instance_type)
        if self.regions is not None:
            _check_regions(self.regions)
            object.__setattr__(self, "regions", tuple(dict.fromkeys(self.regions)))
        if self.max_hourly is not None and not (math.isfinite(self.max_hourly) and self.max_hourly > 0):
            raise BadInputError(f"--max-hourly {self.max_hourly:g}: give an amount above 0, in USD an hour")

    @property
    def market(self) -> str:
        return "spot" if self.spot else "on-demand"


def regions_from(text: str) -> tuple[str, ...] | None:
    """Of `--regions a,b` or `all`. Raises BadInputError for what has no region in it."""
    names = [name for name in re.split(r"[,\s]+", text.strip()) if name]
    if not names:
        raise BadInputError("--regions is empty: name regions with commas between them, or all")
    if "all" in names:
        if len(names) > 1:
            raise BadInputError(f"--regions {text}: 'all' goes without other names")
        return None
    return tuple(names)


def unknown_regions(asked: Collection[str], there: Collection[str]) -> BadInputError | None:
    """The error for regions that AWS does not have; `there` are all it has, enabled or not."""
    unknown = sorted(set(asked) - set(there))
    if not unknown:
        return None
    said = ", ".join(f"'{name}'{_meant(name, there)}" for name in unknown)
    return BadInputError(f"no such region: {said}. AWS has {', '.join(sorted(there))}")


def unknown_type(name: str, *, near: Collection[str] = ()) -> BadInputError:
    """The error for a type that EC2 does not know."""
    known = sorted({*instances.names(), *near})
    return BadInputError(
        f"instance type '{name}'{_meant(name, known)} is known to EC2 in none of the regions that answered; with "
        f"EFA are {', '.join(_with_efa())}"
    )


def no_gpu(name: str) -> BadInputError:
    return BadInputError(f"instance type '{name}' has no GPU: the job needs some; take one of {', '.join(_with_efa())}")


def no_efa(name: str) -> BadInputError:
    """The error for a type that has no EFA interface."""
    family = name.partition(".")[0]
    same = [known for known in _with_efa() if known.startswith(f"{family}.")]
    return BadInputError(
        f"instance type '{name}' has no EFA, so the GPUs of two nodes could only talk over TCP: take one of "
        f"{', '.join(same or _with_efa())}"
    )


def _check_type(name: str) -> None:
    if not _TYPE.fullmatch(name):
        known = instances.names()
        raise BadInputError(
            f"'{name}' is no instance type{_meant(name, known)}: it has a family and a size, as g6.12xlarge has"
        )
    if name in instances.names() and not instances.known(name).efa_interfaces:
        raise no_efa(name)


def _check_regions(names: tuple[str, ...]) -> None:
    if not names:
        raise BadInputError("no region to ask: name some, or all")
    for name in names:
        if re.fullmatch(rf"{_REGION.pattern}[a-z]", name):
            raise BadInputError(f"'{name}' is a zone: its region is '{name[:-1]}', whose zones are all looked at")
        if not _REGION.fullmatch(name):
            raise BadInputError(f"'{name}' is no name of a region: they look like us-west-2")


def _with_efa() -> list[str]:
    return [name for name in instances.names() if instances.known(name).efa_interfaces]


def _meant(name: str, there: Collection[str]) -> str:
    near = difflib.get_close_matches(name, sorted(there), n=1, cutoff=0.75)
    return f" (is {near[0]} meant?)" if near else ""
