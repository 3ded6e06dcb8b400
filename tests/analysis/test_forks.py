"""Fibers inside of one instance: what forks, what must not, and that no order of fibers changes a result."""

from __future__ import annotations

import functools
import random
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from acronumba import model
from acronumba.analysis import passes
from acronumba.analysis.fibers import fork as forks
from acronumba.analysis.fibers import world as fibers
from acronumba.analysis.waits import waiting_functions
from acronumba.api.results import equal
from acronumba.config import Options
from acronumba.errors import InstanceErrors
from acronumba.ir import nodes as n
from acronumba.ir.interpret import Interpreter, interpret
from acronumba.ir.types import BOOL, FLOAT, INT, ListT, TensorT
from acronumba.ir.verify import VerifyError, verify
from acronumba.pipeline.compiled import Compiled
from tests.support import generate
from tests.support.all_models import CASES
from tests.support.chosen import one_in, squares
from tests.support.hand import Hand, program
from tests.support.plain_call import agree

Array = np.ndarray
H = 4


@dataclass
class Params:
    w: Array
    embed: Array


@dataclass
class Tree:
    word: int = -1
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Node:
    h: Array
    kids: list[Node] = field(default_factory=list)


@dataclass
class Doc:
    words: list[int]
    parts: list[Doc] = field(default_factory=list)


def params() -> Params:
    rng = np.random.default_rng(0)
    return Params(rng.standard_normal((H, H)).astype(np.float32), rng.standard_normal((7, H)).astype(np.float32))


def vectors(count: int, seed: int = 1) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(H).astype(np.float32) for _ in range(count)]


def tree(rng: random.Random, depth: int) -> Tree:
    if depth == 0 or rng.random() < 0.2:
        return Tree(rng.randrange(7))
    return Tree(left=tree(rng, depth - 1), right=tree(rng, depth - 1))


def compiled(fn: Any, *columns: Any, **options: Any) -> Compiled:
    return Compiled(getattr(fn, "__wrapped__", fn), columns, {"p": params()}, Options(**options))


def spawns(c: Compiled) -> list[n.Spawn]:
    return [i for f in c.plan.program.functions for b in f.blocks for i in b.instrs if isinstance(i, n.Spawn)]


def remarks(c: Compiled, kind: str) -> list[str]:
    """Return what was decided, as in "17 each step ...", with lines from the one of the model's def."""
    first = c.lowered.program.functions[0].loc.line
    return sorted({f"{note.loc.line - first:+} {note.text}" for note in c.plan.notes if note.kind == kind})


def same(m: Any, *columns: Any) -> Compiled:
    """Compare with the plain call: spawned calls run at once, at the join in reverse, and not spawned at all."""
    expected = [m(*args, p=params()) for args in zip(*columns, strict=True)]
    c = compiled(m, *columns)
    leaves = c.guard.leaves({"p": params()})
    assert leaves is not None
    for late in (False, True):
        run = Interpreter(c.plan.program, leaves, kernels=c.plan.kernels, late=late)
        for args, want in zip(zip(*columns, strict=True), expected, strict=True):
            got = run.run(args)
            assert equal(got, want) or close(got, want), (late, got, want)
    off = compiled(m, *columns, forkjoin=False)
    assert not spawns(off) and "forks" not in off.plan.texts
    return c


def close(a: Any, b: Any) -> bool:
    """Whether results agree but for the rounding of float32 products."""
    if isinstance(a, Array):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6)
    if isinstance(a, Node):
        return close(a.h, b.h) and close(a.kids, b.kids)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(close, a, b))
    return bool(a == b) or (isinstance(a, float) and np.isclose(a, b, rtol=1e-5))


# ---- calls


def encode(t: Tree, p: Params) -> Array:
    if t.left is None or t.right is None:
        return np.tanh(p.embed[t.word])
    left = encode(t.left, p)
    right = encode(t.right, p)
    h = np.tanh(p.w @ (left + right))
    if h[0] > 0:
        h = h * 2
    return h


@model
def binary(t: Tree, *, p: Params) -> Array:
    return encode(t, p)


def test_both_children_of_a_tree_are_fibers() -> None:
    rng = random.Random(0)
    c = same(binary, [tree(rng, 4) for _ in range(5)])
    lines = {(s.loc.function, s.loc.line - encode.__code__.co_firstlineno) for s in spawns(c)}
    assert lines == {("encode", 3), ("encode", 4)}
    assert {note.option for note in c.plan.notes if note.kind == "fibers"} == {"forkjoin"}
    assert "encode line" in c.plan.texts["forks"]


def shrink(h: Array, p: Params) -> Array:
    return shrink(np.tanh(p.w @ h) / 2, p) if h[0] > 0.1 else h


@model
def arguments(x: Array, y: Array, *, p: Params) -> Any:
    return shrink(shrink(x, p) + shrink(y, p), p), (shrink(y, p), shrink(x, p))


def test_arguments_and_items_of_tuples_are_fibers() -> None:
    c = same(arguments, vectors(4), vectors(4, 2))
    entry = c.plan.program.functions[0]
    kinds = [type(i).__name__ for b in entry.blocks for i in b.instrs if isinstance(i, n.Spawn | n.Join | n.Call)]
    assert kinds == ["Spawn"] * 4 + ["Join", "Call"]


@model
def between(x: Array, y: Array, *, p: Params) -> Any:
    a = shrink(x, p)
    b = np.tanh(p.w @ a)
    c = shrink(y, p)
    d = shrink(b, p)
    e = shrink(c - 1, p)
    return a, b, c, d, e


def test_what_needs_a_result_moves_behind_the_join() -> None:
    c = same(between, vectors(4), vectors(4, 2))
    entry = c.plan.program.functions[0]
    kinds = [type(i).__name__ for b in entry.blocks for i in b.instrs if isinstance(i, n.Spawn | n.Join | n.Call)]
    assert kinds == ["Spawn", "Spawn", "Join", "Spawn", "Spawn", "Join"]


@model
def chained(x: Array, *, p: Params) -> Array:
    return shrink(shrink(shrink(x, p) + 1, p) + 1, p)


def test_calls_that_need_each_other_stay_calls() -> None:
    c = same(chained, vectors(3))
    assert not spawns(c)
    assert [t.split(" of line")[0] for t in remarks(c, "serial")] == ["+1 waits for shrink"]


@model
def guarded(x: Array, y: Array, *, p: Params) -> Any:
    a = shrink(x, p)
    b = a + y  # if their extents go together
    return b, shrink(y, p)


def test_nothing_runs_before_a_check_that_it_relies_on() -> None:
    assert not spawns(same(guarded, vectors(3), vectors(3, 2)))


def drop(stack: list[Array], p: Params) -> Array:
    h = stack.pop()
    return drop(stack, p) if h[0] > 0 and len(stack) > 1 else np.tanh(p.w @ h)


@model
def popped(xs: list[Array], *, p: Params) -> Any:
    stack = list(xs)
    a = drop(stack, p)
    b = drop(stack, p)
    return a, b, len(stack)


@model
def two_stacks(xs: list[Array], *, p: Params) -> Any:
    one, two = list(xs), list(xs)
    a = drop(one, p)
    b = drop(two, p)
    return a, b, len(one), len(two)


def test_calls_that_pop_from_one_stack_follow_each_other() -> None:
    xs = [vectors(9, k) for k in range(5)]
    c = same(popped, xs)
    assert not [s for s in spawns(c) if s.loc.function == "popped"]
    assert any("one changes a list or object that the other has" in t for t in remarks(c, "serial"))
    assert len([s for s in spawns(same(two_stacks, xs)) if s.loc.function == "two_stacks"]) == 2


def collect(h: Array, out: list[Array], p: Params) -> Array:
    out.append(h)
    return collect(np.tanh(p.w @ h) / 2, out, p) if h[0] > 0 else h


@model
def looked_at(x: Array, y: Array, *, p: Params) -> Any:
    out: list[Array] = []
    a = collect(x, out, p)
    k = len(out)
    b = shrink(y, p)
    return a, k, b, out


def test_a_list_is_looked_at_behind_the_calls_that_fill_it() -> None:
    c = same(looked_at, vectors(4), vectors(4, 2))
    assert len([s for s in spawns(c) if s.loc.function == "looked_at"]) == 2


# ---- arms, and helpers that are inlined


def optional(t: Tree, p: Params) -> Array:
    zero = np.zeros(H, np.float32)
    left = optional(t.left, p) if t.left is not None else zero
    right = optional(t.right, p) if t.right is not None else zero
    h = np.tanh(p.w @ (left + right) + p.embed[t.word])
    return h * 2 if h[0] > 0 else h


@model
def optional_children(t: Tree, *, p: Params) -> Array:
    return optional(t, p)


def test_arms_of_conditions_go_on_beside_each_other() -> None:
    rng = random.Random(1)
    trees = [tree(rng, 4) for _ in range(4)]
    c = same(optional_children, [*trees, Tree(1, left=Tree(2)), Tree(1, right=Tree(2, left=Tree(3)))])
    first = optional.__code__.co_firstlineno
    assert {s.loc.line - first for s in spawns(c)} == {2, 3}
    assert any("runs beside line" in t for t in remarks(c, "fibers"))


def refine(x: Array, p: Params) -> tuple[Array, int]:
    k = 0
    while x[0] > 0.01 and k < 9:
        x = np.tanh(p.w @ x) / 2
        k += 1
    return x, k


@model
def helpers(x: Array, y: Array, *, p: Params) -> Any:
    a, i = refine(x, p)
    b, j = refine(y, p)
    c, k = refine(a * b, p)
    return c, i, j, k


def test_loops_of_helpers_go_on_beside_each_other() -> None:
    c = same(helpers, vectors(6), vectors(6, 2))
    assert len(spawns(c)) == 2
    entry = c.plan.program.functions[0]
    assert any(isinstance(i, n.Read) for b in entry.blocks for i in b.instrs)  # the third loop needs both


@model
def comprehensions(xs: list[Array], ys: list[Array], *, p: Params) -> Any:
    total = 0.5
    for x in xs:
        total += float(x[0])
    a = [float((p.w @ x)[0]) for x in xs]
    b = [float((p.w @ y)[1]) for y in ys]
    return a, b, total, [x for x in a if x > total]


def test_loops_go_on_beside_loops() -> None:
    c = same(comprehensions, [vectors(4), []], [vectors(2, 2), vectors(1, 3)])
    entry = [i for b in c.plan.program.functions[0].blocks for i in b.instrs if isinstance(i, n.Spawn)]
    assert len(entry) == 3 and all(s.into is None for s in entry)
    assert len(spawns(c)) == 6


def decided(x: Array, p: Params) -> Array:
    h = np.tanh(p.w @ x)
    if h[0] > 0:
        h = h * 2
    return h if h[1] > 0 else -h


def halved(x: Array, p: Params) -> Array:
    h, n = p.w @ x, 0
    while h[0] > 0.01 and n < 6:
        h, n = h / 2, n + 1
    return h


def rejected(x: Array, p: Params) -> Array:
    h = halved(x, p)
    if h[1] > 9:
        raise ValueError("too large")
    return h


@model
def one_decision(x: Array, y: Array, *, p: Params) -> Any:
    return (p.w @ x if x[0] > 0 else x) + (p.w @ y if y[0] > 0 else y)


@model
def two_decisions(x: Array, y: Array, *, p: Params) -> Any:
    return decided(x, p) + decided(y, p)


@model
def twice(x: Array, y: Array, *, p: Params) -> Any:
    return decided(decided(x, p), p) + decided(decided(y, p), p)


@model
def of_one_array(x: Array, y: Array, *, p: Params) -> Any:
    return halved(x, p) + halved(x * y, p)


@model
def behind_a_raise(x: Array, y: Array, *, p: Params) -> Any:
    a = rejected(x, p)
    return a, [rejected(x * k, p) for k in range(3)]


@model
def of_one_list(xs: list[Array], *, p: Params) -> Any:
    return [halved(x, p) for x in xs], [halved(x * 2, p) for x in xs]


HELPERS = [(one_decision, 2), (two_decisions, 3), (twice, 5), (of_one_array, 8), (behind_a_raise, 8)]
UNLIKE: list[dict[str, Any]] = [{"forkjoin": False}, {"blocks": False}, {"schedule": "depth"}]


@pytest.mark.parametrize(("m", "rounds"), HELPERS)
def test_helpers_that_wait_take_as_many_rounds_as_one_of_them(m: Any, rounds: int) -> None:
    xs, ys = [x + 2 for x in vectors(6)], [y + 2 for y in vectors(6, 2)]
    same(m, xs, ys)
    assert max(m.trace([x], [y], p=params()).rounds for x, y in zip(xs, ys, strict=True)) <= rounds


@pytest.mark.parametrize(("m", "options"), squares([m for m, _ in HELPERS], UNLIKE))
def test_helpers_that_wait_have_the_same_results_otherwise(m: Any, options: dict[str, Any]) -> None:
    columns = [x + 2 for x in vectors(6)], [y + 2 for y in vectors(6, 2)]
    got = m.batch(*columns, p=params())
    assert equal(list(got), list(m.with_options(**options).batch(*columns, p=params())))


def test_loops_over_one_list_go_on_beside_each_other() -> None:
    xs = [[x + 2 for x in vectors(4)], []]
    same(of_one_list, xs)
    assert of_one_list.trace(xs, p=params()).rounds <= 8


@dataclass
class Link:
    h: Array
    next: Link | None = None


@model
def asserted(link: Link, *, p: Params) -> Any:
    a = halved(link.h, p)
    if a[0] < -9 or link.next is None:
        raise ValueError("the end")
    return a + halved(link.next.h, p)


def test_what_is_known_from_a_condition_stays_behind_it() -> None:
    links = [Link(x, Link(x * 2)) for x in vectors(3)] + [Link(vectors(1)[0])]
    with pytest.raises(InstanceErrors) as caught:
        asserted.batch(links, p=params())
    assert {k: str(e) for k, e in caught.value.errors.items()} == {3: "the end"}
    assert equal(list(caught.value.results[:3]), list(asserted.batch(links[:3], p=params())))


@model
def arms_that_share(x: Array, y: Array, *, p: Params) -> Any:
    out = [x]
    if x[0] > 0:
        out.append(np.tanh(p.w @ x))
    if y[0] > 0:
        out.append(np.tanh(p.w @ y))
    return out


@model
def arm_that_fails(x: Array, y: Array, *, p: Params) -> Any:
    if x[0] > 1:
        raise ValueError("too large")
    a, i = refine(x, p)
    b, j = refine(y, p)
    return a + b, i + j


def test_arms_that_change_one_list_follow_each_other() -> None:
    assert not spawns(same(arms_that_share, vectors(6), vectors(6, 2)))
    xs, ys = vectors(6), vectors(6, 2)
    xs[2] = xs[2] * 0 + 2
    with pytest.raises(InstanceErrors) as caught:
        arm_that_fails._interpret(xs, ys, p=params())
    assert 2 in caught.value.errors and str(caught.value.errors[2]) == "too large"


# ---- loops


def grow(h: Array, depth: int, p: Params) -> Node:
    h = np.tanh(p.w @ h)
    if depth == 0 or h[1] > 0.8:
        return Node(h)
    count = int(h[0] > 0) + int(h[2] > 0) + int(h[3] > 0)
    return Node(h, [grow(h * (k + 1), depth - 1, p) for k in range(count)])


@model
def generated(x: Array, depth: int, *, p: Params) -> Node:
    return grow(x, depth, p)


def test_a_generated_tree_grows_everywhere_at_once() -> None:
    c = same(generated, vectors(6), [5, 4, 3, 2, 1, 0])
    assert all(s.into is not None for s in spawns(c)) and len(spawns(c)) >= 1
    assert remarks(c, "serial") == []


def walk(node: Node, p: Params) -> Array:
    hs = [walk(k, p) for k in node.kids]
    h = np.tanh(p.w @ node.h)
    for x in hs:
        h = h + x
    return h * 2 if h[0] > 0 else h


@model
def round_trip(x: Array, *, p: Params) -> Array:
    return walk(grow(x, 4, p), p)


def test_lists_of_another_call_of_the_same_line_are_no_obstacle() -> None:
    c = same(round_trip, vectors(4))
    assert {s.loc.function for s in spawns(c)} >= {"grow", "walk"}
    assert any("carries" in t or "how many" in t for t in remarks(c, "serial")) is False


def score(x: Array, p: Params) -> float:
    return float((p.w @ x)[0])


@model
def kinds_of_loops(xs: list[Array], ys: list[Array], k: int, *, p: Params) -> Any:
    zipped = [score(x + y, p) for x, y in zip(xs, ys, strict=False)]
    numbered = [score(x * i, p) for i, x in enumerate(xs)]
    backwards = [score(x, p) for x in reversed(xs)]
    ranged = [score(xs[0] * i, p) for i in range(1, k, 2)]
    down = [score(xs[0] * i, p) for i in range(k, 0, -1)]
    out = []
    for x in xs:
        out.append(score(x, p))
    return zipped, numbered, backwards, ranged, down, out


def test_loops_of_known_length_fork() -> None:
    xs, ys = [vectors(5), vectors(1)], [vectors(3, 2), vectors(4, 3)]
    c = same(kinds_of_loops, xs, ys, [7, 0])
    assert [t.split()[0] for t in remarks(c, "fibers")] == ["+1", "+2", "+3", "+4", "+5", "+8", "-4"]
    assert len(spawns(c)) == 12 and remarks(c, "serial") == []  # six loops, and the steps of each
    assert not any(isinstance(i, n.ListOp) and i.op == "append" for f in c.plan.program.functions for b in f.blocks for i in b.instrs)  # fmt: skip # noqa: E501


@model
def empty_lists(xs: list[Array], *, p: Params) -> Any:
    return [score(x, p) for x in xs], [[score(x, p) for x in xs] for _ in xs]


def test_empty_lists() -> None:
    same(empty_lists, [[], vectors(2), []])


@model
def nested(docs: list[list[Array]], *, p: Params) -> Any:
    return [[score(x, p) for x in d] for d in docs], [score(x, p) for d in docs for x in d]


def test_nested_comprehensions_fork_inside_of_forks() -> None:
    c = same(nested, [[vectors(3), [], vectors(2, 5)], []])
    spawned = {s.function for s in spawns(c)}
    inside = [i for k in spawned for b in c.plan.program.functions[k].blocks for i in b.instrs]
    assert any(isinstance(i, n.Spawn) for i in inside)


@model
def sums(xs: list[Array], *, p: Params) -> Any:
    total, h, best = 0.1, xs[0], -1
    for i, x in enumerate(xs):
        v = float((p.w @ x)[0])
        total += v
        h = h + x * v
        if v > 0.5:
            best = i
    return total, h, best, sum(score(x, p) for x in xs)


def test_sums_keep_their_order() -> None:
    c = same(sums, [vectors(9), vectors(3)])
    assert len(spawns(c)) == 4  # the two loops, and the steps of each
    assert any("the rest runs afterwards" in t for t in remarks(c, "fibers"))
    m = sums._interpret([vectors(9), vectors(3)], p=params())
    off = sums.with_options(forkjoin=False)._interpret([vectors(9), vectors(3)], p=params())
    assert equal(m, off)  # to the bit


@model
def filtered(xs: list[Array], *, p: Params) -> Any:
    kept = [x for x in xs if score(x, p) > 0]
    small, large = [], []
    for x in xs:
        v = score(x, p)
        if v > 0:
            large.append(v)
        else:
            small.append((v, x))
    return kept, small, large, x


def test_conditional_appends_run_in_order_after_the_waits() -> None:
    assert len(spawns(same(filtered, [vectors(9), vectors(1)]))) == 4  # the two loops, and the steps of each


@model
def onto_a_list(xs: list[Array], *, p: Params) -> Any:
    out = [1.0]
    for x in xs:
        out.append(score(x, p))
    other = out
    for x in xs:
        out.append(score(x, p) + len(other))
    return out


def test_appends_to_a_list_that_is_not_empty_or_is_seen() -> None:
    c = same(onto_a_list, [vectors(4), []])
    assert len(spawns(c)) == 2


@model
def inner_state(docs: list[list[Array]], *, p: Params) -> Any:
    out = []
    for d in docs:
        h = np.zeros(H, np.float32)
        for x in d:
            h = np.tanh(p.w @ (h + x))
            if h[0] > 0:
                h = h / 2
        out.append(h)
    return out


def test_what_a_step_carries_inside_itself_is_its_own() -> None:
    c = same(inner_state, [[vectors(3), [], vectors(2, 5)], []])
    assert len(spawns(c)) == 1
    assert any("it carries `h" in t for t in remarks(c, "serial"))  # the inner loop, in its fiber


@model
def carried(xs: list[Array], *, p: Params) -> Any:
    h = np.zeros(H, np.float32)
    for x in xs:
        h = np.tanh(p.w @ (h + x))
        if h[0] > 0:
            h = h / 2
    return h


@model
def leaves_early(xs: list[Array], *, p: Params) -> Any:
    for x in xs:
        if score(x, p) > 0:
            break
    for k, x in enumerate(xs):
        if score(x, p) > 1:
            return k
    return -1


@model
def unknown_length(x: Array, *, p: Params) -> Any:
    k = 0
    while x[0] > 0.1:
        x = x / 2
        k += 1
    return k


@model
def worklist(x: Array, *, p: Params) -> Any:
    todo, seen = [x], []
    while todo:
        h = todo.pop()
        v = float(h[0])
        seen.append(v)
        if v > 0.5:
            todo.append(h / 2)
            todo.append(h / 3)
    return seen


@model
def own_length(xs: list[Array], *, p: Params) -> Any:
    out = [0.0]
    for x in xs:
        out.append(float((p.w @ (x * len(out)))[0]))
    return out


@model
def common_list(xs: list[Array], *, p: Params) -> Any:
    out: list[Array] = []
    return [collect(x, out, p) for x in xs], out


@pytest.mark.parametrize(
    ("m", "why"),
    [
        (carried, "it carries `h` from one step to the next"),
        (leaves_early, "may leave it early"),
        (own_length, "needs a list that the loop changes"),
        (common_list, "changes a list or object that other steps have"),
    ],
)
def test_loops_that_stay(m: Any, why: str) -> None:
    c = same(m, [vectors(6), vectors(2, 3), vectors(1)])
    assert not [s for s in spawns(c) if s.loc.function == m.__wrapped__.__name__]
    assert any(why in t for t in remarks(c, "serial")), remarks(c, "serial")


@pytest.mark.parametrize("m", [unknown_length, worklist])
def test_loops_of_unknown_length_stay(m: Any) -> None:
    c = same(m, [x * 3 for x in vectors(4)])
    assert not spawns(c)
    assert any("how many there are is not known" in t for t in remarks(c, "serial"))


def read_doc(d: Doc, p: Params) -> Array:
    h = np.zeros(H, np.float32)
    for w in d.words:
        h = h + p.embed[w]
    for part in d.parts:
        h = h + read_doc(part, p)
    return np.tanh(p.w @ h) if h[0] > 0 else h


@model
def documents(d: Doc, *, p: Params) -> Array:
    return read_doc(d, p)


def test_a_sum_over_children_forks_the_children() -> None:
    docs = [Doc([1, 2], [Doc([3]), Doc([], [Doc([4]), Doc([5, 6])])]), Doc([])]
    c = same(documents, docs)
    assert [s.loc.function for s in spawns(c)] == ["read_doc"]


# ---- failures


def test_failing_fibers_fail_their_instance_as_the_plain_call() -> None:
    docs = [Doc([1]), Doc([1], [Doc([2]), Doc([9], [Doc([8])]), Doc([7])]), Doc([3], [Doc([3])])]
    for options in ({}, {"forkjoin": False}):
        with pytest.raises(InstanceErrors) as caught:
            documents.with_options(**options)._interpret(docs, p=params())
        assert list(caught.value.errors) == [1]
        assert type(caught.value.errors[1]) is IndexError and "index 9" in str(caught.value.errors[1])
        assert caught.value.results[1] is None and caught.value.results[2] is not None


def slow_to_fail(x: Array, p: Params) -> Array:
    h = halved(x, p)
    if h[1] < 9:
        raise ValueError("first")
    return h


def never(x: Array) -> int:
    k = 0
    while x[0] == x[0]:
        k += 1
    return k


def too_many_bits(x: Array) -> int:
    k = 2
    while x[0] == x[0]:
        k *= 2
    return k


@model
def endless_second(xs: list[Array], fails: bool, *, p: Params) -> Any:
    a = [slow_to_fail(x, p) if fails else halved(x, p) for x in xs]
    return a, [never(x) for x in xs]


@model
def overflow_second(xs: list[Array], fails: bool, *, p: Params) -> Any:
    a = [slow_to_fail(x, p) if fails else halved(x, p) for x in xs]
    return a, [too_many_bits(x) for x in xs]


@pytest.mark.parametrize(("m", "second"), [(endless_second, "ACR702"), (overflow_second, "64 bits")])
def test_the_first_failure_counts_where_the_plain_call_cannot_tell(m: Any, second: str) -> None:
    m = m.with_options(max_steps=50_000)
    columns = [vectors(3), [], vectors(2)], [True, True, False]
    for options in ({}, {"forkjoin": False}):
        with pytest.raises(InstanceErrors) as caught:
            m.with_options(**options).batch(*columns, p=params())
        errors = caught.value.errors
        assert list(errors) == [0, 2] and type(errors[0]) is ValueError and str(errors[0]) == "first"
        assert second in str(errors[2])
        assert caught.value.results[1] == ([], [])


# ---- every order of fibers


@pytest.fixture(params=["first", "last"])
def everything_waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each node and call count as a wait, and run what is spawned first, or when it is joined in reverse."""
    for module in (passes, forks):
        monkeypatch.setattr(module, "waiting_functions", lambda p: frozenset(range(len(p.functions))))
    waits = n.Emit | n.Call | n.Spawn | n.Read
    monkeypatch.setattr(fibers.World, "waits", lambda self, i: isinstance(i, waits))
    make = functools.partialmethod(Interpreter.__init__, late=request.param == "last")
    monkeypatch.setattr(Interpreter, "__init__", make)


@pytest.mark.usefixtures("everything_waits")
@pytest.mark.parametrize("case", one_in(2, CASES), ids=lambda case: case.name)
def test_models_whose_calls_and_steps_are_fibers(case: Any) -> None:
    agree(case.outcomes(case.model.with_options(max_steps=10**8 - 1)._interpret), case.plain(), close=True)


@pytest.mark.long
@settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    max_examples=20,
)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(3, 14))
def test_random_models_whose_calls_and_steps_are_fibers(
    everything_waits: None, tmp_path_factory: pytest.TempPathFactory, seed: int, size: int
) -> None:
    case = generate.generate(seed, size)
    found = generate.differences(case, tmp_path_factory.mktemp("forks"), compiled=False)
    # Another fiber of the instance may fail first: users see the failure of the plain call.
    found = [d for d in found if not re.match(r"\w*(Error|Mismatch)\b.*\bnot\b", d.what, re.DOTALL)]
    assert not found, "\n".join([f"seed {seed}, size {size}", case.source, *map(str, found)])


# ---- the checker and the interpreter


def spawning(*, join: bool = True, early: bool = False, twice: bool = False) -> n.Program:
    """Return a program that spawns g(x) twice and returns the sum, or does so wrongly."""
    sites: list[n.Site] = []
    main = Hand("main", [("x", INT)], [INT], sites)
    with main.block(0):
        a, b = main.var("a", INT), main.var("b", INT)
        for out in (a, a if twice else b):
            main._add(n.Spawn(outs=(out,), into=None, function=1, args=main.params, loc=main.at))
        if early:
            main.scalar("neg", a)
        if join:
            main._add(n.Join(outs=(a, b), loc=main.at))
        main.ret(main.scalar("add", a, b) if join else main.params[0])
    g = Hand("g", [("x", INT)], [INT], sites)
    with g.block(0):
        g.ret(g.scalar("add", g.params[0], g.const(1)))
    return program([main, g], sites, [INT], INT)


def test_spawned_calls_are_joined_before_they_are_used() -> None:
    verify(spawning())
    assert interpret(spawning(), [4]) == 10
    for wrong, text in (
        ({"join": False}, "returns before the join"),
        ({"early": True}, "a is used before the join"),
        ({"twice": True}, "spawned again before the join"),
    ):
        with pytest.raises(VerifyError, match=text):
            verify(spawning(**wrong))


def test_results_go_into_lists_of_their_type() -> None:
    def made(item: Any) -> n.Program:
        sites: list[n.Site] = []
        main = Hand("main", [("x", INT)], [INT], sites)
        with main.block(0):
            k = main.const(0)
            xs = main.list_new(item, main.const(7) if item == INT else main.const(True))
            main._add(n.Spawn(outs=(), into=(xs, k), function=1, args=main.params, loc=main.at))
            before = main.list_op("get", xs, k, outs=[item])
            main._add(n.Join(outs=(), loc=main.at))
            after = main.list_op("get", xs, k, outs=[item])
            main.ret(main.scalar("sub", after, before) if item == INT else k)
        g = Hand("g", [("x", INT)], [INT], sites)
        with g.block(0):
            g.ret(g.params[0])
        return program([main, g], sites, [INT], INT)

    verify(made(INT))
    assert interpret(made(INT), [4]) == 4 - 7  # nothing is there before the join
    with pytest.raises(VerifyError, match="into list\\[bool\\]"):
        verify(made(BOOL))


def test_functions_wait_through_calls() -> None:
    sites: list[n.Site] = []
    scalar = TensorT("float32", ())
    made = []
    for name, callee in (("a", 1), ("b", 2), ("c", None), ("d", None)):
        f = Hand(name, [("x", scalar)], [scalar], sites)
        with f.block(0):
            if callee is not None:
                f.ret(f.call(callee, f.params[0], outs=[scalar]))
            else:
                if name == "c":
                    out = f.var("out", FLOAT)
                    f._add(n.Read(out=out, tensor=f.params[0], loc=f.at))
                f.ret(f.params[0])
        made.append(f)
    assert waiting_functions(program(made, sites, [scalar], scalar)) == {0, 1, 2}


def test_lists_of_tensors_hold_nothing_before_the_join() -> None:
    c = compiled(empty_lists, [vectors(2)] * 1)
    fills = [i for f in c.plan.program.functions for b in f.blocks for i in b.instrs if isinstance(i, n.ListOp)]
    assert any(i.op == "fill" and isinstance(i.outs[0].type, ListT) for i in fills)


@model
def counted_from_one(xs: list[Array], *, p: Params) -> Any:
    out, total, last = [], np.zeros(H, np.float32), 0
    for k, x in enumerate(xs, 1):
        h = shrink(x * k, p) + k
        out.append(h)
        total = np.tanh(total + h)
        last = k
    scaled = [shrink(x, p) * k for k, x in enumerate(xs, 1)]
    for k, x in enumerate(xs, 1):
        if shrink(x, p)[0] > k:
            raise ValueError("no")
    return out, total, last, scaled


def test_what_counts_from_one_is_the_next_index() -> None:
    """A step and what counts the steps read one variable."""
    c = same(counted_from_one, [vectors(3), vectors(1), []])
    first = counted_from_one.__wrapped__.__code__.co_firstlineno
    assert {s.loc.line - first for s in spawns(c)} >= {4, 8, 10}
