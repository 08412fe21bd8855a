"""Packed documents must be to a model what they are alone."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from training import document_attention
from training.attention import use_mask_free_attention
from training.data import Batch, Dataset, RowsInMemory
from training.document_attention import (
    BY_BOUNDS,
    attend_by_bounds,
    attends_by_bounds,
    attention_by_bounds,
    documents_for,
)
from training.errors import TrainingError
from training.packing import document, pack, pieces

VOCABULARY, SEQ_LEN = 64, 48
LENGTHS = (30, 11, 7, 40, 3, 5, 48, 17, 2)


def model(**changes: Any) -> torch.nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(11)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    settings = {"vocab_size": VOCABULARY, "num_hidden_layers": 2, "use_cache": False, "initializer_range": 0.2}
    module: torch.nn.Module = Qwen2ForCausalLM(Qwen2Config(**sizes | settings | changes))
    return module


def texts() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(12)
    return [torch.randint(0, VOCABULARY - 1, (length,), generator=generator) for length in LENGTHS]


def packed_batch(*, by_document: bool = True) -> Batch:
    parts = [piece for text in texts() for piece in pieces(document(text.tolist()), SEQ_LEN)]
    words = pack(parts, SEQ_LEN, VOCABULARY - 1)
    assert len(words) < len(LENGTHS), "nothing was packed, so nothing is shown"
    rows = RowsInMemory(words)
    return Dataset(rows, rows, SEQ_LEN, 0, by_document, "test").held_out_batches(0, 1, len(words), 1)[0]


def packed_loss(module: torch.nn.Module, batch: Batch) -> torch.Tensor:
    told = documents_for(module, batch.documents, batch.document_bounds, SEQ_LEN)
    logits = module(input_ids=batch.input_ids, position_ids=batch.position_ids, **told).logits
    loss: torch.Tensor = functional.cross_entropy(logits.flatten(0, 1).float(), batch.labels.flatten(), reduction="sum")
    return loss


def one_by_one(module: torch.nn.Module) -> torch.Tensor:
    total = torch.zeros(())
    for text in texts():
        logits = module(input_ids=text[None, :-1]).logits
        total = total + functional.cross_entropy(logits[0].float(), text[1:], reduction="sum")
    return total


def gradient(module: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    module.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])


@pytest.mark.parametrize("mask_free", [False, True])
def test_packed_documents_have_the_loss_and_the_gradient_of_each_alone(mask_free: bool) -> None:
    module = model()
    assert not mask_free or use_mask_free_attention(module)
    alone, together = one_by_one(module), packed_loss(module, packed_batch())
    assert together.item() == pytest.approx(alone.item(), rel=1e-5)
    expected, got = gradient(module, alone), gradient(module, together)
    assert (got - expected).norm() / expected.norm() < 1e-5


def test_plain_causal_attention_sees_the_neighbours_and_so_has_another_loss() -> None:
    module = model()
    batch = packed_batch(by_document=False)
    assert batch.position_ids is None and batch.documents is None
    difference = abs(packed_loss(module, batch).item() - one_by_one(module).item())
    assert difference > 1, "else the test above shows nothing"


@pytest.mark.parametrize(("device", "compute"), [("cpu", torch.bfloat16), ("cuda", torch.float32)])
def test_where_there_is_no_flash_kernel_documents_are_told_by_a_mask(device: str, compute: torch.dtype) -> None:
    module = model()
    assert not attend_by_bounds(module, torch.device(device), compute)
    batch = packed_batch()
    assert documents_for(module, batch.documents, batch.document_bounds, SEQ_LEN) == {}, "transformers makes it"
    assert use_mask_free_attention(module)
    assert documents_for(module, batch.documents, batch.document_bounds, SEQ_LEN).keys() == {"attention_mask"}


def test_attention_with_something_the_kernel_lacks_is_refused_and_not_ignored() -> None:
    states = torch.zeros(1, 2, 4, 8)
    with pytest.raises(TrainingError, match=r"--attention documents: .* needs \['softcap'\]"):
        attention_by_bounds(torch.nn.Identity(), states, states, states, None, softcap=30.0)


@pytest.mark.parametrize("window", [None, 5])
def test_attention_by_bounds_is_the_same_attention(monkeypatch: pytest.MonkeyPatch, window: int | None) -> None:
    """With a slow stand-in for torch's kernel, which runs on GPUs only, but called as torch 2.13 has it."""
    from transformers import AttentionInterface

    monkeypatch.setattr(document_attention, "varlen_attn", _document_after_document)
    sliding = {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0} if window else {}
    module: Any = model(**sliding)
    expected = packed_loss(module, packed_batch())
    AttentionInterface.register(BY_BOUNDS, attention_by_bounds)
    module.set_attn_implementation(BY_BOUNDS)
    assert attends_by_bounds(module)
    assert packed_loss(module, packed_batch()).item() == pytest.approx(expected.item(), rel=1e-5)
    causal = packed_batch(by_document=False)
    without_bounds = packed_loss(module, causal).item()
    module.set_attn_implementation("sdpa")
    assert without_bounds == pytest.approx(packed_loss(module, causal).item(), rel=1e-5)


def _document_after_document(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seq_q: torch.Tensor,
    cu_seq_k: torch.Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
) -> torch.Tensor:
    assert window_size[1] == 0, "nothing to come may be seen"
    attended = torch.empty_like(query)
    for begin, end in zip(cu_seq_q[:-1].tolist(), cu_seq_q[1:].tolist(), strict=True):
        assert end - begin <= max_q == max_k
        q, k, v = (part[begin:end].transpose(0, 1)[None] for part in (query, key, value))
        distance = torch.arange(end - begin)[:, None] - torch.arange(end - begin)
        seen = (distance >= 0) & ((distance <= window_size[0]) if window_size[0] >= 0 else True)
        attention = functional.scaled_dot_product_attention(q, k, v, seen, scale=scale, enable_gqa=enable_gqa)
        attended[begin:end] = attention[0].transpose(0, 1)
    return attended


@pytest.mark.skipif(not torch.cuda.is_available(), reason="flash attention runs on GPUs only")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gpu_attends_by_bounds_with_the_loss_and_gradient_of_the_mask(compiled: bool) -> None:
    device = torch.device("cuda")
    module: Any = model(hidden_size=128).to(device, torch.bfloat16)
    batch = packed_batch().to(device)
    masked = packed_loss(module, batch)
    expected = gradient(module, masked)
    assert attend_by_bounds(module, device, torch.bfloat16)
    if compiled:
        for layer in module.model.layers:
            layer.compile()
    by_bounds = packed_loss(module, batch)
    got = gradient(module, by_bounds)
    assert by_bounds.item() == pytest.approx(masked.item(), rel=2e-3), "bfloat16 has eight bits"
    assert functional.cosine_similarity(got.float(), expected.float(), dim=0) > 0.998
