"""What an eks stack's teardown knows of AWS: whose account it is, and what is still there at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capacity.audit import NAME_TAG, audit
from capacity.aws import Access, who
from capacity.left import Left
from efactl import leftovers
from efactl.stack import Stack, plain
from workload.errors import ReportedError

# Kinds that storageKeep leaves, as an audit calls them.
_KEPT = ("bucket", "FSx file system")


@dataclass(frozen=True, kw_only=True)
class Made:
    """Where and as what a stack was made: `account` is empty where its state holds nothing of AWS any more.

    `name` is the value of the tag that everything of it has; `clusters` are existing ones it put nodes into.
    """

    stack: str
    account: str
    regions: tuple[str, ...]
    name: str
    access: Access
    clusters: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def made(stack: Stack, resources: Sequence[Mapping[str, Any]]) -> Made | None:
    """From its state, and from its settings where the state is silent; None where no region is named in either."""
    fixed = plain(leftovers.fixed_settings(resources))
    region = fixed.get("aws:region") or stack.foreign_config("aws:region")
    regions = tuple(dict.fromkeys([*([str(region)] if region else []), *leftovers.regions(resources)]))
    if not regions:
        return None
    existing = fixed.get("eksExistingCluster") or stack.config("eksExistingCluster")
    return Made(
        stack=stack.name,
        account=fixed.get("aws account") or leftovers.account(resources),
        regions=regions,
        name=fixed.get("eksName") or stack.config("eksName") or f"ray-{stack.name}",
        access=stack.access(),
        clusters=(str(existing),) if existing else (),
        kept=_KEPT if stack.is_on("storageKeep") else (),
    )


def made_where(stack: Stack, resources: Sequence[Mapping[str, Any]]) -> Made | None:
    """The same, once it is certain that these credentials are of that account. Raises ReportedError otherwise."""
    found = made(stack, resources)
    if found is not None:
        check_account(found)
    return found


def check_account(made: Made) -> None:
    """Raises ReportedError for credentials that do not work, or of another account than the stack was made in."""
    if not made.account:
        return
    asks = who(region=made.regions[0], access=made.access)
    if asks.account != made.account:
        raise ReportedError(
            f"stack {made.stack} was made in account {made.account}, and these credentials are of account "
            f"{asks.account} ({asks.arn}): nothing was changed. Sign in to {made.account} (AWS_PROFILE, or "
            "aws:profile in the stack's file) and run it again"
        )


def look(made: Made, say: Callable[[str], None]) -> list[Left]:
    """What is there in every region that the stack used, asked of AWS by tag and by name."""
    say(f"looking in {', '.join(made.regions)} for what has the tag {NAME_TAG}={made.name}, or its name")
    tags = {NAME_TAG: made.name}
    return audit(made.regions, tags, kept=made.kept, clusters=made.clusters, access=made.access)
