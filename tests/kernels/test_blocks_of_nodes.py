"""Kernels whose nodes have run-time extents of their own: any nodes may be one block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba.emit import interpret, tree
from acronumba.emit.parse import parse_files
from acronumba.ir.spec import Dim, KernelSpec
from acronumba.kernels.stages.tasks import ROWS
from acronumba.kernels.strategy import Fusion
from acronumba.kernels.write.blocks import RAGGED_BYTES
from tests.support.kernel_cases import close, evaluate, inputs
from tests.support.kernel_runs import SpecBuilder, compile_all, interpreted

N, M = Dim(0), Dim(1)
APART = Fusion(gather=False)


def sentence() -> KernelSpec:
    """Rows times shared weights, softmax over the rows, and weights again."""
    b = SpecBuilder("sentence", dims=1)
    x, y = b.tensor("x", N, 24), b.tensor("y", 8)
    w, u = b.shared("w", 24, 40), b.shared("u", 40, 16)
    h = b.op("tanh", b.op("matmul", x, w, shape=(N, 40)), shape=(N, 40), name="h")
    e = b.op("exp", h, shape=(N, 40))
    total = b.op("sum", e, shape=(40,), attrs=((0,),))
    p = b.op("div", e, total, shape=(N, 40))
    z = b.op("matmul", p, u, shape=(N, 16), name="z")
    s = b.op("add", b.op("sum", z, shape=(16,), attrs=((0,),)), b.op("sum", y, shape=(), attrs=((0,),)), shape=(16,))
    return b.spec(h, s)


def pairs() -> KernelSpec:
    """Products of [n, m] rows, of [n] and of one row a node, with one weight or others."""
    b = SpecBuilder("pairs", dims=2)
    x, y, z = b.tensor("x", N, M, 16), b.tensor("y", N, 16), b.tensor("z", 16)
    w, u = b.shared("w", 16, 24), b.shared("u", 24, 16)
    a = b.op("sigmoid", b.op("matmul", x, w, shape=(N, M, 24)), shape=(N, M, 24))
    c = b.op("sum", a, shape=(N, 24), attrs=((1,),))
    d = b.op("add", c, b.op("matmul", y, w, shape=(N, 24)), shape=(N, 24))
    e = b.op("matmul", d, u, shape=(N, 16))
    f = b.op("add", b.op("sum", e, shape=(16,), attrs=((0,),)), z, shape=(16,))
    return b.spec(b.op("matmul", f, w, shape=(24,)), e)


def halves() -> KernelSpec:
    """A product of two pieces side by side; one piece is as long as is checked at run time."""
    b = SpecBuilder("halves", dims=2)
    x, y = b.tensor("x", N, 8), b.tensor("y", N, 16)
    w = b.shared("w", 24, 20)
    both = b.op("concat", x, y, shape=(N, 24), attrs=(1,))
    return b.spec(b.op("tanh", b.op("matmul", both, w, shape=(N, 20)), shape=(N, 20)))


def parts() -> KernelSpec:
    """The same with pieces whose lengths are known at run time only."""
    b = SpecBuilder("parts", dims=3)
    x, y, w = b.tensor("x", N, M), b.tensor("y", N, Dim(2)), b.shared("w", 24, 20)
    both = b.op("concat", x, y, shape=(N, 24), attrs=(1,))
    return b.spec(b.op("exp", b.op("matmul", both, w, shape=(N, 20)), shape=(N, 20)))


def attended() -> KernelSpec:
    """Projections, attention in tiles, and a projection: stages of all kinds."""
    b = SpecBuilder("attended", dims=1)
    x, w, u = b.tensor("x", N, 16), b.shared("w", 16, 16), b.shared("u", 16, 12)
    q = b.op("matmul", x, w, shape=(N, 16))
    scores = b.op("matmul", q, b.op("transpose", x, shape=(16, N), attrs=((1, 0),)), shape=(N, N))
    e = b.op("exp", scores, shape=(N, N))
    p = b.op("div", e, b.op("reshape", b.op("sum", e, shape=(N,), attrs=((1,),)), shape=(N, 1)), shape=(N, N))
    y = b.op("matmul", p, x, shape=(N, 16))
    return b.spec(b.op("matmul", y, u, shape=(N, 12)), b.op("sum", y, shape=(16,), attrs=((0,),)))


def by_matrices() -> KernelSpec:
    """A matrix of each node, which several nodes may have, beside a sum of a run-time length."""
    b = SpecBuilder("by_matrices", dims=1)
    a, x, y = b.tensor("a", 128, 128), b.tensor("x", 128), b.tensor("y", N)
    return b.spec(
        b.op("add", b.op("matmul", a, x, shape=(128,)), b.op("sum", y, shape=(), attrs=((0,),)), shape=(128,))
    )


def cells() -> KernelSpec:
    """No stages: loops of one node."""
    b = SpecBuilder("cells", dims=2)
    x, y = b.tensor("x", N, M), b.tensor("y", M)
    z = b.op("add", b.op("exp", x, shape=(N, M)), y, shape=(N, M))
    return b.spec(z, b.op("sum", z, shape=(N,), attrs=((1,),)), b.op("cumsum", z, shape=(N, M), attrs=(1,)))


SPECS = {s.name: s for s in (sentence(), pairs(), halves(), parts(), attended(), by_matrices(), cells())}


def lengths(spec: KernelSpec, count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Return extents of some nodes: short, long, none, and the same ones again."""
    r = np.random.default_rng(seed)
    most = 60 if spec.dims == 1 else 12
    found = r.integers(0, most, (count, spec.dims))
    found[r.random(count) < 0.2] = 1
    found[count // 2] = 4 * most if spec.dims == 1 else 2 * most
    if spec.name == "pairs":
        found = np.minimum(found, 14)
    if spec.name == "parts":
        found[:, 1] = np.minimum(found[:, 1] // 4 * 12, 24)  # 0, 12, or all
        found[:, 2] = 24 - found[:, 1]
    return [tuple(map(int, own)) for own in found]


def nodes_of(spec: KernelSpec, each: list[tuple[int, ...]]) -> tuple[list[Any], dict[int, Any]]:
    """Return operands of nodes; two of three matrices are one."""
    rows, shared = [], {}
    for i, own in enumerate(each):
        (row,), shared = inputs(spec, 1, own)
        r = np.random.default_rng(i)
        row = [x if x.shape == (128, 128) else (x + r.standard_normal(x.shape) * 0.1).astype(x.dtype) for x in row]
        if spec.name == "by_matrices" and i % 3:
            row[0] = rows[0][0]
        rows.append(row)
    return rows, shared


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    runners = compile_all([*SPECS.values()], fusions=[Fusion(), APART])
    return {name: runners[2 * k : 2 * k + 2] for k, name in enumerate(SPECS)}


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("apart", [False, True])
def test_a_node_has_the_bits_that_it_has_alone(name: str, apart: bool, compiled: dict[str, Any]) -> None:
    spec, run = SPECS[name], compiled[name][apart]
    each = lengths(spec, 30)
    rows, shared = nodes_of(spec, each)
    alone = [[x[0] for x in run([row], shared, each=[own])[0]] for row, own in zip(rows, each, strict=True)]
    for i in (1, 15):
        for mine, expected in zip(alone[i], evaluate(spec, rows[i], shared, each[i]), strict=True):
            assert close(mine, expected)
    shared_out = [{"units": 3}, {"parts": [(0, 9), (9, 10), (10, 30)], "units": 7}] if name != "by_matrices" else []
    for how in ({}, {"parts": [(0, 9), (9, 10), (10, 30)]}, {"poison": 127}, *shared_out):
        results, _ = run(rows, shared, each=each, **how)
        for k, found in enumerate(results):
            for i, x in enumerate(found):
                assert x.tobytes() == alone[i][k].tobytes(), (how, i, each[i], k)


@pytest.mark.parametrize("name", SPECS)
def test_the_interpreter_gives_the_same(name: str, compiled: dict[str, Any]) -> None:
    spec = SPECS[name]
    each = lengths(spec, 2 if name == "by_matrices" else 5)
    rows, shared = nodes_of(spec, each)
    mine, _ = interpreted(spec)(rows, shared, each=each, units=2)
    theirs, _ = compiled[name][0](rows, shared, each=each)
    for one, other in zip(mine, theirs, strict=True):
        assert [x.tobytes() for x in one] == [x.tobytes() for x in other]


def test_a_block_has_no_more_rows_than_caches_keep() -> None:
    """The weights of `sentence` are read once for 48 rows of any sentences, not once for each sentence."""
    spec = SPECS["sentence"]
    runner = compile_all([spec])[0]
    begun: list[tuple[int, int]] = []
    each = [(n,) for n in (10, 20, 18, 1, 47, 1, 100, 3, 0, 0)]
    rows, shared = nodes_of(spec, each)

    class Noting(type(runner)):  # type: ignore[misc]
        def call(self, memory: Any, name: str, *args: int) -> Any:
            out = super().call(memory, name, *args)
            if name == "begin":
                begun.append((args[1], out))
            return out

    Noting(runner.spec, runner.code, runner.compiled, runner.tiles, runner.keep)(rows, shared, each=each, units=1)
    assert begun == [(0, 3), (3, 5), (5, 6), (6, 7), (7, 10)]
    assert ROWS == 48


def test_what_a_block_needs_is_bounded() -> None:
    runner = compile_all([SPECS["attended"]])[0]
    out = np.zeros(8, np.int64)

    def scratch(n: int) -> int:
        extents = np.array([n], np.int64)
        runner.call(None, "plan", extents.ctypes.data, out.ctypes.data)
        return int(out[0])

    assert RAGGED_BYTES < scratch(1) < RAGGED_BYTES + (1 << 17)
    assert scratch(1 << 16) < (1 << 16) * 1000


# ---- cuts


def cuts_of(times: list[int], units: list[int] | None, parts: int, threads: int) -> list[int]:
    """Return how the library cuts nodes that take so many nanoseconds and are so many units."""
    module = tree.Module("cuts", parse_files([f"acronumba.runtime.library.{n}" for n in ("extents", "cuts")]), ())
    memory = interpret.Memory()
    at = np.cumsum([0, *times]).astype(np.int64)
    starts = np.cumsum([0, *units]).astype(np.int64) if units is not None else None
    out = np.full(parts + 1, -1, np.int64)
    for array in (at, out, *(() if starts is None else (starts,))):
        memory.add(array)
    args = (at.ctypes.data, 0 if starts is None else starts.ctypes.data, len(times), parts, threads, out.ctypes.data)
    interpret.run(module, "cut_units", args, memory)
    return out.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_complete_and_take_equal_times(seed: int) -> None:
    r = np.random.default_rng(seed)
    nodes = int(r.integers(1, 40))
    units = r.integers(0, 9, nodes)
    times = np.where(units > 0, units * r.integers(1, 1000, nodes), 0)
    threads = int(r.integers(1, 9))
    for parts in {threads, 4 * threads, 3}:
        cuts = np.array(cuts_of(times.tolist(), units.tolist(), parts, threads))
        assert cuts[0] == 0 and cuts[-1] == units.sum() and (np.diff(cuts) >= 0).all()
        of_unit = np.repeat(times / np.maximum(units, 1), units)
        before = np.concatenate([[0.0], np.cumsum(of_unit)])
        if parts == 4 * threads:
            shares = np.repeat([4, 2, 1, 1], threads) / (8 * threads)
        else:
            shares = np.full(parts, 1 / parts)
        ends = np.cumsum(shares) * before[-1]
        longest = of_unit.max(initial=0.0)
        assert (np.abs(before[cuts[1:]] - ends) <= longest + 1e-6 * before[-1] + parts).all()


def test_nodes_that_are_units_are_not_cut() -> None:
    assert cuts_of([5, 5, 5, 5], None, 2, 2) == [0, 2, 4]
    assert cuts_of([100, 1, 1, 1], None, 2, 2) == [0, 0, 4]
    assert cuts_of([0, 0], None, 3, 3) == [0, 2, 2, 2]
