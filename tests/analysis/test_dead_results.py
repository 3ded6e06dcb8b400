"""Calls that do not read a result run a copy of the function that does not compute it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import InstanceErrors, model

r = np.random.default_rng(0)
H = 6


@dataclass
class Tree:
    word: int = -1
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    u: np.ndarray  # [H, H]
    v: np.ndarray  # [H, H]


P = Params(*(r.standard_normal(shape).astype(np.float32) * 0.3 for shape in ((5, H), (H, H), (H, H))))


def random_tree(depth: int) -> Tree:
    if depth == 0 or r.random() < 0.2:
        return Tree(int(r.integers(5)))
    return Tree(int(r.integers(5)), random_tree(depth - 1), random_tree(depth - 1))


TREES = [Tree(2), *(random_tree(4) for _ in range(12))]


def states(t, p):
    """The second result is not read at the root."""
    if t.left is None:
        return p.embed[t.word], p.embed[t.word] * 0.5
    a, x = states(t.left, p)
    b, y = states(t.right, p)
    return np.tanh(p.u @ (a + b) + x - y), np.tanh(p.v @ (x + y))


@model
def of_the_root(t, *, p):
    out, _ = states(t, p)
    return out


def upper(t, p):
    if t.left is None:
        return p.embed[t.word], p.embed[t.word]
    a, _ = lower(t.left, p)
    _, y = lower(t.right, p)
    return np.tanh(a + p.u @ y), np.tanh(y + p.v @ a)


def lower(t, p):
    if t.left is None:
        return p.embed[t.word] * 0.5, p.embed[t.word]
    a, x = upper(t.left, p)
    return np.tanh(p.v @ (a - x)), np.tanh(p.u @ (a + x))


@model
def of_two_functions(t, *, p):
    """Copies call copies."""
    return upper(t, p)[1]


def checked(t, p):
    if t.left is None:
        return p.embed[t.word], p.embed[t.word]
    a, x = checked(t.left, p)
    b, y = checked(t.right, p)
    assert t.word != 3, "a three"
    return np.tanh(p.u @ (a + b) + x), p.v @ (x * y) + p.embed[10 // t.word]


@model
def that_may_fail(t, *, p):
    """What is not read fails as before."""
    return checked(t, p)[0]


def no_product(t, p):
    if t.left is None:
        return p.embed[t.word], p.embed[t.word]
    a, x = no_product(t.left, p)
    b, y = no_product(t.right, p)
    z = p.u @ (a + b)
    return np.tanh(z + x), np.maximum(z, y)


@model
def that_saves_nothing(t, *, p):
    return no_product(t, p)[0]


def functions(m: Any) -> str:
    """Return the functions of the plan, by their names."""
    plan = m.stages(TREES, p=P)["plan"]
    return " ".join(line[4 : line.index("(")] for line in plan.splitlines() if line.startswith("def "))


@pytest.mark.parametrize("m", [of_the_root, of_two_functions, that_saves_nothing], ids=lambda m: m.__name__)
def test_results_are_those_of_the_plain_call(m: Any) -> None:
    for got, t in zip(m.batch(TREES, p=P), TREES, strict=True):
        np.testing.assert_allclose(got, m(t, p=P), rtol=1e-5, atol=1e-6)
    whole = m.with_options(duplicate=False)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(m.batch(TREES, p=P), whole.batch(TREES, p=P), strict=True))


def test_the_root_has_a_copy() -> None:
    assert "states_3" in functions(of_the_root) and "states_3" not in functions(
        of_the_root.with_options(duplicate=False)
    )
    assert "without the matrix products of `_`, which are never read" in of_the_root.stages(TREES, p=P)["copies"]
    inner = sum(t.left is not None for t in TREES)
    batches = of_the_root.trace(TREES, p=P).batches
    assert inner == batches[-1].size, "all roots that are no leaf are one batch"


def test_nothing_is_copied_that_saves_no_product() -> None:
    assert functions(that_saves_nothing) == functions(that_saves_nothing.with_options(duplicate=False))


def test_functions_that_nobody_calls_any_more_are_gone() -> None:
    """Neither result of `lower` is read together with the other."""
    names = functions(of_two_functions).split()
    assert len(names) == len(set(names))
    text = of_two_functions.stages(TREES, p=P)["plan"]
    called = {line.split("call ")[1].split("(")[0] for line in text.splitlines() if "= call " in line}
    assert {*names[1:]} == called


def test_what_is_not_read_fails_as_before() -> None:
    bad = [Tree(3, Tree(1), Tree(2)), Tree(0, Tree(1), Tree(2)), Tree(1, Tree(1), Tree(2)), Tree(11, Tree(1), Tree(2))]
    for m in (that_may_fail, that_may_fail.with_options(duplicate=False)):
        with pytest.raises(InstanceErrors) as raised:
            m.batch(bad, p=P)
        found = [type(e).__name__ for e in raised.value.errors.values()]
        assert found == ["AssertionError", "ZeroDivisionError", "IndexError"]


def test_gradients() -> None:
    @model
    def loss(t, *, p):
        out, _ = states(t, p)
        return np.sum(out * out)

    mine = loss.value_and_grad.batch(TREES, p=P)
    theirs = loss.with_options(duplicate=False).value_and_grad.batch(TREES, p=P)
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-6)
    for name in ("embed", "u", "v"):
        np.testing.assert_allclose(getattr(mine[1], name), getattr(theirs[1], name), rtol=1e-4, atol=1e-6)
