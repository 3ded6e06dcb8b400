"""What follows a loop over no children has a copy, in which what the loop carries is what it began with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from acronumba import model, pack
from acronumba.api.dispatch import bind, specialise
from tests.support.chosen import one_in

r = np.random.default_rng(0)
H = 6


@dataclass
class Node:
    kind: int
    children: list[Node] = field(default_factory=list)


@dataclass
class Params:
    embed: np.ndarray  # [V, H]
    u: np.ndarray  # [2H, H]
    v: np.ndarray  # [H, H]
    first: np.ndarray  # [H]


P = Params(*(r.standard_normal(shape).astype(np.float32) for shape in ((5, H), (2 * H, H), (H, H), (H,))))


def child_sum(node, p):
    total = np.zeros(H, np.float32)
    for child in node.children:
        total = total + child_sum(child, p)
    a, b = np.split(p.u @ (total * 0.5), 2)
    return np.tanh(p.embed[node.kind] + a) * b


def by_index(node, p):
    total = np.zeros(H, np.float32)
    k = 0
    while k < len(node.children):
        total = total + by_index(node.children[k], p)
        k += 1
    return np.tanh(p.embed[node.kind] + p.v @ np.tanh(total))


def of_a_list(node, p):
    hs = [of_a_list(child, p) for child in node.children]
    total = np.zeros(H, np.float32)
    for h in hs:
        total = total + h
    return np.tanh(p.embed[node.kind] + p.v @ total)


def from_a_state(node, p):
    h = p.first
    for child in node.children:
        h = np.tanh(h + from_a_state(child, p))
    return np.tanh(p.embed[node.kind] + p.v @ h)


def goes_on(node, p):
    """The block behind the loop does not return: what it assigns is read in both arms behind it."""
    total = np.zeros(H, np.float32)
    for child in node.children:
        total = total + goes_on(child, p)
    x = p.v @ total
    y = x + p.embed[node.kind]
    if node.kind % 2 == 0:
        y = np.tanh(y) + x
    for _ in range(node.kind):
        y = y * 0.5 + x
    return np.tanh(y)


def in_a_loop(node, p):
    """The block behind the inner loop leads back to the outer one."""
    out = p.embed[node.kind]
    for step in range(2):
        total = np.zeros(H, np.float32)
        for child in node.children:
            total = total + in_a_loop(child, p) * (step + 1)
        out = np.tanh(out + p.v @ total)
    return out


def with_a_break(node, p):
    total = np.zeros(H, np.float32)
    for child in node.children:
        if child.kind == 3:
            break
        total = total + with_a_break(child, p)
    return np.tanh(p.embed[node.kind] + p.v @ total)


def of_two_sums(node, p):
    total, most = np.zeros(H, np.float32), np.full(H, -1.0, np.float32)
    for child in node.children:
        h = of_two_sums(child, p)
        total, most = total + h, np.maximum(most, h)
    return np.tanh(p.embed[node.kind] + p.v @ (total + most) + (p.u @ most)[:H])


def of_the_head(node, p):
    """What the head of the loop assigns is read where the block behind the loop leads."""
    total, k = np.zeros(H, np.float32), 0
    while (n := len(node.children)) > k:
        total = total + of_the_head(node.children[k], p)
        k += 1
    x = p.v @ total
    if node.kind % 2 == 0:
        x = x + p.embed[node.kind]
    return np.tanh(x) * (n + 1)


def varies(node, p):
    """What the loop begins with is the node's own: no product is the same for all leaves."""
    total = p.embed[node.kind]
    for child in node.children:
        total = total + varies(child, p)
    return np.tanh(p.v @ total)


MODELS = {
    child_sum: True, by_index: True, of_a_list: True, from_a_state: True, goes_on: True, in_a_loop: True,
    with_a_break: False, of_two_sums: True, of_the_head: True, varies: False,
}  # fmt: skip


def tree(depth: int) -> Node:
    children = [tree(depth - 1) for _ in range(r.integers(0, 4))] if depth else []
    return Node(int(r.integers(5)), children)


TREES = [tree(int(r.integers(5))) for _ in range(12)] + [Node(2)]


def made(f: Any) -> Any:
    def run(node: Node, *, p: Params) -> np.ndarray:
        return f(node, p)  # type: ignore[no-any-return]

    return model(run)


def copied(f: Any, p: Params = P) -> list[int]:
    plan = specialise(f, bind(f, (TREES,), {"p": p}))[0].plan
    return [note.loc.line for note in plan.notes if note.kind == "duplicated" and "has no iterations" in note.text]


@pytest.mark.parametrize("f", one_in(12, MODELS), ids=lambda f: f.__name__)
def test_results_are_the_plain_calls(f: Any) -> None:
    m = made(f)
    assert bool(copied(m)) == MODELS[f]
    assert not copied(m.with_options(duplicate=False)) and not copied(m.with_options(reuse=False))
    got = m.batch(TREES, p=P)
    for options in ({"hoist": False}, {"blocks": False}, {"fuse": False}, {"schedule": "depth"}, {"forkjoin": False}):
        for a, b in zip(got, m.with_options(**options).batch(TREES, p=P), strict=True):
            assert a.tobytes() == b.tobytes()
    for k in (0, 3, 12):
        assert m.batch([TREES[k]], p=P)[0].tobytes() == got[k].tobytes()
    assert m.check(TREES, p=P).ok and m.with_options(duplicate=False).check(TREES, p=P).ok


def test_a_leaf_costs_no_product() -> None:
    m = made(child_sum).with_options(equal=False)
    products = {}
    for f in (m, m.with_options(duplicate=False)):
        plan = specialise(f, bind(f, (TREES,), {"p": P}))[0].plan
        data = f.trace(TREES, p=P).data
        with_product = {spec.name for spec in plan.kernels if any(op.op == "matmul" for op in spec.body)}
        products[f] = sum(b.size for b in data.batches if b.kernel in with_product)
    inner = sum(bool(n.children) for t in TREES for n in nodes(t))
    assert list(products.values()) == [inner, sum(1 for t in TREES for _ in nodes(t))]


def nodes(t: Node) -> Any:
    yield t
    for child in t.children:
        yield from nodes(child)


def test_zeros_times_infinity_are_not_a_number() -> None:
    p = Params(P.embed, P.u, np.full((H, H), np.inf, np.float32), P.first)
    with np.errstate(invalid="ignore"):
        plain = made(by_index)(Node(1), p=p)
    assert np.isnan(plain).all() and np.isnan(made(by_index).batch([Node(1)], p=p)[0]).all()


def test_weights_that_change_are_multiplied_again() -> None:
    m, p = made(from_a_state), Params(*(getattr(P, k).copy() for k in ("embed", "u", "v", "first")))
    xs = pack(TREES)
    before = m.batch(xs, p=p).stack()
    p.first[:] *= 2
    after = m.batch(xs, p=p).stack()
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(after, [m(t, p=p) for t in TREES], rtol=1e-5, atol=1e-6)


@model
def of_a_sequence(xs: list[np.ndarray], *, p: Params) -> np.ndarray:
    h = np.zeros(H, np.float32)
    for x in xs:
        h = np.tanh(x + p.v @ h)
    return p.u @ h


def test_only_recursions_end_in_loops_without_steps() -> None:
    call = bind(of_a_sequence, ([[np.ones(H, np.float32)]],), {"p": P})
    notes = specialise(of_a_sequence, call)[0].plan.notes
    assert not any("has no iterations" in note.text for note in notes)
