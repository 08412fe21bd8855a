"""A model directory as from_pretrained reads it, small enough for a test."""

from pathlib import Path

import torch


def save_small_model(directory: Path, *, tokenizer: bool = True) -> dict[str, torch.Tensor]:
    """A Qwen2 of two narrow layers, and a tokenizer of single letters. Returns the weights that were saved."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(5)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=100,  # more than the tokenizer has: transformers adds an end of text
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            tie_word_embeddings=True,
        )
    )
    model.save_pretrained(directory)
    if tokenizer:
        letters = {chr(code): code - 32 for code in range(32, 127)} | {"[UNK]": 95}
        words = Tokenizer(models.WordLevel(letters, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.Split("", "isolated")
        PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(directory)
    weights: dict[str, torch.Tensor] = model.state_dict()
    return weights
