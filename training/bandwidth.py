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
from training.failure import final_unless_outage
from training.job_kind import RankTask
from training.measure import RESULT
from training.nccl_lines import NcclLines, handed_back
from training.worker_setup import raise_if_unprepared


def measure_func(task: RankTask[BandwidthConfig]) -> None:
    """What each rank runs. Ray Train has made the process group: gloo between CPUs, NCCL between GPUs."""
    import torch.distributed as dist

    raise_if_unprepared()
    with final_unless_outage(), handed_back(dist.get_rank(), dist.get_backend()) as lines:
        measure_all(task, lines)


def measure_all(task: RankTask[BandwidthConfig], lines: NcclLines) -> None:
    """Every size in turn. How the ranks communicated is testified as in training."""
    # Imported here and not above: the driver and Ray's controller load this file as well, and need none of it.
    import torch.distributed as dist

    from training import all_reduce, efa_devices, evidence
    from training.attempt import begin
    from training.free_memory import free_bytes
    from training.storage import storage_errors

    now = begin(task, lines)
    now.testify()
    config, ranks = now.config, now.world_size

    # A GPU's memory is its rank's; that of a host, which several Ray nodes may share, is that of all ranks there.
    memory = socket.gethostname() if now.device.type == "cpu" else f"rank {now.rank}"
    free: list[tuple[str, int]] = [("", 0)] * ranks
    dist.all_gather_object(free, (memory, free_bytes(now.device)))
    sizes, left_out = sizes_within(share_of_memory(free), config)
    if left_out:
        now.say(f"left out for want of memory: {' '.join(left_out)}")

    started = time.perf_counter()
    before = evidence.read_devices(now.testimony["local_rank"])
    rows = []
    for size in sizes:
        row = all_reduce.measure(size, iterations=config.iterations, warm_up=config.warm_up, device=now.device)
        rows.append(row.as_json())
        now.say(
            f"all_reduce {text_of(size)}: {row.seconds * 1e6:.1f} us, algbw {row.algbw_gbs:.3g} GB/s, "
            f"busbw {row.busbw_gbs:.3g} GB/s, {row.wrong} wrong"
        )
    now.testimony.update(efa_devices.testimony(before, evidence.read_devices(now.testimony["local_rank"])))
    measured_s = time.perf_counter() - started
    if len(set(now.node_of_rank)) > 1:
        reductions = config.warm_up + config.iterations + all_reduce.CHECKS
        moved = bytes_to_move(sizes, reductions)
        now.testimony["must_move"] = {"steps": len(sizes) * reductions, "sent": moved, "received": moved}
    dist.barrier()
    lines.finish()  # after the last collective, so that the testimony counts all of NCCL's lines
    now.testify(**evidence.so_far(now.device, lines))
    if now.rank == 0:
        with storage_errors(now.run.folder):
            now.run.folder.write_json(RESULT, {"rows": rows, "timings": {"measure_s": measured_s}})


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
