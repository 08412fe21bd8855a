"""Model, optimizer and step of one rank, put together in the order that they need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from training import checkpoint
from training.activations import POINTWISE, checkpoint_activations
from training.attempt import Attempt
from training.causal_loss import CausalLoss
from training.checkpoint_files import Progress, newest_complete, require_complete
from training.compile import compile_blocks, keep_compilations
from training.config import AUTO, ON, TrainConfig
from training.cuda_graph import RecordedStep
from training.data import Dataset, open_dataset
from training.document_attention import attend_by_bounds
from training.gpu_peaks import Gpu, find_gpu
from training.memory_advice import relief, remedy, settled, workload
from training.memory_plan import ModelShape, plan_memory
from training.model import open_model
from training.model_identity import model_identity
from training.model_shape import model_flops_per_token, parameters_of, shape_of
from training.optimizer import ShardedAdamW, decay_groups
from training.out_of_memory import telling
from training.random_state import seed_rank
from training.sharding import FP32, Sharding, default_precision, shard
from training.step import PendingFigures, TrainStep
from training.step_clock import StepClock
from training.storage import Folder, open_folder, storage_errors
from training.worker_setup import session_directory

Say = Callable[[str], None]


@dataclass(frozen=True)
class Learner:
    root: CausalLoss
    optimizer: ShardedAdamW
    step: Callable[[Sequence[dict[str, torch.Tensor]]], PendingFigures]
    dataset: Dataset
    model: dict[str, str] | None
    """For the record: which files the model was read from. Rank 0's alone; None for one that is made here."""
    options: Sharding
    parameters: int
    flops_per_token: float | None
    """None where a token does not pass through all parameters, or the model does not say how deep and wide it is."""
    peak_flops: float | None
    """A second, of the rank's GPU; None for one that is not listed."""
    clock: StepClock


def build(
    config: TrainConfig,
    device: torch.device,
    node_of_rank: Sequence[int],
    *,
    prepared: str | None,
    say: Say,
) -> Learner:
    """Called by every rank together; `prepared` is where the driver's data lies, if it has made any.

    Raises TrainingError where model, data or cluster do not go together.
    """
    on_gpu = device.type == "cuda"
    compiled = config.compile == ON or (config.compile == AUTO and on_gpu)
    if compiled:
        keep_compilations(session_directory() / "compiled")
    # Shapes only, where the model's files allow that: no rank ever holds the whole model.
    unfilled = open_model(config)
    if unfilled.whole_because is not None:
        say(f"every rank reads the whole model: {unfilled.whole_because}")
    model, directory = unfilled.model, unfilled.directory
    told = {"identity": model_identity(config.model_id, directory)} if directory and dist.get_rank() == 0 else None
    dataset = open_dataset(config, model.vocab_size, None if prepared is None else open_folder(prepared))
    shape, gpu = shape_of(model.module), find_gpu(torch.cuda.get_device_name(device)) if on_gpu else None
    options = sharding_options(config, shape, gpu, node_of_rank, compiled=compiled, say=say)

    compute = torch.float32 if options.precision == FP32 else torch.bfloat16
    if dataset.by_document:
        attend_by_bounds(model.module, device, compute)
    root = CausalLoss(model.module, compiled=compiled)
    if root.head is None:
        kind = model.module.config.model_type
        say(f"the logits of all tokens are there at once: the loss knows no chunks for models of the type {kind}")
    checkpoint_activations(root, config.activation_checkpointing)
    if compiled:
        compile_blocks(root, say, recompute_pointwise=config.activation_checkpointing == POINTWISE)
    parameters, flops = parameters_of(root), model_flops_per_token(model.module, config.seq_len)
    work = workload(config, node_of_rank, precision=options.precision, compiled=compiled)
    taking_less = relief(shape, replace(work, keep_gathered=options.keep_gathered), gpu)
    telling(shard, taking_less)(root, device, options, node_of_rank)
    telling(unfilled.fill, taking_less)(device)
    # Over the shards, so only now.
    groups = decay_groups(root, config.weight_decay, decay_embeddings=config.decay_embeddings == ON)
    optimizer = ShardedAdamW(groups, config.lr, compiled=compiled)
    clock = StepClock(device)
    step = TrainStep(root, optimizer, options, config.max_gradient_norm, clock)
    root.train()
    seed_rank(config.seed, dist.get_rank())  # not before: all ranks have made the same model
    return Learner(
        root=root,
        optimizer=optimizer,
        step=telling(RecordedStep(step) if config.cuda_graph == ON else step, taking_less),
        dataset=dataset,
        model=told,
        options=options,
        parameters=parameters,
        flops_per_token=flops,
        peak_flops=None if gpu is None else gpu.peak_flops,
        clock=clock,
    )


def resume(learner: Learner, attempt: Attempt[TrainConfig]) -> tuple[Progress, Folder | None]:
    """From this run's own newest whole checkpoint, else the one that was named or found, or afresh; and the first."""
    config, say = attempt.config, attempt.say
    found: list[Any] = [None, []]
    if attempt.rank == 0:
        with storage_errors(attempt.run.checkpoints, "cannot be read"):
            found = list(newest_complete(attempt.run.checkpoints))
    dist.broadcast_object_list(found, src=0)  # storage may look older to another node: rank 0 decides
    own, passed_over = found
    for line in passed_over:
        say(line)
    if own is not None:
        whence, which, source = "", f"--run_id {config.run_id}: {checkpoint.OWN}", own
    elif config.resume_from is not None:
        whence, which, source = f" of {config.resume_from}", "--resume_from:", require_complete(config.resume_from)
    elif config.goes_on_from is not None:
        whence, which = f" of {config.goes_on_from}", "to go on (another jobRunId begins at step 1):"
        source = require_complete(config.goes_on_from, which)
    else:
        return Progress(step=0, losses=[], eval_before=None), None
    progress = checkpoint.load(source, learner.root, learner.optimizer, which=which, say=say)
    say(f"resumed from step {progress.step}{whence} (attempt {attempt.number})")
    if progress.step == config.steps:
        say("all steps are done already: nothing is trained, and what follows tells of those")
    elif not learner.dataset.consumed(progress.data):
        say("that was trained on other data, or in another order: this run's begins at its first sample")
    # Another run's first evaluation is not this one's, unless this is that run once more.
    same = own is not None or config.resume_from is None
    return (progress if same else replace(progress, eval_before=None)), own


def sharding_options(
    config: TrainConfig,
    shape: ModelShape | None,
    gpu: Gpu | None,
    node_of_rank: Sequence[int],
    *,
    compiled: bool,
    say: Say,
) -> Sharding:
    """What was asked for, and where that is auto, what the GPU has room for; says the memory plan of a known GPU."""
    precision, recorded = config.precision, config.cuda_graph == ON
    if precision == AUTO:
        precision = default_precision(on_gpu=config.process_group == "nccl")
    if shape is None or gpu is None:
        keep_gathered = config.keep_gathered == ON
        return Sharding(mode=config.sharding, precision=precision, keep_gathered=keep_gathered, peer_copies=recorded)
    asked = workload(config, node_of_rank, precision=precision, compiled=compiled)
    work = settled(config, shape, asked, gpu)
    plan = plan_memory(shape, work)
    say(plan.line(gpu))
    if not plan.fits(gpu):
        say(f"it may run out of memory: {remedy(shape, work, gpu)}")
    return Sharding(mode=config.sharding, precision=precision, keep_gathered=work.keep_gathered, peer_copies=recorded)
