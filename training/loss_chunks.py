"""How many tokens the loss takes at a time. No torch here: the memory plan asks too."""

_CHUNK_BYTES = 1280 * 1024**2


def chunk_tokens_for(vocab_size: int, element_bytes: int, *, compiled: bool = False, soft_capped: bool = False) -> int:
    """Tokens whose logits and their gradient take at most 1280 MiB; a power of two, and enough to keep a GPU busy.

    Compiled, the gradient takes the logits' place. A soft cap needs them bent and unbent.
    """
    copies = (1 if compiled else 2) + (1 if soft_capped else 0)
    fitting = max(64, _CHUNK_BYTES // (vocab_size * element_bytes * copies))
    return int(1 << (fitting.bit_length() - 1))
