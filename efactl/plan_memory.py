"""`efactl plan-memory`: what a rank of the stack's job will take of its GPU's memory, before anything is made.

The plan is the job's own (training/memory_plan.py), of the stack's file; nothing is asked of a cluster.
"""

import json
import sys
from pathlib import Path
from typing import Any

from efactl.exit_codes import ExitCode
from efactl.stack import Stack
from infra.instances import known
from infra.train_settings import setting_of
from training.config import AUTO, OFF, PRECISIONS, TINY_QWEN2, TrainConfig, parse_arguments
from training.errors import TrainingError
from training.gpu_peaks import GIB, GPUS, Gpu
from training.job_config import GPU
from training.memory_advice import MOST_SEQUENCES, largest_batch, remedy, settled, workload
from training.memory_plan import ModelShape, plan_memory
from training.model_shape import shape_named
from training.model_source import NoSuchModelError
from workload.errors import BadInputError

_ARGUMENTS = (
    *("model_id", "seq_len", "batch_size", "accumulate", "num_workers"),
    *("precision", "sharding", "activation_checkpointing", "keep_gathered", "compile"),
)
# EC2 calls both kinds of A100 so.
_LARGER = {"p4de": "A100 80GB"}


def plan(stack: Stack, *, gpu: str | None, as_json: bool) -> ExitCode:
    """FAILED where it does not fit. Raises BadInputError for what cannot be planned."""
    try:
        card, nodes, per_node = _place(stack, gpu)
        config = _config(stack)
        there = nodes * per_node
        if config.num_workers > there:
            raise BadInputError(f"stack '{stack.name}': trainNumWorkers {config.num_workers}: there are {there} GPUs")
        ranks = config.num_workers or there
        node_of_rank = [rank // per_node for rank in range(ranks)]
        precision = PRECISIONS[0] if config.precision == AUTO else config.precision
        asked = workload(config, node_of_rank, precision=precision, compiled=config.compile != OFF)
    except (TrainingError, ValueError) as error:
        raise BadInputError(f"stack '{stack.name}': {error}") from error
    shape = _shape(config)
    work = settled(config, shape, asked, card)
    planned, largest = plan_memory(shape, work), largest_batch(shape, asked, card)
    help_with = None if planned.fits(card) else remedy(shape, work, card)
    facts: dict[str, Any] = {
        "stack": stack.name,
        "model": config.model_id,
        "modelParameters": shape.parameters,
        "gpu": card.name,
        "ranks": ranks,
        "nodes": len(set(node_of_rank)),
        "batchSize": config.batch_size,
        "moment": planned.moment,
        "bytes": {name: round(size) for name, size in planned.parts.items()},
        "neededBytes": round(planned.needed),
        "gpuBytes": round(card.memory_gib * GIB),
        "fits": help_with is None,
        "largestBatchSize": largest,
        "remedy": help_with,
    }
    if as_json:
        print(json.dumps(facts))
    else:
        print(
            f"{config.model_id}: {shape.parameters:,} parameters over {ranks} x {card.name} on {facts['nodes']} "
            f"nodes, {config.batch_size} x {config.seq_len:,} tokens a rank"
        )
        print(planned.line(card))
        more = " or more" if largest == MOST_SEQUENCES else ""
        print(help_with or f"largest batch size that fits: {largest}{more}")
    return ExitCode.OK if help_with is None else ExitCode.FAILED


def _shape(config: TrainConfig) -> ModelShape:
    if config.model_id != TINY_QWEN2 and not Path(config.model_id).is_dir():
        print("config.json says the model's shape: from the cache here or the Hugging Face hub", file=sys.stderr)
    try:
        shape = shape_named(config.model_id, config.seq_len)
    except NoSuchModelError as error:
        raise BadInputError(
            f"{error}; the plan needs the model's config.json here, in a directory or by the hub"
        ) from error
    except TrainingError as error:
        raise BadInputError(str(error)) from error
    if shape is None:
        raise BadInputError(
            f"--model_id {config.model_id}: no plan: that is for decoders whose feed-forward layers are gated and dense"
        )
    return shape


def _place(stack: Stack, gpu: str | None) -> tuple[Gpu, int, int]:
    """The GPU, the nodes, and how many of it each has."""
    if stack.config("platform") == "local":
        place, name = (int(stack.config("localWorkerNodes")), int(stack.config("localTrainersPerNode"))), gpu
    else:
        instance_type = str(stack.config("gpuInstanceType") or "")
        if not instance_type:
            raise BadInputError(f"stack '{stack.name}': gpuInstanceType is empty, so its ranks have no GPU")
        instance = known(instance_type)
        place = int(stack.config("gpuNodes")), instance.gpus
        name = gpu or _LARGER.get(instance.family, instance.gpu_name)
    found = next((one for one in GPUS if one.name == name), None)
    if found is None:
        problem = f"--gpu {name} is not known" if name else f"stack '{stack.name}' has no GPUs: name one with --gpu"
        raise BadInputError(f"{problem}; known are {', '.join(one.name for one in GPUS)}")
    if min(place) < 1:
        raise BadInputError(f"stack '{stack.name}': gpuNodes 0, so there are no ranks")
    return found, *place


def _config(stack: Stack) -> TrainConfig:
    words = ["--storage_path", "/anywhere", "--run_id", "any", "--worker_resource", GPU]
    for name in _ARGUMENTS:
        value = stack.config(setting_of(name))
        if value not in (None, ""):
            words += [f"--{name}", str(value)]
    return parse_arguments(words)
