"""Generated text as token files and as a data set, as the trainer makes and reads them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training.data import Dataset
from training.data_settings import DataSettings
from training.prepare import prepare
from training.storage import LocalFolder
from training.token_files import TokenFile, TokenRows, on_this_node, read_manifest
from training.tokenise import HELD_OUT, TRAIN
from training.tokenizer import load_tokenizer

MEDIAN_WORDS, SPREAD, WORDS = 180, 1.2, 20_000


@dataclass(frozen=True)
class TokenData:
    """In a folder; every process of this machine opens it for itself."""

    folder: Path
    seq_len: int

    @property
    def settings(self) -> DataSettings:
        model, text = self.folder / "model", self.folder / "text.jsonl"
        return DataSettings(model_id=str(model), dataset=str(text), seq_len=self.seq_len, seed=1)

    def write(self, megabytes: int) -> None:
        """The text, and a tokenizer trained on it."""
        write_text(self.folder / "text.jsonl", megabytes)
        train_tokenizer(self.folder / "text.jsonl", self.folder / "model")
        load_tokenizer(self.settings.model_id)

    def prepare(self) -> dict[str, Any]:
        """The token files, if they are not there; what they hold, by half."""
        prepared = self._prepared()
        manifest = read_manifest(prepared)
        assert manifest is not None
        return {half: manifest[half] for half in (TRAIN, HELD_OUT)}

    def open(self, *, by_document: bool = True) -> Dataset:
        halves, prepared = self.prepare(), self._prepared()
        train, held_out = (
            TokenRows(on_this_node(prepared), [TokenFile(*file) for file in halves[half]["files"]], self.seq_len)
            for half in (TRAIN, HELD_OUT)
        )
        return Dataset(train, held_out, self.seq_len, 1, by_document, prepared.name)

    def _prepared(self) -> Any:
        return prepare(
            self.settings, LocalFolder(self.folder), lambda task, count: [task(number) for number in range(count)]
        )


def write_text(file: Path, megabytes: int) -> None:
    """Words of Zipf's frequencies in documents of log-normal lengths, as natural text has both."""
    random = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    words = np.array(["".join(random.choice(letters[:18], size)) for size in random.integers(2, 11, WORDS)])
    with file.open("w") as out:
        while out.tell() < megabytes << 20:
            length = int(random.lognormal(np.log(MEDIAN_WORDS), SPREAD)) + 5
            out.write(json.dumps({"text": " ".join(words[np.minimum(random.zipf(1.3, length), WORDS) - 1])}) + "\n")


def train_tokenizer(file: Path, directory: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=16_000, special_tokens=["<end>"], initial_alphabet=alphabet)
    with file.open() as lines:
        some = (json.loads(line)["text"] for line, _ in zip(lines, range(2000), strict=False))
        tokenizer.train_from_iterator(some, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(directory)
