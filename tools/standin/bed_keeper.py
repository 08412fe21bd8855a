"""The process that keeps a stand-in's bed running between an `up` and a `down`.

`python -m tools.standin.bed_keeper BED ACCOUNT`: writes ACCOUNT/bed.json once the bed can be used, ends with TERM.
"""

import base64
import dataclasses
import json
import signal
import sys
import threading
from pathlib import Path

from tools.bed import Bed, BedError, programs, start_bed
from tools.setup.console import SetupError
from tools.standin.bed_nodes import BED_FILE, BedFile
from workload.signal_handlers import heeded


def main() -> int:
    bed_folder, account = map(Path, sys.argv[1:])
    asked_to_end = threading.Event()
    for number in heeded((signal.SIGINT, signal.SIGTERM)):
        signal.signal(number, lambda *_: asked_to_end.set())
    try:
        # No node: those come with the node groups. No operator: its chart is one of the stack's add-ons.
        with start_bed(bed_folder, nodes=(), operator=False, devices="by plugin") as bed:
            told = account / BED_FILE
            partial = told.with_suffix(".partial")
            partial.touch(mode=0o600)
            partial.write_text(json.dumps(dataclasses.asdict(described(bed))))
            partial.replace(told)
            print(f"bed {bed.id} runs at {bed.server}", flush=True)
            asked_to_end.wait()
            told.unlink(missing_ok=True)
    except (BedError, SetupError) as error:
        print(f"bed: {error}", file=sys.stderr, flush=True)
        return 1
    print("bed has ended", flush=True)
    return 0


def described(bed: Bed) -> BedFile:
    """The bed as the stand-in account knows it."""
    certificate = bed.directory / "tls.crt"
    user = json.loads(bed.kubeconfig.read_text())["users"][0]["user"]
    return BedFile(
        kubeconfig=str(bed.kubeconfig),
        server=bed.server,
        ca=base64.b64encode(certificate.read_bytes()).decode(),
        token=user["token"],
        certificate=str(certificate),
        agent_port=bed.agent_port,
        kubelet_version=programs.kubernetes_version(),
    )


if __name__ == "__main__":
    sys.exit(main())
