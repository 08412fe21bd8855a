"""The layout of a safetensors file, so that one can be written a tensor at a time. No torch here.

Format: https://github.com/huggingface/safetensors#format
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DTYPES: Mapping[str, tuple[str, int]] = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "bfloat16": ("BF16", 2),
    "float16": ("F16", 2),
    "int64": ("I64", 8),
    "int32": ("I32", 4),
    "int16": ("I16", 2),
    "int8": ("I8", 1),
    "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
}
"""torch's name of a type -> the format's, and bytes an element."""


@dataclass(frozen=True)
class Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes."""
        elements = 1
        for length in self.shape:
            elements *= length
        return elements * DTYPES[self.dtype][1]


def header(tensors: Sequence[Tensor]) -> bytes:
    """What precedes the bytes of the tensors, which follow in this order and without gaps."""
    described: dict[str, object] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for tensor in tensors:
        end = begin + tensor.size
        described[tensor.name] = {
            "dtype": DTYPES[tensor.dtype][0],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def file_size(tensors: Sequence[Tensor]) -> int:
    """Bytes of a file that holds them."""
    return len(header(tensors)) + sum(tensor.size for tensor in tensors)


def divided(tensors: Sequence[Tensor], limit: int) -> dict[str, list[Tensor]]:
    """File names as Hugging Face gives them, each with its tensors: at most `limit` bytes, or a single tensor."""
    files: list[list[Tensor]] = []
    room = -1
    for tensor in tensors:
        if tensor.size > room:
            files.append([])
            room = limit
        files[-1].append(tensor)
        room -= tensor.size
    if len(files) == 1:
        return {"model.safetensors": files[0]}
    return {
        f"model-{number:05d}-of-{len(files):05d}.safetensors": content for number, content in enumerate(files, start=1)
    }


def index(files: Mapping[str, Sequence[Tensor]]) -> dict[str, object]:
    """model.safetensors.index.json, which a model of several files needs."""
    return {
        "metadata": {"total_size": sum(tensor.size for tensors in files.values() for tensor in tensors)},
        "weight_map": {tensor.name: file for file, tensors in files.items() for tensor in tensors},
    }
