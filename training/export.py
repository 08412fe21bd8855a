"""A checkpoint as the directory that transformers' from_pretrained loads.

    python -m training.export --checkpoint /shared/runs/.../checkpoints/step-000060 --to /shared/models/mine

A weight at a time goes from storage to storage: whoever exports needs memory for the largest one only.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from training import safetensors_file
from training.checkpoint import first_cause
from training.checkpoint_files import require_complete, seen_whole
from training.config import EXPORT_DTYPES
from training.errors import TrainingError, first_line
from training.export_mark import check_shared, exported, take_over
from training.model_files import CONFIG, MODEL
from training.safetensors_file import Tensor
from training.shards import ShardReader
from training.storage import Folder, is_location, open_folder

STORED = EXPORT_DTYPES[0]
FILE_BYTES = 4 * 1024**3
"""Of one safetensors file."""


@dataclass(frozen=True)
class Named:
    """What an error calls the two places: by the arguments that were really given."""

    checkpoint: str
    to: str


BY_COMMAND = Named(checkpoint="--checkpoint", to="--to")
BY_RUN = Named(checkpoint="--storage_path: checkpoint", to="--export_to")


def export(
    checkpoint: Folder,
    to: Folder,
    *,
    dtype: str = STORED,
    file_bytes: int = FILE_BYTES,
    rank: int = 0,
    world_size: int = 1,
    barrier: Callable[[], object] = lambda: None,
    named: Named = BY_COMMAND,
) -> None:
    """`to` is empty. Several ranks that call this together share the files out; `barrier` has them wait for each other.

    config.json comes last, when rank 0 sees the files of all ranks: a directory without it is no model. Raises
    TrainingError.
    """
    reader = ShardReader(checkpoint)
    try:
        carried = {name: _bytes(checkpoint / MODEL, name) for name in sorted((checkpoint / MODEL).names())}
        tensors = _weights(reader, dtype)
    except OSError as error:
        raise _unreadable(checkpoint, error, named) from error
    if CONFIG not in carried:
        raise TrainingError(
            f"{named.checkpoint} {checkpoint}: has no {MODEL}/{CONFIG}, so it is not known of which model"
        )
    files = safetensors_file.divided(tensors, file_bytes)
    try:
        to.make()
        for number, (name, content) in enumerate(files.items()):
            if number % world_size == rank:
                _write_weights(reader, checkpoint, to, name, content, named)
        barrier()
        if rank == 0:
            seen_whole(to, {name: safetensors_file.file_size(content) for name, content in files.items()})
            if len(files) > 1:
                to.write_json("model.safetensors.index.json", safetensors_file.index(files))
            config = json.loads(carried.pop(CONFIG)) | {"dtype": _main_dtype(tensors)}
            for name, text in carried.items():
                with to.open_write(name) as stream:
                    stream.write(text)
            to.write(CONFIG, json.dumps(config, indent=2))
        barrier()
    except OSError as error:
        raise TrainingError(f"{named.to} {to}: cannot be written: {error}") from error


def take_over_from_ranks(location: str, owner: str) -> None:
    """Called by every rank together as an attempt begins: another run may have marked the directory since the last.

    Raises TrainingError on every rank where the directory cannot be had, and on one that does not see it.
    """
    _by_rank_0(location, lambda: take_over(location, owner))
    check_shared(location, owner)


def export_from_ranks(checkpoint: Folder, location: str, dtype: str, owner: str) -> None:
    """Called by every rank of a run together. What an earlier attempt of `owner` has left there goes first."""
    to = open_folder(location)

    def begin() -> None:
        take_over(location, owner, exports=True)
        _empty(to)

    _by_rank_0(location, begin)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    export(checkpoint, to, dtype=dtype, rank=rank, world_size=world_size, barrier=dist.barrier, named=BY_RUN)


def _by_rank_0(location: str, act: Callable[[], object]) -> None:
    """Every rank learns how it went. Raises TrainingError on each where rank 0 has met one, or an OSError."""
    refused: list[tuple[str, OSError | None] | None] = [None]
    if dist.get_rank() == 0:
        try:
            act()
        except TrainingError as error:
            refused = [(str(error), _outage(error.__cause__))]
        except OSError as error:
            refused = [(f"--export_to {location}: cannot be written: {first_line(error)}", _outage(error))]
    dist.broadcast_object_list(refused, src=0)
    if refused[0] is not None:
        message, outage = refused[0]
        raise TrainingError(message) from outage


def _outage(error: BaseException | None) -> OSError | None:
    """As it travels between ranks: storage that may be back for another attempt, or None."""
    return OSError(first_line(error)) if isinstance(error, OSError) else None


def _empty(to: Folder) -> None:
    """All but whose it is; config.json goes first, as it comes last. The directory itself is the user's, and stays."""
    for name in sorted(exported(to), key=lambda name: name != CONFIG):
        if to.has(name):
            to.delete(name)
        else:
            (to / name).remove()


def _weights(reader: ShardReader, dtype: str) -> list[Tensor]:
    """What to write; the optimizer and the rest of the checkpoint stay unread."""
    found = []
    metadata = reader.read_metadata()
    for key, path in metadata.planner_data.items():
        stored = metadata.state_dict_metadata[key]
        if path[0] == "model" and isinstance(stored, TensorStorageMetadata):
            tensor = Tensor(path[1], str(stored.properties.dtype).removeprefix("torch."), tuple(stored.size))
            to_cast = dtype != STORED and stored.properties.dtype.is_floating_point
            found.append(replace(tensor, dtype=dtype) if to_cast else tensor)
    return sorted(found, key=lambda tensor: tensor.name)


def _write_weights(
    reader: ShardReader, checkpoint: Folder, to: Folder, name: str, tensors: Sequence[Tensor], named: Named
) -> None:
    with to.open_write(name) as stream:
        stream.write(safetensors_file.header(tensors))
        for tensor in tensors:
            weight = _read(reader, checkpoint, tensor, named).reshape(-1).view(torch.uint8)
            stream.write(memoryview(weight.numpy()))


def _read(reader: ShardReader, checkpoint: Folder, tensor: Tensor, named: Named) -> torch.Tensor:
    stored = reader.read_metadata().state_dict_metadata[f"model.{tensor.name}"]
    weight = torch.empty(stored.size, dtype=stored.properties.dtype)
    try:
        dcp.load({"model": {tensor.name: weight}}, storage_reader=reader, no_dist=True)
    except CheckpointException as error:
        cause = first_cause(error)
        raise _unreadable(checkpoint, cause, named) from cause
    return weight.to(getattr(torch, tensor.dtype))


def _main_dtype(tensors: Sequence[Tensor]) -> str:
    floats = [tensor for tensor in tensors if "float" in tensor.dtype]
    return max(floats, key=lambda tensor: tensor.size).dtype


def _bytes(folder: Folder, name: str) -> bytes:
    with folder.open_read(name) as stream:
        return stream.read()


def _unreadable(checkpoint: Folder, cause: BaseException, named: Named) -> TrainingError:
    return TrainingError(f"{named.checkpoint} {checkpoint}: cannot be read: {first_line(cause)}")


def main(argv: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.export", allow_abbrev=False)
    parser.add_argument("--checkpoint", required=True, help="a step's folder: an absolute path or s3://bucket/prefix")
    parser.add_argument("--to", required=True, help="a directory to make: an absolute path or s3://bucket/prefix")
    parser.add_argument(
        "--dtype", default=STORED, choices=EXPORT_DTYPES, help="of the weights; %(default)s leaves them alone"
    )
    arguments = parser.parse_args(argv)
    try:
        _require_location("checkpoint", arguments.checkpoint)
        checkpoint, to = require_complete(arguments.checkpoint, "--checkpoint"), _empty_folder(arguments.to)
        export(checkpoint, to, dtype=arguments.dtype)
    except TrainingError as error:
        print(f"[error] {error}", file=sys.stderr, flush=True)
        return 1
    print(f"[export] {checkpoint} -> {to}", flush=True)
    return 0


def _require_location(argument: str, text: str) -> None:
    if not is_location(text):
        raise TrainingError(f"--{argument} {text}: must be an absolute path, or s3://bucket/prefix")


def _empty_folder(location: str) -> Folder:
    _require_location("to", location)
    to = open_folder(location)
    try:
        found = to.names()
    except OSError as error:
        raise TrainingError(f"--to {to}: cannot be read: {error}") from error
    if found:
        raise TrainingError(f"--to {to}: holds {sorted(found)[0]} already: name a new directory")
    return to


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
