"""The bandwidth of all_reduce between all ranks on Ray, of the very NCCL or gloo that training uses.

    python -m training.bandwidth --storage_path /shared/runs --run_id first --worker_resource GPU --sizes 256M 1G

starts the driver (driver.py), which lets Ray Train run measure_func below once per rank, on every node at once.
"""

import socket
import time
from collections.abc import Sequence

from training.bandwidth_config import BandwidthConfig
from training.bus_bandwidth import DEFAULT_SIZES, bytes_needed, bytes_of, bytes_to_move, share_of_memory, text_of
from training.errors import TrainingError
from training.job_kind import RankTask
from training.measure import RESULT
from training.nccl_lines import NcclLines, handed_back
from training.run_directory import RunDirectory
from training.worker_setup import raise_if_unprepared


def measure_func(task: RankTask[BandwidthConfig]) -> None:
    """What each rank runs. Ray Train has made the process group: gloo between CPUs, NCCL between GPUs."""
    import torch.distributed as dist

    raise_if_unprepared()
    with handed_back(dist.get_rank(), dist.get_backend()) as lines:
        measure_all(task, lines)


def measure_all(task: RankTask[BandwidthConfig], lines: NcclLines) -> None:
    """Every size in turn. How the ranks communicated is testified as in training."""
    # Imported here and not above: the driver and Ray's controller load this file as well, and need none of it.
    import torch.distributed as dist

    from training import all_reduce, efa_devices, evidence
    from training.free_memory import free_bytes
    from training.rank_device import rank_device
    from training.storage import storage_errors

    worker_group_s = time.time() - task.started_at
    config, rank, ranks = task.config, dist.get_rank(), dist.get_world_size()
    device = rank_device(config.process_group)

    def say(line: str) -> None:
        if rank == 0:
            print(f"[{config.mark}] {line}\n", end="", flush=True)

    run = RunDirectory.of(config)
    begun = [run.begin_attempt(worker_group_s) if rank == 0 else 0]
    dist.broadcast_object_list(begun, src=0)
    attempt = begun[0]
    run.check_shared(attempt)
    testimony = evidence.testify(
        attempt=attempt,
        device=device,
        job_environment=task.job_environment,
        requirements=config.pip,
        lines=lines,
    )
    evidence.write_testimony(run.attempt(attempt), testimony)
    nodes: list[int] = [0] * ranks
    dist.all_gather_object(nodes, testimony["node_rank"])
    say(f"worker group up: {ranks} ranks on {max(nodes) + 1} nodes ({worker_group_s:.1f} s)")

    # A GPU's memory is its rank's; that of a host, which several Ray nodes may share, is that of all ranks there.
    memory = socket.gethostname() if device.type == "cpu" else f"rank {rank}"
    free: list[tuple[str, int]] = [("", 0)] * ranks
    dist.all_gather_object(free, (memory, free_bytes(device)))
    sizes, left_out = sizes_within(share_of_memory(free), config)
    if left_out:
        say(f"left out for want of memory: {' '.join(left_out)}")

    started = time.perf_counter()
    before = evidence.read_devices(testimony["local_rank"])
    rows = []
    for size in sizes:
        row = all_reduce.measure(size, iterations=config.iterations, warm_up=config.warm_up, device=device)
        rows.append(row.as_json())
        say(
            f"all_reduce {text_of(size)}: {row.seconds * 1e6:.1f} us, algbw {row.algbw_gbs:.3g} GB/s, "
            f"busbw {row.busbw_gbs:.3g} GB/s, {row.wrong} wrong"
        )
    testimony |= efa_devices.testimony(before, evidence.read_devices(testimony["local_rank"]))
    measured_s = time.perf_counter() - started
    if len(set(nodes)) > 1:
        reductions = config.warm_up + config.iterations + all_reduce.CHECKS
        moved = bytes_to_move(sizes, reductions)
        testimony["must_move"] = {"steps": len(sizes) * reductions, "sent": moved, "received": moved}
    dist.barrier()
    lines.finish()  # after the last collective, so that the testimony counts all of NCCL's lines
    testimony |= evidence.so_far(device, lines)
    evidence.write_testimony(run.attempt(attempt), testimony)
    if rank == 0:
        with storage_errors(run.folder):
            run.folder.write_json(RESULT, {"rows": rows, "timings": {"measure_s": measured_s}})


def sizes_within(memory: int, config: BandwidthConfig) -> tuple[list[int], Sequence[str]]:
    """Bytes of each all-reduce that every rank has the memory for, and the default sizes that are left out.

    Raises TrainingError where a size that was asked for, or the smallest default, does not fit.
    """
    wanted = config.sizes or DEFAULT_SIZES[config.process_group]
    too_large = [size for size in wanted if bytes_needed(bytes_of(size) or 0) > memory]
    if too_large and (config.sizes or len(too_large) == len(wanted)):
        needed = bytes_needed(bytes_of(too_large[0]) or 0)
        raise TrainingError(
            f"--sizes {too_large[0]}: each rank needs {needed >> 20} MiB of memory for it, and has {memory >> 20} MiB"
        )
    return [bytes_of(size) or 0 for size in wanted if size not in too_large], too_large


if __name__ == "__main__":
    import sys

    from training.bandwidth_job import BANDWIDTH
    from training.driver import main

    sys.exit(main(BANDWIDTH, sys.argv[1:]))
