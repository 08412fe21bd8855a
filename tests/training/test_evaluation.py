"""Evaluation over real ranks, of data whose tokens are spread unevenly over them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional

from tests.training.arguments import config
from tests.training.ranks import CPU, run_ranks, told
from training.causal_loss import CausalLoss
from training.data import Batch, Dataset, RowsInMemory
from training.evaluation import evaluate, exact_match, token_accuracy
from training.model import load_model
from training.packing import NOT_PREDICTED, document, pack
from training.scoring import score_in_chunks
from training.sharding import shard

SEQ_LEN = 24
LENGTHS = (20, 3, 24, 9, 2, 17, 24)


def uneven() -> Dataset:
    """Seven rows, for no number of ranks the same number of tokens each."""
    generator = torch.Generator().manual_seed(4)
    texts = [torch.randint(0, 256, (length,), generator=generator).tolist() for length in LENGTHS]
    rows = RowsInMemory(torch.cat([torch.from_numpy(pack([document(text)], SEQ_LEN, 256)) for text in texts]).numpy())
    return Dataset(rows, rows, SEQ_LEN, 0, True, "uneven")


def evaluated(rank: int, world_size: int, folder: Path) -> None:
    root = CausalLoss(load_model(config(seq_len=SEQ_LEN)).module)
    expected = _by_hand(root.model)
    shard(root, CPU)
    sizes = [config(seq_len=SEQ_LEN, batch_size=rows, eval_batches=8) for rows in (1, 2, 4)]
    found = [evaluate(root, uneven(), settings, CPU) for settings in sizes]
    everyone: list[Any] = [None] * world_size
    dist.all_gather_object(everyone, found)
    if rank == 0:
        (folder / "told.json").write_text(json.dumps({"expected": expected, "found": everyone}))


def _by_hand(module: torch.nn.Module) -> dict[str, float]:
    """Row by row in one process, without padding."""
    loss, right, tokens, exact = 0.0, 0, 0, 0
    for words, length in zip(uneven().held_out.read(torch.arange(len(LENGTHS)).numpy()), LENGTHS, strict=True):
        text = torch.from_numpy((words & 0xFFFF).astype("int64"))[:length]
        with torch.no_grad():
            logits = module(input_ids=text[None, :-1]).logits[0]
        loss += functional.cross_entropy(logits, text[1:], reduction="sum").item()
        hits = int((logits.argmax(-1) == text[1:]).sum())
        right, tokens, exact = right + hits, tokens + length - 1, exact + (hits == length - 1)
    shares = {"token_accuracy": right / tokens, "exact_match": exact / len(LENGTHS)}
    return {"loss": loss / tokens, "perplexity": math.exp(loss / tokens), "tokens": tokens, **shares}


def test_every_token_counts_once_and_alike_whichever_rank_has_it(tmp_path: Path) -> None:
    """Three ranks with three, two and two of the rows, by one, two and four rows a batch."""
    run_ranks(3, evaluated, tmp_path)
    figures = told(tmp_path)
    assert figures["found"] == [figures["found"][0]] * 3, "all ranks know the same"
    for found in figures["found"][0]:
        assert found == pytest.approx(figures["expected"], rel=1e-5)
        assert found["tokens"] == sum(LENGTHS) - len(LENGTHS)


def batch(labels: list[list[int]]) -> Batch:
    told = torch.tensor(labels)
    return Batch(torch.zeros_like(told), told, None, None, None, int((told >= 0).sum()))


@pytest.mark.parametrize(
    ("labels", "likeliest", "right", "answers"),
    [
        ([[-100, 5, 6]], [[9, 5, 6]], 1, 1),
        ([[-100, 5, 6]], [[9, 5, 7]], 0, 1),
        ([[5, 6, -100, 7, -100, 8]], [[5, 6, 0, 7, 0, 9]], 2, 3),
        ([[5, 6], [7, 8]], [[5, 6], [7, 9]], 1, 2),  # rows never share an answer
        ([[-100, -100]], [[1, 2]], 0, 0),
        ([[-100, -100, 4], [-100, 1, -100]], [[-100, -100, 4], [1, 0, 1]], 1, 2),
    ],
)
def test_an_answer_counts_only_when_all_of_it_is_right(
    labels: list[list[int]], likeliest: list[list[int]], right: int, answers: int
) -> None:
    assert tuple(map(int, exact_match(torch.tensor(likeliest), batch(labels)))) == (right, answers)


def test_token_accuracy_counts_what_is_to_be_predicted_and_nothing_else() -> None:
    likeliest = torch.tensor([[5, 0, -100, 7]])
    assert tuple(map(int, token_accuracy(likeliest, batch([[5, 6, -100, 7]])))) == (2, 3)


def test_chunks_score_as_whole_logits_do() -> None:
    torch.manual_seed(5)
    hidden, head = torch.randn(10, 8), torch.randn(31, 8)
    labels = torch.randint(0, 31, (10,))
    labels[3:5] = NOT_PREDICTED
    loss, likeliest = score_in_chunks(hidden, head, labels, chunk_tokens=4)
    logits = hidden @ head.T
    assert loss.item() == pytest.approx(functional.cross_entropy(logits, labels, reduction="sum").item(), rel=1e-6)
    assert torch.equal(likeliest, logits.argmax(-1))


def test_exact_match_is_what_greedy_decoding_would_have_given() -> None:
    """The claim that nothing has to be generated, shown by generating."""
    module: Any = load_model(config(seed=3)).module.eval()
    prompt = torch.tensor([[10, 20, 30]])
    with torch.no_grad():
        answer = module.generate(prompt, max_new_tokens=5, do_sample=False, pad_token_id=256)[0, 3:].tolist()
    for said, matches in ((answer, 1), ([*answer[:2], (answer[2] + 1) % 256, *answer[3:]], 0)):
        words = document([10, 20, 30, *said], [False] * 3 + [True] * 5)
        rows = RowsInMemory(pack([words], 7, 256))
        held_out = Dataset(rows, rows, 7, 0, False, "one").held_out_batches(0, 1, 1, 1)[0]
        with torch.no_grad():
            likeliest = module(input_ids=held_out.input_ids).logits.argmax(-1)
        assert tuple(map(int, exact_match(likeliest, held_out))) == (matches, 1)
