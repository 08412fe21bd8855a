"""What an eks stack's teardown knows of AWS: whose account it is, and what is still there at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from capacity import late_logs
from capacity.account_check import allowed_accounts, check_allowed
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

    `name` is the value of the tag that everything of it has; `clusters` are existing ones it put nodes into. `allowed`
    are the accounts that its settings allow, empty for any.
    """

    stack: str
    account: str
    regions: tuple[str, ...]
    name: str
    access: Access
    clusters: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


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
        allowed=allowed_accounts(stack.foreign_config),
    )


def made_where(stack: Stack, resources: Sequence[Mapping[str, Any]]) -> Made | None:
    """The same, its account that of these credentials for certain. Raises ReportedError where it must not be."""
    found = made(stack, resources)
    return None if found is None else in_its_account(found)


def in_its_account(made: Made) -> Made:
    """With the account that AWS is asked in, which is the state's own where that still names one.

    Raises ReportedError for credentials that do not work, of another account, or of one that the settings do not allow.
    """
    asks = who(region=made.regions[0], access=made.access)
    check_allowed(asks.account, made.allowed)
    if made.account and asks.account != made.account:
        raise ReportedError(
            f"stack {made.stack} was made in account {made.account}, and these credentials are of account "
            f"{asks.account} ({asks.arn}): nothing was changed. Sign in to {made.account} (AWS_PROFILE, or "
            "aws:profile in the stack's file) and run it again"
        )
    return replace(made, account=asks.account)


def end_late_logs(made: Made, resources: Sequence[Mapping[str, Any]], say: Callable[[str], None]) -> None:
    """Of a control plane of the stack's own that is gone; `resources` are those of its state."""
    for region in () if made.clusters else made.regions:
        if name := late_logs.ended(made.name, resources, region=region, access=made.access):
            say(f"log group {name} in {region} is deleted: EKS made it anew after its cluster had gone")


def look(made: Made, say: Callable[[str], None]) -> list[Left]:
    """What is there in every region that the stack used, asked of AWS by tag and by name."""
    where = f"account {made.account}, {', '.join(made.regions)}"
    say(f"looking in {where}, for what has the tag {NAME_TAG}={made.name}, or its name")
    tags = {NAME_TAG: made.name}
    return audit(made.regions, tags, kept=made.kept, clusters=made.clusters, access=made.access)
