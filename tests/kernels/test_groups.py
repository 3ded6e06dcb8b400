"""Nodes that have the same matrix are done together: with the bits of a node alone, in any order and company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model, nn
from acronumba.emit.target import override
from acronumba.ir.spec import KernelSpec
from acronumba.kernels.stages import choose
from acronumba.kernels.stages.order import plan_stages
from acronumba.kernels.stages.tasks import RowStage
from acronumba.strategy import Strategy
from tests.support.chosen import one_in, squares
from tests.support.kernel_cases import close
from tests.support.kernel_runs import SpecBuilder, compile_all, interpreted


def two_layers(n: int, k: int, dtype: str = "float32", lies: str = "rows") -> KernelSpec:
    """h = abs(w @ x + b) and v @ h; across: as x @ w.T and h @ v.T; columns: as x @ w, where w lies the other way."""
    b = SpecBuilder("two_layers")
    x = b.tensor("x", k, dtype=dtype)
    w = b.tensor("w", *((k, n) if lies == "columns" else (n, k)), dtype=dtype)
    bias = b.tensor("b", n, dtype=dtype)
    v = b.tensor("v", 3, n, dtype=dtype)

    def product(matrix: int, rows: int, columns: int, vector: int) -> int:
        if matrix == w and lies == "columns":
            return b.op("matmul", vector, matrix, shape=(rows,), dtype=dtype)
        if lies != "across":
            return b.op("matmul", matrix, vector, shape=(rows,), dtype=dtype)
        turned = b.op("transpose", matrix, attrs=((1, 0),), shape=(columns, rows), dtype=dtype)
        return b.op("matmul", vector, turned, shape=(rows,), dtype=dtype)

    h = b.op("add", product(w, n, k, x), bias, shape=(n,), dtype=dtype)
    h = b.op("abs", h, shape=(n,), dtype=dtype)
    return b.spec(h, product(v, 3, n, h))


def operands(n: int, k: int, dtype: str, experts: int, count: int, lies: str = "rows") -> list[list[Any]]:
    r = np.random.default_rng(n + k)
    made = [
        [(r.standard_normal(s) / s[-1] ** 0.5).astype(dtype) for s in ((n, k), (n,), (3, n))] for _ in range(experts)
    ]
    if lies == "columns":
        made = [[np.ascontiguousarray(w.T), *rest] for w, *rest in made]
    return [[r.standard_normal(k).astype(dtype), *made[r.integers(experts)]] for _ in range(count)]


SIZES = [(64, 64, "rows"), (70, 65, "across"), (1, 5000, "rows"), (300, 20, "across"), (70, 300, "columns")]


@pytest.mark.parametrize(
    ("size", "dtype", "bits"), one_in(4, squares(SIZES, ["float32", "float64"], [512, 256, 128])), ids=str
)
def test_a_node_has_the_same_bits_in_any_company(size: tuple[int, int, str], dtype: str, bits: int) -> None:
    n, k, lies = size
    with override(vector_bits=bits) as target:
        (run,) = compile_all([two_layers(n, k, dtype, lies)], target)
        assert any(isinstance(s, RowStage) and s.grouped for s in plan_stages(run.spec, target).stages)
        nodes = operands(n, k, dtype, 3, 29, lies)
        alone = [run([node])[0] for node in nodes]
        together = run(nodes)[0]
        shuffled = np.random.default_rng(0).permutation(29)
        other = run([nodes[i] for i in shuffled], parts=[(0, 10), (10, 11), (11, 29)])[0]
        shared = [run(nodes, units=units)[0] for units in (1, 3, 50)]  # also parts of panels, and single nodes
        shared += [run(nodes[:2], units=7)[0]]
    for i, (x, w, b, v) in enumerate(nodes):
        h = np.abs((w.T if lies == "columns" else w).astype("f8") @ x + b)
        for mine, expected in zip(alone[i], (h, v.astype("f8") @ h), strict=True):
            assert close(mine[0], expected.astype(dtype))
    for k_, results in enumerate(together):
        np.testing.assert_array_equal(results, [a[k_][0] for a in alone])
        np.testing.assert_array_equal(other[k_], results[shuffled])
        for found in shared:
            np.testing.assert_array_equal(found[k_], results[: len(found[k_])])


def test_plain_python_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "LARGE", 8)
    spec, nodes = two_layers(5, 7), operands(5, 7, "float32", 2, 7)
    compiled, plain = compile_all([spec])[0](nodes)[0], interpreted(spec)(nodes)[0]
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_blocks_of_many_nodes() -> None:
    """Also if the blocks are smaller than the batch, and if every node has a matrix of its own."""
    spec = two_layers(64, 64)
    nodes = operands(64, 64, "float32", 5, 150)
    own = [[node[0].copy(), *(a.copy() for a in node[1:])] for node in nodes]
    (run,) = compile_all([spec])
    expected = run(nodes)[0]
    for one, other in zip(expected, run(own)[0], strict=True):
        np.testing.assert_array_equal(one, other)
    (small,) = compile_all([spec], strategies=[Strategy(group_bytes=1)])
    for one, other in zip(expected, small(nodes)[0], strict=True):
        np.testing.assert_array_equal(one, other)


@model
def routed(x, k, *, experts):
    w, b = experts[k]
    return nn.relu(w @ x + b) @ w


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_experts_of_a_list(threads: int) -> None:
    r = np.random.default_rng(0)
    experts = [tuple(r.standard_normal(s).astype(np.float32) for s in ((80, 70), (80,))) for _ in range(4)]
    xs, ks = list(r.standard_normal((300, 70)).astype(np.float32)), [int(k) for k in r.integers(4, size=300)]
    f = routed.with_options(threads=threads)
    together = f.batch(xs, ks, experts=experts)
    assert f.check(xs[:20], ks[:20], experts=experts).ok
    for i in (0, 17, 299):
        np.testing.assert_array_equal(f.batch([xs[i]], [ks[i]], experts=experts)[0], together[i])


@model
def chosen(x, *, w, r):
    return w[np.argmax(r @ x)] @ x


@pytest.mark.parametrize("n", [16, 2048])
def test_no_experts(n: int) -> None:
    """An empty stack has no row to be read, not even one that nobody uses."""
    r = np.random.default_rng(0)
    stack, router = np.zeros((0, n, n), np.float32), r.standard_normal((4, n)).astype(np.float32)
    with pytest.raises(IndexError):
        chosen(r.standard_normal(n).astype(np.float32), w=stack, r=router)
    with pytest.raises(InstanceErrors) as caught:
        chosen.batch(list(r.standard_normal((3, n)).astype(np.float32)), w=stack, r=router)
    assert all(isinstance(e, IndexError) for e in caught.value.errors.values())
