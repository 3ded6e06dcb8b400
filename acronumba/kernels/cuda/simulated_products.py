"""Products of tensor cores, as `kernels.cuda.simulator` computes them: of all lanes of a warp at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import SupportsFloat, TypeAlias

import numpy as np
from numpy.typing import NDArray

Float32s: TypeAlias = NDArray[np.float32]
Factors: TypeAlias = Callable[[NDArray[np.int32]], tuple[Float32s, Float32s]]  # of registers: of all lanes


def tf32_factors(words: NDArray[np.int32]) -> tuple[Float32s, Float32s]:
    """The factors in the registers of all lanes, of shape (lane's row, lane's k, register)."""
    x = words.view(np.float32)
    assert not (words & 0x1FFF).any() or not np.isfinite(x).all(), "no tf32"
    a = np.concatenate([np.concatenate([x[..., 0], x[..., 2]], 1), np.concatenate([x[..., 1], x[..., 3]], 1)])
    return a, np.concatenate([x[..., 4], x[..., 5]], 1).T


def bf16_factors(words: NDArray[np.int32]) -> tuple[Float32s, Float32s]:
    """The same of registers with two factors each."""
    raw = words.view(np.uint32)
    halves = np.stack([raw << 16, raw & 0xFFFF0000], -1).view(np.float32)  # row, k, register, which half
    x = halves.transpose(0, 2, 1, 3).reshape(8, 6, 8)
    a = np.concatenate([np.concatenate([x[:, 0], x[:, 2]], 1), np.concatenate([x[:, 1], x[:, 3]], 1)])
    return a, np.concatenate([x[:, 4], x[:, 5]], 1).T


def warp_product(given: Mapping[int, Sequence[SupportsFloat]], factors: Factors) -> Float32s:
    """The sums of all lanes, from what each lane gives: its registers."""
    lanes = [given[k] for k in range(32)]
    a, b = factors(np.array([x[:6] for x in lanes], np.int32).reshape(8, 4, 6))
    c = np.array([x[6:] for x in lanes], np.float32).reshape(8, 4, 2, 2).transpose(2, 0, 1, 3).reshape(16, 8)
    with np.errstate(all="ignore"):
        return (c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
