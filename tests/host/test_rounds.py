"""Waits, fibers and joins in the host machine, compiled and in plain Python, of programs written by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from acronumba.ir import nodes as n
from acronumba.ir.types import FLOAT, INT, FloatT, ListT, TensorT, TupleT
from acronumba.runtime import buffers as dfg
from acronumba.runtime.memory_policy import TooLarge
from tests.support.hand import REF, TREE, Hand, Tree, pack_trees, program, random_tree
from tests.support.hand_runs import ENGINES, executable, words

F = TensorT("float32", ())
TABLE = TensorT("float32", (10,))


def halve() -> n.Program:
    """def f(k): x = table[k]; count = 0; while float(x) > 1: x = x * half; count += 1; return float(x), count"""
    sites: list[n.Site] = []
    h = Hand("f", [("k", INT)], [FLOAT, INT], sites)
    x, count = n.Var("x", F), n.Var("count", INT)
    with h.block(0):
        first = h.row(0, h.params[0], 10)
        h.copy(x, first)
        h.copy(count, h.const(0))
        h.jump(1)
    with h.block(1):
        h.branch(h.scalar("gt", h.read(x), h.const(1.0)), 2, 3)
    with h.block(2):
        h.copy(x, h.op("mul", x, 1))
        h.copy(count, h.scalar("add", count, h.const(1), site=-1))
        h.jump(1)
    with h.block(3):
        h.ret(h.read(x), count)
    return program([h], sites, [INT], TupleT((FLOAT, INT)), shared=[("p.table", TABLE), ("p.half", F)])


VALUES = np.array([0.5, 1, 3, 100, 17, 2, 1e6, 0, math.nan, 4], np.float32)
HALF = np.array(0.5, np.float32)


def halve_plain(k: int) -> tuple[float, int]:
    x, count = VALUES[k], 0
    while float(x) > 1:
        x, count = x * HALF, count + 1
    return float(x), count


def floats(run: Any) -> list[tuple[float, int]]:
    return [(float(np.int64(a).view(np.float64)), int(b)) for a, b in run.words.tolist()]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("schedule", ["lookahead", "depth", "agenda"])
def test_a_loop_until_convergence(engine: str, schedule: str) -> None:
    e = executable(halve(), engine, schedule=schedule)
    ks = [3, 8, 0, 6, 4, 4, 2, 7, 9]
    run = e.run(words([[k] for k in ks]), [VALUES, HALF], timed=True)
    np.testing.assert_equal(floats(run), [halve_plain(k) for k in ks])
    trace = run.trace()
    longest = max(halve_plain(k)[1] for k in ks)
    assert trace.rounds == 1 + longest
    assert trace.nodes == sum(1 + halve_plain(k)[1] for k in ks)
    assert len(trace.batches) == trace.rounds  # one kernel a round
    assert [b.round for b in trace.batches] == list(range(longest + 1))
    assert len(trace.waits) == sum(1 + halve_plain(k)[1] for k in ks)
    assert len(trace.edges) == sum(halve_plain(k)[1] for k in ks)  # each node reads the one before, a round earlier
    quiet = e.run(words([[k] for k in ks]), [VALUES, HALF])
    assert np.array_equal(run.words, quiet.words)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_fibers_go_on_with_is_fetched_where_kernels_read_much(engine: str) -> None:
    e = executable(halve(), engine)
    ks = [3, 8, 0, 6, 4, 4, 2, 7, 9]
    want = e.run(words([[k] for k in ks]), [VALUES, HALF])
    assert e.host.leads.keys() == e.host.waits.keys() and all(places[0] == 0 for places in e.host.leads.values())
    assert any(len(places) > 1 for places in e.host.leads.values())  # the tensor that is waited for
    given = e.take_buffers()
    given["weights"] = 1 << 30
    e.give_buffers(given)
    run = e.run(words([[k] for k in ks]), [VALUES, HALF])
    assert run.buffers is given and run.buffers["rounds"] > 5
    assert np.array_equal(run.words, want.words)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("wrong", [[], [77]])
def test_a_trace_has_every_round(engine: str, wrong: list[int]) -> None:
    """Also those after which the compiled loop returns: each 64th, and any in which a node failed."""
    e = executable(halve(), engine)
    values = VALUES.copy()
    values[3] = 2.0**120
    run = e.run(words([[k] for k in (3, 0, *wrong)]), [values, HALF], timed=True)
    assert run.trace().rounds == 121
    assert floats(run)[:2] == [(1.0, 120), (0.5, 0)]
    assert sorted(run.errors) == [2] * bool(wrong)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_instance_that_fails_between_waits(engine: str) -> None:
    e = executable(halve(), engine, max_steps=10)
    run = e.run(words([[k] for k in (3, 6, 77, 2, 10)]), [VALUES, HALF])
    assert sorted(run.errors) == [1, 2, 4]
    assert run.errors[1].site == -1 and run.errors[1].calls[0].line in (8, 9)  # the head of the loop
    assert run.errors[2].site == run.errors[4].site == 0
    assert [floats(run)[k] for k in (0, 3)] == [halve_plain(3), halve_plain(2)]


def test_memory_of_an_endless_loop_is_that_instances() -> None:
    """x = x * one: for ever for 3, while the others end."""
    e = executable(halve(), "compiled", memory_limit=2 << 20)
    one = np.array(1, np.float32)
    given = words([[k] for k in (0, 1, 3, 7)])
    with pytest.raises(TooLarge) as caught:
        e.run(given, [VALUES, one])
    assert [*caught.value.surely, *caught.value.suspects, *caught.value.alone] == [2]
    run = e.run(given, [VALUES, one], skip=[2])
    assert not run.errors
    assert [floats(run)[k] for k in (0, 1, 3)] == [(0.5, 0), (1.0, 0), (0.0, 0)]


def sprout(into: bool = False) -> n.Program:
    """def grow(t): the value of t's word, read, if t is a leaf; else the sum of both sides' plus 1.

    Both sides are fibers.
    """
    sites: list[n.Site] = []
    main = Hand("main", [("t", REF)], [FLOAT], sites)
    with main.block(0) as f:
        f.ret(f.call(1, f.params[0], outs=[FLOAT]))
    grow = Hand("grow", [("t", REF)], [FLOAT], sites)
    (t,) = grow.params
    with grow.block(0) as f:
        left = f.load(t, "left", REF)
        f.branch(f.null(left), 1, 2)
    with grow.block(1) as f:
        word = f.load(t, "word", INT)
        ok = f.scalar("ge", word, f.const(0))
        f.check(ok, "ValueError", "a word {0}", word)
        x = f.row(0, word, 10)
        f.ret(f.read(x))
    with grow.block(2) as f:
        right = f.load(t, "right", REF)
        if into:
            xs = f.list_op("fill", f.const(2), f.const(0.0), outs=[ListT(FloatT())])
            f.spawn(1, left, into=(xs, f.const(0)))
            f.spawn(1, right, into=(xs, f.const(1)))
            f.join()
            a = f.list_op("get", xs, f.const(0), outs=[FLOAT])
            b = f.list_op("get", xs, f.const(1), outs=[FLOAT])
        else:
            (a,) = f.spawn(1, left, outs=[FLOAT])
            (b,) = f.spawn(1, right, outs=[FLOAT])
            f.join(a, b)
        f.ret(f.scalar("add", f.scalar("add", a, b), f.const(1.0)))
    return program([main, grow], sites, [TREE], FLOAT, shared=[("p.table", TABLE)])


def grown(t: Tree) -> float:
    return grown(t.left) + grown(t.right) + 1.0 if t.left else float(NUMBERS[t.word])


NUMBERS = np.arange(10, dtype=np.float32) / 4


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("into", [False, True])
def test_both_sides_of_a_tree_wait_at_once(engine: str, into: bool) -> None:
    rng = np.random.default_rng(3)
    trees = [random_tree(rng, k) for k in (1, 2, 30, 7, 100)]
    rows, roots = pack_trees(trees)
    e = executable(sprout(into), engine)
    run = e.run(roots, [NUMBERS], keep=[rows], timed=True)
    assert run.words[:, 0].view(np.float64).tolist() == [grown(t) for t in trees]
    trace = run.trace()
    assert trace.rounds == 1 and len(trace.waits) == 140 and trace.nodes == 140


def test_the_queues_and_all_else_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dfg, "_NODES", 2)
    monkeypatch.setattr(dfg, "_CHUNK", 64)
    monkeypatch.setattr(dfg, "_FIBERS", 2)
    rng = np.random.default_rng(4)
    trees = [random_tree(rng, k) for k in (300, 1, 90)]
    rows, roots = pack_trees(trees)
    for into in (False, True):
        for engine in ENGINES:
            run = executable(sprout(into), engine).run(roots, [NUMBERS], keep=[rows])
            assert run.words[:, 0].view(np.float64).tolist() == [grown(t) for t in trees]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fiber_that_fails_ends_its_instance_alone(engine: str) -> None:
    rng = np.random.default_rng(5)
    trees = [random_tree(rng, k) for k in (20, 20, 20, 20)]

    def leaf(t: Tree, turns: str) -> Tree:
        for turn in turns:
            t = t if t.left is None else t.left if turn == "l" else t.right
        while t.left is not None:
            t = t.left
        return t

    leaf(trees[1], "r").word = -7  # fails in the machine
    leaf(trees[2], "lr").word = 99  # fails in a kernel, and others of the instance wait
    rows, roots = pack_trees(trees)
    run = executable(sprout(), engine).run(roots, [NUMBERS], keep=[rows])
    assert sorted(run.errors) == [1, 2]
    assert run.errors[1].values == (-7,) and len(run.errors[1].calls) > 1
    assert {c.function for c in run.errors[1].calls[:-1]} == {"grow"} and run.errors[1].calls[-1].function == "main"
    assert [run.words[k, 0].view(np.float64) for k in (0, 3)] == [grown(trees[k]) for k in (0, 3)]


def test_a_chain_of_fibers_as_deep_as_memory() -> None:
    t = Tree(None, None, 1)
    for _ in range(30_000):  # machine code that called itself so often would need more than a stack of 8 MB
        t = Tree(Tree(None, None, 2), t, -1)
    rows, roots = pack_trees([t, Tree(None, None, 3)])
    run = executable(sprout(), "compiled").run(roots, [NUMBERS], keep=[rows])
    assert run.words[:, 0].view(np.float64).tolist() == [0.25 + 30_000 * 1.5, 0.75]
