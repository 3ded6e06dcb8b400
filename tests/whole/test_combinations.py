"""Combinations of options: all give the same bits (`reuse` and `duplicate`: but for the order of summation)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import config, model, nn
from acronumba.api.check import together
from tests.support.chosen import one_in, squares
from tests.support.same_bits import bits

PLANNED = ("hoist", "blocks", "fuse", "horizontal")  # what changes kernels or what is recorded
BITWISE: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(config.BITWISE, (True, False)),
    "schedule": ("lookahead", "depth", "agenda"),
    "effort": (None, 0, 1, 2, 3),
    "threads": (1, 2),
}
H = 9
RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)


@dataclass
class Tree:
    word: int
    left: Tree | None = None
    right: Tree | None = None


def cell(x: Any, h: Any, w: np.ndarray, u: np.ndarray) -> Any:
    gate = nn.sigmoid(w @ x + u @ h)
    return gate * np.tanh(u @ x) + (1 - gate) * h


def encode(t: Tree, w: np.ndarray, u: np.ndarray, embed: np.ndarray) -> Any:
    if t.left is None:
        return np.tanh(w @ embed[t.word])
    below = encode(t.left, w, u, embed)
    if t.right is None:
        return below
    return cell(below, encode(t.right, u, w, embed), w, u)


@model
def trees(t: Tree, *, w: np.ndarray, u: np.ndarray, embed: np.ndarray, scale: np.ndarray) -> Any:
    return nn.softmax(np.exp(scale) * encode(t, w, u, embed))


@model
def sentences(words: list[int], *, w: np.ndarray, u: np.ndarray, embed: np.ndarray, scale: np.ndarray) -> Any:
    states = []
    for a, b in ((w, u), (u, w)):
        h = np.zeros(H, np.float32)
        for word in words:
            if word % 3 == 0:
                h = cell(embed[word], h, a, b)
            elif word % 3 == 1:
                h = np.tanh(a @ h)
            states.append(h + 1.0)
    if not states:
        return np.zeros((0, H), np.float32)
    return nn.softmax(np.stack(states) @ (w * scale).T)


@model
def rows(xs: np.ndarray, *, w: np.ndarray, u: np.ndarray, embed: np.ndarray, scale: np.ndarray) -> Any:
    ys = np.tanh(xs @ w.T + scale)
    total = np.zeros(H, np.float32)
    for k in range(len(xs)):
        for word in range(k % 3):
            total = total + (u @ ys[k]) * embed[word]
    return ys.mean(axis=0) + total, nn.layer_norm(ys)


@model
def views(xs: np.ndarray, *, w: np.ndarray, u: np.ndarray, embed: np.ndarray, scale: np.ndarray) -> Any:
    """Products read views that are also results."""
    t = xs.T
    y = np.tanh(xs @ w)
    q = xs.sum(axis=1)
    return t, t @ q, y.T, y.T @ q, y[::-1], scale @ y[::-1].T


@model
def deep(xs: np.ndarray, *, w: np.ndarray, u: np.ndarray, embed: np.ndarray, scale: np.ndarray) -> Any:
    """Attention, then many layers: kernels of many stages and products of both sorts."""
    y = ((xs @ xs.T) @ xs).sum(axis=0) + scale
    for _ in range(3):
        y = np.tanh(u @ np.tanh(w @ y))
    return y


SHARED = {"w": normal(H, H), "u": normal(H, H), "embed": normal(10, H), "scale": normal(H)}
DEEP = Tree(0, Tree(1, Tree(2), Tree(3, Tree(4), None)), Tree(5, Tree(6), Tree(7)))
COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "trees": (trees, [Tree(1), DEEP, Tree(2, Tree(3), None), Tree(4, DEEP, Tree(5))]),
    "sentences": (sentences, [[0, 1, 2, 3], [], [4, 4, 3], [9], [1, 0, 1, 0, 3, 6]]),
    "views": (views, [normal(n, H) for n in (3, 1, 6, 2)]),
    "deep": (deep, [normal(n, H) for n in (3, 5, 2)]),
    "rows": (rows, [normal(n, H) for n in (3, 1, 6, 3, 2)]),
}


def covering(values: dict[str, tuple[Any, ...]], strength: int = 2) -> list[dict[str, Any]]:
    """Return combinations in which every pair of values of two options occurs; greedy, the same each time.

    Source: Cohen et al., The AETG System (1997).
    """
    names = list(values)
    rng = np.random.default_rng(0)
    missing = {
        frozenset(zip(pair, chosen, strict=True))
        for pair in itertools.combinations(names, strength)
        for chosen in itertools.product(*(values[n] for n in pair))
    }

    def covered(row: dict[str, Any]) -> set[frozenset[Any]]:
        return {p for p in missing if all(row[n] is v or row[n] == v for n, v in p)}

    rows: list[dict[str, Any]] = []
    while missing:
        tries = [{n: values[n][rng.integers(len(values[n]))] for n in names} for _ in range(60)]
        best = max(tries, key=lambda row: len(covered(row)))
        if not covered(best):
            best.update(next(iter(sorted(missing, key=repr))))
        missing -= covered(best)
        rows.append(best)
    return rows


ROWS = covering({n: v for n, v in BITWISE.items() if n != "effort"}) + [{"effort": e} for e in (0, 1, 2, 3)]


def test_every_pair_of_values_occurs() -> None:
    for a, b in itertools.combinations([n for n in BITWISE if n != "effort"], 2):
        for x, y in itertools.product(BITWISE[a], BITWISE[b]):
            assert any(row.get(a) == x and row.get(b) == y for row in ROWS)


@pytest.mark.parametrize("name", COLUMNS)
def test_all_combinations_of_the_interpreted_plan(name: str) -> None:
    f, column = COLUMNS[name]
    want = [bits(r) for r in f._interpret(column, **SHARED)]
    for on in itertools.product((True, False), repeat=len(PLANNED)):
        options = dict(zip(PLANNED, on, strict=True))
        got = [bits(r) for r in f.with_options(**options)._interpret(column, **SHARED)]
        assert got == want, options


@pytest.mark.parametrize(("name", "on"), one_in(3, squares(COLUMNS, [(True, False), (False, True), (False, False)])))
def test_reuse_and_duplicate_change_rounding_alone(name: str, on: tuple[bool, bool]) -> None:
    f, column = COLUMNS[name]
    want = f._interpret(column, **SHARED)
    reuse, duplicate = on
    changed = f.with_options(reuse=reuse, duplicate=duplicate)
    for run in (changed._interpret, changed.batch):
        for a, b in zip(run(column, **SHARED), want, strict=True):
            near(a, b)


def near(a: Any, b: Any) -> None:
    for x, y in together(a, b):
        if not isinstance(y.value, np.ndarray | np.generic | float):
            assert x.value == y.value
            continue
        assert np.shape(x.value) == np.shape(y.value)
        np.testing.assert_allclose(x.value, y.value, rtol=2e-5, atol=2e-6)


def compiled_bits(f: Any, column: Any, **options: Any) -> list[Any]:
    return [bits(r) for r in f.with_options(**options).batch(column, **SHARED)]


IN_TURN = [  # each row of options with one model, each model with some rows; the other pairs are slow
    pytest.param(k, name, marks=pytest.mark.slow if (k - j) % len(COLUMNS) else ())
    for k in range(len(ROWS))
    for j, name in enumerate(COLUMNS)
]


@pytest.mark.parametrize(("k", "name"), one_in(6, IN_TURN))
def test_pairs_of_options_change_no_bit(name: str, k: int, wanted: Callable[[str], list[Any]]) -> None:
    f, column = COLUMNS[name]
    assert compiled_bits(f, column, **ROWS[k]) == wanted(name), ROWS[k]


@pytest.fixture(scope="module")
def wanted() -> Callable[[str], list[Any]]:
    found: dict[str, list[Any]] = {}

    def get(name: str) -> list[Any]:
        if name not in found:
            found[name] = compiled_bits(*COLUMNS[name])
        return found[name]

    return get


@pytest.mark.full
@pytest.mark.parametrize("name", COLUMNS)
def test_triples_of_options_change_no_bit(name: str, wanted: Callable[[str], list[Any]]) -> None:
    f, column = COLUMNS[name]
    for row in covering(BITWISE, 3):
        assert compiled_bits(f, column, **row) == wanted(name), row


@pytest.mark.parametrize("name", COLUMNS)
def test_the_models_are_right(name: str) -> None:
    f, column = COLUMNS[name]
    assert f.check(column, **SHARED).ok
