"""Kernels for a GPU, in the simulator: the same results as the definitions, in any company, whatever runs first."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from acronumba.emit import interpret
from acronumba.emit.simt import NAMES
from acronumba.ir.spec import Dim, KernelSpec, Size
from acronumba.kernels.cuda import generate, simulator, tiles
from acronumba.strategy import Strategy
from tests.support.chosen import half
from tests.support.kernel_cases import PRODUCTS, WORDS, attention, cell, check, close, evaluate, inputs
from tests.support.kernel_fuzz import Cell, Fuzz
from tests.support.kernel_runs import SpecBuilder
from tests.support.simt_runs import Simulated, simulate_all


@pytest.mark.parametrize("seed", half(range(0, 16, 4)))
def test_random_kernels(seed: int) -> None:
    for k in range(4):
        check(Fuzz(seed + k), simulate_all, 2)


@pytest.mark.parametrize("seed", range(5000, 5006, 3))
def test_random_products(seed: int) -> None:
    for k in range(3):
        check(Fuzz(seed + k, 10, **PRODUCTS), simulate_all, 2)


def test_random_adjoints() -> None:
    favour = ("fold", "scatter", "windows", "scale_gradient", "take")
    for seed in range(7000, 7006):
        check(Fuzz(seed, 8, ("float32", "float64", "int64"), favour, (0, 1, 1, 2, 3, 5)), simulate_all, 2)


@pytest.mark.parametrize("seed", [5028, 5031])
def test_products_of_scratch_rows(seed: int) -> None:
    check(Fuzz(seed, 10, **PRODUCTS), simulate_all, 2)


def test_a_product_of_pieces_and_a_matrix_of_the_node() -> None:
    b = SpecBuilder("pieces", 1)
    x, y = b.tensor("x", Dim(0), 4), b.tensor("y", 8, 5)
    double = b.op("add", x, x, shape=(Dim(0), 4))
    both = b.op("concat", x, double, shape=(Dim(0), 8), attrs=(1,))
    spec = b.spec(b.op("matmul", both, y, shape=(Dim(0), 5)))
    (run,) = simulate_all([spec])
    rng = np.random.default_rng(0)
    for n in (0, 1, 7):
        given = (rng.standard_normal((n, 4)).astype(np.float32), rng.standard_normal((8, 5)).astype(np.float32))
        (found,), _ = run([given], {}, [n])
        assert np.allclose(found[0], np.concatenate([given[0], given[0] * 2], axis=1) @ given[1], atol=1e-5)


@pytest.mark.parametrize("seed", range(9000, 9004))
def test_random_words(seed: int) -> None:
    check(Fuzz(seed, 14, **WORDS), simulate_all, 2)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_cells(seed: int) -> None:
    check(Cell(200 + seed), simulate_all, 3)


def simulated(spec: KernelSpec, strategy: Strategy | None = None) -> Simulated:
    return Simulated(spec, generate.generate(spec, strategy or Strategy()))


def test_rows_do_not_depend_on_the_batch() -> None:
    """66 rows take two tiles of three and more parts, 17 one of two parts; one row is a part that is nearly empty."""
    spec = cell(9)
    run = simulated(spec)
    rows, shared = inputs(spec, 66)
    whole, _ = run(rows, shared, units=2)
    for i in (0, 16, 63, 65):
        for mine, expected in zip(whole, evaluate(spec, rows[i], shared), strict=True):
            assert close(mine[i], expected)
    for lo, size in ((65, 1), (3, 17)):
        part, _ = run(rows[lo : lo + size], shared)
        for a, b in zip(whole, part, strict=True):
            assert a[lo : lo + size].tobytes() == b.tobytes()


@pytest.mark.parametrize("op", ["sum", "prod"])
def test_a_column_that_is_known_to_be_one_has_the_bits_of_one_that_is_not(op: str) -> None:
    def spec(size: Size) -> KernelSpec:
        b = SpecBuilder("columns", dims=isinstance(size, Dim))
        x = b.tensor("x", 37, size)
        back = b.op(
            "transpose", b.op("transpose", x, shape=(size, 37), attrs=((1, 0),)), shape=(37, size), attrs=((1, 0),)
        )
        terms = b.op("exp", back, shape=(37, size))
        outs = [b.op(op, v, shape=(), attrs=((0, 1),)) for v in (x, terms)]
        return b.spec(*outs, *(b.op(op, v, shape=(size,), attrs=((0,),)) for v in (x, terms)), terms)

    rows, _ = inputs(spec(1), 3)
    known, runtime = simulated(spec(1))(rows)[0], simulated(spec(Dim(0)))(rows, dims=(1,))[0]
    for a, b in zip(known, runtime, strict=True):
        assert a.tobytes() == b.tobytes()
    for row, found in zip(rows, known[4], strict=True):
        assert close(found, np.exp(row[0]))


@pytest.mark.long
def test_the_shape_of_tiles_changes_no_bit() -> None:
    """With more blocks each does fewer columns and rows; a weight that has an infinity stays that of its column."""
    b = SpecBuilder("shapes")
    x, w = b.tensor("x", 19), b.shared("w", 64, 19)  # two gates of 32 columns
    product = b.op("matmul", w, x, shape=(64,))
    halves = [b.op("slice", product, shape=(32,), attrs=((k,), (1,))) for k in (0, 32)]
    spec = b.spec(b.op("mul", *halves, shape=(32,)))
    run = Simulated(spec, generate.generate(spec, precision="tf32"))
    (ladder,) = run.code.grids
    assert [(g.nodes, g.times) for g in ladder] == [(64, 1), (64, 2), (32, 2), (32, 4), (16, 4)]
    rows, shared = inputs(spec, 18)
    shared[w][5, 3] = np.inf
    rows[2][0][4] = np.nan
    with np.errstate(all="ignore"):
        whole, _ = run(rows, shared, units=1)
        for blocks in (2, 4, 8):
            assert run(rows, shared, units=blocks)[0][0].tobytes() == whole[0].tobytes()
        (clean,) = evaluate(spec, rows[0], shared)
    assert np.isinf(clean[5]) and np.allclose(whole[0][0], clean, rtol=5e-3, atol=5e-3)


def test_a_long_sum_is_as_exact_as_a_float32_allows() -> None:
    b = SpecBuilder("long")
    x, w = b.tensor("x", 1000), b.shared("w", 8, 1000)
    spec = b.spec(b.op("matmul", w, x, shape=(8,)))
    rows, shared = inputs(spec, 2)
    (got,), _ = simulated(spec)(rows, shared)
    exact = np.stack([shared[w].astype(np.float64) @ row[0].astype(np.float64) for row in rows])
    scale = np.stack([np.abs(shared[w]).astype(np.float64) @ np.abs(row[0]).astype(np.float64) for row in rows])
    assert (np.abs(got - exact) / scale).max() < 2e-7  # one part alone, of 11 bits, is wrong by 1e-4


def test_the_order_of_threads_changes_nothing() -> None:
    spec = cell(12)
    rows, shared = inputs(spec, 5)
    code = generate.generate(spec)
    one, two = (Simulated(spec, code, seed)(rows, shared)[0] for seed in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert a.tobytes() == b.tobytes()


def test_nan_stays_in_its_row() -> None:
    spec = cell(10)
    rows, shared = inputs(spec, 3)
    run = simulated(spec)
    clean, _ = run(rows, shared)
    rows[1][0][3] = np.nan
    dirty, _ = run(rows, shared)
    for a, b in zip(clean, dirty, strict=True):
        assert np.isnan(b[1]).all()
        assert np.delete(a, 1, 0).tobytes() == np.delete(b, 1, 0).tobytes()


@pytest.mark.parametrize("length", [1, 19])
def test_attention_over_a_run_time_length(length: int) -> None:
    spec = attention(8)
    rows, shared = inputs(spec, 2, (length,))
    got, failures = simulated(spec)(rows, shared, (length,))
    for i, row in enumerate(rows):
        if failures[i] == 0:
            for mine, expected in zip(got, evaluate(spec, row, shared, (length,)), strict=True):
                assert close(mine[i], expected)


OFF = [
    Strategy(vertical=False),
    Strategy(horizontal=False),
    Strategy(gather=False),
    Strategy(vertical=False, gather=False),
]


@pytest.mark.parametrize("seed", [0, 5001])
def test_the_switches_change_no_bit(seed: int) -> None:
    fuzz = Fuzz(seed, 10, **PRODUCTS) if seed >= 5000 else Fuzz(seed)
    rows, shared = fuzz.operands(2)
    with np.errstate(all="ignore"):
        wanted, failed = simulated(fuzz.spec)(rows, shared, fuzz.dims)
        for strategy in OFF:
            results, failures = simulated(fuzz.spec, strategy)(rows, shared, fuzz.dims)
            assert (failures == failed).all()
            for a, b in zip(wanted, results, strict=True):
                a, b = a[failed == 0], b[failed == 0]
                assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), strategy


def test_a_separate_gather_copies_and_fused_kernels_do_not() -> None:
    spec = cell(12)
    apart = generate.generate(spec, Strategy(gather=False))
    assert "copy_bytes(" in apart.text and len(apart.entries) == 2
    assert "copy_bytes(" not in generate.generate(spec).text and len(generate.generate(spec).entries) == 1


def tile(
    left: list[np.ndarray], weight: np.ndarray, kind: str = "float32", shift: int = 0, stages: int = 3, seed: int = 0,
    again: bool = True, own: bool = False,
) -> np.ndarray:  # fmt: skip
    """Run a tile on rows in pieces that begin `shift` bytes behind a multiple of 16.

    Without `again` what cannot be split stays as it is: else sums of what is read too early, NaN, would be made good.
    With `own` the sums lie where steps were, and are copied from there.
    """
    memory = interpret.InterpreterMemory()
    keep = []

    def place(array: np.ndarray, shift: int = 0) -> int:
        raw = np.full(array.nbytes + 32, 255, np.uint8)
        at = raw.ctypes.data + -raw.ctypes.data % 16 + shift
        raw[at - raw.ctypes.data :][: array.nbytes] = array.reshape(-1).view(np.uint8)
        keep.append(raw)
        memory.add(raw)
        return at

    m, width = len(left[0]), weight.shape[1]
    table = np.array([[place(a, shift) + i * a.shape[1] * 4 for i in range(m)] for a in left])
    lengths = np.array([a.shape[1] for a in left])
    sums = np.full((m, width), np.nan, np.float32)
    for array in (table, lengths, sums):
        memory.add(array)
    made = tiles.Tile(kind, width // 8, 8, 64, stages)
    text = f"{made.text()}\n\ndef go(*a):\n    {made.name}(*a)\n"
    if own:
        text = f"""{made.text()}\n\ndef go(*a):
    at = {made.name}(*a[:-2], 0, a[-1])
    for e in range(i64(cuda.threadIdx.x), {m * width}, {tiles.THREADS}):
        store(a[-2] + e * 4, load(f32, at + e * 4))
"""
    if not again:
        text, count = re.subn(r"\n    again_.*", "", text)
        assert count == 1
    simulator.Simulator(text, memory, seed).launch(
        "go", 1, tiles.THREADS, table.ctypes.data, m, m, len(left), lengths.ctypes.data, place(weight), 0, 3,
        sums.ctypes.data, 4 * width,
    )  # fmt: skip
    return sums


def factors(m: int, *pieces: int, width: int = 16) -> tuple[list[np.ndarray], np.ndarray]:
    r = np.random.default_rng(0)
    return [r.standard_normal((m, k), np.float32) for k in pieces], r.standard_normal((sum(pieces), width), np.float32)


@pytest.mark.parametrize(("pieces", "shift"), [((20, 20), 0), ((7, 9), 0), ((20,), 4), ((1, 33, 16), 8)])
def test_a_tile_reads_rows_in_pieces_wherever_they_lie(pieces: tuple[int, ...], shift: int) -> None:
    """Rows that begin at no multiple of 16 bytes are not copied in words of 16."""
    left, weight = factors(18, *pieces)
    exact = np.concatenate(left, 1).astype(np.float64) @ weight.astype(np.float64)
    got = tile(left, weight, shift=shift, again=False)
    assert np.allclose(got, exact, rtol=2e-6, atol=2e-6)
    for stages in (2, 4) if shift else ():
        other = tile(left, weight, shift=shift, stages=stages, seed=stages, again=False)
        assert other.tobytes() == got.tobytes()


def test_sums_may_lie_where_steps_were() -> None:
    """Of three times eight columns three warps have eight each: the others are done first."""
    left, weight = factors(18, 16, width=24)
    apart = tile(left, weight, again=False)
    for seed in range(3):
        assert tile(left, weight, seed=seed, again=False, own=True).tobytes() == apart.tobytes()


class Recorded(np.ndarray):
    """Shared memory that notes which elements each thread reads."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            thread = self.simulator.current
            self.reads.setdefault((thread.warp, thread.lane), []).append(index)
        return super().__getitem__(index)


@pytest.mark.parametrize("width", [8, 16, 32, 40, 80])
@pytest.mark.parametrize("kind", ["float32", "bf16"])
def test_no_two_threads_of_a_warp_read_from_one_bank(width: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = simulator._Block.array
    seen: list[dict[tuple[int, int], list[int]]] = []
    machines: list[simulator.Simulator] = []
    start = simulator.Simulator.launch
    monkeypatch.setattr(simulator.Simulator, "launch", lambda self, *a: (machines.append(self), start(self, *a)))

    def array(block: Any, key: object, count: int, type: Any) -> Any:
        out = make(block, key, count, type)
        if type is np.float32 and not isinstance(out, Recorded):
            block.shared[key] = out = out.view(Recorded)
            out.simulator, out.reads = machines[-1], {}
            seen.append(out.reads)
        return out

    monkeypatch.setattr(simulator._Block, "array", array)
    tile(*factors(17, 16, width=width), kind)
    (reads,) = seen
    for warp in range(4):
        lanes = np.array([reads.get((warp, lane), []) for lane in range(32)])
        assert lanes.shape[1] or width == 8
        assert all(len(set(at % 32)) == 32 for at in lanes.T)


def rounded(x: np.ndarray, kind: str) -> np.ndarray:
    """Round to so many bits as the factors of tensor cores have; ties go away from zero, or to even."""
    part, exponent = np.frexp(x.astype(np.float64))
    if kind == "tf32":
        return np.ldexp(np.trunc(part * 2**11 + np.copysign(0.5, part)), exponent - 11)
    return np.ldexp(np.rint(part * 2**8), exponent - 8)


@pytest.mark.parametrize("kind", ["tf32", "bf16"])
def test_factors_of_less_precise_products_are_rounded_and_nothing_else(kind: str) -> None:
    left, weight = factors(3, 300, 5, width=8)
    left[0][0, :4] = 1 + np.array([1, 3, -1, -3]) * (2.0**-11 if kind == "tf32" else 2.0**-8)  # ties
    x = np.concatenate(left, 1)
    got = tile(left, weight, kind)
    size = np.abs(x).astype(np.float64) @ np.abs(weight).astype(np.float64)
    assert (np.abs(got - rounded(x, kind) @ rounded(weight, kind)) <= 4e-7 * size).all()
    off = (np.abs(got - x.astype(np.float64) @ weight.astype(np.float64)) / size).max()
    assert (1e-6 < off < 2**-10) if kind == "tf32" else (2**-11 < off < 2**-7)


@pytest.mark.parametrize("kind", ["float32", "tf32", "bf16"])
def test_what_tensor_cores_cannot_multiply_is_summed_in_float32(kind: str) -> None:
    """Infinities, NaN, and what rounds to infinity; beside them all has the bits that it has without them."""
    (clean,), weight = factors(6, 20, width=8)
    x = clean.copy()
    x[1, 3], x[2, 17], x[3, :] = np.inf, np.nan, 0
    x[3, 5] = 3.4e38  # no factor of 8 bits
    w = weight.copy()
    w[5, :4], w[7, 2] = 0.5, -np.inf
    with np.errstate(all="ignore"):
        got, plain = tile([x], w, kind), x @ w
    odd = np.zeros((6, 8), bool)
    odd[1:4] = odd[:, 2] = True
    assert np.allclose(got[odd], plain[odd], rtol=1e-5, equal_nan=True) and got[3, 0] == np.float32(1.7e38)
    w[7, 2] = weight[7, 2]
    assert got[~odd].tobytes() == tile([clean], w, kind)[~odd].tobytes()


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_rows_of_less_precise_products_do_not_depend_on_the_batch(precision: str) -> None:
    spec = cell(5)
    run = Simulated(spec, generate.generate(spec, precision=precision))
    assert f"tile_{precision}_" in run.code.text
    rows, shared = inputs(spec, 18)
    whole, _ = run(rows, shared)
    alone, _ = run(rows[17:], shared)
    exact, _ = simulated(spec)(rows[17:], shared)
    for a, b, c in zip(whole, alone, exact, strict=True):
        assert a[17:].tobytes() == b.tobytes() != c.tobytes()
        assert np.allclose(b, c, atol=2e-3 if precision == "tf32" else 2e-2)


def test_the_larger_of_two_zeros_does_not_depend_on_the_order_of_threads() -> None:
    b = SpecBuilder("zeros")
    x = b.tensor("x", 40)
    spec = b.spec(b.op("max", x, shape=(), attrs=((0,),)))
    row = np.where(np.arange(40) % 3 == 0, -0.0, 0.0).astype(np.float32)
    code = generate.generate(spec)
    found = {Simulated(spec, code, seed)([[row]])[0][0].tobytes() for seed in range(8)}
    assert len(found) == 1


# ---- the simulator finds what a GPU would do wrong


def simulate(text: str, threads: int = 64, seeds: int = 1) -> list[Any]:
    """Run `go(out)` of a text; return what it leaves in an array of 64 float32."""
    found = []
    for seed in range(seeds):
        out = np.zeros(64, np.float32)
        memory = interpret.InterpreterMemory(out)
        simulator.Simulator(text, memory, seed).launch("go", 1, threads, out.ctypes.data)
        found.append(out)
    return found


NEIGHBOURS = """
def go(out):
    shared = cuda.shared.array(64, f32, 16)
    k = i64(cuda.threadIdx.x)
    shared[k] = f32(k)
    {barrier}
    store(out + 4 * k, shared[63 - k])
"""


def test_a_missing_barrier_shows() -> None:
    (right,) = simulate(NEIGHBOURS.format(barrier="cuda.syncthreads()"))
    assert right.tolist() == [63 - k for k in range(64)]
    assert any(np.isnan(x).any() for x in simulate(NEIGHBOURS.format(barrier="pass"), seeds=3))


LATER = """
def go(out):
    shared = cuda.shared.array(8, f32, 16)
    copy_later(address(shared), out)
    copies_end()
    copy_later(address(shared) + 16, out + 16)
    copies_end()
    {wait}
    store(out + 4, shared[0])
    store(out + 8, shared[4])
"""


def test_a_missing_wait_for_copies_shows() -> None:
    for wait, there in (("wait_for_copies()", 2), ("wait_for_older_copies()", 1), ("pass", 0)):
        (out,) = simulate(LATER.format(wait=wait), threads=1)
        assert np.isnan(out[1:3]).sum() == 2 - there


def test_threads_that_wait_for_each_other_are_an_error() -> None:
    with pytest.raises(simulator.Deadlock, match="block"):
        simulate("def go(out):\n    if cuda.threadIdx.x < 8:\n        cuda.syncthreads()\n")
    with pytest.raises(simulator.Deadlock, match="exchange"):
        simulate("def go(out):\n    if cuda.threadIdx.x < 8:\n        exchange(1, 4)\n")


def test_an_access_outside_of_every_array_is_an_error() -> None:
    with pytest.raises(IndexError, match="outside every array"):
        simulate("def go(out):\n    store(out + 256, f32(0.0))\n")


def test_numbers_have_the_types_that_numba_gives_them() -> None:
    names = simulator.Simulator(
        "def go():\n    return f32(1.0) * 0.5, i32(2147483647) + i32(1)\n", interpret.InterpreterMemory()
    )
    half, more = names.names["go"]()
    assert half.dtype == np.float64  # a number without a type makes a float64 of everything
    assert more == 1 << 31 and type(more) is int  # integers are computed with 64 bits


def test_the_text_calls_what_the_simulator_has() -> None:
    simulator_names = set(simulator.Simulator("", interpret.InterpreterMemory()).names)
    assert {name for name in NAMES if name not in ("lane",)} <= simulator_names


def test_a_users_name_may_be_one_of_the_librarys() -> None:
    b = SpecBuilder("load")
    x = b.tensor("load", 5)
    spec = b.spec(b.op("add", x, x, shape=(5,), name="store"))
    rows, shared = inputs(spec, 2)
    (got,), _ = simulated(spec)(rows, shared)
    assert np.array_equal(got, np.stack([2 * row[0] for row in rows]))
