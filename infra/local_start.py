"""The starter's side of a local cluster's start: a launcher in a session of its own, spoken to over a socket pair."""

import json
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra import local_directory
from infra.local_cluster import LocalClusterError, LocalClusterSpec, Order
from infra.local_environment import node_environment

_PROJECT = Path(__file__).resolve().parent.parent
_LOG = "start.log"
_SHOWN_LINES = 12
_SERVER_LOGS = "*/session_2*/logs/*.[oe]*"
# Ray's C++ servers mark the line after which they abort with C, for critical.
_FATAL = re.compile(r"^\[[-\d]+ [\d:,]+ C ")


def launch(spec: LocalClusterSpec, *, keep_token: bool, say: Callable[[str], None]) -> None:
    """Start the nodes and write the directory's state. Raises LocalClusterError.

    When this ends in any other way than by returning, a KILL of this process included, the launcher ends what it
    started and empties the directory, but for a token that is to be kept.
    """
    began = time.monotonic()
    cluster_id = f"{spec.directory.name}-{secrets.token_hex(4)}"
    ours, theirs = socket.socketpair()
    with ours:
        with theirs, (spec.directory / _LOG).open("wb") as log:
            launcher = subprocess.Popen(
                [sys.executable, "-m", "infra.local_launcher", str(theirs.fileno())],
                cwd=_PROJECT,
                env=node_environment(cluster_id=cluster_id, directory=spec.directory),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        try:
            ours.sendall(json.dumps(asdict(Order.of(spec, keep_token=keep_token))).encode() + b"\n")
            ready = _await_ready(ours, spec, say=say)
            ready["timings"]["total"] = round(time.monotonic() - began, 2)
            local_directory.write_state(
                spec.directory,
                {
                    "cluster_id": cluster_id,
                    "spec": spec.stored(),
                    "python": sys.executable,
                    "started_at": time.time(),
                    **ready,
                },
            )
            ours.sendall(b"keep\n")
        finally:
            ours.close()
            _reap(launcher)


def _await_ready(channel: socket.socket, spec: LocalClusterSpec, *, say: Callable[[str], None]) -> dict[str, Any]:
    deadline = time.monotonic() + spec.start_seconds
    channel.settimeout(spec.start_seconds)
    try:
        for line in channel.makefile("r"):
            message: dict[str, Any] = json.loads(line)
            if "ready" in message:
                return dict(message["ready"])
            if "error" in message:
                raise _failure(spec, message["error"])
            say(message["say"])
            channel.settimeout(max(deadline - time.monotonic(), 0.1))
    except TimeoutError:
        raise _failure(
            spec, f"not every node registered within {spec.start_seconds:g} s (is the machine overloaded?)"
        ) from None
    except OSError as error:
        raise _failure(spec, str(error)) from error
    raise _failure(spec, "its launcher ended early")


def _failure(spec: LocalClusterSpec, what: str) -> LocalClusterError:
    """With the lines in which a server said why it gave up, or else the last ones of the launcher."""
    fatal = [line for path in sorted(spec.directory.glob(_SERVER_LOGS)) for line in _lines(path) if _FATAL.search(line)]
    lines = fatal or _lines(spec.directory / _LOG)
    shown = [f"  {line}" for line in lines[-_SHOWN_LINES:]]
    return LocalClusterError("\n".join([f"Ray did not start: {what}", *shown]))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return []


def _reap(launcher: subprocess.Popen[bytes]) -> None:
    """It ends at once after "keep"; otherwise when all it started has ended."""
    try:
        launcher.wait(timeout=45)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
