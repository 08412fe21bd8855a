"""The environment that a place is kept for (`efactl capacity --write ENV`): what can refuse it is looked at first."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capacity import stack_file, stack_text
from capacity.account_check import allowed_accounts, check_allowed
from capacity.aws import Access, who
from capacity.choice import Choice
from capacity.kept_files import KeptFiles, Settings
from capacity.pulumi_cli import PulumiCli
from capacity.request import Request
from capacity.stack_settings import CAPACITY_BLOCK, check_platform, held_zones, market_of
from efactl.region_stacks import checked, region_stacks
from efactl.stack import FOLDER, Stack
from workload.errors import BadInputError


@dataclass(frozen=True, kw_only=True)
class KeptEnvironment:
    """`access` is as whom its own settings have AWS asked: zones' names and quotas are an account's. `sources` are the
    stacks whose files a place may be written into or made from: ENV-<region> of the regions asked about, and ENV where
    one of those has no file yet."""

    base: Stack
    sources: tuple[Stack, ...]
    access: Access
    files: KeptFiles

    @classmethod
    def of(cls, name: str, regions: tuple[str, ...] | None) -> "KeptEnvironment":
        """`regions` are those asked about, None for all.

        Raises BadInputError for one that there is not or that has no place to choose; ReportedError for credentials of
        an account that it does not allow, and for a backend of Pulumi's that cannot be used.
        """
        file = FOLDER / f"Pulumi.{checked(name)}.yaml"
        if not file.exists():
            raise BadInputError(f"--write {name}: there is no {file.name} to make a region's file from")
        base = Stack(name)
        settings = _settings(file)
        check_platform(settings, f"--write {name}: {file.name}")
        if market_of(settings) == CAPACITY_BLOCK:
            raise BadInputError(f"--write {name}: {file.name} is for a capacity block, whose zone is its own")
        access, allowed = base.access(), allowed_accounts(base.foreign_config)
        if allowed:
            region = str(base.foreign_config("aws:region") or "")
            check_allowed(who(region=region, access=access).account, allowed)
        cli = PulumiCli(FOLDER)
        # Also of an environment without a region yet: a backend that cannot be used is told before anything is paid.
        cli.resources(name)
        there = {region: one for region, one in region_stacks(name).items() if regions is None or region in regions}
        files = KeptFiles(
            env=name,
            base=settings,
            files={region: _settings(one.file) for region, one in there.items()},
            held={region: held_zones(cli.resources(one.name) or []) for region, one in there.items()},
        )
        fresh = regions is None or not set(regions) <= there.keys()
        sources = (*there.values(), *([base] if fresh else []))
        return cls(base=base, sources=sources, access=access, files=files)

    def request(self, asked: Request, given: Collection[str], say: Callable[[str], None]) -> Request:
        """What of `asked` is not `given` is as the files have it.

        Raises BadInputError where two files have it differently: one survey asks about one.
        """
        own = {name: _one(name, self.sources) for name in _SETTINGS if name not in given}
        request = replace(asked, **own)
        where = f" (as in {', '.join(stack.file.name for stack in self.sources)})" if own else ""
        say(f"asked about: {request.nodes} x {request.instance_type}, {request.market}{where}")
        return request

    def write(self, choice: Choice, say: Callable[[str], None]) -> None:
        name = self.base.name
        stack_file.write(name, choice.plan[0], choice, folder=FOLDER, base=name, say=say)


def _one(name: str, stacks: Sequence[Stack]) -> Any:
    setting, option, read = _SETTINGS[name]
    found = {stack.file.name: read(str(stack.config(setting))) for stack in stacks}
    if len(set(found.values())) > 1:
        said = ", ".join(f"{stack.config(setting)} in {stack.file.name}" for stack in stacks)
        raise BadInputError(f"{setting} is {said}: give {option}, or --regions with those of one kind")
    return next(iter(found.values()))


def _nodes(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadInputError(f"gpuNodes: '{text}' is no number of nodes") from None


# By a request's field: the setting, the option that goes before it, and what its text means.
_SETTINGS: Mapping[str, tuple[str, str, Callable[[str], Any]]] = {
    "instance_type": ("gpuInstanceType", "--instance-type", str),
    "nodes": ("gpuNodes", "--nodes", _nodes),
    "spot": ("gpuMarket", "--spot or --no-spot", lambda text: text == "spot"),
}


def _settings(file: Path) -> Settings:
    text, _ = stack_file.read(file)
    return stack_text.settings_of(text)
