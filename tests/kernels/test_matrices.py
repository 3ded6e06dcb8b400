"""Matrices that several nodes have: the bits of a node are those of the node alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cuda import generate, matrices
from tests.support.chosen import one_in
from tests.support.kernel_cases import close, evaluate, same_bits
from tests.support.kernel_runs import SpecBuilder
from tests.support.simt_runs import Simulated

EXPERTS = 3


def chosen(n: int, k: int) -> KernelSpec:
    """A vector times a matrix of a stack, which a number of the node chooses, and an element-wise operation."""
    b = SpecBuilder("chosen")
    x, number, stack = b.tensor("x", k), b.operand("int", "number"), b.shared("stack", EXPERTS, n, k)
    matrix = b.op("take", stack, number, shape=(n, k), attrs=(0,))
    return b.spec(b.op("tanh", b.op("matmul", matrix, x, shape=(n,)), shape=(n,)))


def own(n: int, k: int) -> KernelSpec:
    """The same with a matrix of the node."""
    b = SpecBuilder("own")
    x, matrix = b.tensor("x", k), b.tensor("matrix", n, k)
    return b.spec(b.op("tanh", b.op("matmul", matrix, x, shape=(n,)), shape=(n,)))


def drawn(n: int, k: int, nodes: int) -> tuple[list[list[Any]], np.ndarray]:
    r = np.random.default_rng(n + k)
    rows = [[r.standard_normal(k).astype(np.float32), int(r.integers(-1, EXPERTS + 1))] for _ in range(nodes)]
    return rows, (r.standard_normal((EXPERTS, n, k)) / k**0.5).astype(np.float32)


SIZES = [(70, 66), (129, 40), (24, 300), (8, 1000)]


@pytest.mark.parametrize(("n", "k"), one_in(4, SIZES, mark="slow"))
def test_nodes_that_share_a_matrix_have_the_bits_of_a_node_alone(
    n: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, (rows, stack) = chosen(n, k), drawn(n, k, 11)
    shared = {2: stack}
    code = generate.generate(spec)
    assert "weight_1" in code.text and any(grids[0].panels for grids in code.grids)
    with monkeypatch.context() as m:
        m.setattr(generate, "rows_of", lambda *_: 0)
        alone = generate.generate(spec)
    assert "weight_1" not in alone.text
    (wanted,), _ = Simulated(spec, alone)(rows, shared)
    for units in (1, 5):
        assert same_bits(Simulated(spec, code, units)(rows, shared, units=units)[0][0], wanted)
    assert same_bits(Simulated(spec, code, together=True)(rows, shared)[0][0], wanted)
    assert same_bits(Simulated(spec, code)(rows[::-1], shared, parts=[(0, 3), (3, 11)])[0][0][::-1], wanted)
    for found, row in zip(wanted, rows, strict=True):
        assert close(found, evaluate(spec, row, shared)[0])


def test_nodes_with_matrices_of_their_own() -> None:
    spec, (rows, stack) = own(70, 66), drawn(70, 66, 9)
    given = [[x, stack[k % EXPERTS]] for x, k in rows]
    (found,), _ = Simulated(spec, generate.generate(spec))(given, units=3)
    for one, row in zip(found, given, strict=True):
        assert close(one, evaluate(spec, row, {})[0])


def test_more_nodes_than_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are sorted window by window; a block does some of each."""
    monkeypatch.setattr(matrices, "WINDOW", 8)
    spec, (rows, stack) = chosen(70, 66), drawn(70, 66, 21)
    (found,), _ = Simulated(spec, generate.generate(spec))(rows, {2: stack}, units=2)
    for one, row in zip(found, rows, strict=True):
        assert close(one, evaluate(spec, row, {2: stack})[0])
