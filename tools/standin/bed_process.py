"""Starting and ending the process that keeps a stand-in's bed, which outlives the command that starts it."""

import contextlib
import json
import subprocess
import sys
import time

import psutil

from tools.bed import BedError, leftovers, why_not
from tools.bed.processes import end_recorded
from tools.setup import pins
from tools.standin.bed_nodes import BED_FILE
from tools.standin.place import Place

# A bed with every program built is there in 12 s on a quiet machine; what has to be built is built before.
START_SECONDS = 180.0
END_SECONDS = 90.0


def running(place: Place) -> psutil.Process | None:
    """The keeper of this stack's bed, if it runs; not another process that was given its pid since."""
    try:
        record = json.loads(place.bed_process.read_text())
        process = psutil.Process(record["pid"])
        is_it = abs(process.create_time() - record["started"]) < 0.5 and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
    return process if is_it else None


def start(place: Place) -> None:
    """Starts the bed and waits until it can be used. Raises BedError, with the end of its log, when it cannot."""
    if reason := why_not():
        raise BedError(f"no cluster can stand in for EKS here: {reason}")
    (place.account / BED_FILE).unlink(missing_ok=True)
    with place.bed_log.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.standin.bed_keeper", str(place.bed), str(place.account)],
            cwd=pins.PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    started = psutil.Process(process.pid).create_time()
    place.bed_process.write_text(json.dumps({"pid": process.pid, "started": started}))
    deadline = time.monotonic() + START_SECONDS
    while not (place.account / BED_FILE).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            end(place)
            told = "\n".join(place.bed_log.read_text().splitlines()[-10:])
            raise BedError(f"the bed did not start; {place.bed_log} ends with:\n{told}")
        time.sleep(0.2)


def end(place: Place) -> None:
    """Ends the bed and everything in it, also what a keeper that was killed has left. No error when none runs."""
    process = running(place)
    if process is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            try:
                process.wait(END_SECONDS)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait()
    end_recorded(place.bed)
    if earlier := leftovers.bed_id(place.bed):
        leftovers.clear(place.bed, earlier)
    (place.account / BED_FILE).unlink(missing_ok=True)
    place.bed_process.unlink(missing_ok=True)
