"""`acronumba.vjp`: results of any structure, and gradients from cotangents of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba import model, pack, vjp
from acronumba.api.structures import float_arrays, structured

RNG = np.random.default_rng(3)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.4).astype(np.float32)


@dataclass
class Tree:
    x: np.ndarray
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class State:
    h: np.ndarray
    size: int
    parts: list[np.ndarray]
    mean: float = 0.0
    rest: State | None = None


@dataclass
class Params:
    w: np.ndarray
    b: np.ndarray


def run(t: Tree, p: Params) -> State:
    if t.left is None or t.right is None:
        return State(np.tanh(p.w[:, :3] @ t.x), 1, [t.x])
    a, b = run(t.left, p), run(t.right, p)
    h = np.tanh(p.w @ np.concatenate([a.h, b.h]) + p.b * np.sum(t.x))
    return State(h, a.size + b.size, [*a.parts, h], float(h[0]) if a.size > 1 else 0.0, a if a.size > 1 else None)


@model
def encode(t: Tree, *, p: Params) -> Any:
    s = run(t, p)
    return s, {"norm": np.sum(s.h * s.h), "none": None if s.size > 2 else p.b}, t


def leaf() -> Tree:
    return Tree(weights(3))


def instances() -> list[Tree]:
    one = leaf()
    return [leaf(), Tree(weights(3), leaf(), leaf()), Tree(weights(3), Tree(weights(3), one, leaf()), one), Tree(one.x)]


def params() -> Params:
    return Params(weights(3, 6), weights(3))


def cotangents_of(results: Any, seed: int = 0) -> list[Any]:
    """Return random cotangents."""
    rng = np.random.default_rng(seed)
    return [structured(r, lambda x: np.asarray(rng.standard_normal(np.shape(x)), np.asarray(x).dtype)) for r in results]


def inner(results: Any, cotangents: Any) -> float:
    """Return the sum of the products of results and cotangents."""
    total = 0.0
    for r, g in zip(results, cotangents, strict=True):
        pairs: dict[int, Any] = {}
        places = iter(float_arrays(g))
        structured(r, lambda x, p=pairs, at=places: p.setdefault(id(x), (x, next(at)))[1])
        total += sum(float(np.sum(np.asarray(x, np.float64) * y)) for x, y in pairs.values())
    return total


def close(a: Any, b: Any) -> None:
    assert len(float_arrays(a)) == len(float_arrays(b)) > 0
    for x, y in zip(float_arrays(a), float_arrays(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6)


def test_structures_of_any_kind_have_cotangents() -> None:
    p, trees = params(), instances()
    f = vjp(encode, wrt=("p", "t"))
    results, pull = f.batch(trees, p=p)
    assert results == [encode(t, p=p) for t in trees] or all(
        r[0].size == encode(t, p=p)[0].size for r, t in zip(results, trees)
    )
    cotangents = cotangents_of(results)
    gp, gt = pull(cotangents, keep=True)
    assert type(gp) is Params and [type(g) for g in gt] == [Tree] * 4 and gt[2].left.left is gt[2].right
    total: Any = None
    for k, t in enumerate(trees):
        result, one = f(t, p=p)
        g = cotangents_of(results)[k]
        gk, gx = one(g)
        close(gx, gt[k])
        total = gk if total is None else Params(total.w + gk.w, total.b + gk.b)
    close(total, gp)
    again = pull(cotangents, keep=True)
    assert all(np.array_equal(a, b) for a, b in zip(float_arrays(again), float_arrays((gp, gt)), strict=True))
    packed, pull_packed = f.batch(pack(trees), p=p)
    close(pull_packed(cotangents), (gp, gt))
    close(pull([None if k else g for k, g in enumerate(cotangents)]), f.batch(trees[:1], p=p)[1](cotangents[:1]))
