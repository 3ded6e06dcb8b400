"""Products of a GPU whose rows stream past weights in registers: their bits depend on nothing but the terms."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from acronumba.analysis.backward.program import plan_backward
from acronumba.api.dispatch import bind, specialise
from acronumba.bench.workloads import inputs as workload_inputs
from acronumba.ir.spec import KernelSpec
from acronumba.ir.types import TensorT
from acronumba.kernels.cuda import generate, stream
from acronumba.kernels.stages.weights import InRegisters
from acronumba.kernels.tiles import Packing
from acronumba_bench.workloads import WORKLOADS
from tests.support.chosen import one_in
from tests.support.kernel_cases import close, evaluate, inputs
from tests.support.kernel_runs import SpecBuilder
from tests.support.simt_runs import Simulated


def product(n: int, *pieces: int, shared: int | None = None) -> KernelSpec:
    """A product with a vector in pieces, of which all nodes may share one; there is an element-wise operation on it."""
    b = SpecBuilder("product")
    xs = [(b.shared if k == shared else b.tensor)(f"x{k}", size) for k, size in enumerate(pieces)]
    w, bias = b.shared("w", n, sum(pieces)), b.tensor("b", n)
    x = xs[0] if len(xs) == 1 else b.op("concat", *xs, shape=(sum(pieces),), attrs=(0,))
    return b.spec(b.op("add", b.op("matmul", w, x, shape=(n,)), bias, shape=(n,)))


def defined(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The sums of a row, by the order that `kernels.cuda.stream` describes."""
    x64, w64, total = x.astype(np.float64), w.astype(np.float64), None
    for first in range(0, len(x), stream.PART):
        four = [np.zeros(len(w), np.float32) for _ in range(4)]
        for k in range(first, min(first + stream.PART, len(x))):
            s = (k - first) // 4 % 4
            four[s] = (four[s] + w64[:, k] * x64[k]).astype(np.float32)  # rounded once, but for the sum of float64
        part = (four[0] + four[2]) + (four[1] + four[3])
        total = part if total is None else total + part
    assert total is not None
    return total


def run(spec: KernelSpec, rows: list[Any], shared: dict[int, Any], **how: Any) -> np.ndarray:
    code = generate.generate(spec)
    ((found,), _) = Simulated(spec, code, how.pop("seed", 0), how.pop("together", False))(rows, shared, **how)
    return found


@pytest.mark.parametrize(
    "pieces", one_in(2, map(pytest.param, [(70, 58), (600,), (3, 130, 7), (64,), (512,), (1700, 9)]))
)
def test_sums_are_those_of_the_order(pieces: tuple[int, ...]) -> None:
    spec = product(5, *pieces)
    assert "load_four(" in generate.generate(spec).text
    rows, shared = inputs(spec, 5)
    found = run(spec, rows, shared, units=2)
    for row, got in zip(rows, found, strict=True):
        *xs, bias = row
        assert got.tobytes() == (defined(np.concatenate(xs), next(iter(shared.values()))) + bias).tobytes()


def test_a_vector_that_all_nodes_share_comes_through_the_first_cache() -> None:
    """Only that one: what other blocks write must not. A part has terms of both."""
    spec = product(5, 72, 56, 64, shared=1)
    text = generate.generate(spec).text
    assert re.findall(r"copy_often\(.*(i64\(.*\))\)", text)[0] == "i64(piece == 1)" and "copy_near(" not in text
    assert "copy_often(" not in generate.generate(product(5, 72, 56, 64)).text
    rows, shared = inputs(spec, 5)
    x, w = shared.values()
    for (first, last, bias), got in zip(rows, run(spec, rows, shared), strict=True):
        assert got.tobytes() == (defined(np.concatenate([first, x, last]), w) + bias).tobytes()


def test_a_product_of_no_terms_reads_nothing() -> None:
    """Neither of an operand nor of what is computed in front."""
    b = SpecBuilder("nothing")
    x, m, w, u = b.tensor("x", 3), b.tensor("m", 0, 3), b.shared("w", 4, 0), b.shared("u", 0, 3)
    made = b.op("matmul", w, b.op("matmul", u, x, shape=(0,)), shape=(4,))
    front = b.op("matmul", w, b.op("matmul", m, x, shape=(0,)), shape=(4,))
    for spec in (b.spec(made, front), product(5, 0)):
        rows, shared = inputs(spec, 3)
        found, _ = Simulated(spec, generate.generate(spec))(rows, shared)
        for i, row in enumerate(rows):
            assert all(np.array_equal(got[i], x) for got, x in zip(found, evaluate(spec, row, shared), strict=True))


def test_the_text_does_not_grow_with_the_terms() -> None:
    lines = [len(generate.generate(product(4, 512 * rounds + 70)).text.splitlines()) for rounds in (3, 300)]
    assert lines[0] == lines[1] < 800


def test_bits_depend_on_no_company() -> None:
    """Batches of many sizes, other rows beside a row, other numbers of blocks, other orders of threads."""
    spec = product(9, 24, 44)
    rows, shared = inputs(spec, 20)
    whole = run(spec, rows, shared, units=1)
    rng = np.random.default_rng(0)
    for m, units in ((1, 1), (5, 3), (17, 2)):
        those = rng.choice(len(rows), m, replace=False)
        for together in (False, True):
            got = run(spec, [rows[i] for i in those], shared, units=units, seed=m, together=together)
            assert got.tobytes() == whole[those].tobytes(), (m, units, together)


def gated(n: int, gates: int, k: int) -> KernelSpec:
    """A product with all gates of n units, and what is made of them."""
    b = SpecBuilder("gated")
    x, w = b.tensor("x", k), b.shared("w", gates * n, k)
    y = b.op("matmul", w, x, shape=(gates * n,))
    parts = [b.op("slice", y, shape=(n,), attrs=((n * g,), (1,))) for g in range(gates)]
    total = b.op("tanh", parts[0], shape=(n,))
    for part in parts[1:]:
        total = b.op("mul", total, b.op("tanh", part, shape=(n,)), shape=(n,))
    return b.spec(total)


def turned(n: int, k: int) -> KernelSpec:
    """What a backward pass multiplies: gradients with a weight, from the left."""
    b = SpecBuilder("turned")
    x, w = b.tensor("x", n), b.shared("w", n, k)
    return b.spec(b.op("matmul", x, w, shape=(k,)))


SHAPES = [
    product(9, 40, 30), gated(1, 1, 64), gated(3, 3, 64), gated(2, 5, 64), gated(7, 1, 200), gated(3, 3, 200),
    gated(1, 5, 256), gated(5, 1, 512), gated(2, 3, 512), turned(10, 64), turned(70, 9), turned(256, 3), turned(512, 1),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_bits_of_batches_of_all_sizes(shape: int) -> None:
    """Every size up to 300 is one of some shape, small ones are of all: in any company, alone and in one kernel."""
    spec = SHAPES[shape]
    rows, shared = inputs(spec, 300)
    rng = np.random.default_rng(shape)
    whole = np.concatenate([run(spec, rows[k : k + 60], shared, units=2) for k in range(0, 300, 60)])
    for m in [m for m in range(1, 301) if m <= 18 or m % len(SHAPES) == shape]:
        those = rng.permutation(300)[:m]
        for together in (False, True):
            got = run(spec, [rows[i] for i in those], shared, units=m % 5 + 1, seed=m, together=together)
            assert got.tobytes() == whole[those].tobytes(), (m, together)


@pytest.mark.long
def test_bits_of_backward_kernels_depend_on_no_company() -> None:
    """Those of a tree-LSTM with products."""
    workload = WORKLOADS["tree_lstm"]
    xs, p = workload_inputs(workload, 8, 2, None)
    one = specialise(workload.model, bind(workload.model, (xs,), {"p": p}))[0]
    back = plan_backward(one.plan, [k for k, s in enumerate(one.program.shared) if isinstance(s.type, TensorT)], None)
    specs = [*back.plan.kernels, *back.specs[: len(back.specs) - len(back.pullbacks)]]
    codes = [(spec, code) for spec in specs if "load_four" in (code := generate.generate(spec)).text]
    assert len(codes) > 2
    for spec, code in codes:
        rows, shared = inputs(spec, 9)
        whole, _ = Simulated(spec, code)(rows, shared, units=1)
        for m, units, together in ((1, 2, True), (4, 1, False), (9, 3, True)):
            got, _ = Simulated(spec, code, m, together)(rows[:m], shared, units=units)
            for mine, other in zip(got, whole, strict=True):
                assert mine.tobytes() == other[:m].tobytes(), (spec.name, m, units, together)


def test_infinities_and_nan_stay_in_their_rows_and_columns() -> None:
    spec = product(5, 20)
    rows, shared = inputs(spec, 6)
    clean = run(spec, rows, shared)
    rows[1][0][3], rows[2][0][7], rows[3][0][19] = np.inf, np.nan, 3.4e38
    (w,) = shared.values()
    w[4, 0] = -np.inf
    with np.errstate(all="ignore"):
        got, wanted = run(spec, rows, shared), [evaluate(spec, row, shared)[0] for row in rows]
    assert np.allclose(got, wanted, rtol=1e-5, equal_nan=True)
    assert got[[0, 4, 5], :4].tobytes() == clean[[0, 4, 5], :4].tobytes()


@pytest.mark.parametrize(("terms", "bound"), one_in(2, [(512, 2.5e-7), (256, 2e-7)]))
def test_errors_are_smaller_than_those_of_one_chain(terms: int, bound: float) -> None:
    rng = np.random.default_rng(0)
    x = np.tanh(rng.standard_normal((60, terms))).astype(np.float32)
    w = (rng.standard_normal((60, terms)) / np.sqrt(terms)).astype(np.float32)
    found = np.stack([defined(row, w) for row in x])
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    chain = np.zeros_like(found)
    for k in range(terms):
        chain = (chain + x[:, k : k + 1].astype(np.float64) * w[:, k].astype(np.float64)).astype(np.float32)
    error, other = (np.abs(y - exact).max() / np.abs(exact).max() for y in (found, chain))
    assert error < bound and error < other / 2


@pytest.mark.parametrize(
    ("gates", "n", "units"), [(1, 5, 8), (1, 256, 16), (2, 256, 16), (3, 256, 8), (5, 256, 8), (6, 64, 4), (12, 9, 2)]
)
def test_cores(gates: int, n: int, units: int) -> None:
    """Weights of a lane fit in its registers, sums of a row in the row's place; each weight is one lane's."""
    assert stream.units_of(n, gates) == units
    core = stream.Core(gates, units, 200)
    assert len(core.columns) <= 5 and units * core.apart <= stream.STEP and core.apart >= gates
    packing = Packing(gates=gates, n=n, k=200, q=1, lanes=units, dtype="float32", transposed=True)
    w = np.arange(1, gates * n * 200 + 1, dtype=np.float32).reshape(gates * n, 200)
    made = InRegisters(packing, core.parts, core.quads, core.share, core.own).apply(w)
    assert made.shape == (-(-n // units), core.parts, core.loads, 32, 4)
    assert np.array_equal(np.sort(made[made > 0]), np.sort(w.reshape(-1)))
    names = [re.match(r"(.*) = ", line)[1].split(", ") for line in core.weights("at")]  # type: ignore[index]
    lane, part = 13, 2
    group, sub = lane % 8, lane // 8
    for load, four in enumerate(names):
        for i, name in enumerate(four):
            term, c = map(int, name.split("_")[2:])
            unit, gate = core.columns[c]
            unit += group if units >= 8 else group % units
            gate += 0 if units >= 8 else group // units * core.own
            k = part * stream.PART + term // 16 * 16 + sub * 4 + term % 16
            known = gate < gates and unit < n and k < 200
            assert made[0, part, load, lane, i] == (w[gate * n + unit, k] if known else 0)


def on_columns(n: int, columns: int, *pieces: int) -> KernelSpec:
    """A weight times a matrix of the node, which is in pieces: rows are its columns."""
    b = SpecBuilder("columns")
    xs = [b.tensor(f"x{k}", size, columns) for k, size in enumerate(pieces)]
    w, bias = b.shared("w", n, sum(pieces)), b.tensor("b", n, 1)
    x = xs[0] if len(xs) == 1 else b.op("concat", *xs, shape=(sum(pieces), columns), attrs=(0,))
    y = b.op("matmul", w, x, shape=(n, columns))
    return b.spec(b.op("tanh", b.op("add", y, bias, shape=(n, columns)), shape=(n, columns)))


def same_whatever_the_company(spec: KernelSpec, many: int = 6) -> list[np.ndarray]:
    """Compare with the definition, and batches of all kinds with each other; return the results."""
    code = generate.generate(spec)
    rows, shared = inputs(spec, many)
    whole, failed = Simulated(spec, code)(rows, shared, units=2)
    for i, row in enumerate(rows):
        for got, wanted in zip(whole, evaluate(spec, row, shared), strict=True):
            assert failed[i] or close(got[i], wanted)
    for m, units, together in ((1, 1, True), (many, 3, True), (many - 1, 1, False)):
        found, also = Simulated(spec, code, m, together)(rows[:m], shared, units=units)
        assert (also == failed[:m]).all()
        for got, known in zip(found, whole, strict=True):
            for i in range(m):
                assert failed[i] or got[i].tobytes() == known[i].tobytes(), (m, units, together)
    return whole


MATRICES = [(9, 8, (70, 58)), (5, 6, (10,)), (16, 16, (20,)), (33, 12, (130,))]


@pytest.mark.parametrize(("n", "columns", "pieces"), one_in(4, MATRICES, mark="slow"))
def test_rows_that_are_columns_of_a_matrix(n: int, columns: int, pieces: tuple[int, ...]) -> None:
    spec = on_columns(n, columns, *pieces)
    assert len(generate.generate(spec).entries) == 1, "nothing is copied first"
    same_whatever_the_company(spec)


def test_columns_of_views_and_sums_of_a_column() -> None:
    """The bits of a column are those of a row; of views, some have steps of their own, others are copied."""
    b = SpecBuilder("views")
    x, w = b.tensor("x", 24, 12), b.shared("w", 6, 10)
    part = b.op("slice", x, shape=(10, 8), attrs=((3, 4), (1, 1)))
    turned = b.op(
        "transpose", b.op("slice", x, shape=(12, 10), attrs=((0, 1), (1, 1))), shape=(10, 12), attrs=((1, 0),)
    )
    row = b.op("reshape", b.op("slice", x, shape=(10, 1), attrs=((3, 4), (1, 1))), shape=(10,))
    spec = b.spec(*(b.op("matmul", w, y, shape=shape)
                    for y, shape in ((part, (6, 8)), (turned, (6, 12)), (row, (6,)))))  # fmt: skip
    found = same_whatever_the_company(spec)
    assert found[0][:, :, 0].tobytes() == found[2].tobytes()


def test_fronts_and_ends_are_in_the_function_of_the_product() -> None:
    """Products of matrices of the node, a sum, in front; a softmax, behind; a sum beside."""
    b = SpecBuilder("fronts")
    m, x, y = b.tensor("kept", 24, 16), b.tensor("wanted", 16), b.tensor("x0", 24)
    w, u = b.shared("w", 5, 40), b.shared("u", 5, 24)
    first = b.op("matmul", m, x, shape=(24,))
    left = b.op("concat", first, x, shape=(40,), attrs=(0,))
    total = b.op("add", y, y, shape=(24,))
    scores = b.op("add", b.op("matmul", w, left, shape=(5,)), b.op("matmul", u, total, shape=(5,)), shape=(5,))
    e = b.op("exp", scores, shape=(5,))
    parts = [b.op("slice", v, shape=(5,), attrs=((first,), (1,))) for v, first in ((y, 0), (x, 2))]
    beside = b.op("mul", *parts, shape=(5,))
    spec = b.spec(b.op("div", e, b.op("sum", e, shape=(), attrs=((0,),)), shape=(5,)), beside)
    assert len(generate.generate(spec).entries) == 1
    same_whatever_the_company(spec)


def test_what_pays_for_no_panel_stays_apart() -> None:
    """A mean of each row in front of a product of many panels; functions of one level read nothing of each other."""
    b = SpecBuilder("apart")
    x, ws = b.tensor("x", 64), [b.shared(f"w{k}", 64, 64) for k in range(2)]
    mean = b.op("sum", x, shape=(), attrs=((0,),))
    centred = b.op("sub", x, mean, shape=(64,))
    found = [b.op("matmul", w, centred, shape=(64,)) for w in ws]
    spec = b.spec(*(b.op("tanh", v, shape=(64,)) for v in found), b.op("exp", x, shape=(64,)))
    code = generate.generate(spec)
    assert [grids[0].level for grids in code.grids] in ([0, 1, 1], [0, 1]) and code.levels == 2


def test_matrices_of_a_node_are_shared_out_to_warps() -> None:
    b = SpecBuilder("shares")
    m, x = b.tensor("m", 96, 40), b.tensor("x", 40)
    spec = b.spec(b.op("matmul", m, x, shape=(96,)), b.op("add", m, m, shape=(96, 40)))
    code = generate.generate(spec)
    assert [(g.nodes, g.times) for (g,) in code.grids] == [(1, 2)]
    same_whatever_the_company(spec, 3)


@pytest.mark.parametrize("name", ["kept", "wanted", "barrier", "blocks", "_x0_", "sum_0_0", "passed"])
def test_names_of_a_user_are_not_those_of_the_text(name: str) -> None:
    b = SpecBuilder("names")
    x, other, w = b.tensor("x", 20), b.tensor(name, 5), b.shared("w", 5, 20)
    spec = b.spec(b.op("add", b.op("matmul", w, x, shape=(5,)), b.op("exp", other, shape=(5,)), shape=(5,)))
    same_whatever_the_company(spec, 2)
