"""Whether the named model exists, asked by the driver before any rank starts; so this file imports no torch."""

from pathlib import Path

from training.config import TINY_QWEN2
from training.errors import TrainingError, first_line


def check_model_exists(model_id: str) -> None:
    """Ask for the model's config.json, before any rank starts. Raises TrainingError where there is none."""
    if model_id == TINY_QWEN2:
        return
    if Path(model_id).is_dir():
        if not (Path(model_id) / "config.json").is_file():
            raise TrainingError(f"--model_id {model_id}: the directory has no config.json")
        return
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(model_id, "config.json")
    except Exception as error:
        raise TrainingError(
            f"--model_id {model_id}: neither {TINY_QWEN2} nor a model directory, and the Hugging Face hub gives "
            f"no such model: {first_line(error)}"
        ) from error
