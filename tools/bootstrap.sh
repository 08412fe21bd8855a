#!/bin/sh
# Finds a Python that can run set-up, then runs it. PYTHON=... names one; otherwise the environment's own, then PATH's.
set -u
cd "$(dirname "$0")/.." || exit 1

oldest=11
newest=13
# Prints the interpreter behind a command (behind an environment or a version manager's shim) if it runs and its version fits.
probe='import sys; ok = (3, '$oldest') <= sys.version_info[:2] <= (3, '$newest'); print(sys._base_executable) if ok else sys.exit(9)'

interpreter=
try() {
  command -v "$1" >/dev/null 2>&1 && interpreter=$("$1" -E -s -S -c "$probe" 2>/dev/null) && [ -n "$interpreter" ]
}

if [ -n "${PYTHON:-}" ]; then
  try "$PYTHON" || {
    version=$("$PYTHON" --version 2>&1) || version="it does not run"
    echo "set-up: failed: PYTHON=$PYTHON cannot be used ($version): it must be Python 3.$oldest to 3.$newest" >&2
    exit 1
  }
elif try .venv/bin/python; then
  :
else
  for candidate in python3.13 python3.12 python3.11 python3; do
    try "$candidate" && break
  done
fi

if [ -z "$interpreter" ]; then
  echo "set-up: failed: no Python 3.$oldest to 3.$newest on PATH (looked for python3.13, python3.12, python3.11, python3)." >&2
  echo "Install one, or name it: make setup PYTHON=/path/to/python3.$newest" >&2
  exit 1
fi
exec "$interpreter" -E -s -m tools.setup "$@"
