"""Initialisation of parameters: arrays of random numbers, drawn from a `np.random.Generator`.

>>> import numpy as np
>>> from acronumba import init
>>> rng = np.random.default_rng(0)
>>> init.glorot(rng, (4, 3)).shape
(4, 3)

A matrix is [outputs, inputs], as in `w @ x`. Axes before the last two count matrices of a stack, each drawn alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from acronumba.memory import Array

__all__ = ["glorot", "he", "normal", "orthogonal", "uniform"]


def uniform(
    rng: np.random.Generator, shape: Sequence[int], bound: float, *, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Draw numbers between -bound and bound.

    Parameters
    ----------
    rng : np.random.Generator
    shape : sequence of int
    bound : float
    dtype : dtype
        float32 or float64.

    Returns
    -------
    array of `shape`
    """
    return rng.uniform(-bound, bound, shape).astype(dtype)


def normal(rng: np.random.Generator, shape: Sequence[int], scale: float, *, dtype: npt.DTypeLike = np.float32) -> Array:
    """Draw numbers of the normal distribution with mean 0.

    Parameters
    ----------
    rng : np.random.Generator
    shape : sequence of int
    scale : float
        The standard deviation.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    array of `shape`
    """
    return rng.normal(0.0, scale, shape).astype(dtype)


def glorot(
    rng: np.random.Generator, shape: Sequence[int], gain: float = 1.0, *, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Draw matrices for tanh and sigmoid: uniform within sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010).

    Parameters
    ----------
    rng : np.random.Generator
    shape : sequence of int
        At least two dimensions; the last two are [outputs, inputs].
    gain : float
        A factor.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    array of `shape`
    """
    outputs, inputs = _matrix(shape)
    return uniform(rng, shape, gain * math.sqrt(6 / max(1, inputs + outputs)), dtype=dtype)


def he(
    rng: np.random.Generator, shape: Sequence[int], gain: float = 1.0, *, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Draw matrices for relu: normal with the deviation sqrt(2 / inputs) (He et al., 2015).

    Parameters
    ----------
    rng, shape, gain, dtype
        As of `glorot`.

    Returns
    -------
    array of `shape`
    """
    return normal(rng, shape, gain * math.sqrt(2 / max(1, _matrix(shape)[1])), dtype=dtype)


def orthogonal(
    rng: np.random.Generator, shape: Sequence[int], gain: float = 1.0, *, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Draw matrices whose rows, or columns if fewer, are at right angles and of length `gain` (Saxe et al., 2014).

    Parameters
    ----------
    rng, shape, gain, dtype
        As of `glorot`.

    Returns
    -------
    array of `shape`
    """
    outputs, inputs = _matrix(shape)
    tall = rng.normal(size=(*shape[:-2], max(outputs, inputs), min(outputs, inputs)))
    q, r = np.linalg.qr(tall)
    q = q * np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[..., None, :]  # each direction as likely
    return np.ascontiguousarray(gain * (q if outputs >= inputs else np.swapaxes(q, -1, -2)), dtype)


def _matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Return the outputs and inputs of matrices of a shape."""
    if len(shape) < 2:
        raise ValueError(f"a matrix has two dimensions, [outputs, inputs]; the shape is {tuple(shape)}")
    return shape[-2], shape[-1]
