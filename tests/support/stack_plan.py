"""What a preview of a stack would do, resource by resource, and which AWS calls its credentials may not make."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.project import ROOT
from tests.support.standin_project import StandinProject
from tools.standin import actions
from tools.standin.iam_policy import not_allowed

_REPLACING = {"replace", "create-replacement", "delete-replaced"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Each resource as its type's last word and its name: `NodeGroup ray-gpu-group`."""

    created: frozenset[str]
    updated: frozenset[str]
    replaced: frozenset[str]
    deleted: frozenset[str]
    same: frozenset[str]

    def __str__(self) -> str:
        parts = {"created": self.created, "updated": self.updated, "replaced": self.replaced, "deleted": self.deleted}
        return "\n".join(f"{what}: {', '.join(sorted(names)) or '-'}" for what, names in parts.items())


def plan(project: StandinProject, **settings: Any) -> Plan:
    """The preview with these settings, which are those of before again afterwards."""
    file = project.folder / f"Pulumi.{project.stack}.yaml"
    before = file.read_text()
    project.set(**settings)
    try:
        return plan_of(json.loads(project.must("preview", "--json", "--show-sames"))["steps"])
    finally:
        file.write_text(before)


def plan_of(steps: Iterable[Mapping[str, Any]]) -> Plan:
    by_name: dict[str, set[str]] = {}
    for step in steps:
        by_name.setdefault(called(step["urn"]), set()).add(step["op"])

    def having(*operations: str) -> frozenset[str]:
        return frozenset(name for name, found in by_name.items() if found & set(operations))

    replaced = having(*_REPLACING)
    return Plan(
        created=having("create"),
        updated=having("update"),
        replaced=replaced,
        deleted=having("delete") - replaced,
        same=having("same"),
    )


def called(urn: str) -> str:
    kind, _, name = urn.rpartition("::")
    return f"{kind.rpartition(':')[2]} {name}"


def set_foreign(project: StandinProject, **settings: Any) -> None:
    """Settings of Pulumi's aws namespace."""
    file = project.folder / f"Pulumi.{project.stack}.yaml"
    content = yaml.safe_load(file.read_text())
    content["config"].update({f"aws:{key}": value for key, value in settings.items()})
    file.write_text(yaml.safe_dump(content, sort_keys=False))


def unpermitted(project: StandinProject) -> list[str]:
    """What the account's calls so far needed and docs/iam/deployer.json does not allow."""
    policy = json.loads((Path(ROOT) / "docs/iam/deployer.json").read_text())
    calls = project.calls()
    assert calls, "the account was asked"
    needed = [action for call in calls for action in actions.needed(call["type"], call["operation"])]
    return not_allowed(policy, needed)
