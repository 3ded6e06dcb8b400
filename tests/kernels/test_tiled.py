"""Stages in tiles of rows: what is done in them, the same bits however they are cut, and scratch that rows decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba.emit import target as targets
from acronumba.ir.spec import KernelSpec
from acronumba.kernels import cpu
from acronumba.kernels.account import stages_text
from acronumba.kernels.stages.order import plan_stages
from acronumba.kernels.stages.tasks import Band, RowStage
from acronumba.strategy import Strategy
from tests.support.chosen import one_in
from tests.support.kernel_cases import close, evaluate, inputs
from tests.support.kernel_runs import SpecBuilder, compile_all, interpreted
from tests.support.ragged_kernels import ATTENTION, N, attention, drawn

WHOLE = Strategy(vertical=False)  # no stage in tiles


EXTENTS = [(50, 3), (1, 1), (0, 5), (7, 0), (49, 130), (96, 97), (1, 300), (100, 17)]


def fits(spec: KernelSpec, dims: tuple[int, ...]) -> bool:
    """Whether the kernel has a result: the largest of nothing has none."""
    return dims[1] > 0 or dims[0] == 0


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    runners = compile_all([*ATTENTION.values()], strategies=[Strategy(), WHOLE])
    return {name: runners[2 * k : 2 * k + 2] for k, name in enumerate(ATTENTION)}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_one_stage(name: str) -> None:
    stage, *rest = plan_stages(ATTENTION[name], targets.host()).stages
    assert isinstance(stage, RowStage) and stage.lead, stage
    assert len(rest) == (name == "heads_kept"), "what is a result is copied in another order"
    assert "tiles of rows" in stages_text(ATTENTION[name])
    assert "tiles of rows" not in stages_text(ATTENTION[name], WHOLE)


@pytest.mark.parametrize(("name", "dims"), [(n, d) for n, spec in ATTENTION.items() for d in EXTENTS if fits(spec, d)])
def test_tiles_have_the_bits_of_the_whole(name: str, dims: tuple[int, ...], compiled: dict[str, Any]) -> None:
    rows = drawn(ATTENTION[name], 3, dims)
    tiles, whole = (runner(rows, {}, dims)[0] for runner in compiled[name])
    for mine, theirs in zip(tiles, whole, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    for mine, expected in zip(tiles, evaluate(ATTENTION[name], rows[1], {}, dims), strict=True):
        assert close(mine[1], expected)


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("units", [7, 1000, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_units_are_cut_anywhere(name: str, units: int, compiled: dict[str, Any]) -> None:
    for dims in [(100, 17), (5, 9)]:
        rows = drawn(ATTENTION[name], 11, dims)
        tiles, _ = compiled[name]
        expected = tiles(rows, {}, dims)[0]
        for parts in ([(0, 11)], [(0, 4), (4, 5), (5, 11)]):
            for finer in (0, 1 + units % 2):
                found = tiles(rows, {}, dims, parts, units=units, finer=finer)[0]
                for mine, theirs in zip(found, expected, strict=True):
                    assert mine.tobytes() == theirs.tobytes(), (dims, parts, finer)


@pytest.mark.parametrize(
    "name", one_in(3, finite := [name for name in ATTENTION if name not in ("turned", "far")], finite)
)
def test_scratch_is_not_read_before_it_is_written(name: str) -> None:
    spec = attention(2, 4, square=True) if name == "one_head" else ATTENTION[name]
    dims = (9,) if spec.dims == 1 else (9, 11)
    rows = drawn(spec, 2, dims)
    runner = interpreted(spec)
    one, other = (runner(rows, {}, dims, poison=poison)[0] for poison in (0, 127))
    for mine, theirs in zip(one, other, strict=True):
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_no_number_stays_alone(odd: float, compiled: dict[str, Any]) -> None:
    dims = (60, 40)
    (row,), _ = inputs(ATTENTION["heads"], 1, dims)
    plain = compiled["heads"][0]([row], {}, dims)[0][0]
    row[0][7] = odd
    with_odd = compiled["heads"][0]([row], {}, dims)[0][0]
    others = np.arange(60) != 7
    assert with_odd[0, others].tobytes() == plain[0, others].tobytes()
    assert not np.isfinite(with_odd[0, 7]).any()


def test_scratch_grows_with_the_length_alone(compiled: dict[str, Any]) -> None:
    """8,192 queries and keys of 8 heads: matrices of scores would take 2 GiB each."""
    runner, _ = compile_all([attention(8, 64)], strategies=[Strategy(), WHOLE])
    n, packed = 8192, 2 * 8192 * 64 * 4
    out, extents = np.zeros(8, np.int64), np.array([n, n], np.int64)
    runner.call(None, "plan", extents.ctypes.data, out.ctypes.data)
    assert packed < out[0] < packed + (1 << 20)


def test_small_matrices_are_stored() -> None:
    b = SpecBuilder("small")
    x, y = b.tensor("x", 16, 8), b.tensor("y", 8, 16)
    e = b.op("exp", b.op("matmul", x, y, shape=(16, 16)), shape=(16, 16))
    spec = b.spec(b.op("sum", e, shape=(16,), attrs=((1,),)))
    assert "loops" in stages_text(spec)


def test_a_large_matrix_of_known_extents_is_not() -> None:
    b = SpecBuilder("large")
    x, y = b.tensor("x", 200, 8), b.tensor("y", 8, 201)
    e = b.op("exp", b.op("matmul", x, y, shape=(200, 201)), shape=(200, 201))
    spec = b.spec(b.op("sum", e, shape=(200,), attrs=((1,),)))
    assert "tiles of rows" in stages_text(spec)
    tiles, whole = compile_all([spec], strategies=[Strategy(), WHOLE])
    rows, _ = inputs(spec, 3)
    mine, theirs = (runner(rows)[0][0] for runner in (tiles, whole))
    assert mine.tobytes() == theirs.tobytes()
    assert close(mine[2], evaluate(spec, rows[2], {})[0])


def test_wider_elements_do_not_take_the_place_of_narrower_ones() -> None:
    """Rows of 3 elements are one vector of either; operands that lie by columns have them computed one by one."""
    n, wide = 160, {"dtype": "float64"}
    b = SpecBuilder("wider")
    x, y, z = b.tensor("x", n, 8), b.tensor("y", n, 3), b.tensor("z", 3, 6, **wide)
    columns = [b.tensor(f"c{k}", 3, n, **wide) for k in range(4)]
    scores = b.op("matmul", x, b.op("transpose", x, shape=(8, n), attrs=((1, 0),)), shape=(n, n))
    narrow = b.op("matmul", b.op("tanh", scores, shape=(n, n)), y, shape=(n, 3))
    total = b.op("cast", narrow, shape=(n, 3), **wide)
    for c in columns:
        total = b.op("add", total, b.op("transpose", c, shape=(n, 3), attrs=((1, 0),), **wide), shape=(n, 3), **wide)
    spec = b.spec(b.op("matmul", total, z, shape=(n, 6), **wide))
    assert "tiles of rows" in stages_text(spec)
    tiles, whole = compile_all([spec], strategies=[Strategy(), WHOLE])
    rows, _ = inputs(spec, 2)
    mine, theirs = (runner(rows)[0][0] for runner in (tiles, whole))
    assert mine.tobytes() == theirs.tobytes()


def test_what_reads_all_rows_is_another_stage() -> None:
    """Softmax along the rows needs them all: it ends the stage of the product."""
    b = SpecBuilder("columns", dims=1)
    x = b.tensor("x", N, 8)
    scores = b.op("matmul", x, b.op("transpose", x, shape=(8, N), attrs=((1, 0),)), shape=(N, N))
    near = b.op("tanh", scores, shape=(N, N))
    sums = b.op("sum", b.op("exp", near, shape=(N, N)), shape=(N,), attrs=((0,),))
    spec = b.spec(sums, b.op("sum", near, shape=(N,), attrs=((1,),)))
    tiles, whole = compile_all([spec], strategies=[Strategy(), WHOLE])
    for n in (1, 3, 50, 120):
        rows, _ = inputs(spec, 2, (n,))
        for mine, theirs in zip(tiles(rows, {}, (n,), units=3)[0], whole(rows, {}, (n,))[0], strict=True):
            assert mine.tobytes() == theirs.tobytes()
        for mine, expected in zip(tiles(rows, {}, (n,))[0], evaluate(spec, rows[1], {}, (n,)), strict=True):
            assert close(mine[1], expected)


def test_the_interpreter_gives_the_same() -> None:
    spec = ATTENTION["causal"]
    rows, _ = inputs(spec, 2, (13, 10))
    (runner,) = compile_all([spec])
    assert cpu.generate(spec, targets.host()).stages, "shared by threads"
    assert interpreted(spec)(rows, {}, (13, 10))[0][0].tobytes() == runner(rows, {}, (13, 10))[0][0].tobytes()


# ---- bands

BANDED = [name for name, spec in ATTENTION.items() if any(op.op == "where" for op in spec.body)]


def band(spec: KernelSpec) -> Band | None:
    stage = plan_stages(spec, targets.host()).stages[0]
    assert isinstance(stage, RowStage)
    return stage.band


def test_masks_of_places_are_bands() -> None:
    assert {name for name, spec in ATTENTION.items() if band(spec) is not None} == {*BANDED}
    for seen in ("j <= i,j > i-20", "j < i+a,j > i-a"):
        found = band(attention(2, 8, seen=seen))
        assert found is not None and len(found.conditions) == 2
    assert band(attention(2, 8, seen="j <= i", keep="weights")) is None, "a result has all its columns"


@pytest.mark.parametrize("name", BANDED)
@pytest.mark.parametrize("dims", [(120, 300), (300, 120), (49, 700), (1, 40), (40, 1)])
def test_what_a_band_leaves_out_changes_nothing(name: str, dims: tuple[int, ...], compiled: dict[str, Any]) -> None:
    for number in (9, 0, -3, 1000):
        rows = drawn(ATTENTION[name], 1, dims, number)
        tiles, whole = (runner(rows, {}, dims)[0][0] for runner in compiled[name])
        assert tiles.tobytes() == whole.tobytes(), number


@pytest.mark.parametrize("name", BANDED)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e33, -1e33])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_odd_numbers_in_a_band_and_beside_it(name: str, odd: float, operand: int, compiled: dict[str, Any]) -> None:
    dims = (100, 130)
    for place in (0, 30, 99):
        rows = drawn(ATTENTION[name], 1, dims)
        rows[0][operand][place, :3] = odd
        tiles, whole = (runner(rows, {}, dims)[0][0] for runner in compiled[name])
        np.testing.assert_array_equal(np.isnan(tiles), np.isnan(whole))
        assert tiles[~np.isnan(tiles)].tobytes() == whole[~np.isnan(whole)].tobytes(), place


def turned_round(where: str) -> KernelSpec:
    """Causal attention that reads columns in another order: that of the scores, of the masked ones, of the weights."""
    n = 160
    b = SpecBuilder("turned_round")
    x = b.tensor("x", n, 8)

    def turned(name: str, v: int) -> int:
        if where == f"{name}_too":
            return b.op("add", v, turned(where, v), shape=(n, n))
        return b.op("slice", v, shape=(n, n), attrs=((0, n - 1), (1, -1))) if where == name else v

    scores = b.op("matmul", x, b.op("transpose", x, shape=(8, n), attrs=((1, 0),)), shape=(n, n))
    j = b.op("iota", shape=(n,), dtype="int64")
    mask = b.op("le", j, b.op("reshape", j, shape=(n, 1), dtype="int64"), shape=(n, n), dtype="bool")
    low = b.op("const", shape=(), attrs=(-1e30,))
    masked = turned("masked", b.op("where", mask, turned("scores", scores), low, shape=(n, n)))
    top = b.op("reshape", b.op("max", masked, shape=(n,), attrs=((1,),)), shape=(n, 1))
    e = turned("weights", b.op("exp", b.op("sub", masked, top, shape=(n, n)), shape=(n, n)))
    return b.spec(b.op("matmul", e, x, shape=(n, 8)))


@pytest.mark.parametrize("where", ["scores", "masked", "weights", "masked_too", "weights_too"])
def test_columns_in_another_order_have_no_band(where: str) -> None:
    spec = turned_round(where)
    assert "tiles of rows" in stages_text(spec)
    assert band(spec) is None
    assert band(turned_round("nowhere")) is not None


def test_columns_in_another_order_have_the_bits_of_the_whole() -> None:
    spec = turned_round("masked_too")
    tiles, whole = compile_all([spec], strategies=[Strategy(), WHOLE])
    rows, _ = inputs(spec, 2)
    mine, theirs = (runner(rows)[0][0] for runner in (tiles, whole))
    assert mine.tobytes() == theirs.tobytes()
    assert close(mine[1], evaluate(spec, rows[1], {})[0])
