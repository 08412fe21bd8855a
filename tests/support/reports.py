"""A job's report as training/train.py prints it, for tests of what is made of it."""

import json
from typing import Any

from workload.job_record import MARK, SCHEMA


def rank(number: int, *, node: str = "", backend: str = "gloo") -> dict[str, Any]:
    return {
        "rank": number,
        "local_rank": number % 2,
        "node_rank": number // 2,
        "node_id": node or f"node{number // 2}",
        "node_ip": "127.0.0.1",
        "hostname": "here",
        "pid": 1000 + number,
        "attempt": 1,
        "backend": backend,
        "device": "cpu",
        "versions": {"python": "3.11.7", "ray": "2.58.0", "torch": "2.13.0"},
        "env": {},
        "lines": 0,
        "sha256": "",
    }


def report(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "schema": SCHEMA,
        "run_id": "run-1",
        "status": "succeeded",
        "error": None,
        "arguments": {"steps": 2},
        "world_size": 4,
        "attempts": [
            {"attempt": 1, "resumed_from_step": 0, "started_at": "x", "ranks": [rank(number) for number in range(4)]}
        ],
        "losses": [[1, 5.5], [2, 5.25]],
        "tokens_per_step": 4096,
        "tokens_per_second": 4000.5,
        "step_seconds": {"median": 1.0, "p90": 1.1, "first": 2.0},
        "eval": {
            "before": {"loss": 5.6, "perplexity": 270.4, "tokens": 4096},
            "after": {"loss": 5.2, "perplexity": 181.3, "tokens": 4096},
        },
        "checkpoint": {"path": "/runs/run-1/checkpoints/step-000002", "step": 2},
        "peak_memory_bytes": {"0": 1000, "1": 1001, "2": 1002, "3": 1003},
        "timings": {"total_s": 10.0, "train_s": 2.0},
    }
    return {**whole, **changes}


def line(whole: dict[str, Any]) -> str:
    return MARK + json.dumps(whole, separators=(",", ":"))
