"""Kernels whose nodes have run-time extents, and operands of nodes of many extents."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from acronumba.ir.spec import Dim, KernelSpec
from acronumba.strategy import Strategy
from tests.support.kernel_cases import inputs
from tests.support.kernel_runs import SpecBuilder

N, M = Dim(0), Dim(1)
SIGNS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
APART = Strategy(gather=False)


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


BLOCKS = {s.name: s for s in (sentence(), pairs(), halves(), parts(), attended(), by_matrices(), cells())}


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


# ---- attention


def attention(
    heads: int,
    d: int,
    *,
    dtype: str = "float32",
    seen: str = "",
    hidden: float = -1e30,
    keep: str = "",
    square: bool = False,
) -> KernelSpec:
    """Queries [N, heads * d] over M keys.

    `seen` says which keys a query sees: comparisons of its place i, that of the key j, and the argument a; others have
    the score `hidden`. `keep` names a value in between that is a result as well.
    """
    m = N if square else M
    b = SpecBuilder("attention", dims=1 if square else 2)
    width = heads * d
    q, k, v = (
        b.tensor("q", N, width, dtype=dtype),
        b.tensor("k", m, width, dtype=dtype),
        b.tensor("v", m, width, dtype=dtype),
    )

    def op(kind: str, *args: int, shape: Any, **how: Any) -> int:
        return b.op(kind, *args, shape=shape, **{"dtype": dtype, **how})

    def split(x: int, n: Any) -> int:
        apart = op("reshape", x, shape=(n, heads, d))
        return op("transpose", apart, shape=(heads, n, d), attrs=((1, 0, 2),))

    a = b.operand("int", "a") if seen else -1
    q, k, v = split(q, N), split(k, m), split(v, m)
    turned = op("transpose", k, shape=(heads, d, m), attrs=((0, 2, 1),))
    scores = op("matmul", q, turned, shape=(heads, N, m), name="scores")
    if seen:
        i = op("reshape", op("iota", shape=(N,), dtype="int64"), shape=(N, 1), dtype="int64")
        places = {"i": i, "j": op("iota", shape=(m,), dtype="int64"), "a": a}
        mask = None
        for text in seen.split(","):
            left, sign, right = text.split()
            plus = re.fullmatch(r"(\w)([+-])(\w+)", right)
            there = places[plus[1] if plus else right]
            if plus:
                far = (
                    places.get(plus[3])
                    if plus[3] in places
                    else op("const", shape=(), dtype="int64", attrs=(int(plus[3]),))
                )
                shape = (N, 1) if plus[1] == "i" else (m,)
                there = op("add" if plus[2] == "+" else "sub", there, far, shape=shape, dtype="int64")
            one = op(
                {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[sign], places[left], there, shape=(N, m), dtype="bool"
            )
            mask = one if mask is None else op("and", mask, one, shape=(N, m), dtype="bool")
        low = op("const", shape=(), attrs=(hidden,))
        scores = op("where", mask, scores, low, shape=(heads, N, m), name="scores")
    top = op("max", scores, shape=(heads, N), attrs=((2,),))
    e = op("exp", op("sub", scores, op("reshape", top, shape=(heads, N, 1)), shape=(heads, N, m)), shape=(heads, N, m))
    total = op("sum", e, shape=(heads, N), attrs=((2,),))
    weights = op("div", e, op("reshape", total, shape=(heads, N, 1)), shape=(heads, N, m), name="weights")
    y = op("matmul", weights, v, shape=(heads, N, d), name="y")
    out = op("reshape", op("transpose", y, shape=(N, heads, d), attrs=((1, 0, 2),)), shape=(N, width))
    return b.spec(out, *({"weights": [weights], "y": [y]}.get(keep, [])))


ATTENTION = {
    "one_head": attention(1, 16),
    "heads": attention(3, 8),
    "odd_width": attention(2, 5),
    "causal": attention(2, 16, seen="j <= i"),
    "window": attention(2, 16, seen="j <= i,j > i-20"),
    "around": attention(2, 8, seen="j < i+a,j > i-a"),
    "turned": attention(1, 8, seen="i >= j,i < j+7", hidden=-np.inf),
    "ahead": attention(1, 8, seen="j >= i", hidden=-3.0),
    "far": attention(1, 8, seen="j > i+a"),
    "weights_kept": attention(2, 8, keep="weights"),
    "heads_kept": attention(2, 8, keep="y"),
    "float64": attention(2, 8, dtype="float64"),
}


def drawn(spec: KernelSpec, nodes: int, dims: tuple[int, ...], number: int = 9) -> list[list[Any]]:
    """Return operands of nodes; an integer is `number`."""
    rows, _ = inputs(spec, nodes, dims)
    given = [o for o in spec.operands if o.kind != "shared"]
    return [[number if o.kind == "int" else x for o, x in zip(given, row, strict=True)] for row in rows]
