"""Keeps secret values out of every text that is written or shown."""

import json
from collections.abc import Iterable

SHORTEST = 4


class Redactor:
    """Replaces known secret values in text.

    A value of several lines is matched line by line. Pieces under `SHORTEST` characters are left: replacing each "a" of
    a log would hide the log, not the secret.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        lines = {line.strip() for secret in secrets for line in secret.splitlines()}
        # As a program prints them when it shows a dictionary or JSON.
        pieces = lines | {form for line in lines for form in (repr(line)[1:-1], json.dumps(line)[1:-1])}
        self._pieces = sorted((piece for piece in pieces if len(piece) >= SHORTEST), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for piece in self._pieces:
            text = text.replace(piece, "***")
        return text
