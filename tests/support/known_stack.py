"""A stack whose state and settings are given, for what only reads them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from efactl.stack import JOB_TYPE, LOCAL_CLUSTER_TYPE, Stack

SECRET = "4dabf18193072939515e22adb298388d"


def secret(value: Any) -> dict[str, str]:
    """As `pulumi stack export --show-secrets` writes it."""
    return {SECRET: "1b47061264138c4ac30d75fd1eb44270", "plaintext": json.dumps(value)}


def custom(token: str, outputs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A resource in a state."""
    created = {"created": "2026-11-29T18:00:00Z", "modified": "2026-11-29T18:00:00Z"}
    return {"type": token, "custom": True, "urn": f"urn::{token}", "id": "it", **created, "outputs": outputs, **more}


def local_cluster(**outputs: Any) -> dict[str, Any]:
    """A local Ray cluster of two workers with two trainers each."""
    held = {
        "stack": "local",
        "worker_nodes": 2.0,
        "trainers_per_node": 2.0,
        "ray_version": "2.58.0",
        "directory": "",
        "address": "http://127.0.0.1:9",
        "token": secret("the token of the head"),
        **outputs,
    }
    return custom(LOCAL_CLUSTER_TYPE, held)


RANKS = [
    {"rank": float(rank), "node": f"node-{rank // 2}", "host": "h", "pid": 100.0 + rank, "backend": "gloo"}
    for rank in range(4)
]
OVER_GLOO = {"attempt": 1.0, "worldSize": 4.0, "ranks": RANKS}


def job(submission_id: str, **outputs: Any) -> dict[str, Any]:
    """The job of a run that SUCCEEDED."""
    held = {
        "submission_id": submission_id,
        "status": "SUCCEEDED",
        "expect": "gloo",
        "transport": OVER_GLOO,
        "tokens_per_second": 4000.5,
        "eval_loss_before": 5.6,
        "eval_loss_after": 5.2,
        "record": f"runs/{submission_id}/record.json",
        **outputs,
    }
    return custom(JOB_TYPE, held)


class KnownStack(Stack):
    """By the settings of the local stack, but for those given."""

    def __init__(self, resources: Sequence[Mapping[str, Any]], **settings: Any) -> None:
        super().__init__("local")
        self._resources, self._settings = resources, settings

    def resources(self) -> list[Mapping[str, Any]]:
        return list(self._resources)

    def config(self, key: str) -> Any:
        return self._settings[key] if key in self._settings else super().config(key)

    def foreign_config(self, name: str) -> Any:
        return self._settings[name] if name in self._settings else super().foreign_config(name)
