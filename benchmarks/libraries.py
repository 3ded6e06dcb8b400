"""What PyTorch's libraries reach on a GPU: `torch.nn.LSTM` per step, and large products.

In: nothing but PyTorch with CUDA. Out: plain numbers. By default products of float32 are exact, while cuDNN's recurrent
layers use TF32; both are measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

STEPS = 64
SIZES, BATCHES = (256, 512, 768), (8, 64)
_SQUARE = 4096


def versions() -> dict[str, Any]:
    """Return the versions that figures depend on."""
    return {"torch": torch.__version__, "torch CUDA": torch.version.cuda, "cuDNN": torch.backends.cudnn.version()}


def recurrent(
    device: str = "cuda", sizes: tuple[int, ...] = SIZES, batches: tuple[int, ...] = BATCHES, steps: int = STEPS
) -> dict[str, float]:
    """Return the microseconds of `torch.nn.LSTM` per step: padded, and packed from sequences of half to all steps."""
    out = {}
    kinds = {"float32": (torch.float32, False), "TF32": (torch.float32, True), "float16": (torch.float16, True)}
    before = torch.backends.cudnn.allow_tf32
    try:
        for size in sizes:
            for kind, (dtype, allowed) in kinds.items():
                torch.backends.cudnn.allow_tf32 = allowed
                layer = torch.nn.LSTM(size, size).to(device, dtype).eval()
                for batch in batches:
                    x = torch.randn(steps, batch, size, device=device, dtype=dtype)
                    lengths = torch.from_numpy(np.linspace(steps, steps // 2, batch).astype(np.int64))
                    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
                    for how, given in (("padded", x), ("packed", packed)):
                        taken = seconds(partial(layer, given), device)
                        out[f"H {size}, {batch} instances, {kind}, {how}, us per step"] = taken / steps * 1e6
    finally:
        torch.backends.cudnn.allow_tf32 = before
    return out


def products(device: str = "cuda", n: int = _SQUARE) -> dict[str, float]:
    """Return the operations per second of large square products, in 10^12."""
    out = {}
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        for kind, dtype, allowed in (
            ("float32", torch.float32, False), ("TF32", torch.float32, True), ("bfloat16", torch.bfloat16, True),
        ):  # fmt: skip
            torch.backends.cuda.matmul.allow_tf32 = allowed
            a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
            out[f"{kind} TFLOP/s"] = 2 * n**3 / seconds(partial(torch.mm, a, b), device) / 1e12
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return out


def seconds(work: Callable[[], Any], device: str, tries: int = 9) -> float:
    """Return the median of the seconds from a call until the device has done what it has asked for."""

    def wait() -> None:
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    taken = []
    with torch.inference_mode():
        for _ in range(tries + 2):
            wait()
            start = time.perf_counter()
            work()
            wait()
            taken.append(time.perf_counter() - start)
    return statistics.median(taken[2:])
