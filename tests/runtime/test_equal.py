"""Equal nodes are recorded once: the same bits, each instance has its own failures, and a trace says who shares."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, InstanceErrors, model, pack, random
from acronumba.api.joining import Flow
from acronumba.api.results import equal
from acronumba.emit.tree import I64, const
from acronumba.host import instructions, machine
from acronumba.runtime import buffers, driver, kernel_table
from acronumba.runtime.state import EQUAL_PAUSE
from tests.support import recurrences
from tests.support.chosen import one_in
from tests.support.hand import pack_trees, random_tree, tree_lstm
from tests.support.hand_runs import ENGINES, check, executable, weights
from tests.support.memory_models import WIDTH, ZOO

F32 = np.float32


@dataclass
class Tree:
    word: int = 0
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Params:
    embed: np.ndarray
    w: np.ndarray


def encode(t: Tree, p: Params) -> Any:
    if t.left is None or t.right is None:
        return np.tanh(p.embed[t.word] + 1.0)
    return np.tanh(p.w @ (encode(t.left, p) + 0.5 * encode(t.right, p)))


@model(threads=1)
def read(t: Tree, *, p: Params) -> Any:
    return encode(t, p)


def params(words: int = 6) -> Params:
    rng = np.random.default_rng(0)
    return Params(rng.standard_normal((words, 8)).astype(F32), rng.standard_normal((8, 8)).astype(F32))


def trees(count: int, leaves: int = 9, words: int = 6, seed: int = 0) -> list[Tree]:
    rng = np.random.default_rng(seed)

    def grown(n: int) -> Tree:
        if n == 1:
            return Tree(int(rng.integers(words)))
        left = int(rng.integers(1, n))
        return Tree(0, grown(left), grown(n - left))

    return [grown(int(rng.integers(1, leaves + 1))) for _ in range(count)]


def parts(t: Tree, found: list[Any]) -> Any:
    """Return what a tree is made of; add that of each part to `found`."""
    inner = t.left is not None and t.right is not None
    key = (parts(t.left, found), parts(t.right, found)) if inner else t.word  # type: ignore[arg-type]
    found.append(key)
    return key


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel is given up."""
    monkeypatch.setattr(kernel_table, "_TRIES", 1 << 40)


_numbers = itertools.count(3)


def fresh(f: Any, **options: Any) -> Any:
    """Return a model with buffers of its own, made while the test has changed what decides."""
    return f.with_options(max_steps=10**7 + next(_numbers), **options)


def plain(f: Any) -> Any:
    return f.with_options(equal=False)


def same_bits(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(pickle.dumps(x) == pickle.dumps(y) for x, y in zip(a, b, strict=True))


def test_each_part_of_all_trees_is_one_node(always: None) -> None:
    """A parent is equal where its children are; the columns grow on the way, and entries are made anew."""
    f, p = fresh(read), params()
    for given in (trees(30), trees(900, 12), trees(900, 12)):
        every: list[list[Any]] = [[] for _ in given]
        for t, found in zip(given, every, strict=True):
            parts(t, found)
        trace = f.trace(given, p=p)
        assert trace.nodes == len({key for found in every for key in found})
        assert trace.nodes + trace.saved == sum(map(len, every))
        for k in (0, 7, len(given) - 1):
            assert len(trace.data.nodes_of(k)) == len(set(every[k]))
        assert same_bits(trace.results, plain(read).batch(given, p=p))


def test_a_trace_says_who_shares(always: None) -> None:
    same, other = Tree(0, Tree(1), Tree(2)), Tree(0, Tree(2), Tree(1))
    trace = fresh(read).trace([same, other, same], p=params())
    assert (trace.nodes, trace.saved) == (4, 5)
    assert [x["instances"] for _, x in sorted(trace.graph.nodes(data=True))] == [(0, 1, 2), (0, 1, 2), (0, 2), (1,)]
    assert [x["instance"] for _, x in sorted(trace.graph.nodes(data=True))] == [0, 0, 0, 1]
    assert trace.data.nodes_of(2).tolist() == [0, 1, 2]
    assert "equal nodes" in str(trace) and plain(read).trace([same, same], p=params()).saved == 0


def test_results_may_be_one_array_that_nobody_can_write() -> None:
    f, p, t = fresh(read), params(), Tree(0, Tree(1), Tree(2))
    results = f.batch([t] * 5, p=p)
    want = plain(read).batch([t] * 5, p=p)
    assert not any(x.flags.writeable for x in results)
    assert same_bits(results.stack(), want.stack()) and results.stack().shape == (5, 8)
    assert same_bits(results[1:4], want[1:4]) and same_bits(pickle.loads(pickle.dumps(results)), want)
    assert same_bits(f.batch(pack([t] * 5)[2:], p=pack(p)), want[2:])


def test_looking_pauses_where_nothing_is_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_table, "_TRIES", 4)
    given, p = [Tree(k) for k in [*range(10), *[9] * 60]], params(10)
    trace = fresh(read).trace(given, p=p)  # four are looked for, none is found; then again, and one is like the first
    assert (trace.nodes, trace.saved) == (4 + EQUAL_PAUSE, 66 - EQUAL_PAUSE)
    assert fresh(read).trace(given[9:], p=p).saved == 60
    assert same_bits(trace.results, plain(read).batch(given, p=p))


def test_nodes_that_read_others_are_looked_for_when_one_is_found() -> None:
    given, p = [Tree(0, Tree(1), Tree(2))] * 9, params()
    trace = fresh(read).trace(given, p=p)
    assert [b.size for b in trace.batches] == [2, 1] and trace.saved == 3 * 8
    different = [Tree(0, Tree(2 * k), Tree(2 * k + 1)) for k in range(9)]
    assert fresh(read).trace(different, p=params(18)).saved == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_grow(engine: str, always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns and tables of nodes grow while instances are recorded; memory is checked where Python runs the code."""
    monkeypatch.setattr(machine, "once_if_equal", lambda plan: frozenset(range(len(plan.kernels))))
    rng = np.random.default_rng(4)
    shared, given = weights(rng), [random_tree(rng, 4) for _ in range(90)]
    for nodes in (1, 32, 96):
        monkeypatch.setattr(buffers, "_NODES", nodes)
        rows, roots = pack_trees([*given, *given])
        run = executable(tree_lstm(), engine).run(roots, shared, keep=[rows], timed=True)
        check(run, [*given, *given], shared)
        trace = run.trace()
        assert all(trace.nodes_of(k).tolist() == trace.nodes_of(90 + k).tolist() for k in range(90))
        run.close()


@pytest.mark.parametrize("schedule", one_in(3, ["lookahead", "depth", "agenda"]))
def test_options_keep_the_bits(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_AIM", 1 << 12)
    monkeypatch.setattr(driver, "_LEAST", 2)
    given, p = trees(60), params()
    want = plain(read).batch(given, p=p)
    f = fresh(read, schedule=schedule)
    assert f.trace(given, p=p).parts > 1 and f.trace(given, p=p).saved > 0
    for threads in (1, 2):
        assert same_bits(f.with_options(threads=threads).batch(given, p=p), want)
    assert same_bits(f.with_options(memory_limit=1 << 26, recycle=False, parts=False).batch(given, p=p), want)


@pytest.mark.parametrize("engine", ENGINES)
def test_engines(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "once_if_equal", lambda plan: frozenset(range(len(plan.kernels))))  # none fails here
    rng = np.random.default_rng(3)
    shared = weights(rng)
    given = [random_tree(rng, k) for k in (7, 1, 3, 7, 1, 4, 1, 1)]
    rows, roots = pack_trees([*given, given[0]])
    run = executable(tree_lstm(), engine).run(roots, shared, keep=[rows], timed=True)
    check(run, [*given, given[0]], shared)
    trace = run.trace()
    assert trace.nodes_of(8).tolist() == trace.nodes_of(0).tolist() and len(trace.sharers) >= len(trace.nodes_of(0))
    run.close()


# ---- nodes that differ in nothing but the extents of their results


def zeros_like(x: Any, p: Any) -> Any:
    return np.zeros_like(x)


def bias(x: Any, p: Any) -> Any:
    n, d = x.shape
    return np.zeros((n, d)) + p.b


def product(x: Any, p: Any) -> Any:
    n, d = x.shape
    return np.ones((n, d)) @ p.w


def filled(x: Any, p: Any) -> Any:
    out = np.empty(x.shape)
    out[:] = p.b
    return out


def padded(x: Any, p: Any) -> Any:
    out = np.zeros((x.shape[0] + 1, x.shape[1]))
    out[: x.shape[0]] = x
    return out


def tiled(x: Any, p: Any) -> Any:
    return np.tile(np.tanh(p.w @ p.b), (x.shape[0], 1)) * p.b


def repeated(x: Any, p: Any) -> Any:
    return np.repeat(p.w[:1], x.shape[0], axis=0) @ p.w


def numbered(x: Any, p: Any) -> Any:
    return np.arange(x.shape[0])[:, None] * p.b


def rows_of_a_table(x: Any, p: Any) -> Any:
    return p.w[np.arange(x.shape[0]) % 3]


def both(x: Any, p: Any) -> Any:
    return np.ones((x.shape[0], x.shape[0])) @ np.ones((x.shape[0], x.shape[1])) + p.b


def written(x: Any, p: Any) -> Any:
    a = np.full((x.shape[0], 3), 2.0)
    before = a * p.b
    a[1:] += p.b
    return before, a @ p.w


@dataclass
class Square:
    w: np.ndarray
    b: np.ndarray


ROWS = [zeros_like, bias, product, filled, padded, tiled, repeated, numbered, rows_of_a_table, both, written]


@pytest.mark.parametrize("body", ROWS, ids=lambda f: f.__name__)
def test_results_have_the_extents_of_their_own_instance(body: Any, always: None) -> None:
    @model
    def made(x: np.ndarray, *, p: Square) -> Any:
        return body(x, p)

    rng = np.random.default_rng(0)
    p = Square(rng.standard_normal((3, 3)), rng.standard_normal(3))
    xs = [rng.standard_normal((n, 3)) for n in (2, 3, 5, 2, 0, 3, 1)]
    f = fresh(made)
    for got, x in zip(f.batch(xs, p=p), xs, strict=True):
        want = made(x, p=p)
        for a, b in zip(got, want, strict=True) if body is written else [(got, want)]:
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    if body not in (padded, written, rows_of_a_table):
        assert f.trace(xs, p=p).saved > 0  # those that do have the same extents are one node


# ---- ACRONUMBA_VERIFY=3


def without_extents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the extents of results out of what is compared."""
    call = instructions.call_address

    def lax(at: Any, *args: Any, result: Any) -> Any:
        *most, _, hash, newest, n = args
        return call(at, *most, const(0, I64), hash, newest, n, result=result)

    monkeypatch.setattr(instructions, "call_address", lax)
    monkeypatch.setattr(instructions, "hash_of", lambda *_: const(0, I64))


def test_a_node_that_was_wrongly_taken_for_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    p = params()
    for f, given in ((read, trees(40)), (walk, [0, 1, 2] * 5)):
        columns = (given,) if f is read else (given, [3, 5] * 7 + [1])
        want = plain(f).batch(*columns, p=p)
        monkeypatch.setenv("ACRONUMBA_VERIFY", "3")
        again = fresh(f)
        assert all(map(equal, again.batch(*columns, p=p), want))
        trace = again.trace(*columns, p=p)
        assert trace.saved > 0 and trace.nodes > plain(f).trace(*columns, p=p).nodes - 1  # all are computed
        monkeypatch.undo()
    without_extents(monkeypatch)
    made = model(lambda x, *, b: np.zeros(x.shape) + b)
    xs, b = [np.ones((2, 3)), np.ones((4, 3))], np.ones(3)
    assert [y.shape for y in fresh(made).batch(xs, b=b)] != [x.shape for x in xs]
    monkeypatch.setenv("ACRONUMBA_VERIFY", "3")
    with pytest.raises(AcronumbaError, match="were merged as equal, but differ") as caught:
        fresh(made).batch(xs, b=b)
    assert caught.value.code == "ACR799" and "np.zeros(x.shape) + b" in str(caught.value)


# ---- failures


@model
def fails(words: list[int], *, embed: np.ndarray) -> Any:
    h = embed[0]
    for k in words:
        h = np.tanh(h + embed[k])
        if k == 8:
            raise ValueError(f"eight after {len(words)}")
    return h, embed[np.argmax(h) + (5 if len(words) % 7 == 0 else 0)]  # an index that only the kernel knows


def outcomes(f: Any, xs: Any, **shared: Any) -> tuple[dict[int, str], Any]:
    with pytest.raises(InstanceErrors) as caught:
        f.batch(xs, **shared)
    return {k: str(e) for k, e in caught.value.errors.items()}, caught.value.results


def test_each_instance_has_failures_of_its_own(always: None) -> None:
    """Nodes of instances that fail are dropped, and what others record then has their numbers."""
    embed = np.random.default_rng(0).standard_normal((9, 8)).astype(F32)
    rng = np.random.default_rng(1)
    xs = [rng.integers(1, 8, int(rng.integers(1, 9))).tolist() for _ in range(300)]
    xs = [x + [8] * (k % 3 == 0) for k, x in enumerate(xs)] + [[1, 2, 3, 4, 5, 6, 7]] * 3 + [[1, 2, 8]] * 3
    f = fresh(fails)
    for given in (xs, xs[::-1], xs):
        errors, results = outcomes(f, given, embed=embed)
        want_errors, want = outcomes(plain(fails), given, embed=embed)
        assert errors == want_errors and len(errors) > 100
        assert all(k in errors or equal(results[k], want[k]) for k in range(len(given)))
    assert f.trace(xs, embed=embed).saved > 0


def test_instances_that_fail_do_not_fill_the_table(always: None) -> None:
    """Their entries stay; there are more of them than it has room for."""
    embed = np.random.default_rng(0).standard_normal((9, 8)).astype(F32)
    rng = np.random.default_rng(2)
    xs = [[*rng.integers(1, 8, 12).tolist(), 8] for _ in range(2000)]
    errors, _ = outcomes(fresh(fails), [*xs, [1, 2]], embed=embed)
    assert len(errors) == 2000


# ---- values that are waited for, random numbers, gradients, devices


@model
def walk(word: int, turns: int, *, p: Params) -> Any:
    h = np.tanh(p.embed[word] + 1.0)
    n = 0
    while n < turns and float(h[0]) > -2.0:
        h = np.tanh(p.w @ h)
        n += 1
    return n, h


def test_models_that_wait_share_within_a_round(always: None) -> None:
    p, words, turns = params(), [0, 1, 0, 2, 0, 1] * 4, list(range(6)) * 4
    trace = fresh(walk).trace(words, turns, p=p)
    want = plain(walk).batch(words, turns, p=p)
    assert all(map(equal, trace.results, want)) and trace.rounds > 3
    assert trace.nodes + trace.saved == plain(walk).trace(words, turns, p=p).nodes and trace.saved > trace.nodes


def test_requests_that_join_share_and_leave_each_with_its_own(always: None) -> None:
    shared = {"p": pack(params()).value}
    f = fresh(walk)
    flow = Flow(f, 16)
    assert flow.waits([(0, 1)], shared)
    given = [(k % 3, (5 * k) % 7) for k in range(40)]
    want, found, who = plain(walk).batch(*zip(*given, strict=True), p=params()), {}, {}
    rest = list(range(40))
    while rest or who:
        some, rest = rest[:6], rest[6:]
        who |= {m: k for k, m in zip(some, flow.join([given[k] for k in some], shared), strict=True)}
        for gone in flow.round():
            found[who.pop(gone.member)] = gone.result
    assert len(found) == 40 and all(equal(found[k], want[k]) for k in range(40))


@model
def draw(key: random.Key, word: int, *, p: Params) -> Any:
    return np.tanh(p.embed[word] + random.normal(key, (8,)).astype(F32))


def test_random_numbers_of_other_keys_are_others(always: None) -> None:
    keys = [random.key(k % 3) for k in range(12)]
    f = fresh(draw)
    assert same_bits(f.batch(keys, [1] * 12, p=params()), plain(draw).batch(keys, [1] * 12, p=params()))
    assert len({x.tobytes() for x in f.batch(keys, [1] * 12, p=params())}) == 3


@model
def loss(t: Tree, *, p: Params) -> Any:
    return (encode(t, p) ** 2).sum()


def test_gradients_are_those_without() -> None:
    given, p = trees(12), params()
    value, grads = fresh(loss).value_and_grad.batch(given, p=p)
    want, others = plain(loss).value_and_grad.batch(given, p=p)
    assert value == want and grads.w.tobytes() == others.w.tobytes() and grads.embed.tobytes() == others.embed.tobytes()


@pytest.mark.long
def test_devices(always: None) -> None:
    given, p = trees(8, 5), params()
    there = fresh(read).on("simulator")
    assert there.trace(given, p=p).saved > 0
    assert same_bits(there.batch(given, p=p), plain(read).on("simulator").batch(given, p=p))


@pytest.mark.parametrize("name", one_in(8, ZOO))
def test_zoo(name: str, always: None) -> None:
    module, f = ZOO[name]
    xs = module.instances(12, **({"length": 6} if name == "berxit" else {}))
    xs, p = [*xs, *xs[:5]], module.params(WIDTH)
    assert same_bits(fresh(f).batch(xs, p=p), plain(f).batch(xs, p=p))


# ---- random recurrences


@pytest.mark.parametrize("seed", one_in(8, range(8)))
def test_random_recurrences(seed: int, always: None) -> None:
    """Each node is one of those without the option; a mini-batch that is given twice has no more nodes."""
    f, xs, p = fresh(recurrences.model_of(seed), threads=1), recurrences.instances(seed, 20), recurrences.params()
    for given in (xs, xs[::-1]):
        results, errors = recurrences.outcomes(f, given, p)
        assert (results, errors) == recurrences.outcomes(plain(f), given, p)
    good = [x for k, x in enumerate(xs[::-1]) if k not in errors]
    trace, without = f.trace(good, p=p), plain(f).trace(good, p=p)
    assert trace.nodes + trace.saved == without.nodes and trace.rounds == without.rounds
    assert f.trace([*good, *good], p=p).nodes == trace.nodes
