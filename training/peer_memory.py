"""Memory that all GPUs of a node see: their copy engines move what NCCL moves with multiprocessors.

While NCCL's kernels run, matrix products have fewer multiprocessors and take longer; copies between GPUs over NVLink
need none.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable

import torch
import torch.distributed as dist


class Shared(ABC):
    """One buffer of each rank of a group, all of one size; each rank sees every one of them."""

    def __init__(self, rank: int, ranks: int) -> None:
        self.rank = rank
        self.others = [(rank + distance) % ranks for distance in range(1, ranks)]
        """The next rank first, so that not all of them copy from the same one."""

    @abstractmethod
    def part(self, rank: int, start: int, elements: int) -> torch.Tensor:
        """Of that rank's buffer, with a storage of its own, the same memory each time; the buffer must outlive it."""

    @abstractmethod
    def meet(self) -> None:
        """The current stream goes on once those of all ranks are here; what they wrote before can then be read."""


Share = Callable[[int, torch.dtype, torch.device], Shared]
"""Makes a buffer of so many elements; all ranks of the group call it together."""
ShareWithin = Callable[[torch.device, dist.ProcessGroup], Share | None]
"""None where ranks of that group cannot; all of them call it, and all are told alike."""


_shared_bytes: Counter[torch.device] = Counter()


def shared_bytes(device: torch.device) -> int:
    """Of a GPU's memory: torch's allocator does not count what is shared."""
    return _shared_bytes[device]


class SharedByGpus(Shared):
    def __init__(self, group: dist.ProcessGroup, elements: int, dtype: torch.dtype, device: torch.device) -> None:
        import torch.distributed._symmetric_memory as symmetric_memory

        super().__init__(group.rank(), group.size())
        self._dtype = dtype
        # What torch writes for a new buffer is in no stream's order, and its table of addresses may lie in memory that
        # a kernel still has to write to: nothing may be queued before, nor be queued until it is there.
        torch.cuda.synchronize(device)
        self._memory = symmetric_memory.empty(elements, dtype=dtype, device=device)
        _shared_bytes[self._memory.device] += elements * dtype.itemsize
        self._handle = symmetric_memory.rendezvous(self._memory, group)
        torch.cuda.synchronize(device)

    def part(self, rank: int, start: int, elements: int) -> torch.Tensor:
        part: torch.Tensor = self._handle.get_buffer(rank, (elements,), self._dtype, start)
        return part

    def meet(self) -> None:
        self._handle.barrier()


class Buffers:
    """Shared buffers used again and again: as many of each size as are in use at a time."""

    def __init__(self, share: Share, places: int) -> None:
        self._share = share
        self._places = places
        self._made: dict[tuple[int, torch.dtype], list[Shared]] = {}
        self._taken: dict[tuple[int, torch.dtype], int] = {}

    def take(self, elements: int, dtype: torch.dtype, device: torch.device) -> Shared:
        """Whoever took the same one before must be done with it, on every rank."""
        key = elements, dtype
        number = self._taken.get(key, 0)
        self._taken[key] = number + 1
        made = self._made.setdefault(key, [])
        if len(made) < self._places:
            made.append(self._share(elements, dtype, device))
        return made[number % self._places]


def sharing_of_gpus(device: torch.device, group: dist.ProcessGroup) -> Share | None:
    """None where some GPU cannot reach another's memory."""
    reached = device.type == "cuda" and all(
        other == device.index or torch.cuda.can_device_access_peer(device, other)
        for other in range(torch.cuda.device_count())
    )
    told: list[object] = [None] * group.size()
    dist.all_gather_object(told, reached, group=group)
    if not all(told):
        return None
    return lambda elements, dtype, device: SharedByGpus(group, elements, dtype, device)
