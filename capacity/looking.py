"""What an audit looks for in one region, and as whom."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capacity.aws import Access, client
from capacity.left import Left, command
from infra.prices import RegionPrices, prices_of

# The tag that everything of a stack has; its value is the cluster's name too.
NAME_TAG = "ray-train-efa/name"

Filters = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Looking:
    """`tags` are on all that the program makes; `clusters` are existing ones that may hold its node groups.

    `kept` are kinds that a setting keeps.
    """

    region: str
    tags: Mapping[str, str]
    clusters: Collection[str]
    kept: Collection[str]
    access: Access
    prices: RegionPrices = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prices", prices_of(self.region))

    @property
    def name(self) -> str:
        return self.tags[NAME_TAG]

    def client(self, service: str) -> Any:
        return client(service, self.region, access=self.access)

    def ours(self, tags: object) -> bool:
        """`tags` as AWS writes them: a mapping, or a list of Key/Value."""
        if isinstance(tags, Mapping):
            there = dict(tags)
        else:
            there = {tag["Key"]: tag["Value"] for tag in tags} if isinstance(tags, Sequence) else {}
        return all(there.get(key) == value for key, value in self.tags.items())

    def of_cluster(self, tags: Iterable[Mapping[str, str]]) -> bool:
        """Whether controllers of the stack's own cluster made it."""
        there = {tag["Key"]: tag.get("Value", "") for tag in tags}
        return there.get("elbv2.k8s.aws/cluster") == self.name or there.get(self.cluster_tag) == "owned"

    @property
    def cluster_tag(self) -> str:
        return f"kubernetes.io/cluster/{self.name}"

    def by_tags(self) -> Filters:
        return [{"Name": f"tag:{key}", "Values": [value]} for key, value in self.tags.items()]

    def by_cluster(self) -> Filters:
        """What AWS and Kubernetes make for the stack's own cluster carries its name, and not our tags."""
        return [{"Name": f"tag:{self.cluster_tag}", "Values": ["owned"]}]

    def left(
        self,
        kind: str,
        id: str,
        *,
        bills: bool,
        usd: float | None = None,
        note: str = "",
        parent: str = "",
        how_to_end: str | None = None,
    ) -> Left:
        if how_to_end is None:
            how_to_end = command(kind, self.region, id, parent=parent, option=self.access.option)
        return Left(
            region=self.region,
            kind=kind,
            id=id,
            bills=bills,
            how_to_end=how_to_end,
            usd_per_hour=usd,
            kept="storageKeep" if kind in self.kept else "",
            note=note,
        )
