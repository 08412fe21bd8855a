"""PURE: resources gathered into boxes, one for each component, in the order data flows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tools.diagram.resources import STACK, Resource, depths, reduced

# Components that only arrange others: frames around boxes, not boxes.
FRAMES = ("EksRay", "KubernetesRay")


@dataclass(frozen=True, kw_only=True)
class Box:
    """`frames` are the URNs of those it is in, outermost first; `kinds` how many resources of each kind it makes."""

    urn: str
    title: str
    frames: tuple[str, ...]
    kinds: tuple[tuple[str, int], ...]


@dataclass(frozen=True, kw_only=True)
class Edge:
    """`after` waits for `before`. `carries`: a value of the one is an input of the other."""

    before: str
    after: str
    carries: bool


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """`frames` are titles by URN."""

    frames: Mapping[str, str]
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


def drawn(resources: Mapping[str, Resource]) -> Drawing:
    """Providers have no box: what uses one waits for what the provider waits for."""
    home = {urn: _home(urn, resources) for urn in resources}
    steps = depths({urn: resource.after for urn, resource in resources.items()})
    inside: dict[str, list[str]] = {}
    for urn, box in home.items():
        if box:
            inside.setdefault(box, []).append(urn)
    carrying = _between(resources, home)
    after = {box: frozenset(before for before, other in carrying if other == box) for box in inside}
    order = depths(after)
    boxes = sorted(inside, key=lambda box: (order[box], resources[box].kind, box))
    kept = reduced(after)
    return Drawing(
        frames={urn: resource.kind for urn, resource in resources.items() if _is_frame(resource)},
        boxes=tuple(
            Box(
                urn=box,
                title=resources[box].kind,
                frames=_frames(box, resources),
                kinds=_kinds([resources[urn] for urn in inside[box]], steps),
            )
            for box in boxes
        ),
        edges=tuple(
            Edge(before=before, after=box, carries=carrying[before, box])
            for box in boxes
            for before in sorted(kept[box], key=boxes.index)
        ),
    )


def _home(urn: str, resources: Mapping[str, Resource]) -> str:
    """The box that a resource is in; "" for frames, the stack, and providers that are in no component of their own."""
    resource = resources[urn]
    if resource.type == STACK or _is_frame(resource):
        return ""
    parent = resources.get(resource.parent)
    if parent is None or parent.type == STACK or _is_frame(parent):
        return "" if resource.is_provider else urn
    return _home(parent.urn, resources)


def _between(resources: Mapping[str, Resource], home: Mapping[str, str]) -> dict[tuple[str, str], bool]:
    """Each pair (before, after) of boxes with a dependency between them, and whether a value flows."""
    found: dict[tuple[str, str], bool] = {}
    for urn, resource in resources.items():
        if not home[urn]:
            continue
        for before in resource.after:
            carries = before in resource.values
            for box in _behind(before, resources, home):
                if box != home[urn]:
                    pair = (box, home[urn])
                    found[pair] = found.get(pair, False) or carries
    return found


def _behind(urn: str, resources: Mapping[str, Resource], home: Mapping[str, str]) -> set[str]:
    if home[urn]:
        return {home[urn]}
    return {box for before in resources[urn].after for box in _behind(before, resources, home)}


def _kinds(inside: list[Resource], steps: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    made = [resource for resource in inside if resource.custom and not resource.is_provider]
    first: dict[str, int] = {}
    for resource in made:
        first[resource.kind] = min(first.get(resource.kind, steps[resource.urn]), steps[resource.urn])
    counted = Counter(resource.kind for resource in made)
    return tuple(sorted(counted.items(), key=lambda item: (first[item[0]], item[0])))


def _frames(urn: str, resources: Mapping[str, Resource]) -> tuple[str, ...]:
    parent = resources.get(resources[urn].parent)
    return (*_frames(parent.urn, resources), parent.urn) if parent is not None and _is_frame(parent) else ()


def _is_frame(resource: Resource) -> bool:
    return resource.kind in FRAMES and not resource.custom
