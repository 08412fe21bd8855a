"""Text to token ids and back to where each token began; imports no torch."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any

from training.config import TINY_QWEN2
from training.errors import TrainingError, first_line


class ConversationError(Exception):
    """Says of a record why nothing can be learnt from it, to follow its place: "has no ..."."""


class Tokenizer(ABC):
    pad: int
    """Fills what no document fills; never predicted, and no document sees it."""
    end: int | None
    """Follows each document, so that a model learns to stop; None where the tokenizer has no such token."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Each text with the special tokens the model expects at its begin, and without `end`."""

    @abstractmethod
    def encode_with_starts(self, text: str) -> tuple[list[int], list[int]]:
        """No token but the text's own, and the character at which each starts."""

    @abstractmethod
    def chat_text(self, messages: Sequence[dict[str, str]], *, asks_for_answer: bool) -> str | None:
        """A conversation by the model's own template, None where it has none.

        With `asks_for_answer` it ends as it does when the model is to answer. Raises ConversationError.
        """

    @abstractmethod
    def digest(self) -> str:
        """Changes with whatever changes the tokens of a text."""


class ByteTokenizer(Tokenizer):
    """UTF-8 bytes, then padding, begin and end of text."""

    pad, end = 256, 258

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(text.encode()) for text in texts]

    def encode_with_starts(self, text: str) -> tuple[list[int], list[int]]:
        starts = [index for index, character in enumerate(text) for _ in character.encode()]
        return list(text.encode()), starts

    def chat_text(self, messages: Sequence[dict[str, str]], *, asks_for_answer: bool) -> str | None:
        return None

    def digest(self) -> str:
        return "utf-8 bytes"


class PretrainedTokenizer(Tokenizer):
    """What AutoTokenizer finds for a model."""

    def __init__(self, model_id: str) -> None:
        try:
            self._tokenizer = transformers_tokenizer(model_id)
        except (OSError, ValueError) as error:
            raise TrainingError(f"--model_id {model_id}: no tokenizer: {first_line(error)}") from error
        if not self._tokenizer("a", add_special_tokens=False)["input_ids"]:
            # transformers makes up an empty one for a directory that has none.
            raise TrainingError(f"--model_id {model_id}: no tokenizer; only --dataset random needs none")
        self._model_id = model_id
        self.end = self._tokenizer.eos_token_id
        self.pad = next(i for i in (self._tokenizer.pad_token_id, self.end, 0) if i is not None)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = self._tokenizer(list(texts), verbose=False)["input_ids"]
        return [ids[:-1] if ids and ids[-1] == self.end else ids for ids in found]

    def encode_with_starts(self, text: str) -> tuple[list[int], list[int]]:
        if not self._tokenizer.is_fast:
            raise TrainingError(
                f"--model_id {self._model_id}: --dataset_format chat needs a tokenizer that tells where a token "
                "starts, one with a tokenizer.json"
            )
        found = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return found["input_ids"], [start for start, _ in found["offset_mapping"]]

    def chat_text(self, messages: Sequence[dict[str, str]], *, asks_for_answer: bool) -> str | None:
        if not self._tokenizer.chat_template:
            return None
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=asks_for_answer
            )
        except Exception as error:  # the template is the model's own program, and may fail in any way
            raise ConversationError(f"is refused by the model's chat template: {first_line(error)}") from error
        return text

    def digest(self) -> str:
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        rules = backend.to_str() if backend is not None else json.dumps(self._tokenizer.get_vocab(), sort_keys=True)
        parts = [rules, json.dumps(self._tokenizer.chat_template), str(self.end), str(self.pad)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def transformers_tokenizer(model_id: str) -> Any:
    """transformers' own, read once a process: rank 0 needs it for its data and for its checkpoints.

    Raises OSError or ValueError where there is none; of a directory without one transformers makes up an empty one.
    """
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_id)


@cache
def load_tokenizer(model_id: str) -> Tokenizer:
    """Raises TrainingError naming --model_id where there is none."""
    return ByteTokenizer() if model_id == TINY_QWEN2 else PretrainedTokenizer(model_id)
