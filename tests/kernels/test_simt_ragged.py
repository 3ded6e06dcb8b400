"""Kernels for a GPU whose nodes have run-time extents of their own, and attention in tiles, in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba.emit import interpret
from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cuda import generate, simulator, tiles
from acronumba.kernels.cuda.nodes import Counted
from acronumba.kernels.stages.index import Poly
from acronumba.strategy import Strategy
from tests.support.chosen import one_in, squares
from tests.support.kernel_cases import close, evaluate
from tests.support.kernel_runs import SpecBuilder
from tests.support.ragged_kernels import APART, ATTENTION, BLOCKS, drawn, lengths, nodes_of
from tests.support.simt_runs import Simulated


def same_alone(spec: KernelSpec, rows: Any, shared: Any, each: Any, strategy: Strategy | None = None) -> None:
    """Check results against the definitions; each node's bits alone, and by other numbers of blocks."""
    run = Simulated(spec, generate.generate(spec, strategy or Strategy()))
    whole, failed = run(rows, shared, each=each)
    again, _ = run(rows, shared, each=each, units=17)
    for k, (column, other) in enumerate(zip(whole, again, strict=True)):
        assert [x.tobytes() for x in column] == [x.tobytes() for x in other], k
    for i, own in enumerate(each[:2]):
        alone, failures = run([rows[i]], shared, each=[own], units=1)
        assert failures[0] == failed[i]
        if failed[i]:
            continue
        with np.errstate(all="ignore"):
            wanted = evaluate(spec, rows[i], shared, own)
        for mine, found, expected in zip(whole, alone, wanted, strict=True):
            assert mine[i].tobytes() == found[0].tobytes(), (own, i)
            assert close(mine[i], expected), (own, i)


@pytest.mark.parametrize(("name", "apart"), one_in(3, one_in(4, squares([*BLOCKS], [False, True]), mark="slow")))
def test_a_node_has_the_bits_that_it_has_alone(name: str, apart: bool) -> None:
    spec = BLOCKS[name]
    each = lengths(spec, 4)
    if spec.dims == 1:
        each = [(min(n, 7),) for (n,) in each]
    same_alone(spec, *nodes_of(spec, each), each, APART if apart else None)


IN_TILES = ["float64", *(name for name in ATTENTION if name not in ("float64", "around", "far"))]


@pytest.mark.parametrize("name", one_in(12, one_in(6, IN_TILES, mark="slow")))
def test_attention_in_tiles(name: str) -> None:
    spec = ATTENTION[name]
    each = [(18, 3), (2, 33), (0, 5), (1, 1)]
    rows = [drawn(spec, 1, own)[0] for own in each]
    assert any(isinstance(one, Counted) and one.height == 16 for one in generate.generate(spec).table.counted)
    same_alone(spec, rows, {}, each)


@pytest.mark.slow
def test_rows_of_a_known_number_are_tiles_too() -> None:
    b = SpecBuilder("known")
    x, y = b.tensor("x", 36, 4), b.tensor("y", 460, 4)
    scores = b.op("matmul", x, b.op("transpose", y, shape=(4, 460), attrs=((1, 0),)), shape=(36, 460))
    e = b.op("exp", scores, shape=(36, 460))
    spec = b.spec(b.op("matmul", e, y, shape=(36, 4)))
    code = generate.generate(spec)
    assert [(g.nodes, g.times, g.counted) for g in code.grids[0]] == [(1, 1, 0), (1, 2, 0), (1, 3, 0)]
    rows = [[0.1 * x for x in row] for row in drawn(spec, 1, ())]
    found = [Simulated(spec, code)(rows, units=blocks)[0][0] for blocks in (1, 4)]
    for i, row in enumerate(rows):
        (wanted,) = evaluate(spec, row, {})
        assert close(found[0][i], wanted)
    assert found[0].tobytes() == found[1].tobytes()


def test_nan_and_infinity_stay_in_their_rows() -> None:
    spec = ATTENTION["one_head"]
    (row,) = drawn(spec, 1, (20, 30))
    run = Simulated(spec, generate.generate(spec))
    ((clean,),), _ = run([row], each=[(20, 30)])
    odd = [x.copy() for x in row]
    odd[0][3, 2], odd[2][7, 5] = np.nan, np.inf
    ((found,),), _ = run([odd], each=[(20, 30)])
    assert np.isnan(found[3]).all() and np.isinf(found[np.arange(20) != 3, 5]).all()
    keep = np.ones(found.shape, bool)
    keep[3], keep[:, 5] = False, False
    assert found[keep].tobytes() == clean[keep].tobytes()


BANDS = [
    ("causal", (20, 40), 9),
    ("ahead", (50, 40), 9),
    ("far", (5, 300), 260),
    ("window", (40, 70), 9),
    ("turned", (40, 33), 9),
]


@pytest.mark.parametrize(("case", "odd"), one_in(3, one_in(2, squares(BANDS, [True, False]), mark="slow")), ids=str)
def test_a_band_of_columns_is_computed(case: tuple[str, tuple[int, ...], int], odd: bool) -> None:
    """Infinities beyond the band are as in the plain call: with them, whole rows are computed."""
    name, extents, number = case
    spec = ATTENTION[name]
    code = generate.generate(spec)
    assert "low_" in code.text or "low = " in code.text
    (row,) = drawn(spec, 1, extents, number)
    if odd:
        row[2] = row[2].copy()
        row[2][-1, 3] = np.inf
    found = [Simulated(spec, code)([row], each=[extents], units=units)[0] for units in (1, 40)]
    with np.errstate(all="ignore"):
        wanted = evaluate(spec, row, {}, extents)
    for one, other, expected in zip(*found, wanted, strict=True):
        assert one[0].tobytes() == other[0].tobytes()
        assert close(one[0], expected)


def test_what_a_block_needs_grows_with_the_longest_row_alone() -> None:
    code = generate.generate(ATTENTION["heads"])
    sizes = np.zeros(8, np.int64)

    def own(n: int) -> int:
        extents = np.array([n, n, 0], np.int64)
        memory = interpret.InterpreterMemory(extents, sizes)
        interpret.run(code.sizes, "sizes", [extents.ctypes.data, 1, sizes.ctypes.data], memory)
        return int(sizes[1]) * 4

    assert own(8192) < 64 * 8192 * 4 + (1 << 15)  # scores of 64 queries, not of all


def test_a_kernel_without_extents_of_nodes_has_their_argument_words_only() -> None:
    b = SpecBuilder("plain")
    x = b.tensor("x", 3)
    table = generate.generate(b.spec(b.op("exp", x, shape=(3,)))).table
    assert (table.words, table.counted) == (1, ())
    assert generate.generate(BLOCKS["halves"]).table.counted == (Counted(Poly.of("d0")),)


# ---- tiles that multiply with a matrix where it lies


def product(left: Any, right: Any, way: str, columns: int, kind: str = "float32", shift: int = 0, seed: int = 0) -> Any:
    """Run a tile on all columns of a matrix that begins `shift` bytes behind a multiple of 16; its rows lie apart."""
    memory = interpret.InterpreterMemory()
    keep = []
    size = left.itemsize

    def place(array: Any, shift: int = 0) -> int:
        raw = np.full(array.nbytes + 32, 255, np.uint8)
        at = raw.ctypes.data + -raw.ctypes.data % 16 + shift
        raw[at - raw.ctypes.data :][: array.nbytes] = array.reshape(-1).view(np.uint8)
        keep.append(raw)
        memory.add(raw)
        return int(at)

    m, n = len(left), right.shape[1]
    matrix = np.ascontiguousarray(right if way == "rows" else right.T)
    wide = np.full((matrix.shape[0], matrix.shape[1] + 3), np.nan, left.dtype)
    wide[:, : matrix.shape[1]] = matrix
    at = place(wide, shift)
    table = np.array([place(row, shift) for row in left], np.int64)
    lengths = np.array([left.shape[1]])
    made = tiles.Tile(kind, 1, columns, 64, 2, way)
    sums = np.full((-(-n // columns), m, columns), np.nan, left.dtype)
    for array in (table, lengths, sums):
        memory.add(array)
    text = f"{made.text()}\n\ndef go(*a):\n    {made.name}(*a)\n"
    gpu = simulator.Simulator(text, memory, seed)
    for k, part in enumerate(sums):
        gpu.launch(
            "go", 1, tiles.THREADS, table.ctypes.data, m, m, 1, lengths.ctypes.data, at, k * columns,
            columns.bit_length() - 1, size * wide.shape[1], n, part.ctypes.data, size * columns,
        )  # fmt: skip
    return np.concatenate([*sums], axis=1)[:, :n]


@pytest.mark.parametrize("way", ["rows", "columns"])
@pytest.mark.parametrize(("k", "n", "shift"), one_in(2, [(20, 13, 0), (16, 8, 4), (1, 1, 0), (37, 21, 8), (0, 3, 0)]))
def test_a_matrix_is_read_where_it_lies(way: str, k: int, n: int, shift: int) -> None:
    r = np.random.default_rng(k)
    left, right = r.standard_normal((18, k), np.float32), r.standard_normal((k, n), np.float32)
    found = product(left, right, way, 16, shift=shift)
    assert np.allclose(found, left.astype(np.float64) @ right.astype(np.float64), rtol=2e-6, atol=2e-6)
    assert product(left, right, way, 8, shift=shift, seed=1).tobytes() == found.tobytes()


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_what_tensor_cores_cannot_multiply_stays_in_its_row_and_column(way: str) -> None:
    r = np.random.default_rng(1)
    left, right = r.standard_normal((6, 20), np.float32), r.standard_normal((20, 11), np.float32)
    clean = product(left, right, way, 8)
    left[1, 3], right[5, 9] = np.nan, -np.inf
    found = product(left, right, way, 8)
    assert np.isnan(found[1]).all() and not np.isfinite(found[:, 9]).any()
    keep = np.ones(found.shape, bool)
    keep[1], keep[:, 9] = False, False
    assert found[keep].tobytes() == clean[keep].tobytes()


@pytest.mark.parametrize("way", ["rows", "columns"])
def test_products_of_float64_are_element_by_element(way: str) -> None:
    r = np.random.default_rng(2)
    left, right = r.standard_normal((5, 9)), r.standard_normal((9, 11))
    assert np.allclose(product(left, right, way, 8, "float64"), left @ right, rtol=1e-14, atol=1e-14)
