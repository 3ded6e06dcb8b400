"""Derivatives: each operation has a rule or a reason, and the rules agree with central differences."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import Dim
from acronumba.ir.vjp import NONE, RULES
from tests.support.derivatives import SMOOTH, Slope, pulled, random_slope
from tests.support.kernel_runs import SpecBuilder


def test_each_operation_has_a_derivative_or_a_reason_for_none() -> None:
    assert RULES.keys() | NONE.keys() == TENSORS.keys()
    assert not RULES.keys() & NONE.keys()
    assert all(NONE.values())


def differ(seeds: range) -> tuple[Counter[str], list[int], Counter[str]]:
    seen: Counter[str] = Counter()
    ops: Counter[str] = Counter()
    wrong = []
    for seed in seeds:
        slope = random_slope(seed)
        verdict = "fails" if slope is None else slope.compare() if slope.weights and slope.along else "nothing"
        seen[verdict] += 1
        if verdict == "different":
            wrong.append(seed)
        if verdict == "equal" and slope is not None:
            ops.update(op.op for op in slope.spec.body if op.dtype == "float64")
    return seen, wrong, ops


def test_random_kernels_agree_with_differences() -> None:
    seen, wrong, _ = differ(range(120))
    assert not wrong and seen["equal"] > 50, seen


@pytest.mark.slow
def test_many_random_kernels_agree_with_differences() -> None:
    seen, wrong, ops = differ(range(1000, 3000))
    assert not wrong, (wrong, seen)
    assert {op for op in SMOOTH if not ops[op]} == set(), seen


UNARY = {
    "arcsin": (-0.9, 0.9), "arccos": (-0.9, 0.9), "arctanh": (-0.9, 0.9), "arccosh": (1.1, 3.0), "log": (0.1, 3.0),
    "log1p": (-0.9, 3.0), "log2": (0.1, 3.0), "log10": (0.1, 3.0), "sqrt": (0.1, 3.0), "tan": (-1.3, 1.3),
}  # fmt: skip
ONE = sorted(n for n, row in TENSORS.items() if n in RULES and row.kind == "element" and row.arity == 1)
TWO = sorted(n for n, row in TENSORS.items() if n in RULES and row.kind == "element" and row.arity == 2)


@pytest.mark.parametrize("op", ONE)
def test_functions_of_one_argument(op: str) -> None:
    b = SpecBuilder()
    x = b.tensor("x", 50, dtype="float64")
    y = b.op(op, x, shape=(50,), dtype="float64")
    low, high = UNARY.get(op, (-2.0, 2.0))
    at = np.random.default_rng(1).uniform(low, high, 50)
    slope = Slope(b.spec(y), [at], (), 1)
    assert slope.by_rules() == pytest.approx(slope.by_differences(), rel=1e-7)


@pytest.mark.parametrize("shapes", [((4, 5), (4, 5)), ((5,), (4, 5)), ((4, 1), (5,)), ((), (3, 1)), ((3, 1), ())])
@pytest.mark.parametrize("op", TWO)
def test_functions_of_two_arguments(op: str, shapes: Any) -> None:
    b = SpecBuilder()
    x, y = (b.tensor(n, *s, dtype="float64") for n, s in zip("xy", shapes, strict=True))
    shape = np.broadcast_shapes(*shapes)
    z = b.op(op, x, y, shape=shape, dtype="float64", site=0 if op == "pow" else -1)
    rng = np.random.default_rng(3)
    at = [rng.uniform(0.3 if op == "pow" else -2, 2, s) for s in shapes]
    slope = Slope(b.spec(z), at, (), 1)
    assert slope.by_rules() == pytest.approx(slope.by_differences(), rel=1e-6)


@pytest.mark.parametrize("sizes", [(1, 4), (4, 1), (4, 4), (1, 1)])
def test_a_run_time_extent_may_turn_out_to_be_1(sizes: tuple[int, int]) -> None:
    b = SpecBuilder(dims=3)
    x, y = b.tensor("x", Dim(0), 3, dtype="float64"), b.tensor("y", Dim(1), 1, dtype="float64")
    z = b.op("mul", x, y, shape=(Dim(2), 3), dtype="float64")
    rng = np.random.default_rng(3)
    at = [rng.standard_normal((sizes[0], 3)), rng.standard_normal((sizes[1], 1))]
    slope = Slope(b.spec(z), at, (*sizes, max(sizes)), 1)
    assert slope.by_rules() == pytest.approx(slope.by_differences(), rel=1e-7)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("op", "zeros"), [("cumsum", 0), ("cummax", 0), ("cummin", 0), *(("cumprod", k) for k in (0, 1, 9))]
)
def test_scans(op: str, axis: int, zeros: int) -> None:
    b = SpecBuilder()
    x = b.tensor("x", 3, 5, 4, dtype="float64")
    y = b.op(op, x, shape=(3, 5, 4), attrs=(axis,), dtype="float64")
    rng = np.random.default_rng(7)
    at = rng.standard_normal((3, 5, 4))
    at.flat[rng.permutation(60)[:zeros]] = 0
    slope = Slope(b.spec(y), [at], (), 1)
    assert slope.by_rules() == pytest.approx(slope.by_differences(), rel=1e-7)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_a_product_of_elements_may_have_zeros(zeros: int) -> None:
    b = SpecBuilder()
    x = b.tensor("x", 4, 3, dtype="float64")
    y = b.op("prod", x, shape=(3,), attrs=((0,),), dtype="float64")
    at = np.random.default_rng(7).standard_normal((4, 3))
    at[:zeros, 0] = 0
    slope = Slope(b.spec(y), [at], (), 1)
    assert slope.by_rules() == pytest.approx(slope.by_differences(), rel=1e-7, abs=1e-12)


SHAPES = [
    ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 3)), ((3, 4), (4, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
    ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 3, 4), (2, 4, 2)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES)
def test_products(shapes: Any) -> None:
    b = SpecBuilder()
    x, y = (b.tensor(n, *s, dtype="float64") for n, s in zip("xy", shapes, strict=True))
    rng = np.random.default_rng(7)
    at = [rng.standard_normal(s) for s in shapes]
    z = b.op("matmul", x, y, shape=(at[0] @ at[1]).shape, dtype="float64")
    slope = Slope(b.spec(z), at, (), 1)
    assert slope.by_rules() == pytest.approx(slope.by_differences(), rel=1e-7)


def test_what_a_gradient_is_multiplied_by() -> None:
    b = SpecBuilder()
    x = b.tensor("x", 3, dtype="float64")
    parts = [b.op("scale_gradient", x, shape=(3,), attrs=(f,), dtype="float64") for f in (0.0, -1.0, 0.25)]
    found = pulled(b.spec(*parts), [np.arange(3.0)], (), {parts[1]: np.ones(3), parts[2]: np.full(3, 8.0)})
    assert found[x].tolist() == [1.0] * 3
    assert pulled(b.spec(*parts), [np.arange(3.0)], (), {parts[0]: np.ones(3)}).keys() == {parts[0]}


# Where functions have a kink: (operation, arguments, derivatives by them).
KINKS: list[tuple[str, tuple[float, ...], tuple[float, ...]]] = [
    ("abs", (0.0,), (0.0,)), ("maximum", (1.0, 1.0), (0.5, 0.5)), ("minimum", (0.0, -0.0), (0.5, 0.5)),
    ("maximum", (2.0, 1.0), (1.0, 0.0)), ("sqrt", (0.0,), (np.inf,)), ("pow", (0.0, 0.0), (0.0, 0.0)),
    ("pow", (-2.0, 3.0), (12.0, 0.0)), ("pow", (0.0, 1.0), (1.0, 0.0)), ("copysign", (-3.0, 2.0), (-1.0,)),
    ("mod", (7.0, 2.0), (1.0, -3.0)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "at", "expected"), KINKS)
def test_derivatives_at_kinks(op: str, at: tuple[float, ...], expected: tuple[float, ...]) -> None:
    b = SpecBuilder()
    args = [b.tensor(f"x{k}", dtype="float64") for k in range(len(at))]
    y = b.op(op, *args, shape=(), dtype="float64", site=0 if op == "pow" else -1)
    found = pulled(b.spec(y), [np.float64(x) for x in at], (), {y: np.float64(1)})
    assert [float(found[k]) for k in args[: len(expected)]] == [*expected]


def test_the_largest_share_a_gradient_evenly() -> None:
    b = SpecBuilder()
    x = b.tensor("x", 4, dtype="float64")
    y = b.op("max", x, shape=(), attrs=((0,),), dtype="float64")
    found = pulled(b.spec(y), [np.array([3.0, 1.0, 3.0, 2.0])], (), {y: np.float64(1)})
    assert found[x].tolist() == [0.5, 0, 0.5, 0]
