"""What of a run's arguments decides which tokens it sees."""

import re
from dataclasses import dataclass, fields
from typing import Any

from training.storage import is_location

RANDOM, PYDOC = "random", "pydoc"
TEXT, CHAT = "text", "chat"
FORMATS = (TEXT, CHAT)
DOCUMENTS, CAUSAL = "documents", "causal"
ATTENTIONS = (DOCUMENTS, CAUSAL)
HUB_SCHEME = "hf:"
DATASET = (
    f"must be {PYDOC}, {RANDOM}, an absolute path, s3://bucket/prefix, or {HUB_SCHEME}name[:configuration[:split]] "
    "of a Hugging Face data set"
)
_HUB = re.compile(rf"{HUB_SCHEME}[\w.-]+(/[\w.-]+)?(:[\w.-]+){{0,2}}")


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    model_id: str
    dataset: str
    seq_len: int
    seed: int
    validation_dataset: str | None = None
    """Held out instead of a share of the data set; what it holds is left out of training."""
    validation_share: float = 0.1
    dataset_format: str = TEXT
    text_field: str = "text"
    """Where a JSON line or a parquet row has its text."""
    attention: str = DOCUMENTS
    """documents: a token sees its own document only. causal: it sees what stands before it in its sequence."""

    @classmethod
    def of(cls, config: Any) -> "DataSettings":
        values: dict[str, Any] = {field.name: getattr(config, field.name) for field in fields(cls)}
        return cls(**values)

    @property
    def made_by_each_rank(self) -> bool:
        """Small enough, so that nothing is prepared before ranks start."""
        return self.dataset in (RANDOM, PYDOC)


def is_dataset(text: str) -> bool:
    return text in (RANDOM, PYDOC) or is_files(text)


def is_files(text: str) -> bool:
    return _HUB.fullmatch(text) is not None if text.startswith(HUB_SCHEME) else is_location(text)
