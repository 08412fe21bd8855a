"""Loss and perplexity on the text that training never sees."""

import math

import torch
import torch.distributed as dist

from training.config import TrainConfig
from training.data import Dataset, held_out_batches
from training.errors import TrainingError
from training.model import next_token_loss


def evaluate(module: torch.nn.Module, dataset: Dataset, config: TrainConfig, device: torch.device) -> dict[str, float]:
    """Mean loss per token over all ranks (nats), its exponential, and the number of tokens; the same on every rank."""
    module.eval()
    total = torch.zeros(2, dtype=torch.float64 if device.type == "cpu" else torch.float32, device=device)
    for rows in held_out_batches(
        dataset, dist.get_rank(), dist.get_world_size(), config.batch_size, config.eval_batches
    ):
        tokens = rows.numel() - len(rows)
        with torch.no_grad():
            loss = next_token_loss(module, rows.to(device))
        total += torch.tensor([loss.item() * tokens, tokens], dtype=total.dtype, device=device)
    dist.all_reduce(total)
    module.train()
    loss_sum, count = total.tolist()
    mean = loss_sum / count
    if not math.isfinite(mean):
        raise TrainingError(f"--model_id {config.model_id}: the evaluation loss is not finite ({mean})")
    return {"loss": mean, "perplexity": math.exp(min(mean, 700.0)), "tokens": int(count)}
