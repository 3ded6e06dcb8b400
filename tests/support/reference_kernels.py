"""Kernels evaluated with NumPy, behind the interface of compiled kernels.

In: specifications. Out: `KernelEntry`s whose functions are Python. Compiled kernels are compared with them, and the
host program and the schedule are tested with them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from acronumba.analysis.plan import Plan
from acronumba.config import Options, verify_level
from acronumba.host.machine import make_host
from acronumba.ir.reference import KernelFailure, evaluate
from acronumba.ir.spec import FIXED, Dim, KernelSpec, Operand, Size
from acronumba.memory import Array
from acronumba.runtime.driver import Executable
from acronumba.runtime.engines import Interpreted, runtime_module
from acronumba.runtime.idle import entry_of, plain_uses
from acronumba.runtime.program import KernelEntry, Linked


def link_interpreted(
    plan: Plan, options: Options, kernels: Callable[[Interpreted], Sequence[KernelEntry]]
) -> Executable:
    """Return an executable of a plan in plain Python; `kernels` returns kernels that its engine can call."""
    host = make_host(plan, options, doubles=verify_level() > 2)
    modules = (runtime_module(), host.module)
    engine = Interpreted(modules)
    linked = Linked(host=host, modules=modules, engine=engine, kernels=tuple(kernels(engine)), interpreted=True)
    return Executable(plan, options, linked)


def reference_kernels(specs: Sequence[KernelSpec]) -> tuple[KernelEntry, ...]:
    """Return kernels that compiled code can call."""
    return tuple(entry_of(spec, *_functions(spec)) for spec in specs)


def interpreted_kernels(specs: Sequence[KernelSpec]) -> Callable[[Interpreted], tuple[KernelEntry, ...]]:
    """Return a function from an engine to kernels that interpreted code can call."""

    def make(engine: Interpreted) -> tuple[KernelEntry, ...]:
        out = []
        for spec in specs:
            plan, run = (engine.memory.add_function(f) for f in _functions(spec))
            out.append(KernelEntry(plan=plan, run=run, shared=plain_uses(spec)))
        return tuple(out)

    return make


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
    uses = plain_uses(spec)

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
