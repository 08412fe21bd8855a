"""The files of a Hugging Face data set, without the datasets library."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.data_settings import HUB_SCHEME
from training.errors import TrainingError, first_line

# The hub keeps every data set as parquet too, in this branch: <configuration>/<split>/0000.parquet, with "partial-"
# before the split where it converted its first gigabytes only. https://huggingface.co/docs/dataset-viewer/parquet
CONVERTED = "refs/convert/parquet"
_PARTIAL = "partial-"


class SeveralConfigurationsError(ValueError):
    """And none was named: main may have them all in one folder, and a mixture is not what was asked for."""


@dataclass(frozen=True)
class HubFiles:
    repository: str
    commit: str
    sizes: dict[str, int]


def find_hub_files(dataset: str, suffixes: Sequence[str], argument: str = "--dataset") -> HubFiles:
    """`dataset` is hf:name[:configuration[:split]]; the split is train by default. Raises TrainingError.

    Of a split of which the hub has converted a part, what main has of it; that part only where it is asked for.
    """
    name, configuration, split = _parts(dataset)
    told: list[str] = []
    there: list[str] = []
    for revision in (CONVERTED, "main"):
        try:
            commit, sizes = _list(name, revision)
        except OSError as error:
            told.append(first_line(error))
            continue
        paths = [path for path in sizes if path.endswith(tuple(suffixes))]
        try:
            if revision == CONVERTED:
                there = sorted({path.partition("/")[0] for path in paths})
                configuration = configuration_of(there, configuration)
            elif there == [configuration] and not any(f"/{configuration}/" in f"/{path}" for path in paths):
                configuration = None  # The only one needs no folder of its own.
            chosen = select_files(paths, configuration, split, converted=revision == CONVERTED)
        except SeveralConfigurationsError as error:
            raise TrainingError(f"{argument} {dataset}: {error}") from error
        except ValueError as error:
            told.append(str(error))
            continue
        return HubFiles(name, commit, {path: sizes[path] for path in chosen})
    raise TrainingError(f"{argument} {dataset}: {'; '.join(dict.fromkeys(told))}")


def local_copy(files: HubFiles, path: str) -> Path:
    """Downloaded into this node's cache, once."""
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(files.repository, path, repo_type="dataset", revision=files.commit))


def configuration_of(there: Sequence[str], named: str | None) -> str | None:
    """Of those that there are; None where that is not known. Raises SeveralConfigurationsError."""
    if named is not None or not there:
        return named
    if len(there) > 1 and "default" not in there:
        raise SeveralConfigurationsError(f"name one of the configurations {', '.join(there)}")
    return "default" if len(there) > 1 else there[0]


def select_files(paths: Iterable[str], configuration: str | None, split: str, *, converted: bool) -> list[str]:
    """Those of one configuration and split. Raises ValueError naming what there is to choose from."""
    if converted:
        folders: dict[str, dict[str, list[str]]] = {}
        for path in sorted(paths):
            folder, _, rest = path.partition("/")
            folders.setdefault(folder, {}).setdefault(rest.rpartition("/")[0], []).append(path)
        configuration = configuration or next(iter(folders), "")
        splits = folders.get(configuration, {})
        if split in splits:
            return splits[split]
        if _PARTIAL + split in splits:
            raise ValueError(
                f"the hub has converted a part of it only: ask for {configuration}:{_PARTIAL}{split} to learn from that"
            )
        there = [f"{folder}:{name}" for folder, names in folders.items() for name in names]
        raise ValueError(f"no {configuration}:{split}; there is {', '.join(there) or 'no parquet file'}")
    word = re.compile(rf"(^|[/_.-]){re.escape(split)}([/_.-]|$)")
    belongs = re.compile(rf"(^|/){re.escape(configuration)}/") if configuration else None
    chosen = [path for path in sorted(paths) if word.search(path) and (not belongs or belongs.search(path))]
    if not chosen:
        raise ValueError(f"no file of the split {split} in its main branch")
    return chosen


def _parts(dataset: str) -> tuple[str, str | None, str]:
    name, *rest = dataset.removeprefix(HUB_SCHEME).split(":")
    return name, rest[0] if rest else None, rest[1] if len(rest) > 1 else "train"


def _list(name: str, revision: str) -> tuple[str, dict[str, int]]:
    """The commit and each file's bytes; without the hub, of what an earlier download left in the cache."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        info: Any = HfApi().dataset_info(name, revision=revision, files_metadata=True)
    except OfflineModeIsEnabled:
        cached = Path(snapshot_download(name, repo_type="dataset", revision=revision, local_files_only=True))
        files = [path for path in cached.rglob("*") if path.is_file()]
        return cached.name, {path.relative_to(cached).as_posix(): path.stat().st_size for path in files}
    return info.sha, {file.rfilename: file.size or 0 for file in info.siblings}
