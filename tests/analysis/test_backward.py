"""Backward kernels: what they give is what one finds operation by operation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from acronumba.analysis.backward.derive import AdjointOutput, Backward, Source, differentiate
from acronumba.analysis.backward.keep import NEVER, choose_kept
from acronumba.analysis.backward.reference import NodeBack, sweep
from acronumba.ir.reference import KernelFailure, evaluate, spec_text
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.ir.vjp import RULES
from tests.support.chosen import one_in
from tests.support.kernel_cases import close
from tests.support.kernel_fuzz import Fuzz
from tests.support.kernel_runs import SpecBuilder, compile_all

FLOATS = ("float32", "float64")


class Smooth(Fuzz):
    """Random kernels of floats that are nowhere near a kink."""

    def data(self, dtype: str, shape: tuple[int, ...]) -> Any:
        x = super().data(dtype, shape)
        return np.asarray(self.r.standard_normal(shape), dtype) if dtype in FLOATS else x


def derive(spec: KernelSpec) -> Backward:
    wanted = [v for v, o in enumerate(spec.operands) if o.dtype in FLOATS and o.kind in ("tensor", "list", "shared")]
    return differentiate(spec, wanted, range(len(spec.results)))


def outside(spec: KernelSpec, operands: list[Any], dims: list[int]) -> bool:
    """Whether an index is out of bounds: programs check them before, and the nearest row has no derivative then."""
    first = len(spec.operands)
    values = [*operands, *evaluate(replace(spec, results=tuple(range(first, first + len(spec.body)))), operands, dims)]
    takes = [(op.args, op.attrs[0]) for op in spec.body if op.op == "take"]
    return any(np.any((values[i] < 0) | (values[i] >= np.shape(values[x])[axis])) for (x, i), axis in takes)


@np.errstate(all="ignore")
def check(fuzz: Fuzz) -> str:
    """Compare a random kernel's backward kernel with the sweep over its operations, for a mini-batch of three nodes."""
    spec, back = fuzz.spec, derive(fuzz.spec)
    rows, shared = fuzz.operands(3)
    sums: dict[int, Any] = {}
    values = [*spec.operands, *spec.body]
    shapes: dict[int, Any] = {t.of: values[t.of].shape for t in back.terms}
    wanted: dict[int, Any] = {}
    for row in rows:
        given = iter(row)
        operands = [shared[v] if v in shared else next(given) for v in range(len(spec.operands))]
        try:
            results = evaluate(back.forward, operands, fuzz.dims)
        except KernelFailure:
            return "fails"
        if outside(spec, operands, fuzz.dims):
            return "outside"
        own = results[: len(spec.results)]
        adjoints = [
            np.asarray(fuzz.r.standard_normal(np.shape(r)), np.asarray(r).dtype) if r.dtype.name in FLOATS else None
            for r in own
        ]
        seeds: dict[int, Any] = {}
        for v, g in zip(spec.results, adjoints, strict=True):
            if g is not None:
                seeds[v] = seeds[v] + g if v in seeds else g
        there = sweep(spec, operands, fuzz.dims, seeds)
        node = NodeBack(back, operands, fuzz.dims, results, adjoints)
        mine: dict[int, Any] = {}
        for v, g in node.gives():
            mine[v] = mine[v] + g if v in mine else g
        node.add_terms(sums, shapes)
        for v, o in enumerate(spec.operands):
            if o.kind == "tensor" and v in there:
                same(mine.get(v, np.zeros_like(there[v])), there[v], spec)
            if o.kind == "shared" and v in there:
                wanted[v] = wanted[v] + there[v] if v in wanted else there[v]
    alone = [shared.get(v) for v in range(len(spec.operands))]
    pulled = sweep(spec, alone, (), sums)
    for v, g in wanted.items():
        same(pulled.get(v, np.zeros_like(g)), g, spec)
    return "equal" if back.outputs or back.terms else "nothing"


def same(mine: Any, wanted: Any, spec: KernelSpec) -> None:
    finite = np.isfinite(wanted)
    scale = float(np.max(np.abs(wanted[finite]), initial=1.0))
    tolerance = 1e-3 if "float32" in {x.dtype for x in (*spec.operands, *spec.body)} else 1e-9
    assert mine.dtype == wanted.dtype and mine.shape == wanted.shape, spec_text(spec)
    assert np.allclose(
        np.where(finite, mine, 0), np.where(finite, wanted, 0), rtol=tolerance, atol=tolerance * scale
    ), spec_text(spec)


LEAVES = [name for name in RULES if name not in ("stack",)]


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_kernels(first: int) -> None:
    found = [
        check(Smooth(seed, dtypes=("float64", "float64", "int64"), favour=tuple(LEAVES)))
        for seed in range(first, first + 50)
    ]
    assert found.count("equal") > 15, found


# ---- by hand


def cell(width: int) -> KernelSpec:
    """h = tanh(w @ [x, table[k]] + b)"""
    b = SpecBuilder("cell")
    x, k = b.tensor("x", width), b.operand("int", "k")
    table, w, bias = b.shared("table", 9, width), b.shared("w", 3, 2 * width), b.shared("b", 3)
    row = b.op("take", table, k, attrs=(0,), shape=(width,))
    both = b.op("concat", x, row, attrs=(0,), shape=(2 * width,))
    y = b.op("matmul", w, both, shape=(3,))
    z = b.op("add", y, bias, shape=(3,))
    return b.spec(b.op("tanh", z, shape=(3,), name="h"))


def test_pieces_are_read_where_they_lie() -> None:
    back = derive(cell(4))
    assert back.kept == () and back.backward is not None
    outer = [t for t in back.terms if t.kind == "outer"]
    assert [t.start for t in outer] == [(0, 0), (0, 4)]
    assert outer[0].parts[1].source == Source("argument", 0)
    assert outer[1].parts[1].source == Source("table", 0, row=Source("argument", 1))
    assert sorted(t.kind for t in back.terms) == ["outer", "outer", "rows", "sum"]
    (dx,) = back.outputs
    rows = next(t for t in back.terms if t.kind == "rows")
    assert dx.source == replace(rows.parts[1].source, start=0) and rows.parts[1].source.start == 4  # one product


def test_a_chain_of_sums_computes_nothing() -> None:
    b = SpecBuilder("total")
    x, y = b.tensor("x", 5), b.tensor("y", 5)
    back = derive(b.spec(b.op("add", x, y, shape=(5,))))
    assert back.backward is None and [g.source for g in back.outputs] == [Source("adjoint", 0)] * 2


def test_a_row_that_a_number_names_makes_no_array() -> None:
    b = SpecBuilder("row", dims=1)
    xs, k = b.tensor("xs", Dim(0), 3), b.operand("int", "k")
    back = derive(b.spec(b.op("take", xs, k, attrs=(0,), shape=(3,))))
    (give,) = back.outputs
    assert back.backward is None and give.row == Source("argument", 1) and give.source == Source("adjoint", 0)


def test_gates_are_one_adjoint_and_a_lone_piece_is_no_array() -> None:
    b = SpecBuilder("gates")
    x = b.tensor("x", 8)
    i = b.op("slice", x, attrs=((0,), (1,)), shape=(4,))
    o = b.op("slice", x, attrs=((4,), (1,)), shape=(4,))
    back = derive(b.spec(b.op("mul", i, o, shape=(4,))))
    (give,) = back.outputs
    assert give.row is None and back.backward.body[-1].op == "concat"  # type: ignore[union-attr]
    b = SpecBuilder("piece")
    x = b.tensor("x", 8)
    back = derive(b.spec(b.op("slice", x, attrs=((5,), (1,)), shape=(2,))))
    assert (
        back.outputs == (AdjointOutput(operand=0, source=Source("adjoint", 0), shape=(2,), row=5),)
        and back.backward is None
    )


def test_a_matrix_that_a_number_chooses_has_outer_products_of_its_own() -> None:
    b = SpecBuilder("expert")
    x, k, w = b.tensor("x", 4), b.operand("int", "k"), b.shared("w", 5, 3, 4)
    one = b.op("take", w, k, attrs=(0,), shape=(3, 4))
    back = derive(b.spec(b.op("matmul", one, x, shape=(3,))))
    (term,) = back.terms
    assert term.kind == "outer" and term.row is not None and term.row.source == Source("argument", 1)


def test_what_does_not_depend_on_wanted_operands_is_left_out() -> None:
    spec = cell(4)
    back = differentiate(spec, [4], [0])  # the bias alone
    assert not back.outputs and [t.kind for t in back.terms] == ["sum"]
    assert "matmul" not in [op.op for op in back.backward.body]  # type: ignore[union-attr]
    assert differentiate(spec, [], [0]).terms == () and differentiate(spec, [4], []).terms == ()


# ---- what is kept


def cost_of(
    kept: set[int], wanted: list[int], there: set[int], args: dict[int, list[int]], keep: list[int], again: list[int]
) -> int:
    total, seen, todo = sum(keep[v] for v in kept), set(kept) | there, list(wanted)
    while todo:
        v = todo.pop()
        if v not in seen:
            seen.add(v)
            total += again[v]
            todo += args[v]
    return total


def test_what_is_kept_is_a_minimum_cut() -> None:
    """Against all choices, for small random graphs."""
    r = np.random.default_rng(2)
    for _ in range(60):
        n = int(r.integers(2, 8))
        args = {v: [int(a) for a in r.integers(0, v, int(r.integers(0, 3)))] if v else [] for v in range(n)}
        keep = [int(x) for x in r.integers(1, 20, n)]
        again = [NEVER if r.random() < 0.2 else int(x) for x in r.integers(0, 20, n)]
        there = {v for v in range(n) if r.random() < 0.2}
        wanted = [v for v in range(n) if r.random() < 0.5]

        found = choose_kept(wanted, there, args.__getitem__, keep.__getitem__, again.__getitem__)
        choices = [{v for v in range(n) if bits >> v & 1} - there for bits in range(1 << n)]
        costs = [cost_of(kept, wanted, there, args, keep, again) for kept in (found, *choices)]
        assert costs[0] == min(costs)


def test_products_are_never_computed_again() -> None:
    for seed in range(150):
        fuzz = Smooth(seed, dtypes=("float64", "float32"), favour=("matmul", "tanh", "mul", "sum"))
        back = derive(fuzz.spec)
        if back.backward is not None:
            own = {(op.op, op.name) for op in fuzz.spec.body if op.op in ("matmul", "sum", "prod") and op.name}
            assert not own & {(op.op, op.name) for op in back.backward.body}


# ---- as machine code


@pytest.mark.parametrize("first", one_in(4, range(0, 48, 12)))
def test_compiled(first: int) -> None:
    """Backward kernels are kernels: the generator makes of them what the reference says."""
    fuzzes = [Smooth(seed, length=8, dtypes=("float32",), favour=tuple(LEAVES)) for seed in range(first, first + 12)]
    specs = []
    for fuzz in fuzzes:
        back = derive(fuzz.spec)
        if back.backward is not None:
            specs.append((fuzz, back.backward))
    for (fuzz, spec), run in zip(specs, compile_all([s for _, s in specs]), strict=True):
        r = np.random.default_rng(first)
        dims = tuple(fuzz.dims)

        def draw(o: Any, dims: tuple[int, ...] = dims, r: Any = r) -> Any:
            shape = tuple(dims[s.index] if isinstance(s, Dim) else s for s in o.shape)
            x = r.integers(0, 3, shape) if np.dtype(o.dtype).kind in "iu" else r.random(shape) < 0.5
            return np.asarray(r.standard_normal(shape) if o.dtype in FLOATS else x, o.dtype)

        shared = {v: draw(o) for v, o in enumerate(spec.operands) if o.kind == "shared"}
        rows = [[draw(o) for o in spec.operands if o.kind != "shared"] for _ in range(3)]
        mine, _ = run(rows, shared, dims)
        for i, row in enumerate(rows):
            given = iter(row)
            wanted = evaluate(
                spec, [shared[v] if v in shared else next(given) for v in range(len(spec.operands))], dims
            )
            for j, one in enumerate(wanted):
                assert close(mine[j][i], one), spec_text(spec)
