"""Copies between GPUs must give the very weights that the process group gives."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from tests.training.test_cuda_graph import train


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="copies between GPUs need two")
@pytest.mark.parametrize("keep_gathered", [False, True])
def test_copies_between_gpus_train_as_nccl_does(tmp_path: Path, keep_gathered: bool) -> None:
    ranks = torch.cuda.device_count()
    multiprocessing.spawn(compare, (ranks, str(tmp_path / "store"), keep_gathered), nprocs=ranks)


def compare(rank: int, ranks: int, store: str, keep_gathered: bool) -> None:
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=ranks, device_id=device)
    kinds = {"compiled": False, "keep_gathered": keep_gathered}
    told, weights = train(rank, device, recorded=False, **kinds)
    for recorded in (False, True):
        torch.cuda._sleep(1 << 31)  # a second or so, in which the CPU gets ahead: what is shared is made all the same
        by_copies, copied = train(rank, device, recorded=recorded, peer_copies=True, **kinds)
        assert by_copies == told
        for name, expected in weights.items():
            assert torch.equal(copied[name], expected), name
    dist.destroy_process_group()
