"""Tokens a second, MFU and peak memory of this project's training step beside other loops, on this machine's GPUs.

    python -m benchmarks.training_speed [--batch 8] [--loops seed,unsharded,...] [--rounds 2] [--json FILE]

One process a GPU, without Ray: it runs wherever torch and transformers are. All loops stand ready at the same time and
take turns in each round, so that a machine that slows down slows all of them; those that replay a CUDA graph come
after the others, since a recording that fails can take the process with it. Lines appear as results come. Without
GPUs two processes train a tiny model on gloo, to see that everything runs; their figures say nothing.
"""

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from benchmarks.parts.link_speed import link_speeds
from benchmarks.parts.training_loops import LOOPS, QWEN_1_5B, TINY, Loop, Ours, Setting, planned_gib
from training.gpu_peaks import GIB, find_gpu, flops_per_token
from training.memory_plan import ModelShape
from training.metrics import Scale
from training.profile import overlap
from training.sharding import FP32

DEFAULT_LOOPS = "seed,unsharded,earlier,lean,compiled,gathered,exchange,recorded"
REFERENCES = ("seed", "unsharded")
WARM_UP_STEPS = 5  # three before a recording, the recording, one replay


@dataclass
class Arm:
    name: str
    run: Loop
    built_s: float
    peak_gib: float
    """Of torch's allocator in the third step, without what the other loops hold."""
    planned_gib: float | None
    rounds: list[float] = field(default_factory=list)
    """Seconds a step, of the slowest rank."""


class Bench:
    def __init__(self, options: argparse.Namespace, rank: int, ranks: int, on_gpu: bool) -> None:
        device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
        self.rank, self.ranks, self.device, self.options = rank, ranks, device, options
        self.setting = Setting(
            shape=QWEN_1_5B if on_gpu and not options.tiny else TINY,
            batch_size=options.batch,
            seq_len=options.seq_len,
            device=device,
            compiler="inductor" if on_gpu else "aot_eager",
            precision="mixed" if on_gpu else FP32,
        )
        self.shape = ModelShape.of(self.setting.shape | {"model_type": "qwen2"})
        self.gpu = find_gpu(torch.cuda.get_device_name(device)) if on_gpu else None
        self.flops = flops_per_token(self.shape.parameters, self.shape.layers, self.shape.hidden, self.setting.seq_len)

    def say(self, line: str) -> None:
        if self.rank == 0:
            print(line, flush=True)

    def build(self, name: str) -> Arm | None:
        """None, told, where a loop cannot be built or does not run; then on every rank."""
        before, started = self._allocated(), time.perf_counter()
        peak = 0.0
        try:
            run = LOOPS[name](self.setting)
            for step in range(WARM_UP_STEPS):
                if step == 2 and self.device.type == "cuda":
                    torch.cuda.synchronize()
                    torch.cuda.reset_peak_memory_stats()
                run()
                self._wait()
                if step == 2 and self.device.type == "cuda":
                    peak = (torch.cuda.max_memory_allocated() - before) / GIB
            failure = ""
        except Exception:
            failure = traceback.format_exc()
        failures: list[Any] = [None] * self.ranks
        dist.all_gather_object(failures, failure)
        built_s = time.perf_counter() - started
        if any(failures):
            self.say(f"{name}: does not run\n{next(filter(None, failures))}")
            return None
        planned = planned_gib(LOOPS[name], self.setting, self.ranks)
        arm = Arm(name, run, built_s, peak, planned)
        said = f"{name}: ready in {built_s:.0f} s, peak {peak:.1f} GiB"
        self.say(said if planned is None else f"{said} (planned {planned:.1f})")
        return arm

    def measure(self, arms: Sequence[Arm]) -> None:
        for number in range(self.options.rounds):
            for arm in arms:
                arm.run()  # what ran before has emptied caches of its own
                self._wait()
                dist.barrier()
                started = time.perf_counter()
                for _ in range(self.options.steps):
                    arm.run()
                self._wait()
                slowest = torch.tensor(time.perf_counter() - started, device=self.device)
                dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
                arm.rounds.append(slowest.item() / self.options.steps)
                self.say(f"round {number + 1}: {arm.name} {1000 * arm.rounds[-1]:.1f} ms a step")

    def profile(self, arm: Arm) -> None:
        """Two steps of a loop: its GPU time by kernel, and how much communication nothing hid."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profiler:
            started = time.perf_counter()
            for _ in range(2):
                arm.run()
            self._wait()
            took = time.perf_counter() - started
        found = overlap(profiler.events(), on_gpu=self.device.type == "cuda")
        figures = {name: round(1000 * seconds / 2, 2) for name, seconds in vars(found).items()}
        self.say(f"profile of {arm.name}: {1000 * took / 2:.1f} ms a step, of which {figures} ms")
        key = "self_cuda_time_total" if self.device.type == "cuda" else "self_cpu_time_total"
        self.say(profiler.key_averages().table(sort_by=key, row_limit=25, max_name_column_width=70))

    def report(self, arms: Sequence[Arm], speeds: dict[str, float]) -> None:
        rows = self.table(arms)
        for row in rows:
            self.say(json.dumps(row))
        if self.rank == 0 and self.options.json is not None:
            run = {"torch": torch.__version__, "gpus": self.ranks, "options": vars(self.options), "machine": speeds}
            Path(self.options.json).write_text(json.dumps(run | {"loops": rows}, indent=1, default=str))

    def table(self, arms: Sequence[Arm]) -> list[dict[str, Any]]:
        rows = []
        medians = {arm.name: statistics.median(arm.rounds) for arm in arms}
        tokens = self.setting.batch_size * self.setting.seq_len
        for arm in arms:
            step_s = medians[arm.name]
            row: dict[str, Any] = {
                "loop": arm.name,
                "step_ms": round(1000 * step_s, 2),
                "rounds_ms": [round(1000 * seconds, 2) for seconds in arm.rounds],
                "tokens_per_second": round(tokens * self.ranks / step_s),
                "peak_gib": round(arm.peak_gib, 2),
                "planned_gib": None if arm.planned_gib is None else round(arm.planned_gib, 2),
                "built_s": round(arm.built_s, 1),
            }
            if self.gpu is not None:
                scale = Scale(
                    tokens_per_step=tokens, ranks=1, flops_per_token=self.flops, peak_flops=self.gpu.peak_flops
                )
                row["mfu"] = round(scale.utilization(step_s) or 0.0, 4)
            for other in REFERENCES:
                if other in medians:
                    row[f"times_{other}"] = round(medians[other] / step_s, 3)
            rows.append(row)
        return rows

    def _allocated(self) -> int:
        gc.collect()
        if self.device.type != "cuda":
            return 0
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return int(torch.cuda.memory_allocated())

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def run_rank(rank: int, ranks: int, store: str, options: argparse.Namespace) -> None:
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=180),
        device_id=torch.device("cuda", rank) if on_gpu else None,
    )
    bench = Bench(options, rank, ranks, on_gpu)
    names = options.loops.split(",")
    bench.say(f"torch {torch.__version__}, {ranks} x {torch.cuda.get_device_name() if on_gpu else 'CPU'}")
    speeds = link_speeds(bench.device, tiny=not on_gpu)
    bench.say(json.dumps(speeds))
    recorded = [name for name in names if isinstance(loop := LOOPS[name], Ours) and loop.recorded]
    done: list[Arm] = []
    for some in ([name for name in names if name not in recorded], recorded if on_gpu else []):
        arms = [arm for name in some if (arm := bench.build(name)) is not None]
        # What the others are compared with takes its turns beside them once more.
        bench.measure(arms + [arm for arm in done if arms and arm.name in REFERENCES])
        done += arms
        if arms:
            bench.report(done, speeds)
    for arm in done:
        if arm.name in options.profile.split(","):
            bench.profile(arm)
    # Recorded graphs and NCCL's threads do not always end in an order that the interpreter's own end survives.
    dist.barrier()
    os._exit(0)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8, help="sequences of each process")
    parser.add_argument("--seq_len", type=int, default=1024)
    parser.add_argument("--ranks", type=int, default=0, help="processes; 0 is one for each GPU")
    parser.add_argument("--loops", default=DEFAULT_LOOPS, help=f"of: {', '.join(LOOPS)}")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12, help="timed steps of each loop in each round")
    parser.add_argument("--profile", default="", help="loops to profile at the end")
    parser.add_argument("--json", help="where the results go as well")
    parser.add_argument("--tiny", action="store_true", help="a tiny model also on GPUs")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.loops.split(",") if name not in LOOPS]
    if unknown:
        parser.error(f"--loops: no loop is called {unknown}")
    return options


if __name__ == "__main__":
    chosen = parse()
    count = chosen.ranks or torch.cuda.device_count() or 2
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run_rank, (count, str(Path(folder, "store")), chosen), nprocs=count)
