"""Cells and training steps of models written by hand, beside `acronumba.bench.by_hand.program`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from acronumba.bench.by_hand.arrays import Array, Library


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step on one mini-batch, with its own copy of the weights."""

    run: Callable[[], Any]  # gradients, and an update of the weights by gradient descent
    gradients: Callable[[], tuple[float, dict[str, Any]]]  # the loss and the gradients, by the names of `leaves`


def lstm_(t: Library, gates: Array, h: Array, c: Array) -> None:
    """Change state and memory by one step of `cells.lstm`, from the sums of its gates i, f, o, u, which it destroys."""
    n = h.shape[1]
    t.sigmoid_(gates[:, : 3 * n])
    t.tanh_(gates[:, 3 * n :])
    c *= gates[:, n : 2 * n]
    t.add_multiplied_(c, gates[:, :n], gates[:, 3 * n :])
    t.tanh(c, out=h)
    h *= gates[:, 2 * n : 3 * n]


def gru_(t: Library, x: Array, u: Array, h: Array) -> None:
    """Change the state by one step of `cells.gru`; `x`, which it destroys, is the product of the step's vector."""
    n = h.shape[1]
    y = t.product(h, u)
    both, new = x[:, : 2 * n], x[:, 2 * n :]
    both += y[:, : 2 * n]
    t.sigmoid_(both)
    t.add_multiplied_(new, both[:, :n], y[:, 2 * n :])
    t.tanh_(new)
    h -= new
    h *= both[:, n:]
    h += new  # (1 - z) * new + z * h
