"""Models whose results live long, and sentences for them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from acronumba.api.model import model
from acronumba.zoo import beam_decoder, berxit, birnn, child_sum_lstm, drnn, listops, nested_rnn, stack_rnn

F32 = np.float32
WIDTH = 24  # as in the tests of the zoo, which compile the same kernels
ZOO: dict[str, Any] = {
    "birnn": (birnn, birnn.tag),
    "child_sum_lstm": (child_sum_lstm, child_sum_lstm.classify),
    "nested_rnn": (nested_rnn, nested_rnn.encode),
    "listops": (listops, listops.classify),
    "berxit": (berxit, berxit.classify),
    "drnn": (drnn, drnn.generate),
    "stack_rnn": (stack_rnn, stack_rnn.parse),
    "beam_decoder": (beam_decoder, beam_decoder.decode),
}


@dataclasses.dataclass
class Step:
    h: np.ndarray
    before: Step | None = None
    more: list[np.ndarray] | None = None


def last_state(words: list[int], w: Any, embed: Any) -> Any:
    h = embed[0]
    for k in words:
        h = np.tanh(w @ h + embed[k])
    return h


@model
def last(words: list[int], *, w: np.ndarray, embed: np.ndarray) -> Any:
    """Of each batch of steps, a few nodes are returned."""
    return last_state(words, w, embed)


@model
def all_states(words: list[int], *, w: np.ndarray, embed: np.ndarray) -> Any:
    h = embed[0]
    states = []
    for k in words:
        h = np.tanh(w @ h + embed[k])
        states.append(h)
    return states


@model
def some_states(words: list[int], *, w: np.ndarray, embed: np.ndarray) -> Any:
    """Objects that lead to others, the same array twice, arrays that were given, in a union and a dict."""
    h = embed[0]
    kept: Step | None = None
    mine = [h]
    for k in words:
        h = np.tanh(w @ h + embed[k])
        if k % 3 == 0:
            kept = Step(h, kept, mine)
        if k % 4 == 1:
            mine.append(h)
    return {"last": h, "again": h, "kept": kept, "first": embed[0], "either": h if len(words) % 2 else len(words)}


@model
def until(words: list[int], *, w: np.ndarray, embed: np.ndarray) -> Any:
    """Waits for values; what it returns are values of several rounds."""
    h = embed[0]
    best = h
    for k in words:
        h = np.tanh(w @ np.tanh(w @ h + embed[k]))
        if h[0] > 0.1:
            best = h
        elif h[1] > 0.5:
            return best, h, np.sin(best) * h
    return best, h, h


def shared_arrays(h: int = 32) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"w": rng.standard_normal((h, h)).astype(F32) / 6, "embed": rng.standard_normal((9, h)).astype(F32)}


def sentences(count: int, longest: int, below: int = 9) -> list[list[int]]:
    rng = np.random.default_rng(1)
    return [[int(w) for w in rng.integers(0, below, int(rng.integers(1, longest)))] for _ in range(count)]


def owner(array: Any) -> int:
    """Return the bytes of what an array keeps alive."""
    size = array.nbytes
    while isinstance(getattr(array, "base", None), np.ndarray):
        array = array.base
        size = max(size, array.nbytes)
    return size
