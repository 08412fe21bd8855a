"""What a rule sees of a program's resources, and what it is."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
SUBNET = "aws:ec2/subnet:Subnet"
BUCKET = "aws:s3/bucket:Bucket"
RAY_CLUSTER = "kubernetes:ray.io/v1:RayCluster"
HELM_RELEASE = "kubernetes:helm.sh/v3:Release"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"


class Unknown:
    """A value that a preview cannot know."""

    def __repr__(self) -> str:
        return "(known after the update)"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Resource:
    """`props` are on the wire's names, plain; `refs` the resources from which each property's value comes."""

    type: str
    name: str
    props: Mapping[str, Any]
    urn: str = ""
    refs: Mapping[str, "Sequence[Resource]"] = field(default_factory=dict, repr=False, compare=False)

    def feeding(self, prop: str, kind: str) -> list["Resource"]:
        """The resources of one type from which a property's value comes."""
        return [resource for resource in self.refs.get(prop, ()) if resource.type == kind]


@dataclass(frozen=True, kw_only=True)
class ResourceRule:
    """`check` gives a message for each violation of one resource of `types`; asked before it is made or changed."""

    name: str
    description: str
    types: tuple[str, ...]
    check: Callable[[Resource], Iterable[str]]


@dataclass(frozen=True, kw_only=True)
class StackRule:
    """`check` gives each violation with the resource at fault; asked about all of a program's resources together."""

    name: str
    description: str
    check: Callable[[Sequence[Resource]], Iterable[tuple[Resource, str]]]


def of_type(resources: Iterable[Resource], *kinds: str) -> Iterator[Resource]:
    return (resource for resource in resources if resource.type in kinds)


def mapping(value: Any) -> Mapping[str, Any]:
    """An object; an absent or unknown one is empty."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """A list's objects; an absent or unknown list is empty."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def true(value: Any) -> bool:
    """The AWS provider takes some booleans as text."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def at(value: Any, *path: str) -> Any:
    """A value deep inside objects; None where there is nothing, UNKNOWN where what holds it is unknown."""
    for name in path:
        if value is UNKNOWN:
            return UNKNOWN
        value = mapping(value).get(name)
    return value
