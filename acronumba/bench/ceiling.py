"""Upper limits of the machine: fused multiply-adds of one core, and copied bytes.

In: nothing. Out: a `Ceiling`, measured. No kernel can multiply faster than a loop that has nothing but
independent fused multiply-adds in registers, and none that reads and writes memory can be faster than a copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from acronumba.bench.measure import timed
from acronumba.emit import compile as compiler
from acronumba.emit import parse, tree
from acronumba.emit.target import host

_CHAINS = 12  # results that do not wait for each other: more than the latency of one times how many start in a cycle
_ROUNDS = 200_000
_BYTES = 1 << 28  # more than any cache holds
_TRIES = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The best of several tries, since other programs can only take time away."""

    gflops: float  # of one core or a GPU, float32; a fused multiply-add is two operations
    copied: float  # bytes read and written per second by it, in 10^9
    launch: float = 0.0  # seconds of a GPU for a launch in a chain of them


@dataclass(frozen=True, slots=True)
class Burst:
    """A loop of independent multiply-adds at the peak rate of one core."""

    run: Callable[[], object]
    flops: int  # of a run


def burst(rounds: int = _ROUNDS // 8) -> Burst:
    """Return a loop of multiply-adds that takes about half a millisecond."""
    lanes = host().lanes(tree.F32)
    out = np.zeros(lanes, np.float32)
    (function,) = parse.parse(_peak_text(f"f32x{lanes}"))
    (compiled,) = compiler.load([tree.Module(name="peak", functions=(function,), exports=("peak",))])
    address = ctypes.c_void_p(out.ctypes.data).value
    assert address is not None

    def run() -> None:
        compiled.call("peak", address, rounds)
        assert out[0] > 0

    return Burst(run=run, flops=2 * lanes * _CHAINS * rounds)


def ceiling() -> Ceiling:
    """Measure the machine; takes about a second."""
    long = burst(_ROUNDS)
    seconds = min(timed(long.run)[0] for _ in range(_TRIES))
    source = np.ones(_BYTES // 4, np.float32)
    target = np.empty_like(source)
    copying = min(timed(lambda: np.copyto(target, source))[0] for _ in range(_TRIES))
    return Ceiling(gflops=long.flops / seconds / 1e9, copied=2 * _BYTES / copying / 1e9)


def _peak_text(vector: str) -> str:
    chains = [f"x{k}" for k in range(_CHAINS)]
    lines = [f"    {x} = {vector}({k}.5)" for k, x in enumerate(chains)]
    lines += ["    for k in range(n):"]
    lines += [f"        {x} = fma({x}, {vector}(0.75), {vector}(0.5))" for x in chains]  # tends to 2: no odd numbers
    return "\n".join(["def peak(out, n):", *lines, f"    store(out, {' + '.join(chains)})", ""])
