"""Products of a GPU by tensor cores, of factors in two parts (`precision="tf32x3"`): bits, errors, infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cuda import generate, stream
from acronumba.kernels.stages.weights import InRegisters
from acronumba.kernels.tiles import Packing
from tests.support.chosen import one_in
from tests.support.kernel_cases import close, evaluate, inputs
from tests.support.kernel_runs import SpecBuilder
from tests.support.simt_runs import Simulated


def products(n: int, gates: int, *pieces: int) -> KernelSpec:
    """Products with a vector in pieces, of which an element-wise operation reads all gates."""
    b = SpecBuilder("products")
    xs = [b.tensor(f"x{k}", size) for k, size in enumerate(pieces)]
    w, bias = b.shared("w", gates * n, sum(pieces)), b.tensor("b", n)
    x = xs[0] if len(xs) == 1 else b.op("concat", *xs, shape=(sum(pieces),), attrs=(0,))
    y = b.op("matmul", w, x, shape=(gates * n,))
    out = bias
    for gate in range(gates):
        one = b.op("slice", y, shape=(n,), attrs=((gate * n,), (1,)))
        out = b.op("add", out, b.op("tanh", one, shape=(n,)) if gate else one, shape=(n,))
    return b.spec(out)


def run(spec: KernelSpec, rows: list[Any], shared: dict[int, Any], **how: Any) -> np.ndarray:
    code = generate.generate(spec, precision="tf32x3")
    assert "mma_cut(" in code.text
    ((found,), _) = Simulated(spec, code, how.pop("seed", 0), how.pop("together", False))(rows, shared, **how)
    return found


def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two factors of tensor cores that a number becomes."""
    large = ((x.view(np.int32) + 0x1000) & -0x2000).view(np.float32)
    return large.astype(np.float64), ((x - large).view(np.int32) & -0x2000).view(np.float32).astype(np.float64)


def defined(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The sums of a row, by the order that `kernels.cuda.stream` describes."""
    (a, b), (c, d), total = halves(x), halves(w), None
    order = np.arange(stream.PART).reshape(-1, 4, 2, 2).swapaxes(1, 2).reshape(-1, 8)
    for first in range(0, len(x), stream.PART):
        part = np.zeros(len(w), np.float32)
        for eight in order + first:
            k = eight[eight < len(x)]
            made = np.zeros(len(w), np.float32)
            for left, right in ((b, c), (a, d), (a, c)):
                made = (made + right[:, k] @ left[k]).astype(np.float32)
            part = part + made
        total = part if total is None else total + part
    assert total is not None
    return total


CASES = [(9, 3, (70, 58)), (5, 5, (130, 7)), (3, 6, (40,)), (8, 4, (600,)), (8, 6, (24, 44)), (16, 3, (512,))]


@pytest.mark.parametrize(("n", "gates", "pieces"), one_in(3, CASES, mark="slow"))
def test_results_are_those_of_float32(n: int, gates: int, pieces: tuple[int, ...]) -> None:
    spec = products(n, gates, *pieces)
    rows, shared = inputs(spec, 3)
    for row, got in zip(rows, run(spec, rows, shared, units=2), strict=True):
        assert close(got, evaluate(spec, row, shared)[0])


@pytest.mark.parametrize("pieces", one_in(2, map(pytest.param, [(70, 58), (600,), (130, 7)])))
def test_sums_are_those_of_the_order(pieces: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the last bit: where the sum of float64 is rounded twice."""
    monkeypatch.setattr(stream, "SPLIT_GATES", 1)
    spec = products(9, 1, *pieces)
    rows, shared = inputs(spec, 3)
    for row, got in zip(rows, run(spec, rows, shared, units=2), strict=True):
        *xs, bias = row
        wanted = defined(np.concatenate(xs), next(iter(shared.values()))) + bias
        assert np.abs(got - wanted).max() <= np.abs(wanted).max() * 2e-7


def test_bits_depend_on_no_company() -> None:
    """Batches of many sizes, other rows beside a row, other numbers of blocks, other orders of threads."""
    spec = products(4, 3, 24, 44)
    rows, shared = inputs(spec, 36)
    whole = run(spec, rows, shared, units=1)
    rng = np.random.default_rng(0)
    for m, units, together in ((1, 1, True), (33, 2, False)):
        those = rng.choice(len(rows), m, replace=False)
        got = run(spec, [rows[i] for i in those], shared, units=units, seed=m, together=together)
        assert got.tobytes() == whole[those].tobytes(), (m, units, together)


@pytest.mark.slow
def test_bits_of_batches_of_all_sizes() -> None:
    spec = products(9, 3, 40, 30)
    rows, shared = inputs(spec, 300)
    whole = run(spec, rows, shared, units=3)
    for m in (1, 2, 3, 4, 7, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 127, 128, 129, 200, 256, 299, 300):
        for together in (False, True):
            got = run(spec, rows[:m], shared, units=m % 5 + 1, seed=m, together=together)
            assert got.tobytes() == whole[:m].tobytes(), (m, together)


@pytest.mark.parametrize(("x_bad", "w_bad"), one_in(2, [(np.inf, -np.inf), (np.nan, np.nan), (3.4e38, -3.4e38)]))
def test_infinities_and_nan_are_those_of_float32(x_bad: float, w_bad: float) -> None:
    """Also where a factor of 11 bits would be infinite: those of the plain call, in their rows and columns alone."""
    spec = products(5, 3, 20, 60)
    rows, shared = inputs(spec, 6)
    clean = run(spec, rows, shared)
    rows[1][0][3], rows[2][1][37] = x_bad, x_bad
    (w,) = shared.values()
    w[4, 0] = w_bad
    w[7, 79] = 0.0
    with np.errstate(all="ignore"):
        got, wanted = run(spec, rows, shared), [evaluate(spec, row, shared)[0] for row in rows]
    assert np.allclose(got, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert got[[0, 3, 4, 5]][:, [0, 1, 3]].tobytes() == clean[[0, 3, 4, 5]][:, [0, 1, 3]].tobytes()


@pytest.mark.parametrize("terms", one_in(2, [512, 256]))
def test_errors_are_those_of_float32(terms: int) -> None:
    rng = np.random.default_rng(0)
    x = np.tanh(rng.standard_normal((60, terms))).astype(np.float32)
    w = (rng.standard_normal((60, terms)) / np.sqrt(terms)).astype(np.float32)
    found = np.stack([defined(row, w) for row in x])
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    assert np.abs(found - exact).max() / np.abs(exact).max() < 2**-22


@pytest.mark.parametrize(("gates", "n", "units"), [(1, 256, 8), (5, 256, 8), (6, 64, 4), (12, 9, 2)])
def test_weights_are_packed_for_tensor_cores(gates: int, n: int, units: int) -> None:
    core = stream.Core(gates, units, 200, split=True)
    assert 8 * len(core.columns) <= stream.STEP
    assert len({core.gate_at(g) + u for g in range(gates) for u in range(units)}) == gates * units
    packing = Packing(gates=gates, n=n, k=200, q=1, lanes=units, dtype="float32", transposed=True)
    w = np.arange(1, gates * n * 200 + 1, dtype=np.float32).reshape(gates * n, 200)
    made = InRegisters(packing, core.parts, core.quads, core.share, core.own, True).apply(w)
    flat = made[0, 1].reshape(core.quads, -1, 32, 4)
    for gate, unit, k in ((0, 0, 64), (gates - 1, units - 1, 127), (gates // 2, units // 2, 90)):
        number = k % 16 % 4 * core.own + gate % core.own
        lane = (gate // core.own * units + unit) * 4 + k % 16 // 4
        assert flat[k % 64 // 16, number // 4, lane, number % 4] == w[gate * n + unit, k]


def test_other_products_stay_with_float32() -> None:
    """Those of rows that are columns, of few gates, of a kernel that goes on in the block."""
    b = SpecBuilder("columns")
    x, w = b.tensor("x", 20, 8), b.shared("w", 9, 20)
    for spec in (b.spec(b.op("matmul", w, x, shape=(9, 8))), products(9, 2, 20)):
        assert generate.generate(spec, precision="tf32x3").source == generate.generate(spec).source
