"""The stack: its file, its settings as a preview reads them, where its state is, what it asks of this machine."""

import importlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capacity.pulumi_cli import found_pulumi
from efactl.doctor.cluster import cluster
from efactl.doctor.finding import Finding, fail, ok, warn
from efactl.doctor.local import local_cluster
from efactl.doctor.subject import PROJECT, Subject, answer

if TYPE_CHECKING:
    from infra.settings import Settings

_PLACEHOLDER = "a secret that is not read here"


def subject_of(folder: Path, stack: str) -> tuple[Subject, list[Finding]]:
    """The stack's file and Pulumi.yaml as far as they can be read, and what is wrong with them."""
    findings: list[Finding] = []
    declared = _read(folder / "Pulumi.yaml", findings)
    path = folder / f"Pulumi.{stack}.yaml"
    content = _read(path, findings)
    subject = Subject(
        folder=folder, stack=stack, file=_mapping(content.get("config")), declared=_mapping(declared.get("config"))
    )
    if not findings:
        findings.append(ok("stack file", f"{path.name}, platform {subject.platform}"))
    return subject, findings


def _read(path: Path, findings: list[Finding]) -> Mapping[str, Any]:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        findings.append(fail("stack file", f"{path.name} is not read: PyYAML is not installed", "make setup"))
        return {}
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        findings.append(fail("stack file", f"{path.name} cannot be read: {error}", "mend it, or take it from git"))
        return {}
    if content is not None and not isinstance(content, dict):
        findings.append(fail("stack file", f"{path.name} is not `config:` with settings below", "mend it"))
    return _mapping(content)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def settings(subject: Subject) -> Iterator[Finding]:
    """Every setting that cannot be used, as the program itself says it at a preview; where all can, what they ask of
    this machine or of the cluster."""
    if not subject.file:
        return
    found, problems = load(subject)
    for problem in problems:
        yield fail("settings", problem, f"Pulumi.{subject.stack}.yaml, or `pulumi config set ... -s {subject.stack}`")
    if found is None:
        return
    yield ok("settings", "all can be used")
    if found.platform == "local":
        yield from local_cluster(subject, found)
    if found.platform == "kubernetes":
        yield from cluster(subject, found)


def load(subject: Subject) -> tuple["Settings | None", list[str]]:
    """The stack's settings, or what is wrong with them. Raises ImportError where the program's packages are missing."""
    import pulumi

    from infra.settings import SettingsError, load_settings

    values: dict[str, Any] = {
        f"{PROJECT}:{key}": declared["default"] for key, declared in subject.declared.items() if "default" in declared
    }
    secret = [name for name, value in subject.file.items() if _encrypted(value)]
    values |= {name: _readable(value) for name, value in subject.file.items()}
    before = dict(pulumi.runtime.config.CONFIG.get())
    pulumi.runtime.set_all_config({name: _text(value) for name, value in values.items()}, secret)
    try:
        return load_settings(subject.folder / "Pulumi.yaml"), []
    except SettingsError as error:
        return None, [line.strip() for line in str(error).splitlines()[1:]]
    finally:
        pulumi.runtime.set_all_config(before, [])


def _text(value: Any) -> str:
    """As the engine hands a value over."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _encrypted(value: Any) -> bool:
    if isinstance(value, dict):
        return "secure" in value or any(map(_encrypted, value.values()))
    return isinstance(value, list) and any(map(_encrypted, value))


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return _PLACEHOLDER if "secure" in value else {key: _readable(item) for key, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list) else value


def backend(subject: Subject) -> Iterator[Finding]:
    """Where the state is, and whether it can be reached; a local stack's is made by its first `up`."""
    if not subject.file:
        return
    chosen = os.environ.get("PULUMI_BACKEND_URL")
    if subject.platform == "local" and not chosen:
        state = subject.folder / ".state"
        if state.exists() and not os.access(state, os.W_OK):
            yield fail("state", f"{state} cannot be written to", "have it made yours: chown")
        else:
            yield ok("state", f"{state}" if state.exists() else f"{state}, made by the first `up`")
        return
    command = found_pulumi()
    if command is None:
        return
    # The launcher chooses the backend by the stack, which `whoami` takes from nowhere else.
    chooses = {"PULUMI_STACK": subject.stack}
    told = answer([command, "whoami", "--verbose", "--json"], cwd=subject.folder, variables=chooses)
    who = told.document
    if not isinstance(who, dict):
        where = f" ({chosen})" if chosen else ""
        yield fail(
            "state", f"the backend{where} does not answer: {told.last_line}", "pulumi login, then `pulumi whoami`"
        )
        return
    yield ok("state", f"{who.get('url') or chosen}, as {who.get('user')}")
    listed = answer([command, "stack", "ls", "--json"], cwd=subject.folder, variables=chooses)
    names = {str(one["name"]).split("/")[-1] for one in listed.document or []}
    if listed.document is not None and subject.stack not in names:
        yield warn("state", f"it holds no stack {subject.stack} yet", f"pulumi stack init {subject.stack}")
