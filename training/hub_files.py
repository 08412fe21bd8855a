"""The files of a Hugging Face data set, without the datasets library."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.data_settings import HUB_SCHEME
from training.errors import TrainingError, first_line

# The hub keeps every data set as parquet too, in this branch: <configuration>/<split>/0000.parquet, with "partial-"
# before the split where it converted a part only. https://huggingface.co/docs/dataset-viewer/parquet
CONVERTED = "refs/convert/parquet"
_PARTIAL = "partial-"


@dataclass(frozen=True)
class HubFiles:
    repository: str
    commit: str
    sizes: dict[str, int]


def find_hub_files(dataset: str, suffixes: Sequence[str], argument: str = "--dataset") -> HubFiles:
    """`dataset` is hf:name[:configuration[:split]]; the split is train by default. Raises TrainingError."""
    name, configuration, split = _parts(dataset)
    told: list[str] = []
    for revision in (CONVERTED, "main"):
        try:
            commit, sizes = _list(name, revision)
        except OSError as error:
            told.append(first_line(error))
            continue
        try:
            paths = [path for path in sizes if path.endswith(tuple(suffixes))]
            chosen = select_files(paths, configuration, split, converted=revision == CONVERTED)
        except ValueError as error:
            told.append(str(error))
            continue
        return HubFiles(name, commit, {path: sizes[path] for path in chosen})
    raise TrainingError(f"{argument} {dataset}: {'; '.join(dict.fromkeys(told))}")


def local_copy(files: HubFiles, path: str) -> Path:
    """Downloaded into this node's cache, once."""
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(files.repository, path, repo_type="dataset", revision=files.commit))


def select_files(paths: Iterable[str], configuration: str | None, split: str, *, converted: bool) -> list[str]:
    """Those of one configuration and split. Raises ValueError naming what there is to choose from."""
    if converted:
        folders: dict[str, dict[str, list[str]]] = {}
        for path in sorted(paths):
            folder, _, rest = path.partition("/")
            folders.setdefault(folder, {}).setdefault(rest.rpartition("/")[0], []).append(path)
        if configuration is None:
            configuration = "default" if "default" in folders else next(iter(folders), "")
            if len(folders) > 1 and configuration != "default":
                raise ValueError(f"name one of the configurations {', '.join(folders)}")
        splits = folders.get(configuration, {})
        found = splits.get(split) or splits.get(_PARTIAL + split)
        if not found:
            there = [f"{folder}:{name}" for folder, names in folders.items() for name in names]
            raise ValueError(f"no {configuration}:{split}; there is {', '.join(there) or 'no parquet file'}")
        return found
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
