"""Traps that earlier systems fell into, one test each: ACRoBat's own implementation, DyNet's batching."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from acronumba import model, nn
from acronumba.errors import Unsupported

H = 12
RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)


W, U, V = normal(H, H), normal(H, H), normal(H, H)
WORDS = normal(10, H)


def agree(f: Any, *columns: Any, **shared: Any) -> Any:
    """Batched is plain; also one by one, to the bit. Returns the trace."""
    got = list(f.batch(*columns, **shared))
    for k, args in enumerate(zip(*columns, strict=True)):
        want = f(*args, **shared)
        (alone,) = f.batch(*[[a] for a in args], **shared)
        for a, b, c in zip(flat(got[k]), flat(want), flat(alone), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
            assert np.array_equal(a, c, equal_nan=True), "alone"
    return f.trace(*columns, **shared)


def flat(value: Any) -> list[Any]:
    return [x for v in value for x in flat(v)] if isinstance(value, list | tuple) else [np.asarray(value)]


def in_order(trace: Any) -> None:
    """Producer (phase, depth) < consumer (phase, depth), and every node in one batch."""
    d = trace.data
    place = list(zip(d.phase.tolist(), d.depth.tolist(), strict=True))
    for u, v in d.edges.tolist():
        assert place[u] < place[v]
    assert sorted(d.order.tolist()) == list(range(d.nodes))


@model
def read_and_classify(words: list[int], *, w: np.ndarray, u: np.ndarray, v: np.ndarray, embed: np.ndarray) -> Any:
    h, classes = np.zeros(H, np.float32), []
    for word in words:
        h = np.tanh(w @ embed[word] + u @ h)
        classes.append(nn.softmax(v @ h))
    return classes


SENTENCES = [[1, 2, 3, 4, 5], [6], [], [7, 8], [9, 1, 2]]


@pytest.mark.parametrize("schedule", ["depth", "agenda"])
def test_depth_goes_on_below_hoisted_work(schedule: str) -> None:
    options = read_and_classify.with_options(schedule=schedule)
    in_order(agree(options, SENTENCES, w=W, u=U, v=V, embed=WORDS))


@model
def deep_and_shallow(word: int, steps: int, *, w: np.ndarray, embed: np.ndarray) -> Any:
    h = x = embed[word]
    for _ in range(steps):
        h = np.tanh(w @ h)
    return (x * 2.0 + h) @ h


def test_a_block_is_as_deep_as_its_deepest_operand() -> None:
    trace = agree(deep_and_shallow.with_options(phases=False), [1, 2, 3], [0, 3, 7], w=W, embed=WORDS)
    in_order(trace)


def test_a_later_shallower_call_shrinks_nothing() -> None:
    for steps in ([40, 3], [2, 1], [0, 0], [41, 40]):
        agree(deep_and_shallow, [1, 2], steps, w=W, embed=WORDS)


@model
def norms(word: int, *, embed: np.ndarray) -> Any:
    x = embed[word]
    return np.sum(x * x), np.max(x), np.argmax(x), np.mean(x)


def test_each_node_has_its_own_sum() -> None:
    agree(norms, list(range(10)), embed=WORDS)
    assert len({float(s) for s, *_ in norms.batch(list(range(10)), embed=WORDS)}) == 10


@model
def fed(word: int, *, w: np.ndarray, u: np.ndarray, embed: np.ndarray) -> Any:
    x = embed[word]
    once = w @ x
    return w @ once + u @ x, w @ x  # the first product of a line is fed by another of the same weight


def test_a_product_that_feeds_another_is_not_merged_with_it() -> None:
    agree(fed, list(range(10)), w=W, u=U, embed=WORDS)


@dataclass
class Node:
    word: int
    children: list[Node] = field(default_factory=list)


def collect(t: Node, w: np.ndarray, embed: np.ndarray) -> Any:
    below = [collect(c, w, embed) for c in t.children]
    return np.tanh(w @ (sum(below) + embed[t.word]))


@model
def tree(t: Node, *, w: np.ndarray, embed: np.ndarray) -> Any:
    return collect(t, w, embed)


def test_an_empty_list_in_a_map() -> None:
    trees = [Node(1), Node(2, [Node(3), Node(4, [Node(5)])]), Node(6, [Node(7)])]
    agree(tree, trees, w=W, embed=WORDS)
    agree(tree, trees[:1], w=W, embed=WORDS)


def test_instances_keep_their_order_in_a_batch() -> None:
    trace = agree(read_and_classify, SENTENCES, w=W, u=U, v=V, embed=WORDS)
    d = trace.data
    for b in range(len(d.batches)):
        nodes = [v for v in d.order.tolist() if d.batch[v] == b]
        assert nodes == sorted(nodes)
        assert d.instance[nodes].tolist() == sorted(d.instance[nodes].tolist())


def test_no_random_stream_is_shared() -> None:
    @model
    def noisy(x: np.ndarray) -> Any:
        return x + np.random.standard_normal(3)  # noqa: NPY002  # what must be rejected

    with pytest.raises(Unsupported):
        noisy.batch([np.zeros(3)])


def test_a_batch_of_one_rounds_as_all_do() -> None:
    many = list(read_and_classify.batch(SENTENCES * 20, w=W, u=U, v=V, embed=WORDS))
    for k, sentence in enumerate(SENTENCES):
        (one,) = read_and_classify.batch([sentence], w=W, u=U, v=V, embed=WORDS)
        for copy in range(k, len(many), len(SENTENCES)):
            assert all(np.array_equal(a, b) for a, b in zip(one, many[copy], strict=True))


def twice(x: Any, w: np.ndarray) -> Any:
    return np.tanh(w @ x)


@model
def calls_twice(word: int, *, w: np.ndarray, embed: np.ndarray) -> Any:
    return twice(twice(embed[word], w), w)


def test_a_helper_that_is_called_twice_is_no_recursion() -> None:
    agree(calls_twice, [1, 2, 3], w=W, embed=WORDS)
    assert "call " not in calls_twice.stages([1], w=W, embed=WORDS)["ir"]


@model
def swapped(word: int, steps: int, *, w: np.ndarray, u: np.ndarray, embed: np.ndarray) -> Any:
    a, b, h = w, u, embed[word]
    for _ in range(steps):
        h = np.tanh(a @ h)
        a, b = b, a  # which of the two is read depends on the instance's own step
    return h


@model
def chosen(word: int, which: int, *, weights: list[np.ndarray], embed: np.ndarray) -> Any:
    return np.tanh(weights[which] @ embed[word])


def test_an_operand_that_varies_is_not_the_first_instances() -> None:
    agree(swapped, [1, 2, 3], [1, 2, 3], w=W, u=U, embed=WORDS)
    agree(chosen, [1, 2, 3], [0, 2, 1], weights=[W, U, V], embed=WORDS)


@model
def made_in_a_batch(word: int, rest: list[int], *, w: np.ndarray, embed: np.ndarray) -> Any:
    matrix = np.outer(embed[word], embed[word]) + w  # of this instance; many nodes of it read this one
    return [np.tanh(matrix @ embed[r]) for r in rest]


def test_an_operand_made_in_a_batch_is_found_in_its_row() -> None:
    agree(made_in_a_batch, [3, 1, 2], [[1, 2], [4, 5, 6], [7]], w=W, embed=WORDS)
