"""Random draws by name: a generator is made from its address and has no state to save.

An address is a tuple such as ("negatives", run, update, pass). Two runs that differ only in the method use
the same addresses and so share every draw; resuming, batch size and parallel order change nothing.
"""

from __future__ import annotations

import hashlib

import numpy as np

Address = str | int


def key(*address: Address) -> tuple[int, int]:
    """128 bits for an address; names and numbers are length-prefixed so that no two addresses collide."""
    digest = hashlib.blake2b(digest_size=16)
    for part in address:
        text = f"{type(part).__name__}:{part}".encode()
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    raw = digest.digest()
    return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")


def generator(*address: Address) -> np.random.Generator:
    """The Philox generator of an address."""
    return np.random.Generator(np.random.Philox(key=np.array(key(*address), dtype=np.uint64)))
