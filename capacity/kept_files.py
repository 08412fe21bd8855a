"""PURE: where an environment's files, and what their stacks hold, let GPU nodes be kept; known before any probe."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from capacity.place import Place
from capacity.stack_settings import (
    CAPACITY_BLOCK,
    ONLY_PLATFORM,
    market_of,
    name_of,
    network_of,
    only_there,
    platform_of,
)

Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class KeptFiles:
    """`base` is what Pulumi.ENV.yaml has; by region, `files` are those of ENV-<region> that are there, and `held` the
    zones in which their stacks hold GPU capacity."""

    env: str
    base: Settings
    files: Mapping[str, Settings] = field(default_factory=dict)
    held: Mapping[str, Collection[str]] = field(default_factory=dict)

    def why_not(self, place: Place) -> str:
        """Why nothing can be written for a place; empty where it can."""
        stack = name_of(self.env, place)
        settings = self.files.get(place.region)
        if settings is None:
            if self.base.get("aws:region") != place.region:
                _, refused = only_there(self.base)
                if not refused:
                    return ""
                return f"Pulumi.{self.env}.yaml names {', '.join(refused)}, which {place.region} does not have"
            settings = self.base
        elif (platform := platform_of(settings)) != ONLY_PLATFORM:
            return f"Pulumi.{stack}.yaml is for platform {platform}"
        elif market_of(settings) == CAPACITY_BLOCK:
            return f"Pulumi.{stack}.yaml is for a capacity block"
        if elsewhere := sorted(set(self.held.get(place.region, ())) - {place.zone}):
            return f"stack {stack} holds GPU capacity in {', '.join(elsewhere)}: `efactl down -s {stack}` ends it"
        network = network_of(settings)
        if network and place.zone not in network:
            return f"it is none of vpcZones ({', '.join(network)})"
        return ""
