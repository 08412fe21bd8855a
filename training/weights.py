"""A model that exists as shapes first, is sharded so, and then reads from safetensors files what a rank owns."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from training.errors import TrainingError, first_line
from training.model_source import check_unquantised

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_GENERATION = "generation_config.json"
_NUMBERS = {"F64", "F32", "BF16", "F16"}
"""safetensors' names of the types that hold a weight as it is; in all others it is a code, to be scaled."""
_log = logging.getLogger(__name__)


def model_directory(model_id: str) -> Path:
    """Where the model's files lie on this node; from the Hugging Face hub, once a node, if `model_id` is no directory.

    Raises TrainingError naming --model_id.
    """
    if Path(model_id).is_dir():
        return Path(model_id)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    what = f"--model_id {model_id}: cannot be downloaded"
    try:
        return Path(snapshot_download(model_id, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model"]))
    except (HFValidationError, RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise TrainingError(f"{what}: {first_line(error)}") from None
    except Exception as error:
        # A network that broke off has errors of its client's own.
        raise TrainingError(f"{what}: {first_line(error)}") from OSError(first_line(error))


def model_on_meta(directory: Path, dtype: torch.dtype = torch.float32, *, named: str | None = None) -> torch.nn.Module:
    """The causal language model that the directory's config.json describes, without memory for its weights.

    With the settings for generating that lie there, as from_pretrained has them. Raises TrainingError where it cannot
    be trained, and whatever transformers does where it cannot make it. `named` is how the user calls the directory.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    check_unquantised(named or str(directory), directory / "config.json")
    config = AutoConfig.from_pretrained(directory)
    with torch.device("meta"):
        module: torch.nn.Module = AutoModelForCausalLM.from_config(config, dtype=dtype)
    _check_text_alone(named or str(directory), module.config)
    module.config.use_cache = False
    if (directory / _GENERATION).is_file():
        try:
            module.generation_config = GenerationConfig.from_pretrained(directory)
        except Exception as error:  # as from_pretrained passes over it: training needs none of it
            _log.warning("%s/%s is not carried along: %s", directory, _GENERATION, first_line(error))
    return module


def _check_text_alone(model_id: str, config: Any) -> None:
    """Parts for images or sound would be sharded, planned and counted with the rest, and no batch reaches them.

    Of some models of several parts (Qwen 3.5, Llama 4) transformers makes the text's alone, and that is trained.
    """
    text = config.get_text_config()
    if text is not config:
        raise TrainingError(
            f"--model_id {model_id}: is of the type {config.model_type}, which takes more than text: "
            f"name a model of the type {text.model_type}"
        )


def weight_files(directory: Path) -> dict[str, Path]:
    """The file that holds each weight; empty where the directory has no safetensors. Raises TrainingError."""
    from safetensors import safe_open

    if (directory / _INDEX).is_file():
        with _reading(directory / _INDEX):
            weight_map: dict[str, str] = json.loads((directory / _INDEX).read_text())["weight_map"]
        return {name: directory / file for name, file in weight_map.items()}
    if not (directory / _SINGLE).is_file():
        return {}
    with _reading(directory / _SINGLE), safe_open(directory / _SINGLE, framework="pt") as weights:
        return dict.fromkeys(weights.keys(), directory / _SINGLE)


def why_not_by_shards(module: torch.nn.Module, files: dict[str, Path]) -> str | None:
    """None where each weight has a file; else the reason for reading the model whole, as from_pretrained does."""
    if not files:
        return "there are no safetensors files"
    for names in tied_names(module).values():
        if not any(name in files for name in names):
            return f"the safetensors files have no {names[0]}"
    return None


def load_shards(module: torch.nn.Module, files: dict[str, Path], device: torch.device) -> None:
    """Read this rank's part of each weight and nothing else, from a module on the meta device.

    Sharded or not, weights become what the files hold, in the module's own dtype. At no time is there more in this
    process than its own shards and one more. Raises TrainingError where a file does not hold what the model needs.
    """
    state: dict[str, torch.Tensor] = {}
    with _opened(files) as weights:
        for names in tied_names(module).values():
            wanted = module.get_parameter(names[0])
            stored = next(name for name in names if name in files)
            check_stored_as_number(weights(stored), stored, files[stored])
            part = _read_part(weights(stored), stored, wanted, device)
            parameter = torch.nn.Parameter(part, requires_grad=wanted.requires_grad)
            state |= dict.fromkeys(names, parameter)  # one object for tied weights: they stay tied
        for name, buffer in module.state_dict().items():
            if name not in state and name in files:
                state[name] = weights(name)[:].to(device, buffer.dtype)
    module.load_state_dict(state, assign=True)
    make_unstored_buffers(module, device)


def make_unstored_buffers(module: Any, device: torch.device) -> None:
    """What a model computes for itself, such as rotary frequencies, and so no file holds."""
    for child in module.modules():
        names = [name for name, buffer in child.named_buffers(recurse=False) if buffer.is_meta]
        for name in names:
            empty = torch.full_like(getattr(child, name), float("nan"), device=device)
            child.register_buffer(name, empty, persistent=name not in child._non_persistent_buffers_set)
        if names:
            with torch.no_grad():
                module._init_weights(child)
        for name in names:
            if getattr(child, name).isnan().any():
                raise TrainingError(f"--model_id: {type(child).__name__} does not say how its {name} is made")


def check_stored_as_number(stored: Any, name: str, file: Path) -> None:
    """Raises TrainingError where a weight is quantised."""
    kind = stored.get_dtype()
    if kind not in _NUMBERS:
        raise TrainingError(f"--model_id: {file}: {name} is quantised ({kind}): name the unquantised model")


def _read_part(stored: Any, name: str, wanted: torch.Tensor, device: torch.device) -> torch.Tensor:
    if list(stored.get_shape()) != list(wanted.shape):
        raise TrainingError(
            f"--model_id: {name} has the shape {stored.get_shape()} in the safetensors files and "
            f"{list(wanted.shape)} in config.json"
        )
    if not isinstance(wanted, DTensor):
        whole: torch.Tensor = stored[:].to(device, wanted.dtype)
        return whole
    size, offset = compute_local_shape_and_global_offset(wanted.shape, wanted.device_mesh, wanted.placements)
    if 0 in size:
        part = torch.empty(size, device=device, dtype=wanted.dtype)
    else:
        slices = tuple(slice(start, start + length) for start, length in zip(offset, size, strict=True))
        part = stored[slices].to(device, wanted.dtype, copy=True)
    return DTensor.from_local(
        part, wanted.device_mesh, wanted.placements, run_check=False, shape=wanted.shape, stride=wanted.stride()
    )


def tied_names(module: torch.nn.Module) -> dict[int, list[str]]:
    """The names of each parameter; those with several are tied."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return names


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Raises TrainingError where the file is out of reach or damaged."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise TrainingError(
            f"--model_id: {file} cannot be read: {type(error).__name__}: {first_line(error)}"
        ) from error


@contextmanager
def _opened(files: dict[str, Path]) -> Iterator[Callable[[str], Any]]:
    """A function from a weight's name to its slices; each file is opened once, when a weight of it is asked for."""
    from safetensors import safe_open

    handles: dict[Path, Any] = {}
    with ExitStack() as stack:

        def weight(name: str) -> Any:
            path = files[name]
            with _reading(path):
                if path not in handles:
                    handles[path] = stack.enter_context(safe_open(path, framework="pt"))
                return handles[path].get_slice(name)

        yield weight
