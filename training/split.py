"""Which documents training never sees: decided by a document's own text, so that no order and no copy changes it."""

import hashlib


def fingerprint(text: str) -> int:
    """64 bits of the text without regard to its white space: copies often differ in line ends alone."""
    return int.from_bytes(hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).digest(), "big")


def is_held_out(print_of_text: int, share: float) -> bool:
    return print_of_text < share * 2**64
