"""The smallest complete set of arguments, for tests that change one of them."""

from training.config import TrainConfig, parse_arguments


def arguments(**changes: object) -> list[str]:
    values: dict[str, object] = {"storage_path": "/shared/runs", "run_id": "run-1"} | changes
    words: list[str] = []
    for name, value in values.items():
        words.append(f"--{name}")
        words.extend(str(item) for item in (value if isinstance(value, list) else [value]))
    return words


def config(**changes: object) -> TrainConfig:
    return parse_arguments(arguments(**changes))
