"""A job for tests of what surrounds training: it speaks training/train.py's protocol and imports neither torch nor ray.

Its environment steers it: QUICK_SECONDS of steps, QUICK_HOLD (a file for which it waits after step 2), QUICK_END (ok,
fail, silent, hang), QUICK_RANKS that it reports, QUICK_PER_NODE of them on a node, QUICK_SHOW (names of variables whose
SHA-256 it prints, or with a leading '=' the value itself), QUICK_STARTED (a file for the time at which it began),
QUICK_EVIDENCE (a JSON file with `lines` that it prints, as of its ranks, and the `ranks` that it reports).
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import time
import urllib.request
from typing import Any

LABEL = "first"


def main() -> int:
    if started := os.environ.get("QUICK_STARTED"):
        pathlib.Path(started).write_text(str(time.time()))
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--num_workers", type=int, required=True)
    parser.add_argument("--storage_path", required=True)
    parser.add_argument("--run_id", required=True)
    arguments, _ = parser.parse_known_args()
    secrets = pathlib.Path(".job-secrets.json")
    if secrets.exists():
        os.environ.update(json.loads(secrets.read_text()))
    seconds = float(os.environ.get("QUICK_SECONDS", "0"))
    hold = os.environ.get("QUICK_HOLD")
    end = os.environ.get("QUICK_END", "ok")
    print(f"[train] quick job {LABEL}: {arguments.steps} steps", flush=True)
    for name in filter(None, os.environ.get("QUICK_SHOW", "").split(",")):
        if name.startswith("="):
            print(f"value of {name[1:]} is {os.environ[name[1:]]}", flush=True)
        else:
            print(f"sha256 of {name} is {hashlib.sha256(os.environ[name].encode()).hexdigest()}", flush=True)
    for step in range(1, arguments.steps + 1):
        # In two writes, so that a connection can break in the middle of a line.
        time.sleep(seconds / arguments.steps / 2)
        print(f"[train] step {step}/", end="", flush=True)
        time.sleep(seconds / arguments.steps / 2)
        print(f"{arguments.steps} loss {6 - step / arguments.steps:.4f}", flush=True)
        while step == 2 and hold and not pathlib.Path(hold).exists():
            time.sleep(0.1)
    if end == "hang":
        time.sleep(3600)
    if end == "fail":
        print("[error] --dataset: 'nowhere' does not exist", flush=True)
        return 3
    for line in evidence().get("lines", ()):
        print(line)
    if end != "silent":
        print("RAY_TRAIN_EFA_RECORD " + json.dumps(report(arguments)), flush=True)
    return 0


def evidence() -> dict[str, list[Any]]:
    path = os.environ.get("QUICK_EVIDENCE")
    return json.loads(pathlib.Path(path).read_text()) if path else {}


def worker_nodes(count: int) -> list[tuple[str, str]]:
    """Ids and host names of the Ray cluster's workers, once its dashboard, where one is named, counts as many."""
    address = os.environ.get("QUICK_DASHBOARD")
    if not address:
        return [(f"node-{number}", f"host-{number}") for number in range(count)]
    headers = {"Authorization": f"Bearer {os.environ.get('RAY_AUTH_TOKEN', '')}"}
    request = urllib.request.Request(f"{address}/nodes?view=summary", headers=headers)
    while True:
        with urllib.request.urlopen(request) as answer:
            nodes = json.load(answer)["data"]["summary"]
        workers = [node for node in nodes if not node["raylet"]["isHeadNode"] and node["raylet"]["state"] == "ALIVE"]
        if len(workers) == count:
            return sorted((node["raylet"]["nodeId"], node["hostname"]) for node in workers)
        time.sleep(0.1)


def report(arguments: argparse.Namespace) -> dict[str, object]:
    world_size = int(os.environ.get("QUICK_RANKS", arguments.num_workers))
    per_node = int(os.environ.get("QUICK_PER_NODE", "2"))
    nodes = worker_nodes(-(-world_size // per_node))
    ranks = evidence().get("ranks") or [
        {
            "rank": rank,
            "local_rank": rank % per_node,
            "node_rank": rank // per_node,
            "node_id": nodes[rank // per_node][0],
            "hostname": nodes[rank // per_node][1],
            "pid": os.getpid(),
            "backend": "gloo",
            "device": "cpu",
            "versions": {"python": "3", "ray": "2", "torch": "2"},
        }
        for rank in range(world_size)
    ]
    return {
        "schema": "ray-train-efa/job-record/1",
        "run_id": arguments.run_id,
        "status": "succeeded",
        "error": None,
        "arguments": vars(arguments),
        "world_size": world_size,
        "attempts": [{"attempt": 1, "resumed_from_step": 0, "ranks": ranks}],
        "losses": [[step, 6 - step / arguments.steps] for step in range(1, arguments.steps + 1)],
        "tokens_per_step": 1024,
        "tokens_per_second": 1000.0,
        "step_seconds": {"median": 1.0},
        "eval": {
            "before": {"loss": 6.0, "perplexity": 403.4, "tokens": 1024},
            "after": {"loss": 5.0, "perplexity": 148.4, "tokens": 1024},
        },
        "checkpoint": None,
        "peak_memory_bytes": {},
        "timings": {"total_s": 1.0},
    }


if __name__ == "__main__":
    sys.exit(main())
