"""The project's stacks, by their files; needs nothing but Python."""

from pathlib import Path

from workload.errors import BadInputError

FOLDER = Path(__file__).resolve().parent.parent


def file_of(name: str, folder: Path) -> Path:
    """The stack's file. Raises BadInputError, with the stacks that there are, where it is not there."""
    path = folder / f"Pulumi.{name}.yaml"
    if not path.exists():
        there = known(folder)
        named = f"there are {', '.join(there)}" if there else f"no stack has a file in {folder}"
        raise BadInputError(f"stack '{name}' has no {path.name}; {named}")
    return path


def known(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in folder.glob("Pulumi.*.yaml"))
