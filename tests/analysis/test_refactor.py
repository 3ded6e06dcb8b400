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


def chain(t: Tree, p: Params) -> Any:
    """There is one call in each step."""
    if t.left is None:
        return np.tanh(p.embed[t.word])
    return np.tanh(p.w @ np.concatenate([chain(t.left, p), p.embed[t.word]]) + p.b)


def classifier(encode: Any) -> Model[..., Any]:
    def f(t: Tree, *, p: Params) -> Any:
        return p.w_out @ encode(t, p)

    return model(f)


def unmoved(f: Model[..., Any]) -> Model[..., Any]:
    return f.with_options(strategy=Strategy(refactor=False))


def notes(f: Model[..., Any], p: Params) -> str:
    return f.stages(TREES, p=p)["refactor"]


@pytest.mark.parametrize(
    ("encode", "p", "expected"),
    [
        (joined, params(256, 512), 2),
        (behind, params(256, 512), 2),
        (beside, params(256, 768), 2),
        (through, params(256, 512), 2),
        (even, params(256, 512), 2),
        (joined, params(512, 1024), 2),  # of two chunks each
        (beside, params(512, 1536), 2),
        (joined, params(300, 600), 0),  # the second does not begin where a chunk ends
        (joined, params(40, 80), 0),  # a chunk holds both
        (twice, params(256, 512), 0),  # one of them is read for another reason, too
        (chain, params(256, 512), 0),  # a call in each step waits for the one before
    ],
    ids=lambda x: x.__name__ if callable(x) else "" if isinstance(x, int) else "x".join(map(str, x.w.shape)),
)
def test_bits_stay(encode: Any, p: Params, expected: int) -> None:
    f = classifier(encode)
    assert [*map(bits, f.batch(TREES, p=p))] == [*map(bits, unmoved(f).batch(TREES, p=p))]
    assert all(v.verdict in ("equal", "close") for v in f.check(TREES, p=p).verdicts)
    assert notes(f, p).count("refactored") == expected


@pytest.mark.parametrize("options", [{"threads": 2}, {"equal": False}, {"precision": "bf16"}], ids=str)
def test_other_options(options: dict[str, Any]) -> None:
    p = params(512, 1024)
    f = classifier(joined).with_options(**options)
    assert [*map(bits, f.batch(TREES, p=p))] == [*map(bits, unmoved(f).batch(TREES, p=p))]
    assert ("refactor" in f.stages(TREES, p=p)) == ("equal" not in options)


def test_a_leaf_computes_the_product_of_its_parent() -> None:
    f, p = classifier(joined), params(256, 512)
    p.embed = normal(300, 256)  # too large for a table of products of all rows
    explained = str(f.explain(TREES, p=p))
    assert "matmul p.w[:] @ tanh(p.embed[...])" in explained and "refactored: a copy of `joined`" in explained


@pytest.mark.parametrize("pieces", [(256, 256, 100), (512, 256), (256, 300, 4), (100, 256), (256, 256, 512)])
def test_a_sum_is_cut_where_a_chunk_ends(pieces: tuple[int, ...]) -> None:
    """Each piece must begin a chunk, and be worth it."""
    cut = all(sum(pieces[:k]) % 256 == 0 for k, n in enumerate(pieces))

    @dataclass
    class Weights:
        embed: list[np.ndarray]
        w: np.ndarray

    first, second = pieces[:2]
    shared = Weights([normal(12, n) for n in pieces], normal(first + second, sum(pieces)))

    def halves(t: Tree, p: Weights) -> Any:
        if t.left is None or t.right is None:
            return np.tanh(p.embed[0][t.word]), np.tanh(p.embed[1][t.word])
        a, b = halves(t.left, p)[0], halves(t.right, p)[1]
        y = np.tanh(p.w @ np.concatenate([a, b, *[row[t.word] for row in p.embed[2:]]]))
        return y[:first], y[first:]

    @model
    def f(t: Tree, *, p: Weights) -> Any:
        return halves(t, p)

    g = unmoved(f)
    assert [*map(bits, g.batch(TREES, p=shared))] == [*map(bits, f.batch(TREES, p=shared))]
    assert ("refactored" in f.stages(TREES, p=shared)["refactor"]) == cut


def test_gradients_and_failures() -> None:
    p = params(256, 512)

    def loss(t: Tree, *, p: Params) -> Any:
        return (p.w_out @ joined(t, p)).sum()

    f = model(loss)
    value, grads = f.value_and_grad.batch(TREES, p=p)
    other, found = unmoved(f).value_and_grad.batch(TREES, p=p)
    assert value == other
    assert [*map(bits, f.batch(TREES, p=p))] == [*map(bits, unmoved(f).batch(TREES, p=p))]
    for name in ("embed", "w", "b", "w_out"):  # they are computed without equal nodes, so nothing moves
        assert bits(getattr(found, name)) == bits(getattr(grads, name))
    assert "backward" in " ".join(f.value_and_grad.stages(TREES, p=p))
    bad = Tree(0, Tree(3), Tree(99))
    with pytest.raises(InstanceErrors) as caught:
        classifier(joined).batch([TREES[1], bad, TREES[2]], p=p)
    assert list(caught.value.errors) == [1] and isinstance(caught.value.errors[1], IndexError)
    assert bits(caught.value.results[2]) == bits(unmoved(classifier(joined)).batch(TREES, p=p)[2])
