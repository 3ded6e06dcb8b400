"""Models of the zoo, batched by hand in NumPy: each text in the operations of a `Library`.

In: weights and instances of a mini-batch. Out: a `Program`, whose results are those of the plain calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from acronumba.bench.by_hand import sequences, trees
from acronumba.bench.by_hand.program import Program

BY_NUMPY = "NumPy by hand"
BATCHED: Mapping[str, Callable[..., Program]] = {"tree_lstm": trees.sentiment, "birnn": sequences.tag_words}
