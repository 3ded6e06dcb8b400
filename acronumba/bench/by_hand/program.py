"""The interface of models batched by hand: a timed function, and the conversion of its results to those of plain calls.

A function that prepares one gets a `Library`, the weights and the instances of a mini-batch. Data that depends on the
structure of the instances alone (row numbers per level or time step, as a data loader would make them) and the layout
of weights are prepared there and not timed. Work that depends on the contents of the instances is in `run`.

Rows of a table that is smaller than the mini-batch (letters, symbols, kinds of syntax, actions) are multiplied once
per mini-batch, not once per use. Vectors of words are multiplied where they occur: a vocabulary is larger than a batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.bench.by_hand.arrays import Array, Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A mini-batch that is ready to be computed, any number of times."""

    run: Callable[[], Any]
    results: Callable[[Any], list[Any]]  # from the result of `run` to a list by instance, as of the plain calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Sequences as rows, step by step: all first elements, then all second ones; the longest sequence in front."""

    order: Array  # int64[n]: the sequences by length, the longest first
    spans: tuple[tuple[int, int], ...]  # of each step: its rows; in a step, row k is sequence order[k]
    at: Array  # int64[rows]: each row's element in the sequences one after the other
    lengths: Array  # int64[n]: of the sequences in the given order

    def of_each(self, rows: Any) -> list[list[Any]]:
        """Return the rows of each sequence, in the given order of sequences."""
        place = np.empty_like(self.at)
        place[self.at] = np.arange(len(self.at))
        ends = np.cumsum(self.lengths)
        return [[rows[r] for r in place[end - n : end]] for end, n in zip(ends, self.lengths, strict=True)]


def steps(lengths: Sequence[int]) -> Steps:
    """Sort sequences of these lengths."""
    n = np.asarray(lengths, np.int64)
    order = np.argsort(-n, kind="stable")
    begins = (np.cumsum(n) - n)[order]
    longest = int(n.max(initial=0))
    live = [int((n > k).sum()) for k in range(longest)]
    ends = np.cumsum([0, *live])
    at = np.concatenate([begins[:m] + k for k, m in enumerate(live)]) if live else np.zeros(0, np.int64)
    spans = tuple((int(a), int(b)) for a, b in itertools.pairwise(ends))
    return Steps(order=order, spans=spans, at=at, lengths=n)


def spread(t: Library, row: Array, count: int) -> Array:
    """Return `count` copies of a vector as rows."""
    rows = t.empty(count, row.shape[0])
    rows[:] = row
    return rows
