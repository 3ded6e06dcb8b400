"""Gradients of what instances hold: arrays of their own, by all routes, whatever else holds the same object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model, pack, value_and_grad

RNG = np.random.default_rng(11)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.4).astype(np.float32)


# ---- instances are data unless they are named


@model
def product(x: np.ndarray, *, w: np.ndarray) -> Any:
    return np.sum(w * x)


ONE = np.float32(1.0)  # one object, of several instances


@dataclass
class Held:
    xs: list[np.ndarray]
    scale: np.float32 = ONE


@model
def squares(x: Held, *, p: dict[str, Any]) -> Any:
    total = np.sum(p["w"] * p["w"]) * x.scale * p["scale"]
    for row in x.xs:
        total = total + np.sum(row * p["w"]) + np.sum(row * row)
    return total


def test_an_array_of_an_instance_is_data_though_a_parameter_is_the_same_object() -> None:
    w = weights(3)
    other = weights(3)
    for way in (
        product.value_and_grad.batch([w, other], w=w),
        value_and_grad(product, reduce="mean").batch([w, other], w=w),
    ):
        np.testing.assert_allclose(way.grads, (w + other) / 2, rtol=1e-6)  # not w + w + other
    np.testing.assert_allclose(product.value_and_grad(w, w=w).grads, w, rtol=1e-6)
    assert product.value_and_grad.check([w, other], w=w).ok


def test_both_are_named_and_each_has_its_own_share() -> None:
    w, s = weights(3), np.float32(0.5)
    p = {"w": w, "scale": s}
    xs = [Held([w, w], s), Held([weights(3)]), Held([])]
    f = value_and_grad(squares, wrt=("p", "x"), reduce="sum")
    rows = [row for x in xs for row in x.xs]
    for found in (f.batch(xs, p=p), f.batch(pack(xs), p=p)):
        gp, gx = found.grads
        np.testing.assert_allclose(gp["w"], 2 * w * s * sum(x.scale for x in xs) + sum(rows), rtol=1e-5)
        np.testing.assert_allclose(gp["scale"], np.sum(w * w) * sum(x.scale for x in xs), rtol=1e-5)
        assert [len(g.xs) for g in gx] == [2, 1, 0]
        assert gx[0].xs[0] is gx[0].xs[1]  # one array of the instance is one leaf
        np.testing.assert_allclose(gx[0].xs[0], 2 * (w + 2 * w), rtol=1e-5)
        np.testing.assert_allclose(gx[1].xs[0], w + 2 * xs[1].xs[0], rtol=1e-5)
        np.testing.assert_allclose(gx[0].scale, np.sum(w * w) * s, rtol=1e-5)
    _, (gp, gx) = value_and_grad(squares, wrt=("p", "x"))(xs[0], p=p)
    np.testing.assert_allclose(gp["w"], 2 * w * s * s + 2 * w, rtol=1e-5)
    np.testing.assert_allclose(gx.xs[0], 6 * w, rtol=1e-5)
    for columns in (xs, pack(xs)):
        verdict = f.check(columns, p=p)
        assert verdict.ok, verdict


def test_a_gradient_of_an_instance_has_the_bits_that_it_has_alone() -> None:
    p = {"w": weights(3), "scale": np.float32(0.5)}
    one = weights(3)
    xs = [
        Held([weights(3), one, one], np.float32(2)),
        Held([one]),
        Held([p["w"], one], np.float32(3)),
        Held([weights(3)]),
    ]
    f = value_and_grad(squares, wrt="x", reduce="sum")
    _, whole = f.batch(xs, p=p)
    for some in ([1], [2, 0], [3, 2, 1]):
        for options in ({}, {"threads": 1, "schedule": "depth"}, {"schedule": "agenda", "fuse": False}):
            _, part = f.with_options(**options).batch([xs[k] for k in some], p=p)
            for k, g in zip(some, part, strict=True):
                assert g.scale == whole[k].scale
                assert all(np.array_equal(a, b) for a, b in zip(g.xs, whole[k].xs, strict=True))


def test_a_failure_or_a_nan_leaves_other_instances_as_they_are() -> None:
    @model
    def loss(x: np.ndarray, k: int, *, w: np.ndarray) -> Any:
        return np.sum(np.log(x) * w) * (1.0 / k)

    xs, w = [weights(2) ** 2, np.array([-1, 0], np.float32), np.ones(2, np.float32)], weights(2)
    f = value_and_grad(loss, wrt="x", reduce="sum")
    _, alone = f.batch([xs[0]], [2], w=w)
    _, found = f.batch(xs, [2, 1, 1], w=w)
    assert np.array_equal(found[0], alone[0]) and not np.isfinite(found[1]).all()
    with pytest.raises(InstanceErrors) as caught:
        f.batch(xs, [2, 1, 0], w=w)
    _, found = caught.value.results
    assert np.array_equal(found[0], alone[0]) and not found[2].any()


@dataclass
class Node:
    w: np.ndarray
    next: Node | None = None


@model
def walk(at: Node, *, root: Node) -> Any:
    total = np.sum(at.w)
    n: Node | None = root
    while n is not None:
        total = total + np.sum(n.w * at.w)
        n = n.next
    return total


def test_an_object_of_an_instance_that_is_a_shared_one_too_is_rejected() -> None:
    root = Node(weights(2), Node(weights(2)))
    assert root.next is not None
    _, g = walk.value_and_grad.batch([Node(root.w), Node(root.next.w)], root=root)
    np.testing.assert_allclose(g.w, (root.w + root.next.w) / 2, rtol=1e-6)
    np.testing.assert_allclose(g.next.w, (root.w + root.next.w) / 2, rtol=1e-6)
    for way in (lambda: walk.value_and_grad.batch([Node(root.w), root.next], root=root),
                lambda: walk.value_and_grad(root, root=root),
                lambda: value_and_grad(walk, wrt="at").batch([root.next], root=root)):  # fmt: skip
        with pytest.raises(AcronumbaError, match="of the shared `root"):
            way()


# ---- arrays without elements have no place in memory, but an adjoint is found by the place of its array


@model
def pair(x: np.ndarray, y: np.ndarray, *, w: np.ndarray) -> Any:
    return np.sum(y * y) + np.sum(np.tanh(x) @ w)


def test_an_array_beside_one_without_elements_has_its_own_gradient() -> None:
    empty = np.zeros((0, 3), np.float32)
    a, b, c, d = (weights(3, 3) for _ in range(4))
    w = weights(3)
    for xs, ys in (([a, empty, c, empty], [d, a, b, c]), ([empty, a], [a, empty]), ([empty] * 3, [a, b, c])):
        result = value_and_grad(pair, wrt=("x", "y"), reduce="sum").batch(xs, ys, w=w)
        for x, y, gx, gy in zip(xs, ys, *result.grads, strict=True):
            assert gx.shape == x.shape and gy.shape == y.shape
            np.testing.assert_allclose(gx, (1 - np.tanh(x) ** 2) * w, rtol=1e-5)
            np.testing.assert_allclose(gy, 2 * y, rtol=1e-6)


def test_a_column_of_arrays_without_elements_has_no_gradient_of_others() -> None:
    block, ys, w = np.zeros((3, 0, 3), np.float32), weights(3, 2, 3), weights(3)
    _, gy = value_and_grad(pair, wrt=("x", "y"), reduce="sum").batch(block, ys, w=w).grads
    np.testing.assert_allclose(gy, 2 * ys, rtol=1e-6)
