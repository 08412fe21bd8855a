"""What a run's settings take of a GPU's memory, and what would fit it. No torch here."""

from collections.abc import Sequence
from dataclasses import replace

from training.config import AUTO, ON, TrainConfig
from training.gpu_peaks import Gpu
from training.memory_plan import ModelShape, Workload, plan_memory
from training.topology import FSDP, mesh_rows

MOST_SEQUENCES = 4096


def workload(config: TrainConfig, node_of_rank: Sequence[int], *, precision: str, compiled: bool) -> Workload:
    """As it was asked for, so that what is left to the GPU is not kept gathered. Raises TrainingError as mesh_rows."""
    return Workload(
        batch_size=config.batch_size,
        seq_len=config.seq_len,
        split_over=len(mesh_rows(config.sharding, node_of_rank)[0]),
        precision=precision,
        activation_checkpointing=config.activation_checkpointing,
        compiled=compiled,
        keep_gathered=config.keep_gathered == ON,
        exchange=len(set(node_of_rank)) == 1 or config.sharding != FSDP,
        peer_copies=config.cuda_graph == ON,
        micro_batches=config.accumulate,
    )


def settled(config: TrainConfig, shape: ModelShape, work: Workload, gpu: Gpu) -> Workload:
    """`work` as it will run: whether parameters stay gathered may be left to what the GPU has room for."""
    advised = advise(shape, work, gpu)
    if config.keep_gathered != AUTO or advised is None:
        return work
    return replace(work, keep_gathered=advised.keep_gathered)


def largest_batch(shape: ModelShape, work: Workload, gpu: Gpu) -> int:
    """Sequences a rank can take at once on that GPU; 0 where not even one fits."""
    batch = 0
    while batch < MOST_SEQUENCES and plan_memory(shape, replace(work, batch_size=batch + 1)).fits(gpu):
        batch += 1
    return batch


def advise(shape: ModelShape, work: Workload, gpu: Gpu) -> Workload | None:
    """`work` with what costs least time and fits: parameters kept gathered, else as it is, else checkpointing.

    None where even full checkpointing does not fit.
    """
    return next((candidate for candidate in _by_time(work) if plan_memory(shape, candidate).fits(gpu)), None)


def _by_time(work: Workload) -> list[Workload]:
    """Ways to run `work`, the one that costs least time first."""
    checkpointing = "pointwise" if work.compiled else "selective"
    return [
        replace(work, keep_gathered=True),
        replace(work, keep_gathered=False),
        replace(work, keep_gathered=False, activation_checkpointing=checkpointing),
        replace(work, keep_gathered=False, activation_checkpointing="selective"),
        replace(work, keep_gathered=False, activation_checkpointing="full"),
    ]


def remedy(shape: ModelShape, work: Workload, gpu: Gpu) -> str:
    """What to change of `work`, which does not fit."""
    smallest = replace(work, keep_gathered=False, activation_checkpointing="full")
    offers = []
    if (advised := advise(shape, work, gpu)) is not None:
        offers.append(_changes(work, advised))
    if batch := largest_batch(shape, work, gpu):
        offers.append(f"--batch_size {batch}")
    elif advised is None and (batch := largest_batch(shape, smallest, gpu)):
        offers.append(" ".join(filter(None, [f"--batch_size {batch}", _changes(work, smallest)])))
    if not offers:
        return f"not even --batch_size 1 fits {gpu.name}: take more GPUs, or a lower --seq_len"
    return f"{' or '.join(offers)} would fit"


def relief(shape: ModelShape | None, work: Workload, gpu: Gpu | None) -> str:
    """What to change of `work`, which has run out of memory, whatever the plan said of it."""
    ways = _by_time(work)
    if shape is None or gpu is None:
        less = ways[-1:]
    elif not (planned := plan_memory(shape, work)).fits(gpu):
        return remedy(shape, work, gpu)
    else:
        less = [way for way in ways if plan_memory(shape, way).needed < planned.needed][:1]
    offers = [change for way in less if (change := _changes(work, way))]
    offers += [f"--batch_size {work.batch_size // 2}"] if work.batch_size > 1 else []
    return f"{' or '.join(offers)} takes less" if offers else "take more GPUs, or a lower --seq_len"


def _changes(work: Workload, to: Workload) -> str:
    """In the job's arguments; empty where nothing changes."""
    changes = []
    if to.activation_checkpointing != work.activation_checkpointing:
        changes.append(f"--activation_checkpointing {to.activation_checkpointing}")
    if to.keep_gathered != work.keep_gathered:
        changes.append(f"--keep_gathered {'on' if to.keep_gathered else 'off'}")
    return " ".join(changes)
