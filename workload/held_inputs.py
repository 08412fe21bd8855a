"""The inputs that a stack's state holds a run's resource by, beside those that the program asks for."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from workload.provider_process import differing


def as_asked(
    resource: pulumi.Resource, props: Mapping[str, Any], *, identity: Sequence[str], result: str
) -> pulumi.Output[bool]:
    """Whether the resource has run, and with the inputs that decide of it as `props` are now.

    False of one that is no target of a `pulumi up --target`: the engine keeps it as it was, or makes none. `result` is
    an output that only a run has; inputs the SDK hands back where the engine has no outputs.
    """
    held = {key: getattr(resource, key) for key in (*identity, result)}
    both = pulumi.Output.all(held=held, asked={key: props[key] for key in identity})
    return both.apply(
        lambda both: both["held"][result] is not None and not differing(both["held"], both["asked"], identity)
    )


def key_where_run(key: str, *parts: pulumi.Output[bool]) -> pulumi.Output[str]:
    """The key of the run that is asked for where all its parts are `as_asked`, else ""."""
    return pulumi.Output.all(*parts).apply(lambda parts: key if all(parts) else "")
