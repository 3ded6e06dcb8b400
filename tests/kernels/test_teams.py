"""Warps of a block that share a node: the bits are those of one warp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acronumba.ir.spec import Dim, KernelSpec
from acronumba.kernels.cuda import generate
from tests.support.chosen import one_in
from tests.support.kernel_cases import close, evaluate, inputs, same_bits
from tests.support.kernel_fuzz import Fuzz
from tests.support.kernel_runs import SpecBuilder
from tests.support.simt_runs import Simulated


def layer_norm(n: int, dtype: str = "float32") -> KernelSpec:
    """Mean and variance of a row, and its softmax and largest element."""
    b = SpecBuilder("norm")
    x = b.tensor("x", n, dtype=dtype)
    size = b.op("const", shape=(), attrs=(float(n),), dtype=dtype)

    def whole(op: str, v: int) -> int:
        return b.op(op, v, shape=(), attrs=((0,),), dtype=dtype)

    def row(op: str, *v: int) -> int:
        return b.op(op, *v, shape=(n,), dtype=dtype)

    d = row("sub", x, b.op("div", whole("sum", x), size, shape=(), dtype=dtype))
    y = row("div", d, b.op("sqrt", whole("sum", row("mul", d, d)), shape=(), dtype=dtype))
    e = row("exp", row("sub", y, whole("max", y)))
    return b.spec(
        row("div", e, whole("sum", e)), b.op("argmax", e, shape=(), attrs=(0,), dtype="int64"), whole("min", d)
    )


def appended() -> KernelSpec:
    """Rows at run time, with a row behind them, by heads: what an attention keeps."""
    b, n = SpecBuilder("kept", dims=2), Dim(0)
    rows, one = b.tensor("rows", n, 64), b.tensor("one", 1, 64)
    both = b.op("concat", rows, one, shape=(Dim(1), 64), attrs=(0,))
    heads = b.op("reshape", both, shape=(Dim(1), 4, 16))
    return b.spec(both, b.op("transpose", heads, shape=(4, 16, Dim(1)), attrs=((1, 2, 0),)))


def alone(spec: KernelSpec, monkeypatch: pytest.MonkeyPatch) -> generate.CudaCode:
    """A kernel without teams."""
    with monkeypatch.context() as m:
        m.setattr(generate, "team_of", lambda *_: 1)
        return generate.generate(spec)


def same(
    spec: KernelSpec, rows: list[Any], shared: dict[int, Any], dims: tuple[int, ...], m: pytest.MonkeyPatch
) -> Any:
    """Results of teams, in company, by any number of blocks and in the kernel that runs all: the bits of one warp."""
    code = generate.generate(spec)
    with np.errstate(all="ignore"):
        found, failed = Simulated(spec, alone(spec, m), 1)(rows, shared, dims)
        others = [Simulated(spec, code, seed)(rows, shared, dims, units=units) for seed, units in ((1, 1), (2, 3))]
        others.append(Simulated(spec, code, together=True)(rows, shared, dims))
        others.append(Simulated(spec, code)(rows, shared, dims, parts=[(0, 1), (1, len(rows))]))
    for results, failures in others:
        assert (failed == failures).all()
        for a, b in zip(found, results, strict=True):
            assert all(same_bits(a[i], b[i]) for i in np.flatnonzero(failed == 0))
    return found


ROWS = [(70, "float32", 2), (256, "float32", 8), (100, "float64", 4), (300, "float32", 8)]


@pytest.mark.parametrize(("n", "dtype", "team"), one_in(2, one_in(2, ROWS, mark="slow")))
def test_a_row_is_reduced_by_a_team(n: int, dtype: str, team: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = layer_norm(n, dtype)
    assert generate.generate(spec).grids[0][0].nodes == 8 // team
    rows, shared = inputs(spec, 5)
    found = same(spec, rows, shared, (), monkeypatch)
    for i, row in enumerate(rows):
        for mine, expected in zip(found, evaluate(spec, row, shared), strict=True):
            assert close(mine[i], expected)


def test_rows_at_run_time_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = appended()
    assert "first_warp" in generate.generate(spec).text
    rows, shared = inputs(spec, 3, (5, 6))
    found = same(spec, rows, shared, (5, 6), monkeypatch)
    for i, row in enumerate(rows):
        assert all(close(a[i], b) for a, b in zip(found, evaluate(spec, row, shared, (5, 6)), strict=True))


@pytest.mark.parametrize("seed", one_in(4, one_in(2, [12, 36, 42, 58, 70, 81, 98, 107], mark="slow")))
def test_random_kernels_of_wide_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    favour = ("sum", "max", "min", "prod", "sub", "div", "exp", "argmax", "concat", "mul", "reshape", "transpose")
    for k in range(seed, seed + 4):
        r = np.random.default_rng(k)
        extents = tuple(r.choice([1, 1, 2, 3, 33, 64, 65, 100], 4))
        fuzz = Fuzz(k, int(r.integers(4, 8)), ("float32", "float32", "int32", "float64"), favour, extents)
        if "first_warp" in generate.generate(fuzz.spec).text:
            same(fuzz.spec, *fuzz.operands(2), tuple(fuzz.dims), monkeypatch)
