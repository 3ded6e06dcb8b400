"""Kernels evaluated with NumPy, behind the interface of compiled kernels.

In: specifications. Out: `KernelEntry`s whose functions are Python. Compiled kernels are compared with them, and the
host program and the schedule are tested with them. Idle kernels compute nothing: the recorded graph does not depend on
values, or they come from recorded reads (`Executable.record`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from acronumba.ir.reference import KernelFailure, evaluate
from acronumba.ir.spec import FIXED, Dim, KernelSpec, Operand, Size, plan_words
from acronumba.memory import Array
from acronumba.records import record
from acronumba.runtime.engines import Interpreted
from acronumba.runtime.program import KernelEntry


@record()
class _Plain:
    """A shared array as it is."""

    operands: tuple[int, ...]
    packing: None = None


def reference_kernels(specs: Sequence[KernelSpec]) -> tuple[KernelEntry, ...]:
    """Return kernels that compiled code can call."""
    return tuple(_entry(spec, *_functions(spec)) for spec in specs)


def idle_kernels(specs: Sequence[KernelSpec]) -> tuple[KernelEntry, ...]:
    """Return kernels that compiled code can call, and that compute nothing: their results have no bytes."""

    def entry(spec: KernelSpec) -> KernelEntry:
        def plan(at: int, out: int) -> None:
            ctypes.memset(out, 0, 8 * plan_words(len(spec.results)))

        return _entry(spec, plan, lambda table, low, high, scratch: None)

    return tuple(map(entry, specs))


def _entry(
    spec: KernelSpec, plan: Callable[[int, int], None], run: Callable[[int, int, int, int], None]
) -> KernelEntry:
    a = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2)(plan)
    b = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(run)
    plan_at, run_at = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (a, b))
    return KernelEntry(plan=plan_at, run=run_at, shared=_shared(spec), keep=(a, b))


def interpreted_kernels(specs: Sequence[KernelSpec]) -> Callable[[Interpreted], tuple[KernelEntry, ...]]:
    """Return a function from an engine to kernels that interpreted code can call."""

    def make(engine: Interpreted) -> tuple[KernelEntry, ...]:
        out = []
        for spec in specs:
            plan, run = (engine.memory.add_function(f) for f in _functions(spec))
            out.append(KernelEntry(plan=plan, run=run, shared=_shared(spec)))
        return tuple(out)

    return make


def _shared(spec: KernelSpec) -> tuple[_Plain, ...]:
    return tuple(_Plain((k,)) for k, o in enumerate(spec.operands) if o.kind == "shared")


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _array(address: int, dtype: str, shape: tuple[int, ...]) -> Array:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    return np.ndarray(shape, dtype, memoryview((ctypes.c_char * size).from_address(address)))


def _extents(shape: tuple[Size, ...], dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(dims[n.index] if isinstance(n, Dim) else n for n in shape)


def _functions(spec: KernelSpec) -> tuple[Callable[[int, int], None], Callable[[int, int, int, int], None]]:
    outs = [spec.body[k - len(spec.operands)] for k in spec.results]
    uses = _shared(spec)

    def plan(at: int, out: int) -> None:
        dims = [_word(at + 8 * k) for k in range(spec.dims)]
        ctypes.c_int64.from_address(out).value = 64
        for k, op in enumerate(outs):
            size = int(np.prod(_extents(op.shape, dims), dtype=np.int64)) * np.dtype(op.dtype).itemsize
            ctypes.c_int64.from_address(out + 8 + 8 * k).value = size

    def operand(k: int, o: Operand, table: int, row: int, dims: list[int]) -> Any:
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
                return struct.unpack("d", struct.pack("q", word))[0]
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
