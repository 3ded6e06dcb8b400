"""Schedules: valid, stable, with few batches; the policies against simple definitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from acronumba import ScheduleError
from acronumba.analysis.plan import make_plan
from acronumba.api.dispatch import bind, specialise
from acronumba.config import Options
from acronumba.ir import nodes as n
from acronumba.ir.types import INT, TensorT
from acronumba.pipeline.link import link
from acronumba.runtime import state
from acronumba.runtime.levels import check_levels
from acronumba.runtime.reference import reference_kernels
from tests.support import recurrences
from tests.support.chosen import one_in
from tests.support.hand import F32, Hand, pack_trees, program, random_tree, read_tensor, tree_lstm, tree_lstm_plain
from tests.support.recorded import Graph, Recorded, check, longest_chains


def graphs(most: int = 40, kinds: int = 5) -> some.SearchStrategy[tuple[int, Graph]]:
    @some.composite
    def make(draw: Any) -> tuple[int, Graph]:
        k = draw(some.integers(1, kinds))
        out: Graph = []
        for v in range(draw(some.integers(0, most))):
            ops = draw(some.lists(some.integers(0, v - 1), max_size=3)) if v else []
            out.append((draw(some.integers(0, k - 1)), ops))
        return k, out

    return make()


def csr(graph: Graph) -> tuple[Any, Any, Any]:
    kinds = np.array([k for k, _ in graph], np.int32)
    first = np.cumsum([0, *(len(ops) for _, ops in graph)]).astype(np.int32)
    return kinds, first, np.array([u for _, ops in graph for u in ops], np.int32)


def phases_by_definition(graph: Graph, kinds: int) -> list[set[int]]:
    """Strongly connected components of the kernel graph, by reachability."""
    reach = {(k, k) for k in range(kinds)} | {(graph[u][0], k) for k, ops in graph for u in ops}
    for m, a, b in itertools.product(range(kinds), repeat=3):
        if (a, m) in reach and (m, b) in reach:
            reach.add((a, b))
    return [{b for b in range(kinds) if (a, b) in reach and (b, a) in reach} for a in range(kinds)]


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_depth_with_phases(case: tuple[int, Graph]) -> None:
    kinds, graph = case
    batches = Recorded(graph, kinds).run(state.BY_DEPTH)
    check(graph, batches)
    component = phases_by_definition(graph, kinds)
    inside: list[int] = []
    for kind, ops in graph:
        inside.append(1 + max((inside[u] for u in ops if graph[u][0] in component[kind]), default=-1))
    keys = [(min(component[k]), inside[v], k) for v, (k, _) in enumerate(graph)]
    assert len(batches) == len(set(keys))
    for nodes in batches:
        assert len({keys[v] for v in nodes}) == 1
    # Components are contiguous: each runs as a whole.
    runs = [keys[nodes[0]][0] for nodes in batches]
    assert len(list(itertools.groupby(runs))) == len(set(runs))
    assert longest_chains(graph) <= len(batches)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_depth_without_phases(case: tuple[int, Graph]) -> None:
    kinds, graph = case
    batches = Recorded(graph, kinds).run(state.BY_DEPTH, phased=False)
    check(graph, batches)
    depth: list[int] = []
    for _, ops in graph:
        depth.append(1 + max((depth[u] for u in ops), default=-1))
    assert [(depth[b[0]], graph[b[0]][0]) for b in batches] == sorted({(depth[v], k) for v, (k, _) in enumerate(graph)})


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_agenda(case: tuple[int, Graph]) -> None:
    kinds, graph = case
    batches = Recorded(graph, kinds).run(state.BY_AGENDA)
    check(graph, batches)
    depth: list[int] = []
    for _, ops in graph:
        depth.append(1 + max((depth[u] for u in ops), default=-1))
    mean = {k: np.mean([d for d, (j, _) in zip(depth, graph, strict=True) if j == k]) for k, _ in graph}
    done: set[int] = set()
    for nodes in batches:
        ready = [v for v, (_, ops) in enumerate(graph) if v not in done and all(u in done for u in ops)]
        best = min((graph[v][0] for v in ready), key=lambda k: (mean[k], k))
        assert nodes == [v for v in ready if graph[v][0] == best]
        done |= set(nodes)


@settings(max_examples=40, deadline=None)
@given(graphs(), some.integers(1, 4), some.randoms())
def test_extents_are_part_of_the_key(case: tuple[int, Graph], most: int, random: Any) -> None:
    kinds, graph = case
    dims = [random.randrange(most) for _ in graph]
    batches = Recorded(graph, kinds, dims).run(state.BY_DEPTH)
    check(graph, batches, [(k, d) for (k, _), d in zip(graph, dims, strict=True)])


def test_many_kernels() -> None:
    """More kernels than a word has bits, in a chain: each its own phase."""
    graph: Graph = []
    for _ in range(3):
        for k in range(130):
            graph.append((129 - k, [len(graph) - 1] if k else []))
    batches = Recorded(graph, 130).run(state.BY_DEPTH)
    check(graph, batches)
    assert len(batches) == 130 == longest_chains(graph)


def test_large_mixed_levels() -> None:
    """Levels with several kernels and many nodes are sorted by counting."""
    rng = np.random.default_rng(0)
    graph: Graph = [(int(k), []) for k in rng.integers(0, 4, 300)]
    graph += [(int(k), [int(u)]) for k, u in zip(rng.integers(0, 4, 300), rng.integers(0, 300, 300), strict=True)]
    batches = Recorded(graph, 4).run(state.BY_DEPTH)
    check(graph, batches)
    assert len(batches) == 8


def test_user_schedule() -> None:
    rng = np.random.default_rng(0)
    shared = [rng.standard_normal(s).astype(F32) for s in ((10, 4), (8, 8), (4, 3))]
    trees = [random_tree(rng, k) for k in (2, 5, 7)]
    rows, roots = pack_trees(trees)
    seen: list[Any] = []

    def one_by_one(columns: Any) -> Any:
        seen.append(columns)
        assert not columns["kernel"].flags.writeable
        for old, name in {"kind": "kernel", "key": "signature", "first": "operand_start"}.items():
            assert columns[old] is columns[name]
        return np.arange(len(columns["kernel"]), dtype=np.int32)

    o = Options(schedule=one_by_one)
    plan = make_plan(tree_lstm(), o)
    run = link(plan, o, kernels=reference_kernels(plan.kernels))
    done = run.run(roots, shared, keep=[rows])
    assert done.batches == done.nodes == len(seen[0]["kernel"])
    for k, t in enumerate(trees):
        got = read_tensor(done.words[k, 0], F32, (3,))
        np.testing.assert_allclose(got, tree_lstm_plain(t, *shared), rtol=1e-4, atol=1e-6)
    trace = done.trace()
    assert trace.batch.tolist() == list(range(done.nodes))
    assert not trace.optimal
    assert trace.kinds is trace.kernel and trace.inst is trace.instance  # for one release


def test_wrong_schedules_are_rejected() -> None:
    keys, first, source = csr([(0, []), (0, [0]), (1, [1])])
    check_levels(np.array([0, 1, 2], np.int32), keys, first, source)
    for levels, message in [
        ([0, 0, 1], "no earlier batch computes(.|\n)*node 1 in batch 0 reads node 0"),
        ([0, 1, 1], "different signatures(.|\n)*nodes 1 and 2"),
        ([0, 1], r"return int32\[3\](.|\n)*int64\[2\]"),
        ([0.0, 1.0, 2.0], r"return int32\[3\](.|\n)*float64\[3\]"),
        ([0, 1, 2**32], "must be at least 0"),
        ([-1, 1, 2], "must be at least 0(.|\n)*from -1 to 2"),
    ]:
        with pytest.raises(ScheduleError, match=message):
            check_levels(np.array(levels), keys, first, source)


@pytest.mark.parametrize("schedule", ["lookahead", "depth", "agenda"])
@pytest.mark.parametrize("phases", [True, False])
def test_policies_give_equal_results(schedule: str, phases: bool) -> None:
    rng = np.random.default_rng(0)
    shared = [rng.standard_normal(s).astype(F32) for s in ((10, 4), (8, 8), (4, 3))]
    trees = [random_tree(rng, k) for k in (2, 5, 7, 1, 12)]
    rows, roots = pack_trees(trees)
    o = Options(schedule=schedule, phases=phases)
    plan = make_plan(tree_lstm(), o)
    run = link(plan, o, kernels=reference_kernels(plan.kernels))
    done = run.run(roots, shared, keep=[rows], timed=True)
    assert set(done.seconds) == {"record", "schedule", "layout", "execute", "total"}
    trace = done.trace()
    place = trace.batch
    assert (place[trace.edges[:, 0]] < place[trace.edges[:, 1]]).all()
    assert len(trace.batches) >= trace.lower_bound
    if schedule == "lookahead" or (phases and schedule == "depth"):
        assert trace.optimal
        assert [b.kernel.split("_")[0] for b in trace.batches][-1] == "sentiment"
    for k, t in enumerate(trees):
        got = read_tensor(done.words[k, 0], F32, (3,))
        np.testing.assert_allclose(got, tree_lstm_plain(t, *shared), rtol=1e-4, atol=1e-6)


def test_phases_follow_the_graph_of_each_mini_batch() -> None:
    """Two kernels that feed each other in one mini-batch and not in the next: two components there, one here."""
    sites: list[n.Site] = []
    vec = TensorT(F32, (2,))
    h = Hand("f", [("mode", INT)], [vec], sites)
    with h.block(0):
        h.branch(h.scalar("eq", h.params[0], h.const(0)), 1, 2)
    zero = None
    for block, order in ((1, "ab"), (2, "ba")):
        with h.block(block):
            x = h.op("const", shape=(), attrs=(0.5,))
            x = h.op("broadcast", x, shape=(2,))
            zero = x
            for name in order:
                (x,) = (h.call(1 if name == "a" else 2, x, outs=[vec]),)
            h.ret(x)
    assert zero is not None
    others = []
    for name, op in (("a", "tanh"), ("b", "sin")):
        g = Hand(name, [("x", vec)], [vec], sites)
        with g.block(0):
            g.ret(g.op(op, g.params[0], shape=(2,)))
        others.append(g)
    p = program([h, *others], sites, [INT], vec)
    o = Options()
    plan = make_plan(p, o)
    run = link(plan, o, kernels=reference_kernels(plan.kernels))
    counts = []
    for modes in ([0, 0], [1, 1], [0, 1], [0, 0]):
        done = run.run(np.array([[m] for m in modes], np.int64))
        counts.append(max(done.trace().phase) + 1)
        done.close()
    assert counts == [2, 2, 1, 2]


@pytest.mark.parametrize("seed", one_in(6, [4, 0, 3, 6, 10, 11]))
def test_the_machine_records_the_places_that_would_be_measured(seed: int) -> None:
    """Once it knows the graph of the model, from the second mini-batch on; columns grow on the way."""
    f, p = recurrences.model_of(seed), recurrences.params()
    xs = recurrences.instances(seed, 200)
    failed = recurrences.outcomes(f, xs, p)[1]
    compiled, leaves, packed = specialise(f, bind(f, ([x for k, x in enumerate(xs) if k not in failed],), {"p": p}))
    assert packed is not None
    words, keep = compiled.shared.words(packed, leaves)
    executable = compiled.executable
    for turn in range(2):
        run = executable.run(packed.roots, words, keep=keep, stable=True, last=1)
        buffers, n = run.buffers, run.buffers["n"]
        assert n > 0 and (buffers["placed"] == state.RECORDED) is not executable.host.waiting
        recorded = buffers.columns["place"][: n + 1].copy(), buffers.fixed["adjacent"].copy()
        buffers["placed"], buffers["graph"] = state.MEASURED, buffers["before"]
        assert executable.recorded.lower_bound(buffers) > 0
        if turn and not executable.host.waiting:
            assert (recorded[0] == buffers.columns["place"][: n + 1]).all()
            assert (recorded[1] == buffers.fixed["adjacent"]).all()
        run.close()
