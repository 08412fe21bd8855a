"""What all training loops of a benchmark have in common: the model's shape, the tokens, the weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from training.sharding import MIXED
from training.weights import make_unstored_buffers, tied_names

QWEN_1_5B = {
    "vocab_size": 151_936,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
}
TINY = QWEN_1_5B | {"vocab_size": 16_384, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3}
LEARNING_RATE = 1e-5
Loop = Callable[[], None]
"""One step; nothing in it waits for the device that the loop it stands for would not wait for."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all loops of a run have in common."""

    shape: dict[str, Any]
    batch_size: int
    seq_len: int
    device: torch.device
    compiler: str = "inductor"
    precision: str = MIXED

    def tokens(self, more: int = 0) -> torch.Tensor:
        generator = torch.Generator().manual_seed(dist.get_rank())
        rows = torch.randint(0, self.shape["vocab_size"], (self.batch_size, self.seq_len + more), generator=generator)
        return rows.to(self.device)


def fill_randomly(model: Any, device: torch.device) -> None:
    """Weights for a model on the meta device, sharded or not: norms 1, biases 0, all else as Qwen2 begins."""
    state: dict[str, torch.Tensor] = {}
    for names in tied_names(model).values():
        wanted = model.get_parameter(names[0])
        whole = not isinstance(wanted, DTensor)
        part = torch.empty(wanted.shape if whole else wanted._local_tensor.shape, device=device, dtype=wanted.dtype)
        if "norm" in names[0]:
            part.fill_(1.0)
        elif wanted.ndim < 2:
            part.zero_()
        else:
            part.normal_(0.0, 0.02)
        if not whole:
            part = DTensor.from_local(
                part, wanted.device_mesh, wanted.placements, run_check=False, shape=wanted.shape, stride=wanted.stride()
            )
        state |= dict.fromkeys(names, torch.nn.Parameter(part))
    model.load_state_dict(state, assign=True)
    make_unstored_buffers(model, device)


def qwen(setting: Setting, *, on_meta: bool, use_cache: bool = False) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**setting.shape)
    config.use_cache = use_cache
    with torch.device("meta" if on_meta else setting.device):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(config)
    return model.train()
