"""PURE: all candidates of a choice side by side, for people."""

from collections.abc import Sequence

from capacity.candidate import Candidate, Out
from capacity.choice import Choice

_HEADER = ("", "region", "zone", "id", "vCPU free", "spot", "reserved", "USD/h", "probe", "")


def lines(choice: Choice) -> list[str]:
    """A heading, a row for each candidate, best first, then what was not told. Zones out for one reason share a row."""
    eligible = [one for one in choice.candidates if one.eligible]
    out = [one for one in choice.candidates if not one.eligible]
    rows = [_row(str(number), [one]) for number, one in enumerate(eligible, start=1)]
    rows += [_row("-", alike) for alike in _alike(out)]
    return [_heading(choice), "", *_columns([_HEADER, *rows]), *_notes(choice), "", _end(choice)]


def _heading(choice: Choice) -> str:
    request, facts = choice.request, choice.facts
    if facts is None:
        return f"{request.nodes} x {request.instance_type}, {request.market}"
    has = f"{facts.gpus} x {facts.gpu_name}, {facts.vcpus} vCPU, {facts.efa_interfaces} EFA"
    return (
        f"{request.nodes} x {request.instance_type} ({has} each), {request.market}: {choice.needed_vcpus} vCPU of quota"
    )


def _alike(out: Sequence[Candidate]) -> list[list[Candidate]]:
    """Of one region, with the same reasons and nothing else to tell them apart by."""
    groups: dict[object, list[Candidate]] = {}
    for one in out:
        groups.setdefault((one.region, one.reasons, one.reservations, one.usd_per_hour), []).append(one)
    return list(groups.values())


def _row(number: str, alike: list[Candidate]) -> tuple[str, ...]:
    one, several = alike[0], len(alike) > 1
    scores = {each.spot_score for each in alike}
    return (
        number,
        one.region,
        ", ".join(each.zone.removeprefix(one.region) for each in alike) if several else one.zone or "-",
        ", ".join(each.zone_id.rpartition("-")[2] for each in alike) if several else one.zone_id or "-",
        _free(one),
        "-" if scores == {None} else "/".join("-" if score is None else str(score) for score in _in_order(alike)),
        _reserved(one),
        "-" if one.usd_per_hour is None else f"{one.usd_per_hour:.2f}",
        "-" if one.probe is None else str(one.probe["outcome"]),
        "; ".join(one.reasons),
    )


def _in_order(alike: list[Candidate]) -> list[int | None]:
    return [one.spot_score for one in alike] if len({one.spot_score for one in alike}) > 1 else [alike[0].spot_score]


def _free(one: Candidate) -> str:
    if one.quota_vcpus is None:
        return "-"
    used = "?" if one.used_vcpus is None else f"{one.quota_vcpus - one.used_vcpus:g}"
    return f"{used} of {one.quota_vcpus:g}"


def _reserved(one: Candidate) -> str:
    if one.reservation:
        return one.reservation
    free = sum(each.free for each in one.reservations)
    return f"{free} free" if one.reservations else "-"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]


def _notes(choice: Choice) -> list[str]:
    """Each once, with the places that it is of; none of a place that is out for what no answer more would change."""
    places: dict[str, list[str]] = {}
    for one in choice.candidates:
        if one.outs and max(one.outs)[0] >= Out.STATE:
            continue
        for note in one.notes:
            places.setdefault(note, []).append(one.zone or one.region)
    if not places:
        return []
    shown = [f"  {_few(names)}: {note}" for note, names in sorted(places.items(), key=lambda item: sorted(item[1]))]
    return ["", "Not known, or worth knowing:", *shown]


def _few(names: list[str]) -> str:
    names = sorted(names)
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _end(choice: Choice) -> str:
    dates = sorted({f"{one.price_source} of {one.price_as_of}" for one in choice.candidates if one.price_source})
    prices = f"USD/h is for the nodes alone, without tax ({', '.join(dates)})." if dates else "No price is known."
    if not choice.plan:
        return f"No place can take them. {prices}"
    best = choice.of(choice.plan[0])
    by = f", in reservation {best.reservation}" if best.reservation else ""
    unsure = ", which its probe left open" if (best.probe or {}).get("outcome") == "unknown" else ""
    return f"Best: {best.zone} ({best.zone_id}){by}{unsure}. {prices}"
