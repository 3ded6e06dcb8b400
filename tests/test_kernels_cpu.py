"""Generated kernels against NumPy: every operation and dtype, run-time extents, bits independent of the batch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from acronumba.emit import target as targets
from acronumba.emit.text import module_text
from acronumba.ir.evaluate import OperationFailed, apply
from acronumba.ir.ops import TENSORS
from acronumba.kernels import cpu, reference
from acronumba.kernels.element import ELEMENT
from acronumba.kernels.spec import Dim, KernelSpec
from tests.support.kernel_fuzz import Cell, Fuzz
from tests.support.kernel_runs import Runner, SpecBuilder, compile_all, interpreted

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


def check(fuzz: Fuzz, make: Any, nodes: int = 3) -> None:
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
        failed = compare_operations(fuzz, values, stored, i)
        assert failures[i] == failed
        if failed:
            continue
        with np.errstate(all="ignore"):
            single, _ = lazy([row], shared, fuzz.dims)
        for j, v in enumerate(spec.results):
            mine = results[j][i, ...]
            assert close(mine, stored[v - first][i, ...]), (spec.name, spec.body[v - first])
            assert np.array_equal(mine, single[j][0, ...], equal_nan=mine.dtype.kind == "f"), "depends on the batch"


def compare_operations(fuzz: Fuzz, values: list[Any], stored: list[Any], i: int) -> int:
    """Compare each operation with its definition on the kernel's own arguments; return the failure expected."""
    for k, op in enumerate(fuzz.spec.body):
        try:
            with np.errstate(all="ignore"):
                expected = apply(
                    op.op,
                    [values[a] for a in op.args],
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


def test_every_operation_has_a_row() -> None:
    kinds = {row.name for row in TENSORS.values() if row.kind == "element"}
    assert kinds == set(ELEMENT)


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_random_kernels_interpreted(seed: int) -> None:
    for k in range(6):
        check(Fuzz(seed + k), interpreted_all, 2)


@pytest.mark.parametrize("seed", range(5000, 5018, 3))
def test_random_products_interpreted(seed: int) -> None:
    for k in range(3):
        check(Fuzz(seed + k, 10, **PRODUCTS), interpreted_all, 2)


@pytest.mark.parametrize("seed", range(6))
def test_random_words_interpreted(seed: int) -> None:
    check(Fuzz(9000 + seed, 14, **WORDS), interpreted_all, 2)


@pytest.mark.parametrize("seed", range(6))
def test_random_words_compiled(seed: int) -> None:
    check(Fuzz(9100 + seed, 14, **WORDS), compile_all)


@pytest.mark.parametrize("seed", range(3))
def test_random_kernels_compiled(seed: int) -> None:
    check(Fuzz(100 + seed, 16), compile_all)


@pytest.mark.parametrize("seed", range(4))
def test_random_cells_compiled(seed: int) -> None:
    check(Cell(200 + seed), compile_all, 5)


def test_narrow_vectors() -> None:
    with targets.override(vector_bits=256):
        for seed in range(8):
            check(Fuzz(300 + seed), interpreted_all, 2)
        check(Cell(301), interpreted_all, 2)


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


def test_tree_lstm_is_one_stage_of_five_gates() -> None:
    spec = cell(40)
    code = cpu.generate(spec, targets.host())
    text = module_text(code.module)
    assert "def stage_0(" in text and "def stage_1(" not in text
    (packing,) = [use.packing for use in code.shared if use.packing is not None]
    assert (packing.gates, packing.n, packing.k, packing.transposed) == (5, 40, 80, True)
    assert text == module_text(cpu.generate(spec, targets.host()).module)


def test_threads_share_passes_over_several_weights() -> None:
    b = SpecBuilder("several")
    x, *weights = b.tensor("x", 24), *(b.shared(f"w{k}", 256, 24) for k in range(3))
    spec = b.spec(*(b.op("matmul", w, x, shape=(256,)) for w in weights))
    (run,) = compile_all([spec])
    assert len(run.code.stages) == 1 and module_text(run.code.module).count("call_address(") == 3
    for nodes in (1, 7, 60):
        rows, shared = inputs(spec, nodes)
        want, _ = run(rows, shared)
        for units in (2, 3, 5, 11):
            got, _ = run(rows, shared, units=units)
            assert all(map(same_bits, got, want))


def test_every_other_time_large_weights_are_read_from_the_last_panel() -> None:
    b = SpecBuilder("large")
    x, u, v = b.tensor("x", 64), b.shared("u", 1100, 64), b.shared("v", 30, 64)
    spec = b.spec(b.op("matmul", u, x, shape=(1100,)), b.op("matmul", v, x, shape=(30,)))
    (run,) = compile_all([spec])
    assert "backwards = ld(P, 3) + i0 // 48 & 1" in module_text(run.code.module)
    rows, shared = inputs(spec, 101)
    want, _ = run(rows, shared)
    for mine, expected in zip(want, evaluate(spec, rows[50], shared), strict=True):
        assert close(mine[50], expected)
    for times, units in ((0, 3), (1, 0), (1, 3), (2, 7)):
        got, _ = run(rows, shared, times=times, units=units)
        assert all(map(same_bits, got, want))


def test_rows_do_not_depend_on_the_batch() -> None:
    spec = cell(40)
    (run,) = compile_all([spec])
    rows, shared = inputs(spec, 101)
    whole, _ = run(rows, shared)
    for i in (0, 1, 47, 48, 100):
        for mine, expected in zip(whole, evaluate(spec, rows[i], shared), strict=True):
            assert close(mine[i], expected)
    for size in (1, 2, 3, 5, 29):
        for lo in range(0, 101 - size, 17):
            part, _ = run(rows[lo : lo + size], shared)
            for a, b in zip(whole, part, strict=True):
                assert a[lo : lo + size].tobytes() == b.tobytes()


def test_interpreted_and_compiled_bits_agree() -> None:
    spec = cell(17)
    rows, shared = inputs(spec, 7)
    compiled, _ = compile_all([spec])[0](rows, shared)
    plain, _ = interpreted(spec)(rows, shared)
    for a, b in zip(compiled, plain, strict=True):
        assert a.tobytes() == b.tobytes()


def test_nan_stays_in_its_row() -> None:
    spec = cell(20)
    rows, shared = inputs(spec, 9)
    (run,) = compile_all([spec])
    clean, _ = run(rows, shared)
    rows[4][0][3] = np.nan
    dirty, _ = run(rows, shared)
    for a, b in zip(clean, dirty, strict=True):
        assert np.isnan(b[4]).all()
        assert np.delete(a, 4, 0).tobytes() == np.delete(b, 4, 0).tobytes()


def test_reduction_of_a_run_time_length_has_the_bits_of_a_known_one() -> None:
    def spec(known: bool) -> KernelSpec:
        b = SpecBuilder("total", dims=0 if known else 1)
        x = b.tensor("x", 3, 37 if known else Dim(0))
        return b.spec(b.op("sum", x, shape=(3,), attrs=((1,),)), b.op("sum", x, shape=(), attrs=((0, 1),)))

    known, runtime = compile_all([spec(True), spec(False)])
    rows, _ = inputs(spec(True), 3)
    for a, b in zip(known(rows)[0], runtime(rows, dims=(37,))[0], strict=True):
        assert a.tobytes() == b.tobytes()


def test_views_of_shared_tensors_are_packed() -> None:
    b = SpecBuilder("views")
    x, stack = b.tensor("x", 18), b.shared("stack", 3, 40, 36)
    two = b.op("const", shape=(), dtype="int64", attrs=(2,))
    w = b.op("take", stack, two, shape=(40, 36), attrs=(0,))
    left = b.op("slice", w, shape=(20, 18), attrs=((0, 18), (2, 1)))
    y = b.op("matmul", left, x, shape=(20,))
    flat = b.op("reshape", stack, shape=(120, 36))
    turned = b.op(
        "transpose", b.op("slice", flat, shape=(7, 20), attrs=((5, 3), (1, 1))), shape=(20, 7), attrs=((1, 0),)
    )
    spec = b.spec(b.op("matmul", y, turned, shape=(7,)), y)
    rows, shared = inputs(spec, 3)
    (run,) = compile_all([spec])
    assert all(use.packing is not None for use in run.code.shared)
    out, _ = run(rows, shared)
    for i, row in enumerate(rows):
        for mine, expected in zip(out, evaluate(spec, row, shared), strict=True):
            assert close(mine[i], expected)


def attention(d: int) -> KernelSpec:
    b = SpecBuilder("attention", dims=1)
    n = Dim(0)
    q, keys, values = b.tensor("q", d), b.tensor("keys", n, d), b.tensor("values", n, d)
    scores = b.op("matmul", keys, q, shape=(n,), name="scores")
    top = b.op("max", scores, shape=(), attrs=((0,),))
    e = b.op("exp", b.op("sub", scores, top, shape=(n,)), shape=(n,), name="e")
    weights = b.op("div", e, b.op("sum", e, shape=(), attrs=((0,),)), shape=(n,), name="weights")
    return b.spec(b.op("matmul", weights, values, shape=(d,), name="out"))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 40])
def test_attention_over_a_run_time_length(length: int) -> None:
    spec = attention(20)
    rows, _ = inputs(spec, 3, (length,))
    out, _ = compile_all([spec])[0](rows, dims=(length,))
    for i, row in enumerate(rows):
        assert close(out[0][i], evaluate(spec, row, {}, (length,))[0])


@pytest.mark.parametrize(
    ("index", "fails"), [(0, False), (4, False), (-5, False), (5, True), (-6, True), (2**62, True)]
)
def test_an_index_out_of_range_fails_the_node(index: int, fails: bool) -> None:
    b = SpecBuilder("lookup")
    word, table = b.operand("int", "word"), b.shared("embed", 5, 7)
    at = b.op("index", word, b.op("const", attrs=(5,), shape=(), dtype="int64"), shape=(), dtype="int64", site=3)
    spec = b.spec(b.op("take", table, at, shape=(7,), attrs=(0,)))
    embed = np.arange(35, dtype=np.float32).reshape(5, 7)
    out, failures = compile_all([spec])[0]([[1], [index], [2]], {table: embed})
    assert failures.tolist() == [0, 4 if fails else 0, 0]
    nearest = index if not fails else 0 if index < 0 else 4
    assert (out[0] == embed[[1, nearest, 2]]).all()


def test_take_from_nothing_reads_nothing() -> None:
    b = SpecBuilder("nothing", dims=1)
    x, i = b.tensor("x", Dim(0), 3), b.operand("int", "i")
    spec = b.spec(b.op("take", x, i, shape=(3,), attrs=(0,)))
    out, _ = interpreted(spec)([[np.zeros((0, 3)), 0]], dims=(0,))
    assert (out[0] == 0).all()


def test_the_first_failure_in_program_order_counts() -> None:
    b = SpecBuilder("two")
    x, i = b.tensor("x", 4), b.operand("int", "i")
    best = b.op("argmax", x, shape=(), dtype="int64", attrs=(0,))
    n = b.op("const", attrs=(4,), shape=(), dtype="int64")
    early = b.op("index", b.op("add", best, i, shape=(), dtype="int64"), n, shape=(), dtype="int64", site=8)
    late = b.op("index", i, n, shape=(), dtype="int64", site=2)
    spec = b.spec(early, late)
    _, failures = interpreted(spec)([[np.arange(4), 9], [np.arange(4)[::-1].copy(), 3], [np.arange(4), 1]])
    assert failures.tolist() == [9, 0, 9]


@pytest.mark.parametrize("target_dtype", ["int8", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_casts_out_of_range_are_defined(dtype: str, target_dtype: str) -> None:
    values = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1e30, -1.5, 2.9, 255.0, -128.0], dtype)
    b = SpecBuilder("cast")
    spec = b.spec(b.op("cast", b.tensor("x", 10, dtype=dtype), shape=(10,), dtype=target_dtype))
    mine = interpreted(spec)([[values]])[0][0][0]
    inside = np.abs(values) < 100
    with np.errstate(all="ignore"):
        assert (mine[inside] == values[inside].astype(target_dtype)).all()
    if target_dtype in ("int32", "int64"):
        assert (mine[[0, 1, 2, 5]] == np.iinfo(target_dtype).min).all()


@pytest.mark.parametrize("op", ["floordiv", "mod"])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "float32"])
def test_division_as_in_numpy(op: str, dtype: str) -> None:
    r = np.random.default_rng(3)
    a = r.integers(-128 if dtype[0] != "u" else 0, 127, 200).astype(dtype)
    c = r.integers(-4 if dtype[0] != "u" else 0, 5, 200).astype(dtype)
    a[:4], c[:4] = np.iinfo(np.int8).min if dtype[0] != "u" else 200, (-1 if dtype[0] != "u" else 255)
    b = SpecBuilder("divide")
    x, y = b.tensor("x", 200, dtype=dtype), b.tensor("y", 200, dtype=dtype)
    spec = b.spec(b.op(op, x, y, shape=(200,), dtype=dtype))
    mine = compile_all([spec])[0]([[a, c]])[0][0][0]
    with np.errstate(all="ignore"):
        assert np.array_equal(mine, ELEMENTS[op](a, c), equal_nan=dtype == "float32")


ELEMENTS = {"floordiv": np.floor_divide, "mod": np.mod}


def test_a_long_chain_is_generated() -> None:
    b = SpecBuilder("chain")
    x = b.tensor("x", 19)
    v = x
    for _ in range(1500):
        v = b.op("add", v, x, shape=(19,))
    spec = b.spec(v)
    out = interpreted(spec)([[np.ones(19)]])[0][0]
    assert (out == 1501).all()
