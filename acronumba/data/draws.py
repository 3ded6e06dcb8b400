"""Keys of random numbers that code does not name: each instance has one, as a column of its mini-batch.

In: a mini-batch of a model whose code draws random numbers without a key, as code of PyTorch does. Out: a key for each
instance. Draw `n` of an instance has child `n` of its key: see `acronumba.random`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acronumba import random


class NeedsNumbers(Exception):
    """The code draws random numbers without a key: its instances need keys of their own."""


@dataclass(frozen=True)
class InstanceKey:
    """The key of an instance."""

    bits: np.uint64


@dataclass
class Draws:
    """The random numbers of an instance: its key, and how many draws there were."""

    bits: np.uint64
    count: int = 0


def keys_of(seed: int, count: int) -> list[InstanceKey]:
    """Return the keys of the instances of a mini-batch."""
    return [InstanceKey(key.bits) for key in random.keys(seed, count)]
