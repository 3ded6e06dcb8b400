"""The recurrent cells that several models share: LSTM (Hochreiter & Schmidhuber 1997) and GRU (Cho et al. 2014).

In: the vector of a step and the last state. Out: the next state. They are plain helpers, compiled together with the
model that calls them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acronumba import nn
from acronumba.zoo.data import Array, normal


@dataclass
class LSTM:
    w: np.ndarray  # [4H, X]: of the step's vector, for the gates i, f, o and the candidate u
    u: np.ndarray  # [4H, H]: of the last state
    b: np.ndarray  # [4H]


@dataclass
class GRU:
    w: np.ndarray  # [3H, X]: of the step's vector, for the gates r, z and the candidate n
    u: np.ndarray  # [3H, H]: of the last state
    b: np.ndarray  # [3H]


def lstm(cell: LSTM, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Return the next state h and memory c, float32[H] each."""
    i, f, o, u = np.split(cell.w @ x + cell.b + cell.u @ h, 4)
    c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(u)
    return nn.sigmoid(o) * np.tanh(c), c


def gru(cell: GRU, x: Array, h: Array) -> Array:
    """Return the next state, float32[H]."""
    xr, xz, xn = np.split(cell.w @ x + cell.b, 3)
    hr, hz, hn = np.split(cell.u @ h, 3)
    z = nn.sigmoid(xz + hz)
    n = np.tanh(xn + nn.sigmoid(xr + hr) * hn)
    return (1 - z) * n + z * h


def lstm_params(rng: np.random.Generator, h: int, x: int) -> LSTM:
    """Return random weights for states of `h` and vectors of `x` elements."""
    return LSTM(w=normal(rng, 4 * h, x), u=normal(rng, 4 * h, h), b=normal(rng, 4 * h))


def gru_params(rng: np.random.Generator, h: int, x: int) -> GRU:
    """Return random weights for states of `h` and vectors of `x` elements."""
    return GRU(w=normal(rng, 3 * h, x), u=normal(rng, 3 * h, h), b=normal(rng, 3 * h))
