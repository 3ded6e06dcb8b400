"""Check of merged equal nodes: with ACRONUMBA_VERIFY=3 each is also computed separately, and compared.

In: the buffers of a round that has run, and the kernels. Out: an error that names a kernel whose nodes differ, or
nothing. Readers of a node get the recorded node that `library.equal` has found, as always, and the host program records
the node itself as well. Memory of results is not reused until both have been computed (`driver`).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from acronumba.data.words import RECORD
from acronumba.errors.codes import reject
from acronumba.ir.spec import KernelSpec
from acronumba.memory import word_at
from acronumba.runtime.buffers import Buffers
from acronumba.runtime.library.records import high_half, low_half, results_at

_Result = tuple[tuple[int, ...], NDArray[np.generic]]  # shape, and elements in order


def compare_doubles(buffers: Buffers, kernels: Sequence[KernelSpec]) -> None:
    """Raise ACR799 if a node and the equal one found for it differ in the shape or the bits of a result.

    NaN is equal to NaN, whatever its payload.
    """
    kinds, rows = buffers.columns["kind"], buffers.columns["row"]
    for pair in buffers.pairs:
        node, double = int(high_half(pair)), int(low_half(pair))
        spec = kernels[kinds[node]]
        found, again = results_of(spec, int(rows[node])), results_of(spec, int(rows[double]))
        for k, (one, other) in enumerate(zip(found, again, strict=True)):
            if not _same(one, other):
                op = spec.body[spec.results[k] - len(spec.operands)]
                raise reject(
                    "ACR799",
                    message=f"nodes of kernel {spec.name} were merged as equal, but differ",
                    loc=op.loc,
                    seen=f"a result of shape {one[0]}, but of shape {other[0]} when computed separately",
                )


def results_of(spec: KernelSpec, row: int) -> list[_Result]:
    """Return the results of the node whose row is at an address."""
    args = sum(o.kind != "shared" for o in spec.operands)
    at = row + results_at(args, spec.dims)
    out: list[_Result] = []
    for k, v in enumerate(spec.results):
        op = spec.body[v - len(spec.operands)]
        record = at + RECORD.size * k
        data, shape = word_at(record), word_at(record + 8 * RECORD.at["shape"])
        rank = len(op.shape) + (spec.rows is not None)
        extents = tuple(word_at(shape + 8 * axis) for axis in range(rank))
        dtype = np.dtype(op.dtype)
        count = math.prod(extents)
        raw = ctypes.string_at(data, count * dtype.itemsize) if count else b""
        out.append((extents, np.frombuffer(raw, dtype)))
    return out


def _same(one: _Result, other: _Result) -> bool:
    (shape, x), (other_shape, y) = one, other
    if shape != other_shape:
        return False
    if x.dtype.kind == "f":
        nan = np.isnan(x)
        return bool(np.array_equal(nan, np.isnan(y)) and x[~nan].tobytes() == y[~nan].tobytes())
    return x.tobytes() == y.tobytes()
