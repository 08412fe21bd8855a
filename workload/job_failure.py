"""PURE: a job that failed, in the words a user reads."""

from collections.abc import Sequence
from pathlib import Path


def failure_text(headline: str, lines: Sequence[str], log: Path, message: str = "", further: Sequence[str] = ()) -> str:
    """Headline, the job's own last words, what else is known of it, and where the full log is."""
    parts = [headline]
    if lines:
        parts += [f"  {line[:500]}" for line in lines]
    elif message:
        parts += [f"  {line[:500]}" for line in message.splitlines()[-8:]]
    parts += [f"  {line}" for line in further if line]
    return "\n".join([*parts, f"full log: {log}"])
