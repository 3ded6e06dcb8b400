"""Generated kernels against NumPy: every operation and dtype, run-time extents, bits independent of the batch."""

from __future__ import annotations

import numpy as np
import pytest

from acronumba.emit import target as targets
from acronumba.emit.text import module_text
from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.kernels import cpu
from acronumba.kernels.write.element import ELEMENT
from tests.support.chosen import one_in
from tests.support.kernel_cases import (
    PRODUCTS,
    WORDS,
    attention,
    cell,
    check,
    close,
    evaluate,
    inputs,
    interpreted_all,
    same_bits,
)
from tests.support.kernel_fuzz import Cell, Fuzz
from tests.support.kernel_runs import SpecBuilder, compile_all, interpreted


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


@pytest.mark.parametrize("seed", [0, 100])
def test_random_products_in_bf16(seed: int) -> None:
    for k in range(3):
        check(
            Fuzz(seed + k, 10, **PRODUCTS), lambda specs: [interpreted(s, precision="bf16") for s in specs], 2, "bf16"
        )


@pytest.mark.parametrize("seed", range(6))
def test_random_words_interpreted(seed: int) -> None:
    check(Fuzz(9000 + seed, 14, **WORDS), interpreted_all, 2)


@pytest.mark.parametrize("seed", range(6))
def test_random_words_compiled(seed: int) -> None:
    check(Fuzz(9100 + seed, 14, **WORDS), compile_all)


@pytest.mark.parametrize("seed", range(3))
def test_random_kernels_compiled(seed: int) -> None:
    check(Fuzz(100 + seed, 16), compile_all)


@pytest.mark.parametrize("seed", one_in(2, range(4)))
def test_random_cells_compiled(seed: int) -> None:
    check(Cell(200 + seed), compile_all, 5)


ADJOINTS = {
    "favour": ("fold", "scatter", "windows", "scale_gradient", "take"),
    "dtypes": ("float32", "float64", "int64", "int32"),
}


@pytest.mark.parametrize("seed", range(7000, 7030, 10))
def test_random_adjoints_interpreted(seed: int) -> None:
    for k in range(10):
        check(Fuzz(seed + k, 8, **ADJOINTS, extents=(0, 1, 1, 2, 3, 5, 17)), interpreted_all, 2)


def test_random_adjoints_compiled() -> None:
    check(Fuzz(7100, 14, **ADJOINTS, extents=(1, 1, 2, 3, 5, 17)), compile_all, 2)


def test_narrow_vectors() -> None:
    with targets.override(vector_bits=256):
        for seed in range(8):
            check(Fuzz(300 + seed), interpreted_all, 2)
        check(Cell(301), interpreted_all, 2)


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


def test_every_other_time_few_rows_read_large_weights_from_the_last_panel() -> None:
    b = SpecBuilder("large")
    x, u, v = b.tensor("x", 64), b.shared("u", 2800, 64), b.shared("v", 30, 64)
    spec = b.spec(b.op("matmul", u, x, shape=(2800,)), b.op("matmul", v, x, shape=(30,)))
    (run,) = compile_all([spec])
    assert "backwards = select(count <= 24, ld(P, 3) & 1, 0)" in module_text(run.code.module)
    for nodes in (21, 101):
        rows, shared = inputs(spec, nodes)
        want, _ = run(rows, shared)
        for mine, expected in zip(want, evaluate(spec, rows[nodes // 2], shared), strict=True):
            assert close(mine[nodes // 2], expected)
        for times, units in ((0, 3), (1, 0), (1, 3), (2, 7)):
            got, _ = run(rows, shared, times=times, units=units)
            assert all(map(same_bits, got, want))


@pytest.mark.parametrize("wide", [5, 40])
def test_a_right_operand_is_packed_piece_by_piece(wide: int) -> None:
    b = SpecBuilder("pieces", dims=2)
    n, more = Dim(0), Dim(1)
    one, other, lines = b.tensor("one", 6, 3, wide), b.tensor("other", 6, wide, n), b.tensor("lines", n, wide)
    w = b.tensor("w", 6, 7, more)
    turned = b.op("transpose", other, shape=(6, n, wide), attrs=((0, 2, 1),))
    each = b.op("broadcast", lines, shape=(6, n, wide))
    both = b.op("concat", one, each, shape=(6, more, wide), attrs=(1,), name="both")
    apart = b.op("concat", turned, one, shape=(6, more, wide), attrs=(1,), name="apart")
    out = b.op("matmul", w, both, shape=(6, 7, wide), name="out")
    other_out = b.op("matmul", w, apart, shape=(6, 7, wide), name="other_out")
    lazy, stored = compile_all([b.spec(out, other_out), b.spec(out, other_out, both, apart)])
    for dims in ((0, 3), (1, 4), (300, 303)):
        rows, shared = inputs(lazy.spec, 4, dims)
        mine, _ = lazy(rows, shared, dims)
        theirs, _ = stored(rows, shared, dims)
        assert all(map(same_bits, mine, theirs))
        for i, row in enumerate(rows):
            for got, expected in zip(mine, evaluate(lazy.spec, row, shared, dims), strict=True):
                assert close(got[i], expected)


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


@pytest.mark.parametrize("op", ["sum", "prod", "max"])
@pytest.mark.parametrize("shape", [(37, 1), (3, 37, 1), (16, 1)])
def test_a_column_that_is_known_to_be_one_has_the_bits_of_one_that_is_not(op: str, shape: tuple[int, ...]) -> None:
    rank = len(shape)
    some = [(0,), (rank - 1,), (0, rank - 1), (rank - 2, rank - 1), tuple(range(rank))]

    def spec(known: bool) -> KernelSpec:
        b = SpecBuilder("columns", dims=0 if known else 1)
        size = shape if known else (*shape[:-1], Dim(0))
        x = b.tensor("x", *size)
        terms = b.op("exp", b.op("mul", x, x, shape=size), shape=size)
        outs = []
        for axes in dict.fromkeys(some):
            rest = tuple(n for k, n in enumerate(size) if k not in axes)
            outs += [b.op(op, v, shape=rest, attrs=(axes,)) for v in (x, terms)]
        return b.spec(terms, *outs)

    known, runtime = compile_all([spec(True), spec(False)])
    rows, _ = inputs(spec(True), 3)
    for row in rows:
        row[0] -= 0.5
    rows[1][0][:] = -0.0
    for a, b in zip(known(rows)[0], runtime(rows, dims=(1,))[0], strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("columns", [0, 1, 2, 15, 16, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_columns_are_read_and_stored_from_both_sides(columns: int, dtype: str) -> None:
    b = SpecBuilder("turned", dims=1)
    n = Dim(0)
    x, y, z = b.tensor("x", 37, n, dtype=dtype), b.tensor("y", n, 37, dtype=dtype), b.tensor("z", 37, 1, dtype=dtype)
    turned = b.op("transpose", x, shape=(n, 37), attrs=((1, 0),), dtype=dtype)
    both = b.op("maximum", turned, y, shape=(n, 37), dtype=dtype)
    back = b.op("transpose", both, shape=(37, n), attrs=((1, 0),), dtype=dtype)
    spec = b.spec(turned, b.op("maximum", back, z, shape=(37, n), dtype=dtype))
    random = np.random.default_rng(columns)
    rows = [[random.normal(size=s).astype(dtype) > 0 if dtype == "bool" else random.normal(size=s).astype(dtype)
             for s in ((37, columns), (columns, 37), (37, 1))] for _ in range(3)]  # fmt: skip
    for run in (interpreted(spec), *compile_all([spec])):
        out, _ = run(rows, dims=(columns,))
        for i, (u, v, w) in enumerate(rows):
            assert np.array_equal(out[0][i], u.T)
            assert np.array_equal(out[1][i], np.maximum(np.maximum(u, v.T), w))


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


@pytest.mark.parametrize("columns", [3, 17, 70, 96, 130])
@pytest.mark.parametrize("flip", [False, True])
def test_no_odd_bits_of_scratch_are_multiplied(columns: int, flip: bool) -> None:
    """They may be denormal numbers: then a product takes a hundred times as long."""
    specs = []
    for n in (columns, Dim(0)):
        b = SpecBuilder("products", dims=1)
        of_y = (n, 12) if flip else (12, n)
        x, y = b.tensor("x", 9, 12), b.tensor("y", *of_y)
        x, y = b.op("exp", x, shape=(9, 12)), b.op("exp", y, shape=of_y)
        y = b.op("transpose", y, attrs=((1, 0),), shape=(12, n)) if flip else y
        specs.append(b.spec(b.op("exp", b.op("matmul", x, y, shape=(9, n)), shape=(9, n))))
    rng = np.random.default_rng(columns)
    right = (columns, 12) if flip else (12, columns)
    nodes = [[rng.uniform(-2, 0, s).astype(np.float32) for s in ((9, 12), right)] for _ in range(3)]
    for run in (*compile_all(specs), *interpreted_all(specs[:1])):
        (found,), _ = run(nodes, dims=(columns,), poison=127)
        for (x, y), out in zip(nodes, found, strict=True):
            np.testing.assert_allclose(out, np.exp(np.exp(x) @ np.exp(y.T if flip else y)), rtol=1e-4)
