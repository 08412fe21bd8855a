"""What is looked at: the project's folder and one stack, read without anything but Python where need be."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = "ray-train-efa"
_ANSWER_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Of a program that was run; `status` None where it did not start or did not end in time, which `error` says."""

    status: int | None
    output: str = ""
    error: str = ""

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return lines[-1][:300] if lines else f"nothing but exit status {self.status}"

    @property
    def document(self) -> Any:
        """The JSON that it printed; None where it failed or printed none."""
        if self.status != 0:
            return None
        try:
            return json.loads(self.output)
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True)
class Subject:
    """`file` has the stack's settings under their full names; `declared` those of Pulumi.yaml.

    Both are empty where they cannot be read, which is a finding of its own.
    """

    folder: Path
    stack: str
    file: Mapping[str, Any] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def setting(self, key: str) -> Any:
        default = self.declared.get(key, {}).get("default", "")
        return self.file.get(f"{PROJECT}:{key}", default)

    @property
    def platform(self) -> str:
        return str(self.setting("platform") or "local")


def answer(
    command: Sequence[str],
    *,
    seconds: float = _ANSWER_S,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Answer:
    """Runs a program that asks nothing and changes nothing."""
    environment = {
        **os.environ,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "NO_COLOR": "1",
        "AWS_PAGER": "",
        **(variables or {}),
    }
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return Answer(status=None, error=f"no answer within {seconds:.0f} s")
    except OSError as error:
        return Answer(status=None, error=str(error.strerror or error))
    return Answer(status=done.returncode, output=done.stdout, error=done.stderr.strip() or done.stdout)
