"""PURE: which actions an IAM policy document allows, somewhere: resources and conditions are not weighed."""

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def allowing(policy: Mapping[str, Any], action: str) -> list[Mapping[str, Any]]:
    """The statements that allow an action; IAM does not look at the case of action names."""
    return [
        statement
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow"
        and any(fnmatch.fnmatchcase(action.lower(), pattern.lower()) for pattern in actions_of(statement))
    ]


def not_allowed(policy: Mapping[str, Any], actions: Iterable[str]) -> list[str]:
    """Those that no statement allows, each once, sorted."""
    return sorted({action for action in actions if not allowing(policy, action)})


def actions_of(statement: Mapping[str, Any]) -> Iterator[str]:
    actions = statement["Action"]
    yield from [actions] if isinstance(actions, str) else actions
