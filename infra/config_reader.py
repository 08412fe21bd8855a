"""Typed reading of Pulumi configuration that collects every problem instead of stopping at the first."""

import difflib
import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulumi

LARGEST_EXACT = 2**53 - 1
"""Pulumi hands numbers on as doubles: the next but one would arrive as another."""
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ConfigReader:
    """Reads a project's settings. A value that cannot be used is noted, and a usable stand-in returned."""

    def __init__(self, project: str, declarations: Mapping[str, Mapping[str, Any]]) -> None:
        self._project = project
        self._config = pulumi.Config(project)
        self._declarations = declarations
        self.problems: list[str] = []

    def problem(self, key: str, value: Any, what: str) -> None:
        """Notes that a setting's value cannot be used; never called with a secret value."""
        self.problems.append(
            f"{self._project}:{key}: '{value}' {what}" if value != "" else f"{self._project}:{key}: {what}"
        )

    def foreign_problem(self, key: str, what: str) -> None:
        """Notes a problem of another namespace's setting (`aws:region`)."""
        self.problems.append(f"{key}: {what}")

    def refuse_unknown(self) -> None:
        prefix = f"{self._project}:"
        for name in sorted(pulumi.runtime.config.CONFIG.get()):
            key = name.removeprefix(prefix)
            if not name.startswith(prefix) or key in self._declarations:
                continue
            close = difflib.get_close_matches(key, self._declarations, n=1)
            hint = f"did you mean {close[0]}?" if close else "Pulumi.yaml lists all settings"
            self.problem(key, "***" if self.is_secret(key) else self._config.get(key), f"is not a setting: {hint}")

    def refuse_secret(self, *, other_than: Sequence[str]) -> None:
        """Every other setting goes in clear into the state, the job's environment and the run record."""
        for key in sorted(self._declarations):
            if key not in other_than and self.is_secret(key):
                where = " or ".join(other_than)
                self.problem(key, "***", f"is encrypted, but this setting is kept in clear; secrets go into {where}")

    def declared(self, *, without: Sequence[str]) -> dict[str, Any]:
        """The plain text of every declared setting that is not secret."""
        return {
            key: self._config.get(key)
            for key in sorted(self._declarations)
            if key not in without and not self.is_secret(key)
        }

    def is_secret(self, key: str) -> bool:
        return bool(pulumi.runtime.is_config_secret(f"{self._project}:{key}"))

    def secret_object(self, key: str) -> pulumi.Output[Any]:
        return self._config.get_secret_object(key) or pulumi.Output.secret({})

    def text(self, key: str, *, required: bool = False) -> str:
        value = (self._config.get(key) or "").strip()
        if required and not value:
            self.problem(key, "", "must not be empty")
        return value

    def matching(self, key: str, pattern: re.Pattern[str], what: str, *, required: bool = False) -> str:
        """Text that the whole of `pattern` matches; `what` says in a problem what is allowed."""
        value = self.text(key, required=required)
        if value and not pattern.fullmatch(value):
            self.problem(key, value, f"is not {what}")
        return value

    def boolean(self, key: str) -> bool:
        return self.one_of(key, ("true", "false")) == "true"

    def secret_text(self, key: str) -> pulumi.Output[str] | None:
        """An encrypted text, or None where it is not set; a value kept in clear is a problem."""
        if not self._config.get(key):
            return None
        if not self.is_secret(key):
            self.problem(key, "***", f"is kept in clear; encrypt it: pulumi config set --secret {key} VALUE")
            return None
        return self._config.get_secret(key)

    def one_of(self, key: str, allowed: Sequence[str]) -> str:
        value = self.text(key)
        if value not in allowed:
            self.problem(key, value, f"is none of {', '.join(allowed)}")
        return value

    def one_among(self, key: str, value: str, allowed: Sequence[str]) -> str:
        """One element of a list setting."""
        if value not in allowed:
            self.problem(key, value, f"is none of {', '.join(allowed)}")
        return value

    def texts(self, key: str) -> list[str]:
        return [str(value).strip() for value in self.json_value(key, list)]

    def all_matching(self, key: str, pattern: re.Pattern[str], what: str) -> tuple[str, ...]:
        """A list of texts of which `pattern` matches each as a whole."""
        values = self.texts(key)
        for value in values:
            if not pattern.fullmatch(value):
                self.problem(key, value, f"is not {what}")
        return tuple(values)

    def network(self, key: str, text: str) -> str:
        """The text of an IPv4 network, or empty where it is none."""
        try:
            return str(ipaddress.IPv4Network(text))
        except ValueError:
            self.problem(key, text, "is not an IPv4 network like 10.20.0.0/16 (no bits set behind the prefix)")
            return ""

    def one_integer(self, key: str, allowed: Sequence[int]) -> int:
        value = self.one_of(key, [str(number) for number in allowed])
        return int(value) if value.isdecimal() else allowed[0]

    def integer(self, key: str, *, at_least: int, at_most: int = LARGEST_EXACT) -> int:
        value: int | None = self._parsed(key, int, "a whole number")
        if value is None:
            return at_least
        if not at_least <= value <= at_most:
            boundless = value < at_least and at_most == LARGEST_EXACT
            allowed = f"at least {at_least}" if boundless else f"between {at_least} and {at_most}"
            self.problem(key, value, f"must be {allowed}")
            return at_least
        return value

    def positive_number(self, key: str, *, required: bool = False) -> float | None:
        """A finite number above 0; None where the setting is empty and not required."""
        if not self.text(key, required=required):
            return None
        value: float | None = self._parsed(key, float, "a number")
        if value is not None and not (math.isfinite(value) and value > 0):
            self.problem(key, self.text(key), "must be a finite number above 0")
            return None
        return value

    def json_value(self, key: str, kind: type) -> Any:
        """A list or an object; secret content is never quoted in a problem."""
        text = self._config.get(key)
        try:
            value = json.loads(text) if text else kind()
        except ValueError:
            value = None
        if not isinstance(value, kind):
            self.problem(
                key, "***" if self.is_secret(key) else text, f"is not {'a list' if kind is list else 'an object'}"
            )
            return kind()
        return value

    def check_environment(self, key: str, env: Mapping[str, Any], *, reserved: Sequence[str], by: str) -> None:
        """Notes names that are none, and those that are set `by` something else."""
        for name in env:
            if not _ENV_NAME.fullmatch(name):
                self.problem(key, name, "is not the name of an environment variable")
            elif name in reserved:
                self.problem(key, name, f"is set by {by}")

    def environment(self, key: str, *, reserved: Sequence[str], by: str) -> dict[str, str]:
        """Environment variables that are kept in clear."""
        env = self.json_value(key, dict)
        self.check_environment(key, env, reserved=reserved, by=by)
        for name, value in env.items():
            if not isinstance(value, str | int | float) or isinstance(value, bool):
                self.problem(key, name, "must have text as its value; put it in quotes")
        return {name: str(value) for name, value in env.items()}

    def _parsed(self, key: str, parse: Callable[[str], Any], kind: str) -> Any:
        text = self.text(key)
        try:
            return parse(text)
        except ValueError:
            self.problem(key, text, f"is not {kind}")
            return None
