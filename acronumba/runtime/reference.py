"""Kernels evaluated with NumPy, behind the interface of compiled kernels.

In: specifications. Out: `KernelEntry`s whose functions are Python, for ACRONUMBA_ENGINE=interpreted. Compiled kernels
are compared with them, and the host program and the schedule are tested with them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence

import numpy as np

from acronumba.emit.arithmetic import from_bf16, to_bf16
from acronumba.emit.compile import Compiled
from acronumba.ir.reference import KernelFailure, evaluate
from acronumba.ir.spec import FIXED, Dim, KernelSpec, Operand, Size
from acronumba.kernels import sums
from acronumba.kernels.stages.halves import in_halves
from acronumba.memory import Array
from acronumba.runtime.idle import entry_of, plain_uses
from acronumba.runtime.program import KernelEntry


def reference_kernels(specs: Sequence[KernelSpec], precision: str = "float32") -> tuple[KernelEntry, ...]:
    """Return kernels that compiled code can call; `precision`: of products, as on a CPU."""
    specs = [in_halves(spec) for spec in specs] if precision == "bf16" else specs
    return tuple(entry_of(spec, *functions(spec)) for spec in specs)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _array(address: int, dtype: str, shape: tuple[int, ...]) -> Array:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    return np.ndarray(shape, dtype, memoryview((ctypes.c_char * size).from_address(address)))


def _extents(shape: tuple[Size, ...], dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(dims[n.index] if isinstance(n, Dim) else n for n in shape)


def functions(spec: KernelSpec) -> tuple[Callable[[int, int], None], Callable[[int, int, int, int], None]]:
    """Return the functions `plan` and `run` of a kernel."""
    outs = [spec.body[k - len(spec.operands)] for k in spec.results]
    uses = plain_uses(spec)

    def plan(at: int, out: int) -> None:
        dims = [_word(at + 8 * k) for k in range(spec.dims)]
        ctypes.c_int64.from_address(out).value = 64
        for k, op in enumerate(outs):
            size = int(np.prod(_extents(op.shape, dims), dtype=np.int64)) * np.dtype(op.dtype).itemsize
            ctypes.c_int64.from_address(out + 8 + 8 * k).value = size

    def operand(k: int, o: Operand, table: int, row: int, dims: list[int]) -> Array | float | int:
        if o.kind == "shared":
            j = [use.operands for use in uses].index((k,))
            return _array(_word(table + 8 * (FIXED + len(outs) + j)), o.dtype, _extents(o.shape, dims))
        word = _word(row + 8 * o.index)
        match o.kind:
            case "tensor":
                return _array(_word(word), o.dtype, _extents(o.shape, dims))
            case "list" | "numbers":
                items = [_word(_word(word) + 8 * i) for i in range(_word(word + 8))]
                if o.kind == "numbers":
                    return (
                        np.array(items, np.int64).view(np.float64 if o.dtype == "float64" else np.int64).astype(o.dtype)
                    )
                parts = [_array(_word(item), o.dtype, _extents(o.shape[1:], dims)) for item in items]
                return np.array(parts, o.dtype).reshape(_extents(o.shape, dims))
            case "float":
                return float(struct.unpack("d", struct.pack("q", word))[0])
            case "bool":
                return bool(word)
        return word

    def run(table: int, low: int, high: int, scratch: int) -> None:
        for i in range(low, high):
            row = _word(_word(table) + 8 * i)
            dims = [_word(row + _word(table + 16) + 8 * k) for k in range(spec.dims)]
            given = [operand(k, o, table, row, dims) for k, o in enumerate(spec.operands)]
            try:
                results = evaluate(spec, given, dims)
            except KernelFailure as e:
                ctypes.c_int64.from_address(_word(table + 8) + 8 * i).value = 1 + e.site
                continue
            for k, (op, value) in enumerate(zip(outs, results, strict=True)):
                size = value.nbytes
                if size:
                    place = _word(table + 8 * (FIXED + k))
                    to = _word(row + place) if spec.dims else place + i * size
                    data = np.ascontiguousarray(value, op.dtype)
                    ctypes.memmove(to, data.ctypes.data, size)

    return plan, run


def replace_outer(code: Compiled, dtype: str, precision: str = "float32") -> None:
    """Let NumPy add up outer products, of the functions of `kernels.sums` the one that takes long interpreted."""
    size = np.dtype(dtype).itemsize

    def outer(table: int, low: int, high: int, scratch: int) -> None:
        if low:
            return  # the first task is all of it
        x, g, count, k, m, c, step, first, _, _ = (_word(table + 8 * (FIXED + j)) for j in range(len(sums.OUTER)))
        total = _array(c, dtype, (m, step // size))[:, :k] if m > 1 else _array(c, dtype, (1, k))
        left, right = (
            np.array([_array(_word(rows + 8 * i), dtype, (width,)) for i in range(count)])
            for rows, width in ((g, m), (x, k))
        )
        if precision == "bf16" and dtype == "float32":
            left, right = (from_bf16(to_bf16(a)) for a in (left, right))
        total[:] = left.T @ right if first else total + left.T @ right

    code.replace("outer", outer, 4)
