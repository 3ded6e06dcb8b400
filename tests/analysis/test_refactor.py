"""Products that a recursive call computes for its caller: the same bits; where sums would have another order, none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, Model, model
from acronumba.strategy import Strategy
from tests.support.same_bits import bits

F32 = np.float32
RNG = np.random.default_rng(0)


@dataclass
class Tree:
    word: int = 0
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    embed: np.ndarray
    w: np.ndarray
    b: np.ndarray
    w_out: np.ndarray


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / shape[-1] ** 0.5).astype(F32)


def params(n: int, terms: int, m: int | None = None) -> Params:
    return Params(normal(12, n), normal(m or n, terms), normal(m or n), normal(3, n))


def tree(leaves: int) -> Tree:
    if leaves == 1:
        return Tree(int(RNG.integers(12)))
    left = int(RNG.integers(1, leaves))
    return Tree(0, tree(left), tree(leaves - left))


TREES = [tree(n) for n in (1, 9, 2, 5, 13, 1, 3)]


def joined(t: Tree, p: Params) -> Any:
    if t.left is None or t.right is None:
        return np.tanh(p.embed[t.word])
    return np.tanh(p.w @ np.concatenate([joined(t.left, p), joined(t.right, p)]) + p.b)


def behind(t: Tree, p: Params) -> Any:
    """The vector before the matrix."""
    if t.left is None or t.right is None:
        return np.tanh(p.embed[t.word])
    return np.tanh(np.concatenate([behind(t.left, p), behind(t.right, p)]) @ p.w.T + p.b)


def beside(t: Tree, p: Params) -> Any:
    """One of the pieces is no result of a call."""
    x = p.embed[t.word]
    if t.left is None or t.right is None:
        return np.tanh(x)
    return np.tanh(p.w @ np.concatenate([beside(t.left, p), x, beside(t.right, p)]) + p.b)


def through(t: Tree, p: Params) -> Any:
    """A result may be that of another call."""
    if t.left is None or t.right is None:
        return np.tanh(p.embed[t.word])
    if t.word == 0 and t.left.left is None:
        return through(t.right, p)
    return np.tanh(p.w @ np.concatenate([through(t.left, p), through(t.right, p)]) + p.b)


def even(t: Tree, p: Params) -> Any:
    if t.left is None or t.right is None:
        return np.tanh(p.embed[t.word])
    return np.tanh(p.w @ np.concatenate([odd(t.left, p), odd(t.right, p)]) + p.b)


def odd(t: Tree, p: Params) -> Any:
    if t.left is None or t.right is None:
        return np.sqrt(np.abs(p.embed[t.word]))
    return np.maximum(p.w @ np.concatenate([even(t.left, p), even(t.right, p)]), p.b)


def twice(t: Tree, p: Params) -> Any:
    """A result is read beside the product, too."""
    if t.left is None or t.right is None:
        return np.tanh(p.embed[t.word])
    h = twice(t.left, p)
    return np.tanh(p.w @ np.concatenate([h, twice(t.right, p)]) + p.b) + h


def classifier(encode: Any) -> Model[..., Any]:
    def f(t: Tree, *, p: Params) -> Any:
        return p.w_out @ encode(t, p)

    return model(f)


def moved(f: Model[..., Any]) -> Model[..., Any]:
    return f.with_options(strategy=Strategy(refactor=True))


def notes(f: Model[..., Any], p: Params) -> str:
    return f.stages(TREES, p=p)["refactor"]


@pytest.mark.parametrize(
    ("encode", "p", "expected"),
    [
        (joined, params(256, 512), 3),
        (behind, params(256, 512), 3),
        (beside, params(256, 768), 3),
        (through, params(256, 512), 5),
        (even, params(256, 512), 3),
        (joined, params(512, 1024), 1),  # of two chunks each: only the classifier's sum has one piece
        (joined, params(40, 80), 1),  # a chunk holds both
        (twice, params(256, 512), 2),  # the right one, and the classifier's
    ],
    ids=lambda x: x.__name__ if callable(x) else "" if isinstance(x, int) else "x".join(map(str, x.w.shape)),
)
def test_bits_stay(encode: Any, p: Params, expected: int) -> None:
    f = classifier(encode)
    want = [bits(r) for r in f.batch(TREES, p=p)]
    for threads in (1, 2):
        assert [bits(r) for r in moved(f).with_options(threads=threads).batch(TREES, p=p)] == want
    assert all(v.verdict in ("equal", "close") for v in moved(f).check(TREES, p=p).verdicts)
    assert notes(moved(f), p).count("refactored") == expected
    assert "refactor" not in f.stages(TREES, p=p)


def test_a_leaf_computes_the_product_of_its_parent() -> None:
    f, p = classifier(joined), params(256, 512)
    p.embed = normal(300, 256)  # too large for a table of products of all rows
    explained = str(moved(f).explain(TREES, p=p))
    assert "matmul p.w[:] @ tanh(p.embed[...])" in explained and "refactored: a copy of `joined`" in explained


@pytest.mark.parametrize("pieces", [(256, 256, 100), (512, 256), (256, 300), (100, 256)])
def test_a_sum_is_cut_where_a_chunk_ends(pieces: tuple[int, ...]) -> None:
    """After the first piece each must be one chunk, and begin one."""
    cut = all(sum(pieces[:k]) % 256 == 0 and n <= 256 for k, n in enumerate(pieces) if k)

    @dataclass
    class Weights:
        embed: list[np.ndarray]
        w: np.ndarray

    shared = Weights([normal(12, n) for n in pieces], normal(7, sum(pieces)))

    def down(word: int, turns: int, k: int, p: Weights) -> Any:
        if turns == 0:
            return np.tanh(p.embed[0][word]) if k == 0 else np.tanh(p.embed[1][word])
        return down((word + turns) % 12, turns - 1, k, p)

    def total(word: int, turns: int, *, p: Weights) -> Any:
        x = [down(word, turns, 0, p), down(word, turns, 1, p)]
        return p.w @ np.concatenate([*x, *[row[word] for row in p.embed[2:]]])

    f, columns = model(total), ([1, 5, 11, 3], [0, 1, 2, 7])
    g = f.with_options(strategy=Strategy(refactor=True))
    assert [bits(r) for r in g.batch(*columns, p=shared)] == [bits(r) for r in f.batch(*columns, p=shared)]
    assert ("refactored" in g.stages(*columns, p=shared)["refactor"]) == cut


def test_gradients_and_failures() -> None:
    p = params(256, 512)

    def loss(t: Tree, *, p: Params) -> Any:
        return (p.w_out @ joined(t, p)).sum()

    value, grads = model(loss).value_and_grad.batch(TREES, p=p)
    other, found = moved(model(loss)).value_and_grad.batch(TREES, p=p)
    assert value == other
    for name in ("embed", "w", "b", "w_out"):
        np.testing.assert_allclose(getattr(found, name), getattr(grads, name), rtol=1e-4, atol=1e-5)
    bad = Tree(0, Tree(3), Tree(99))
    with pytest.raises(InstanceErrors) as caught:
        moved(classifier(joined)).batch([TREES[1], bad, TREES[2]], p=p)
    assert list(caught.value.errors) == [1] and isinstance(caught.value.errors[1], IndexError)
    assert bits(caught.value.results[2]) == bits(classifier(joined).batch(TREES, p=p)[2])
