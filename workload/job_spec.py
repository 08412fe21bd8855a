"""PURE: what a job is made of, which of it decides whether a run is due, and the name a run gets from it."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUN_NAME = "ray-train-fsdp-llm"


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A job as declared. `arguments` are its program's, without the leading dashes."""

    training_digest: str
    arguments: Mapping[str, Any]
    pip: Sequence[str]
    pip_digests: Mapping[str, str]
    env: Mapping[str, str]
    secret_env: Mapping[str, str] = field(repr=False)
    image: str
    cluster_spec_digest: str
    run_id: str

    def identity(self) -> dict[str, Any]:
        """The inputs that decide reruns. A secret counts by its name: a renewed token trains nothing new."""
        return {
            "training_digest": self.training_digest,
            "arguments": dict(sorted(self.arguments.items())),
            "pip": list(self.pip),
            "pip_digests": dict(sorted(self.pip_digests.items())),
            "env": dict(sorted(self.env.items())),
            "secret_env_names": sorted(self.secret_env),
            "image": self.image,
            "cluster_spec_digest": self.cluster_spec_digest,
            "run_id": self.run_id,
        }

    def digest(self) -> str:
        return digest_of(self.identity())


def digest_of(value: Any) -> str:
    """SHA-256 of the value's canonical JSON. Whole floats count as integers: the engine makes them so."""
    return hashlib.sha256(json.dumps(_canonical(value), sort_keys=True).encode()).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value


def file_digests(paths: Sequence[str]) -> dict[str, str]:
    """SHA-256 of those that are files here: a wheel that is built anew under its old name is another wheel."""
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths if Path(path).is_file()}


def training_files(folder: Path) -> list[Path]:
    """The files of `training/` that travel with a job, sorted; caches and hidden files stay behind."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix != ".pyc"
        and not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(folder).parts)
    )


def training_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of `training_files`."""
    whole = hashlib.sha256()
    for path in training_files(folder):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        whole.update(content)
    return whole.hexdigest()


def spec_stem(spec_digest: str, run_name: str = RUN_NAME) -> str:
    """What the attempts of one spec share on any head; `run_name` is that of the job's kind."""
    return f"{run_name}-{spec_digest[:10]}"


def submission_stem(spec_digest: str, session_name: str, run_name: str = RUN_NAME) -> str:
    """What the attempts of one spec on one head share.

    The head's session is part of it: a new head has an empty job table, and the folder of a lost run must not become
    another's (Train V2 resumes any snapshot it finds there). Its checkpoints are found by `spec_stem`.
    """
    session = hashlib.sha256(session_name.encode()).hexdigest()[:6]
    return f"{spec_stem(spec_digest, run_name)}-{session}"


def submission_id(stem: str, attempt: int) -> str:
    return f"{stem}-{attempt}"


def attempt_of(stem: str, identifier: str) -> int | None:
    """The attempt an id of this stem stands for; None for another job's id."""
    match = re.fullmatch(re.escape(stem) + r"-(\d+)", identifier)
    return int(match[1]) if match else None


def command_line(arguments: Mapping[str, Any]) -> list[str]:
    """`--name value ...` for every argument that is set; None, empty and False are left to the program's defaults."""
    words: list[str] = []
    for name, value in sorted(arguments.items()):
        if value is None or value is False or value == "" or value == []:
            continue
        words.append(f"--{name}")
        if value is True:
            continue
        values = value if isinstance(value, list | tuple) else [value]
        words.extend(str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in values)
    return words
