"""An environment: the stack's file that its regions' stacks are made from, and what those stacks hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capacity import stack_file, stack_text
from capacity.account_check import allowed_accounts, check_allowed
from capacity.aws import Access, who
from capacity.held import Held, held
from capacity.place import Place
from capacity.pulumi_cli import PulumiCli
from capacity.request import Request
from capacity.stack_settings import name_of
from efactl import leftovers, teardown
from efactl.region_stacks import checked, made_in_aws, region_stacks
from efactl.stack import FOLDER, PROJECT, Stack
from workload.errors import BadInputError

Say = Callable[[str], None]
# What `request` asks about, and what is then written into the file of a region's stack.
_ASKED_FOR = ("gpuInstanceType", "gpuNodes", "gpuMarket")


@dataclass(kw_only=True)
class Environment:
    """`held` is by region, of the stacks ENV-<region> that are there; `billing` what each of them has that bills."""

    name: str
    base: Stack
    cli: PulumiCli
    access: Access
    held: dict[str, Held] = field(default_factory=dict)
    billing: dict[str, list[str]] = field(default_factory=dict)
    resources: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str) -> "Environment":
        """Raises BadInputError for one that cannot be brought up from place to place."""
        base = Stack(checked(name))
        if (platform := base.config("platform")) != "eks":
            raise BadInputError(
                f"stack {name} is of platform {platform}, which stands where it stands: `efactl up -s {name}`"
            )
        if base.config("gpuMarket") == "capacity-block":
            raise BadInputError(
                f"stack {name} is for a capacity block, whose zone is its own: `efactl up -s {name}` brings it up"
            )
        return cls(name=name, base=base, cli=PulumiCli(FOLDER), access=base.access())

    def request(self, regions: tuple[str, ...] | None, max_hourly: float | None) -> Request:
        return Request(
            instance_type=str(self.base.config("gpuInstanceType")),
            nodes=int(self.base.config("gpuNodes")),
            spot=self.base.config("gpuMarket") == "spot",
            regions=regions,
            max_hourly=max_hourly,
        )

    def look(self) -> None:
        """Reads every stack's state. Raises BadInputError where the environment's own stack, of no region, is up, and
        ReportedError for credentials of another account than one of them was made in, or than the settings allow."""
        if allowed := allowed_accounts(self.base.foreign_config):
            check_allowed(who(access=self.access).account, allowed)
        own = made_in_aws(self.cli.resources(self.name) or [])
        if own:
            raise BadInputError(
                f"stack {self.name} itself is up, with {len(own)} AWS resources: `efactl up -s {self.name}` goes on "
                f"with it, `efactl down -s {self.name}` ends it; --env makes a stack for each region beside it"
            )
        for region, stack in region_stacks(self.name).items():
            resources = self.cli.resources(stack.name) or []
            # Before anything is asked about the nodes: another account knows nothing of them, and says they are gone.
            teardown.made_where(stack, resources)
            self._note(region, resources)

    def look_again(self, region: str) -> None:
        self._note(region, self.cli.resources(self.stack_of(region)) or [])

    def settle(self, region: str, say: Say) -> None:
        """Brings to an end what a killed `pulumi` left open in this region's stack, and reads it again."""
        stack = Stack(self.stack_of(region))
        for line in stack.release_dead_locks():
            say(line)
        resources = stack.settle(say, region=region, name=self.name_tag(region), access=self.access)
        self._note(region, resources)

    def end_late_logs(self, region: str, say: Say) -> None:
        """Of an earlier cluster of this region's stack, which would be in the next one's way."""
        stack, resources = Stack(self.stack_of(region)), self.cli.resources(self.stack_of(region)) or []
        if (made := teardown.made(stack, resources)) is not None:
            teardown.end_late_logs(made, resources, say)

    def config(self, region: str) -> Callable[[str], Any]:
        """The settings that a region's stack will have: its own where it has a file, but for what is asked for."""
        own = Stack(self.stack_of(region)) if self.file(region).exists() else self.base
        return lambda key: (self.base if key in _ASKED_FOR else own).config(key)

    def asked(self, region: str) -> dict[str, str]:
        """What decides whether AWS has room for the nodes there, beside the hour."""
        config = self.config(region)
        reserved = str(config("capacity")) != "none" and config("gpuMarket") != "spot"
        placed = str(config("gpuPlacementGroup") or "")
        return {
            **{key: str(config(key)) for key in _ASKED_FOR},
            "capacity": "reserve" if reserved else "none",
            "gpuPlacementGroup": placed,
        }

    def stack_of(self, region: str) -> str:
        return name_of(self.name, Place(region=region, zone="", zone_id=""))

    def name_tag(self, region: str) -> str:
        """The cluster's name, which is on everything of the stack as a tag."""
        stack = Stack(self.stack_of(region))
        return str(stack.config("eksName") or f"ray-{stack.name}")

    def set(self, region: str, **settings: str) -> None:
        """Writes settings into the region's file, its comments left as they are."""
        file = self.file(region)
        text, ends = stack_file.read(file)
        for key, value in settings.items():
            after = (f"{PROJECT}:capacityUntil", f"{PROJECT}:gpuZone")
            text = stack_text.with_setting(text, f"{PROJECT}:{key}", value, after=after)
        stack_file.put(file, text, ends)

    def unset(self, region: str, key: str) -> None:
        """Takes a setting out of the region's file."""
        text, ends = stack_file.read(self.file(region))
        stack_file.put(self.file(region), stack_text.without(text, [f"{PROJECT}:{key}"]), ends)

    def file(self, region: str) -> Path:
        return FOLDER / f"Pulumi.{self.stack_of(region)}.yaml"

    def _note(self, region: str, resources: list[Mapping[str, Any]]) -> None:
        stack = Stack(self.stack_of(region))
        self.resources[region] = resources
        self.held[region] = held(
            stack.name,
            resources,
            region=region,
            zone=str(stack.config("gpuZone") or ""),
            one_zone=stack.config("eksStorage") == "fsx",
        )
        lines = leftovers.still_billing(resources, stack=stack.name, region=region)
        self.billing[region] = lines[:1]
