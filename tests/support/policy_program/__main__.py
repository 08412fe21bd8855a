"""Registers the resources of stack.json as they stand there."""

import json
from pathlib import Path
from typing import Any

import pulumi

stack: dict[str, dict[str, Any]] = json.loads(Path("stack.json").read_text())
made: dict[str, pulumi.CustomResource] = {}


def resolved(value: Any) -> Any:
    if isinstance(value, dict):
        if "$id" in value:
            return make(value["$id"]).id
        return {key: resolved(one) for key, one in value.items()}
    return [resolved(one) for one in value] if isinstance(value, list) else value


def make(name: str) -> pulumi.CustomResource:
    if name not in made:
        made[name] = pulumi.CustomResource(stack[name]["type"], name, resolved(stack[name]["props"]))
    return made[name]


for each in stack:
    make(each)
