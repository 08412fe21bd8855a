"""Whether the account has room for the GPU nodes where the stack has them: by the survey of `efactl capacity`."""

from collections.abc import Iterator
from typing import Any

from efactl.doctor.finding import Finding, ok, warn
from efactl.doctor.subject import Subject

_ELSEWHERE = "`efactl capacity` shows every region and zone, and why each is in or out"


def capacity(subject: Subject) -> Iterator[Finding]:
    """A warning at most: the stack's own running nodes count against the quota too. Nothing is made."""
    region, zone = str(subject.file.get("aws:region") or ""), str(subject.setting("gpuZone"))
    nodes = str(subject.setting("gpuNodes"))
    if subject.platform != "eks" or not region or subject.setting("gpuExistingGroup") or nodes == "0":
        return
    from capacity.aws import access_of
    from capacity.choice import choose
    from capacity.request import Request
    from capacity.survey import survey
    from workload.errors import ReportedError

    try:
        request = Request(
            instance_type=str(subject.setting("gpuInstanceType")),
            nodes=int(nodes),
            spot=subject.setting("gpuMarket") == "spot",
            regions=(region,),
        )
        candidates = choose(request, survey(request, lambda _: None, access=access_of(subject.file.get))).candidates
    except (ReportedError, ValueError) as error:
        yield warn("capacity", f"not looked at: {error}", _ELSEWHERE)
        return
    found = next((one for one in candidates if zone in (one.zone, "")), None)
    what = f"{nodes} x {request.instance_type} in {zone or region}"
    if found is None:
        yield warn("capacity", f"{what}: region {region} has no such zone", _ELSEWHERE)
    elif found.eligible:
        yield ok("capacity", f"{what}: {'; '.join(_facts(found)) or 'nothing speaks against it'}")
    else:
        yield warn("capacity", f"{what}: {'; '.join(found.reasons)}", _ELSEWHERE)


def _facts(found: Any) -> Iterator[str]:
    if found.reservation:
        yield f"reservation {found.reservation} has room"
    elif found.quota_vcpus is not None:
        used = "" if found.used_vcpus is None else f", {found.used_vcpus} in use"
        yield f"quota {found.quota_vcpus:g} vCPU{used}"
    if found.usd_per_hour is not None:
        yield f"${found.usd_per_hour:.2f} an hour"
    yield from found.notes
