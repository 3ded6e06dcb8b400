"""Arrays that begin on a cache line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acronumba.memory import aligned


def aligned_zeros(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return an array of zeros that begins on a cache line."""
    return aligned(math.prod(shape) * np.dtype(dtype).itemsize, zero=True).view(dtype).reshape(shape)
