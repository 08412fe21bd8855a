"""Loss, perplexity and a task's own figures on what training never sees."""

import math
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch.nn import functional

from training.causal_loss import CausalLoss
from training.config import TrainConfig
from training.data import Batch, Dataset
from training.errors import TrainingError
from training.packing import NOT_PREDICTED

Metric = Callable[[torch.Tensor, Batch], tuple[torch.Tensor, torch.Tensor]]
"""From the likeliest tokens: how much was right, and of how much. Both are summed over batches and ranks."""


def token_accuracy(likeliest: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens predicted right."""
    counts = batch.labels != NOT_PREDICTED
    return ((likeliest == batch.labels) & counts).sum(), counts.sum()


def exact_match(likeliest: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Answers predicted right from first token to last, which is: those a greedy decoder would give word for word.

    An answer is a run of predicted tokens. As long as all before were right, what the model was shown is what it would
    have written itself, so nothing has to be generated to know.
    """
    counts = batch.labels != NOT_PREDICTED
    wrong = (likeliest != batch.labels) & counts
    before = functional.pad(counts[:, :-1], (1, 0))
    answer = (counts & ~before).flatten().cumsum(0)  # the number of the answer that a place belongs to, from 1
    mistakes = torch.zeros(len(answer) + 1, dtype=torch.int64, device=answer.device)
    mistakes.index_add_(0, answer, wrong.flatten().long())
    return answer[-1] - (mistakes > 0).sum(), answer[-1]


METRICS: Mapping[str, Metric] = {"token_accuracy": token_accuracy, "exact_match": exact_match}
"""By the name the run's record tells them by. For a task of your own add a function here."""


def evaluate(root: CausalLoss, dataset: Dataset, config: TrainConfig, device: torch.device) -> dict[str, float]:
    """Mean loss per predicted token over all ranks (nats), its exponential, their number, and each metric's share.

    The same on every rank. Ranks with more tokens weigh more. Raises TrainingError where the loss is not finite.
    """
    root.eval()
    # In float64: a float32 stops counting tokens at sixteen million.
    sums = torch.zeros(1 + len(METRICS), 2, dtype=torch.float64, device=device)
    for batch in dataset.held_out_batches(
        dist.get_rank(), dist.get_world_size(), config.batch_size, config.eval_batches
    ):
        batch = batch.to(device)
        with torch.no_grad():
            loss, likeliest = root(**batch.tensors(), likeliest=True)
            told = [(loss, loss.new_tensor(batch.predicted, dtype=torch.int64))]
            told += [metric(likeliest, batch) for metric in METRICS.values()]
        sums += torch.stack([torch.stack([part.double(), whole.double()]) for part, whole in told])
    dist.all_reduce(sums)
    root.train()
    (loss_sum, count), *shares = sums.tolist()
    mean = loss_sum / count
    if not math.isfinite(mean):
        raise TrainingError(f"--model_id {config.model_id}: the evaluation loss is not finite ({mean})")
    figures = {"loss": mean, "perplexity": math.exp(min(mean, 700.0)), "tokens": int(count)}
    return figures | {name: part / whole for name, (part, whole) in zip(METRICS, shares, strict=True)}
