"""Documents into words of the one half or the other: what is learnt, and what is only evaluated."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from training.chat import conversation, messages_of, render
from training.data_settings import CHAT, DataSettings
from training.errors import TrainingError
from training.packing import TARGET, Words, document, pack, pieces
from training.split import fingerprint, is_held_out
from training.tokenizer import ConversationError, Tokenizer

TRAIN, HELD_OUT = "train", "held_out"
_DOCUMENTS, _CHARACTERS = 256, 1 << 20
"""What a tokenizer is given at once: enough for its own loop, and little enough to hold as lists of integers."""

_SURROGATE = re.compile("[\\ud800-\\udfff]")
_HALF = "half of a surrogate pair, which is no character"


@dataclass
class Half:
    """What falls to training, or to evaluation."""

    parts: list[Words] = field(default_factory=list)
    documents: int = 0
    dropped: int = 0
    """Documents that have nothing to predict: of a conversation, no answer in its first seq_len tokens."""
    cut: int = 0
    """Conversations of whose answers a part lies behind those."""

    def add(self, words: Words, settings: DataSettings) -> None:
        behind = words[:0]
        if settings.dataset_format == CHAT:  # an answer's rest would be learnt without its question
            words, behind = np.split(words, [settings.seq_len + 1])
        parts = pieces(words, settings.seq_len)
        self.parts += parts
        self.documents += bool(parts)
        self.dropped += not parts
        self.cut += bool(parts) and bool((behind & TARGET).any())


def tokenised(
    found: Iterator[tuple[str, Any]], tokenizer: Tokenizer, settings: DataSettings
) -> Iterator[tuple[int, Words]]:
    """The fingerprint of each document's text, and its words."""
    for some in _by_some(found):
        if settings.dataset_format == CHAT:
            for place, record in some:
                try:
                    told = _messages(record)
                    words = conversation(render(record, tokenizer), tokenizer)
                except ConversationError as error:
                    raise TrainingError(f"--dataset_format {CHAT}: {place} {error}") from error
                yield fingerprint(told), words
            continue
        for place, text in some:
            if not _is_unicode(text):
                raise TrainingError(f"--text_field {settings.text_field}: {place} has {_HALF}")
        texts = [text for _, text in some if text.strip()]
        end = [] if tokenizer.end is None else [tokenizer.end]
        for text, ids in zip(texts, tokenizer.encode(texts) if texts else [], strict=True):
            yield fingerprint(text), document([*ids, *end])


def _messages(record: Any) -> str:
    """What a conversation is known by: not the text a template makes of it, which may hold today's date."""
    told = "\n".join(f"{message['role']}: {message['content']}" for message in messages_of(record))
    if not _is_unicode(told):
        raise ConversationError(f"has {_HALF}")
    return told


def _is_unicode(text: str) -> bool:
    """Not where JSON escapes one half of a pair: no tokenizer takes that."""
    return text.isascii() or not _SURROGATE.search(text)


def _by_some(found: Iterator[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    some: list[tuple[str, Any]] = []
    characters = 0
    for place, item in found:
        some.append((place, item))
        characters += len(item)
        if len(some) >= _DOCUMENTS or characters >= _CHARACTERS:
            yield some
            some, characters = [], 0
    if some:
        yield some


def half_of(text_print: int, settings: DataSettings) -> str:
    return HELD_OUT if is_held_out(text_print, settings.validation_share) else TRAIN


def rows_in_memory(texts: Sequence[str], tokenizer: Tokenizer, settings: DataSettings) -> dict[str, Words]:
    """Both halves of a data set small enough for each rank to make."""
    halves = {TRAIN: Half(), HELD_OUT: Half()}
    found = (("", text) for text in texts)
    for text_print, words in tokenised(found, tokenizer, settings):
        halves[half_of(text_print, settings)].add(words, settings)
    return {name: pack(half.parts, settings.seq_len, tokenizer.pad) for name, half in halves.items()}
