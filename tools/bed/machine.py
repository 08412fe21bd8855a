"""Whether this machine can run the bed: Linux, root, network namespaces, a few programs, Go or what Go built."""

import functools
import os
import shutil
import subprocess
import sys

from tools.bed import programs
from tools.setup.console import SetupError

# iproute2, util-linux, and wget for the probes that KubeRay writes into Ray's containers.
NEEDED = ("ip", "tc", "unshare", "setpriv", "wget")


@functools.cache
def why_not() -> str | None:
    """The reason why no bed can run here, or None. Builds nothing, but may fetch a Go toolchain where there is none."""
    if not sys.platform.startswith("linux"):
        return f"the bed needs Linux network namespaces, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "the bed makes network namespaces and mounts, so it needs root (run the tests with sudo)"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"not on PATH: {', '.join(missing)} (Debian packages iproute2, util-linux, wget)"
    try:
        subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=True, capture_output=True)
    except (subprocess.SubprocessError, OSError):
        return "this kernel or container allows no new network, mount and process namespaces (CAP_SYS_ADMIN)"
    if programs.cached() is None:
        try:
            programs.compiler()
        except SetupError as error:
            return str(error)
    return None
