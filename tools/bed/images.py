"""Which images the pod agent can pull, and what it runs for them: the rules in images.json, read anew by the agent."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.bed.nodes import EFA, GPU
from tools.bed.programs import Programs

Rule = Mapping[str, Any]


def default_rules(programs: Programs) -> list[Rule]:
    """Ray and the operator run for real, device plugins publish their node's devices, small helpers only wait."""
    operator = str(programs.operator)
    return [
        {
            "match": "kuberay/operator",
            "kind": "host",
            "command": ["/manager"],
            "paths": {"/manager": operator},
        },
        {"match": "efa-k8s-device-plugin", "kind": "device-plugin", "resource": EFA},
        {"match": "k8s-device-plugin", "kind": "device-plugin", "resource": GPU},
        {"match": "(^|/)pause(:|@|$)", "kind": "pause"},
        {"match": "(^|/)(busybox|python)(:|@|$)", "kind": "host"},
        {"match": "ray[:@]", "kind": "host"},
    ]


class Images:
    """The rules of one bed, first match first. An image that no rule matches cannot be pulled."""

    def __init__(self, path: Path, rules: list[Rule]) -> None:
        self.path = path
        self._rules = rules
        self._write()

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(self._rules)

    def put_first(self, **rule: Any) -> None:
        """Adds a rule before all others: `put_first(match="ray:", kind="missing")`."""
        self._rules.insert(0, rule)
        self._write()

    def drop_first(self) -> None:
        self._rules.pop(0)
        self._write()

    @contextlib.contextmanager
    def with_rule(self, **rule: Any) -> Iterator[None]:
        """The rule before all others for as long as the block lasts."""
        self.put_first(**rule)
        try:
            yield
        finally:
            self._rules.remove(rule)
            self._write()

    def _write(self) -> None:
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps({"rules": self._rules}, indent=1))
        partial.replace(self.path)
