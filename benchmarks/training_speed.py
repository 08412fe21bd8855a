"""Tokens a second, MFU and peak memory of this project's training step beside other loops, on this machine's GPUs.

    python -m benchmarks.training_speed [--batch 8] [--loops seed,unsharded,...] [--feed gathered] [--json FILE]

One process a GPU, without Ray: it runs wherever torch and transformers are. All loops stand ready at the same time and
take turns in each round, so that a machine that slows down slows all of them; those that replay a CUDA graph come
after the others, since a recording that fails can take the process with it. The loops that --feed names are then
measured with batches that the trainer's feed reads from token files, by turns with one batch that is there already.
Lines appear as results come. Without GPUs two processes train a tiny model on gloo, to see that everything runs; their
figures say nothing.
"""

import argparse
import gc
import json
import os
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from benchmarks.parts.link_speed import link_speeds
from benchmarks.parts.loop_setting import QWEN_1_5B, TINY, Setting
from benchmarks.parts.speed_table import REFERENCES, Arm, table
from benchmarks.parts.token_data import TokenData
from benchmarks.parts.training_loops import LOOPS, OurLoop, Ours, planned_gib
from training.feed import Feed
from training.gpu_peaks import GIB, find_gpu, flops_per_token
from training.memory_plan import ModelShape
from training.peer_memory import shared_bytes
from training.profile import overlap
from training.sharding import FP32

DEFAULT_LOOPS = "seed,unsharded,earlier,lean,compiled,gathered,exchange,recorded,peers"
WARM_UP_STEPS = 5  # three before a recording, the recording, one replay
FEED_WARM_UP = 10  # documents' bounds have another shape in each batch, for which more is compiled
FEED_MEGABYTES = 16


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
        before, started = self._allocated() + shared_bytes(self.device), time.perf_counter()
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
                    peak = (torch.cuda.max_memory_allocated() + shared_bytes(self.device) - before) / GIB
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

    def feed(self, arm: Arm, folder: Path) -> list[Arm]:
        """The loop with a new batch each step, and with the first of them again and again."""
        run, ours = arm.run, LOOPS[arm.name]
        assert isinstance(run, OurLoop) and isinstance(ours, Ours)
        data = TokenData(folder, self.setting.seq_len).open(by_document=ours.documents)
        steps = FEED_WARM_UP + self.options.rounds * (self.options.steps + 1)
        with Feed(
            data,
            consumed=0,
            steps=steps,
            micro_steps=1,
            rank=self.rank,
            world_size=self.ranks,
            rows=self.setting.batch_size,
            device=self.device,
        ) as feed:
            fed = replace(arm, name=f"{arm.name}, fed", rounds=[])
            fed.run = replace(run, batch=lambda: feed.next().tensors())
            first = data.train_batch(0, 0, self.rank, self.ranks, self.setting.batch_size).to(self.device).tensors()
            same = replace(arm, name=f"{arm.name}, one batch", rounds=[], run=replace(run, batch=lambda: first))
            for _ in range(FEED_WARM_UP):
                fed.run()
            waited = feed.waited_s
            self.measure([same, fed])
            fed.waited_s = (feed.waited_s - waited) / (steps - FEED_WARM_UP)
        return [same, fed]

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
        rows = table(arms, self.setting.batch_size * self.setting.seq_len, self.ranks, self.flops, self.gpu)
        for row in rows:
            self.say(json.dumps(row))
        if self.rank == 0 and self.options.json is not None:
            run = {"torch": torch.__version__, "gpus": self.ranks, "options": vars(self.options), "machine": speeds}
            Path(self.options.json).write_text(json.dumps(run | {"loops": rows}, indent=1, default=str))

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
        for arm in arms:
            if arm.name not in {*REFERENCES, *options.feed.split(","), *options.profile.split(",")}:
                arm.run = _nothing  # the loops still to come need the memory
    if options.feed:
        fed = [arm for arm in done if arm.name in options.feed.split(",")]
        bench.report(done + [one for arm in fed for one in bench.feed(arm, Path(options.folder))], speeds)
    for arm in done:
        if arm.name in options.profile.split(","):
            bench.profile(arm)
    # Recorded graphs and NCCL's threads do not always end in an order that the interpreter's own end survives.
    dist.barrier()
    os._exit(0)


def _nothing() -> None:
    """In the place of a loop that is measured."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8, help="sequences of each process")
    parser.add_argument("--seq_len", type=int, default=1024)
    parser.add_argument("--ranks", type=int, default=0, help="processes; 0 is one for each GPU")
    parser.add_argument("--loops", default=DEFAULT_LOOPS, help=f"of: {', '.join(LOOPS)}")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12, help="timed steps of each loop in each round")
    parser.add_argument("--feed", default="", help="our own loops to measure with batches from token files as well")
    parser.add_argument("--profile", default="", help="loops to profile at the end")
    parser.add_argument("--json", help="where the results go as well")
    parser.add_argument("--tiny", action="store_true", help="a tiny model also on GPUs")
    options = parser.parse_args(arguments)
    loops = options.loops.split(",")
    if options.feed and not all(name in loops and isinstance(LOOPS[name], Ours) for name in options.feed.split(",")):
        parser.error(f"--feed {options.feed}: must be some of our own --loops")
    unknown = [name for name in loops if name not in LOOPS]
    if unknown:
        parser.error(f"--loops: no loop is called {unknown}")
    return options


if __name__ == "__main__":
    chosen = parse()
    count = chosen.ranks or torch.cuda.device_count() or 2
    with tempfile.TemporaryDirectory() as folder:
        chosen.folder = folder
        if chosen.feed:
            token_data = TokenData(Path(folder), chosen.seq_len)
            token_data.write(FEED_MEGABYTES)
            token_data.prepare()
        multiprocessing.spawn(run_rank, (count, str(Path(folder, "store")), chosen), nprocs=count)
