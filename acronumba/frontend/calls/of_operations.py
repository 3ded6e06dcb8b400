"""Calls of operations of the user's own (`acronumba.operation`): one operation "own" for each result."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.foreign import source_function
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import Row
from acronumba.frontend.conditions import host_value
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.numbers import Num
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.generics import Value
from acronumba.ir import nodes as ir
from acronumba.ir.notes import Note
from acronumba.ir.types import BOOL, FLOAT
from acronumba.operations import Given, Operation, OwnCall, device_source

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

_FAILED = "the kernel of {name} raises an exception, or returns an array of another shape"


def row_of_operation(operation: Operation) -> Row:
    """Return the row of a call of an operation: it is bound to the signature of its definition."""

    def handler(w: Walker, a: Args) -> Val:
        return _call(w, operation, a)

    names = " ".join(inspect.signature(operation.source).parameters)
    return Row(
        function=operation, signature=operation.source, what=operation.__name__, honoured=names, handler=handler,
        rank0="any",
    )  # fmt: skip


def _call(w: Walker, operation: Operation, a: Args) -> Val:
    for f in (operation.source, source_function(operation.kernel), operation.gradient, device_source(operation.cuda)):
        if isinstance(f, types.FunctionType):
            code = w.source_guard.function(f)
            for name in code.co_names:
                if name in f.__globals__:
                    w.source_guard.item(f.__globals__, name)
            for cell in f.__closure__ or ():
                w.source_guard.place(cell, "")
    if w.handlers:
        seen = f"the operation {operation.__name__} in `try`: which exception its kernel raises is not known"
        raise w.reject(
            "ACR101", seen=seen, rewrite="call it outside of `try`, or return a value that tells the failure"
        )
    vals = list(a.values.values())
    found = [_argument(w, operation, a, name) for name in a.values]
    shapes = _shapes(w, operation, vals)
    several = bool(shapes) and isinstance(shapes[0], tuple)
    made: tuple[tuple[ir.Extent, ...], ...] = tuple(shapes) if several else (tuple(shapes),)
    dtypes = _dtypes(w, operation, vals, len(made))
    _check_kernel(w, operation, len(made))
    given, ranks = tuple(g for g, _ in found), tuple(map(len, made))
    w.notes.append(Note(loc=w.loc, kind="operation", text=_told(operation), option=""))
    site = w.failure_site("RuntimeError", _FAILED.format(name=operation.__name__))
    out = []
    for k, (shape, dtype) in enumerate(zip(made, dtypes, strict=True)):
        call = OwnCall(operation, given, dtypes, ranks, k)
        out.append(w.ops.op("own", [ref for _, ref in found], dtype, shape, (call, *made), site))
    return TupleVal(tuple(out)) if several else out[0]


def _told(operation: Operation) -> str:
    """Return which functions compute an operation."""
    own = operation.kernel is operation.definition
    kernel = "its definition" if own else f"`{getattr(operation.kernel, '__name__', 'its kernel')}`"
    there = f"; on a GPU, `{device_source(operation.cuda).__name__}`" if operation.cuda is not None else ""
    return f"`{operation.__name__}` runs {kernel}, compiled by Numba{there}"


def _argument(w: Walker, operation: Operation, a: Args, name: str) -> tuple[Given, ir.Var | ir.SharedArg]:
    """Return the type and the variable of an argument of the kernel."""
    val = a[name]
    if isinstance(val, Num) and not isinstance(val.static(w), str):
        dtype = "bool" if val.type == BOOL else "float64" if val.type == FLOAT else "int64"
        return Given("number", dtype, 0), w.word(w.read(val))
    if not isinstance(val, Tensor):
        seen = f"{w.describe(val)} for {name} of the operation {operation.__name__}"
        rewrite = "pass arrays and numbers: np.array(xs)"
        raise w.reject("ACR301", a.where[name], seen=seen, rewrite=rewrite)
    return Given("array" if val.type.rank else "scalar", val.type.dtype, val.type.rank), val.ref


def _shapes(w: Walker, operation: Operation, vals: Sequence[Val]) -> Sequence[Value]:
    """Return the extents of the result, or a tuple of these for each of several."""
    rule = operation.shape
    val = w.call(w.constant(rule), vals, {}) if callable(rule) else None
    return _extents(w, operation, val if val is not None else rule)


def _extents(w: Walker, operation: Operation, val: Value) -> tuple[Value, ...]:
    if isinstance(val, Num | int):
        val = (val,)
    items = w.items_of(val) if isinstance(val, Val) else val
    if items is None:
        raise w.reject("ACR403", seen=f"the shape of {operation.__name__}, {w.describe(val)}")
    out: list[Value] = []
    for x in items:
        if isinstance(x, int):
            out.append(x)
        elif (isinstance(x, Val) and w.items_of(x) is None) or isinstance(x, Num):
            n = host_value(w, x, f"the shape of {operation.__name__}", index=True)
            out.append(w.as_extent(w.as_int(n)))
            w.ops.not_negative(out[-1:])
        else:
            out.append(_extents(w, operation, x))
    if len({isinstance(x, tuple) for x in out}) > 1:
        raise w.reject("ACR301", seen=f"the shape of {operation.__name__}, which mixes extents and shapes")
    return tuple(out)


def _dtypes(w: Walker, operation: Operation, vals: Sequence[Val], count: int) -> tuple[str, ...]:
    rule = operation.dtype
    if isinstance(rule, types.FunctionType):
        rule = w.static(w.call(w.constant(rule), vals, {}))
    rules = rule if isinstance(rule, list | tuple) else (rule,) * count
    if rule is NOT_CONST or len(rules) != count:
        raise w.reject("ACR310", seen=f"the dtype of {operation.__name__}, for {count} results")
    return tuple(w.ops.dtype_name(np.dtype(t)) for t in rules)


def _check_kernel(w: Walker, operation: Operation, results: int) -> None:
    """Reject a kernel with parameters that do not fit, or with threads of its own."""
    kernel = operation.kernel
    source = source_function(kernel) or kernel
    options: Mapping[str, Value] = getattr(kernel, "targetoptions", {})
    count = len(inspect.signature(source).parameters)
    if count not in (operation.count, operation.count + results):
        seen = f"{count} parameters of the kernel of {operation.__name__}"
        rewrite = f"{operation.count}, and one for each of {results} results if it fills arrays"
        raise w.reject("ACR203", seen=seen, rewrite=rewrite)
    if operation.cuda is not None:
        count = len(inspect.signature(device_source(operation.cuda)).parameters)
        if count != operation.count + results:
            seen = f"{count} parameters of the device function of {operation.__name__}"
            rewrite = f"{operation.count}, and one for each of {results} results, which it fills"
            raise w.reject("ACR203", seen=seen, rewrite=rewrite)
    if options.get("parallel"):
        seen = f"the kernel of {operation.__name__} with parallel=True"
        raise w.reject("ACR210", seen=seen, rewrite="leave parallel out: threads share the nodes")
