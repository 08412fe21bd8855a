"""PURE: from what the regions said to the places worth trying, best first; the order of the answers does not count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from capacity.answers import Missing, RegionAnswers, TypeFacts
from capacity.candidate import Candidate, Out
from capacity.cause import Sorted
from capacity.judgement import candidates
from capacity.place import Place
from capacity.ranking import Factor, order
from capacity.request import Request, no_efa, no_gpu, unknown_type
from infra import instances

UNKNOWN_TYPE = "InvalidInstanceType"


class ProbeLike(Protocol):
    """What `capacity.probe` found of a place. `usd` is what the probe cost at most, None where no price is known."""

    @property
    def place(self) -> Place: ...
    @property
    def outcome(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def usd(self) -> float | None: ...
    @property
    def reservation_id(self) -> str: ...
    @property
    def after(self) -> Sorted | None: ...


@dataclass(frozen=True, kw_only=True)
class Choice:
    """`candidates` are those of the plan in its order, then those that are out; `plan` is best first.

    `why` has each planned zone's factors by its name. `needed_vcpus` is None where nobody told what the type has.
    """

    request: Request
    facts: TypeFacts | None
    candidates: tuple[Candidate, ...]
    plan: tuple[Place, ...]
    why: Mapping[str, tuple[Factor, ...]] = field(default_factory=dict)

    @property
    def needed_vcpus(self) -> int | None:
        return None if self.facts is None else self.facts.vcpus * self.request.nodes

    @property
    def unanswered(self) -> bool:
        """Whether no region said anything: AWS could not be asked at all."""
        return all(any(why is Out.NO_ANSWER for why, _ in one.outs) for one in self.candidates)

    def of(self, place: Place) -> Candidate:
        """The candidate of a place of the plan."""
        return next(one for one in self.candidates if one.place == place)

    def as_dict(self) -> dict[str, Any]:
        """The contract of `efactl capacity --json`."""
        facts = self.facts
        return {
            "instance_type": self.request.instance_type,
            "nodes": self.request.nodes,
            "market": self.request.market,
            "needed_vcpus": self.needed_vcpus,
            "type": facts
            and {
                "vcpus": facts.vcpus,
                "gpus": facts.gpus,
                "gpu_name": facts.gpu_name,
                "efa_interfaces": facts.efa_interfaces,
            },
            "candidates": [one.as_dict() for one in self.candidates],
            "plan": [{"region": one.region, "zone": one.zone, "zone_id": one.zone_id} for one in self.plan],
        }


def choose(
    request: Request,
    answers: Sequence[RegionAnswers],
    probes: Sequence[ProbeLike] = (),
    *,
    why_not: Callable[[Place], str] = lambda _: "",
) -> Choice:
    """`why_not` is what else speaks against a place, empty for nothing. Raises BadInputError for a type that EC2 does
    not know, or that has no GPU or no EFA."""
    facts = type_facts(request, answers)
    probed = _by_zone(probes)
    said = {one.region: one for one in answers}
    for region in request.regions or ():
        said.setdefault(region, RegionAnswers(region=region, trouble=Missing(code="", text="the region was not asked")))
    judged = [one for region in sorted(said) for one in candidates(request, said[region], facts, probed)]
    all_ = [_kept_out(one, why_not(one.place)) if one.zone else one for one in judged]
    eligible, why = order(request, [one for one in all_ if one.eligible])
    out = sorted((one for one in all_ if not one.eligible), key=lambda o: (min(o.outs)[0], o.region, o.zone_id, o.zone))
    return Choice(
        request=request,
        facts=facts,
        candidates=(*eligible, *out),
        plan=tuple(one.place for one in eligible),
        why=why,
    )


def _kept_out(one: Candidate, why: str) -> Candidate:
    return replace(one, outs=tuple(sorted((*one.outs, (Out.FILES, why))))) if why else one


def _by_zone(probes: Sequence[ProbeLike]) -> dict[str, dict[str, Any]]:
    """What was refused for all of a region counts as refused for its zones that were then not asked."""
    closed = {
        one.place.region: one
        for one in probes
        if one.outcome == "no" and one.after is not None and one.after.retry not in ("next-zone", "wait")
    }
    found = {}
    for one in probes:
        refused = one.outcome == "not-asked" and one.place.region in closed
        text = closed[one.place.region].text if refused else one.text
        found[one.place.zone] = {
            "outcome": "no" if refused else one.outcome,
            "text": text,
            "usd": one.usd,
            "reservation_id": one.reservation_id or None,
        }
    return found


def type_facts(request: Request, answers: Sequence[RegionAnswers]) -> TypeFacts | None:
    """As the first region tells that has the type, else as our own table has it, else None."""
    name = request.instance_type
    told = [one.type for one in sorted(answers, key=lambda one: one.region)]
    facts = next((one for one in told if isinstance(one, TypeFacts)), None)
    if facts is None and name in instances.names():
        known = instances.known(name)
        facts = TypeFacts(
            name=name,
            vcpus=known.vcpus,
            gpus=known.gpus,
            gpu_name=known.gpu_name,
            efa_interfaces=known.efa_interfaces,
        )
    if facts is None:
        if any(isinstance(one, Missing) and one.code == UNKNOWN_TYPE for one in told):
            raise unknown_type(name)
        return None
    if not facts.gpus:
        raise no_gpu(name)
    if not facts.efa_interfaces:
        raise no_efa(name)
    return facts
