"""Kernels that several tests run, and how their results are compared with the definitions of operations."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from acronumba.emit.arithmetic import from_bf16, to_bf16
from acronumba.ir import reference
from acronumba.ir.evaluate import OperationFailed, apply
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.kernels.stages.halves import rounds
from tests.support.kernel_fuzz import Fuzz
from tests.support.kernel_runs import Runner, SpecBuilder, interpreted

PRODUCTS: dict[str, Any] = {
    "dtypes": ("float32", "float32", "float32", "float64", "int32", "bool"),
    "favour": ("matmul", "matmul", "slice", "transpose", "concat", "add", "take", "tanh"),
    "extents": (1, 3, 6, 6, 18, 18, 36),
}
WORDS: dict[str, Any] = {
    "dtypes": ("uint64", "uint64", "uint32", "int64", "int8", "bool"),
    "favour": ("threefry", "lshift", "rshift", "lshift", "rshift", "xor", "mul", "cast"),
    "extents": (1, 3, 9, 9, 20),
}
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


def close(mine: Any, expected: Any) -> bool:
    """Equal, or for floats equal up to rounding relative to the largest value."""
    if mine.shape != expected.shape or mine.dtype != expected.dtype:
        return False
    if mine.dtype.kind != "f":
        return bool((mine == expected).all())
    tolerance = TOLERANCE[mine.dtype.name]
    largest = np.max(np.abs(np.where(np.isfinite(expected), expected, 0)), initial=1)
    return np.allclose(mine, expected, rtol=tolerance, atol=tolerance * largest, equal_nan=True)


def same_bits(mine: Any, theirs: Any) -> bool:
    return bool(mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes())


def static(attr: Any, dims: list[int], values: list[Any]) -> Any:
    match attr:
        case Dim():
            return dims[attr.index]
        case ("value", int(k)):
            return int(values[k])
        case tuple():
            return tuple(static(a, dims, values) for a in attr)
    return attr


def check(fuzz: Fuzz, make: Any, nodes: int = 3, precision: str = "float32") -> None:
    """Compare operations with their definitions, lazy results with stored ones, one node with a batch, and a batch that
    threads share with one that they don't.
    """
    spec = fuzz.spec
    rows, shared = fuzz.operands(nodes)
    first = len(spec.operands)
    every = dataclasses.replace(spec, results=tuple(range(first, first + len(spec.body))))
    whole, lazy = make([every, spec])
    with np.errstate(all="ignore"):
        stored, failures = whole(rows, shared, fuzz.dims)
        results, lazy_failures = lazy(rows, shared, fuzz.dims, parts=[(0, nodes - 1), (nodes - 1, nodes)])
        cut, cut_failures = lazy(rows, shared, fuzz.dims, units=3)
    assert (failures == lazy_failures).all() and (failures == cut_failures).all()
    for mine, theirs in zip(results, cut, strict=True):
        for i in np.flatnonzero(failures == 0):
            assert same_bits(mine[i], theirs[i]), "depends on who does what"
    for i, row in enumerate(rows):
        given = iter(row)
        values = [
            np.asarray(shared[v] if o.kind == "shared" else next(given), o.dtype) for v, o in enumerate(spec.operands)
        ]
        failed = compare_operations(fuzz, values, stored, i, precision)
        assert failures[i] == failed
        if failed:
            continue
        with np.errstate(all="ignore"):
            single, _ = lazy([row], shared, fuzz.dims)
        for j, v in enumerate(spec.results):
            mine = results[j][i, ...]
            assert close(mine, stored[v - first][i, ...]), (spec.name, spec.body[v - first])
            assert np.array_equal(mine, single[j][0, ...], equal_nan=mine.dtype.kind == "f"), "depends on the batch"


def compare_operations(fuzz: Fuzz, values: list[Any], stored: list[Any], i: int, precision: str) -> int:
    """Compare each operation with its definition on the kernel's own arguments; return the failure expected."""
    for k, op in enumerate(fuzz.spec.body):
        halves = precision == "bf16" and rounds(fuzz.spec, op)
        try:
            with np.errstate(all="ignore"):
                expected = apply(
                    op.op,
                    [from_bf16(to_bf16(values[a])) if halves else values[a] for a in op.args],
                    static(op.attrs, fuzz.dims, values),
                    fuzz.real(op.shape),
                    op.dtype,
                )
        except OperationFailed:
            return 1 + op.site
        mine = stored[k][i, ...]
        assert close(mine, expected), (fuzz.spec.name, op, fuzz.dims, mine, expected)
        values.append(mine)
    return 0


def interpreted_all(specs: list[KernelSpec]) -> list[Runner]:
    return [interpreted(spec) for spec in specs]


def cell(h: int) -> KernelSpec:
    """A Tree-LSTM cell: five gates of one product with a concatenation."""
    b = SpecBuilder("tree_lstm")
    hl, hr, cl, cr = (b.tensor(name, h) for name in ("hl", "hr", "cl", "cr"))
    w, bias = b.shared("w", 5 * h, 2 * h), b.shared("b", 5 * h)
    both = b.op("concat", hl, hr, shape=(2 * h,), attrs=(0,), name="both")
    gates = b.op("add", b.op("matmul", w, both, shape=(5 * h,), name="product"), bias, shape=(5 * h,), name="gates")
    i, fl, fr, o, u = (b.op("slice", gates, shape=(h,), attrs=((k * h,), (1,)), name="iabou"[k]) for k in range(5))

    def f(op: str, *args: int, name: str = "") -> int:
        return b.op(op, *args, shape=(h,), name=name)

    kept = f("add", f("mul", f("sigmoid", fl), cl), f("mul", f("sigmoid", fr), cr))
    c = f("add", f("mul", f("sigmoid", i), f("tanh", u)), kept, name="c")
    return b.spec(f("mul", f("sigmoid", o), f("tanh", c), name="h"), c)


def inputs(spec: KernelSpec, nodes: int, dims: tuple[int, ...] = ()) -> tuple[list[list[Any]], dict[int, Any]]:
    r = np.random.default_rng(7)

    def draw(o: Any) -> Any:
        shape = tuple(dims[s.index] if isinstance(s, Dim) else s for s in o.shape)
        return (r.standard_normal(shape) * 0.3).astype(o.dtype)

    shared = {v: draw(o) for v, o in enumerate(spec.operands) if o.kind == "shared"}
    return [[draw(o) for o in spec.operands if o.kind != "shared"] for _ in range(nodes)], shared


def evaluate(spec: KernelSpec, row: list[Any], shared: dict[int, Any], dims: tuple[int, ...] = ()) -> tuple[Any, ...]:
    given = iter(row)
    operands = [shared[v] if v in shared else next(given) for v in range(len(spec.operands))]
    return reference.evaluate(spec, operands, dims)


def attention(d: int) -> KernelSpec:
    b = SpecBuilder("attention", dims=1)
    n = Dim(0)
    q, keys, values = b.tensor("q", d), b.tensor("keys", n, d), b.tensor("values", n, d)
    scores = b.op("matmul", keys, q, shape=(n,), name="scores")
    top = b.op("max", scores, shape=(), attrs=((0,),))
    e = b.op("exp", b.op("sub", scores, top, shape=(n,)), shape=(n,), name="e")
    weights = b.op("div", e, b.op("sum", e, shape=(), attrs=((0,),)), shape=(n,), name="weights")
    return b.spec(b.op("matmul", weights, values, shape=(d,), name="out"))
