"""A bandwidth job for tests of what surrounds it: it speaks training/bandwidth.py's protocol and measures nothing.

QUICK_BUSBW is the bus bandwidth that it reports, in GB/s; QUICK_WRONG how many elements were wrong.
"""

import argparse
import json
import os
import sys

from .train import report

BYTES = 1 << 20


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_workers", type=int, required=True)
    parser.add_argument("--run_id", required=True)
    arguments, _ = parser.parse_known_args()
    bandwidth, wrong = float(os.environ.get("QUICK_BUSBW", "1.5")), int(os.environ.get("QUICK_WRONG", "0"))
    row = {
        "bytes": BYTES,
        "count": BYTES // 4,
        "type": "float",
        "op": "sum",
        "time_us": 100.0,
        "algbw_gbs": 1.0,
        "busbw_gbs": bandwidth,
        "wrong": wrong,
    }
    missing = "N/A N/A N/A N/A"
    print(f"{BYTES} {BYTES // 4} float sum -1 {missing} 100.00 1.00 {bandwidth:.2f} {wrong}")
    print(f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}")
    argued = argparse.Namespace(steps=1, num_workers=arguments.num_workers, run_id=arguments.run_id)
    whole = report(argued) | {"schema": "ray-train-efa/bandwidth-record/1", "rows": [row]}
    print("RAY_TRAIN_EFA_RECORD " + json.dumps(whole), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
