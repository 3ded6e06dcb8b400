"""The schedule `lookahead`: valid, never more batches than others, near the optimum; the bound below all of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest

from acronumba.runtime import state
from acronumba.runtime.levels import check_levels
from fsm import learn
from tests.support.recorded import Graph, Recorded, check, fewest_batches, longest_chains, random_graph

KINDS = (1, 2, 3, 4, 5, 8, 17, 40, 70, 130)


def components(graph: Graph, keys: Sequence[object]) -> int:
    """Return the number of components of the graph of keys: each is searched or not."""
    edges = [(keys[v], keys[u]) for v, (_, operands) in enumerate(graph) for u in operands]
    return nx.number_connected_components(nx.Graph([*edges, *((k, k) for k in keys)]))


@pytest.mark.long
@pytest.mark.parametrize("chains", [True, False])
def test_thousands_of_random_graphs(chains: bool) -> None:
    rng = random.Random(int(chains))
    searched = asked = 0
    for _ in range(2000):
        kinds = rng.choice(KINDS)
        graph = random_graph(rng, rng.choice((5, 12, 30, 60, 100)), kinds, chains)
        dims = [rng.randrange(4) for _ in graph] if rng.random() < 0.2 else None
        keys = [(k, 0 if dims is None else dims[v]) for v, (k, _) in enumerate(graph)]
        g = Recorded(graph, kinds, dims, lists=rng.random() < 0.2)
        if rng.random() < 0.2:
            g.buffers["most_groups"] = 5  # fewer than there are keys: components of kernels
        g.buffers["launch"] = launch = rng.choice((0, 100, 1000, 100_000))
        counts, bounds = [], []
        for effort in (0, 1, 2, 3, -1):
            batches = g.run(effort=effort)
            check(graph, batches, keys)
            counts.append(len(batches))
            bounds.append(g.bound)
        least = longest_chains(graph, keys)
        assert counts[0] >= counts[1] >= counts[2] >= counts[3] >= least
        assert set(bounds[:4]) == {least} and bounds[4] in (-1, least)  # looked for where a search may pay
        by_depth = g.count(state.BY_DEPTH)
        assert bounds[4] == least or counts[4] == by_depth or (components(graph, keys) > 1 and counts[4] < by_depth)
        assert counts[4] >= counts[3]
        asked += bounds[4] < 0
        others = [g.count(state.BY_DEPTH), g.count(state.BY_DEPTH, phased=False), g.count(state.BY_AGENDA)]
        assert counts[3] <= min(others)
        assert counts[4] <= (min(others) if launch == 100_000 else others[0])  # a search pays, or may not
        searched += others[0] > g.bound
    assert searched > 300 and asked > 300


@pytest.mark.parametrize(
    ("nodes", "kinds", "chains"), [(12, 2, False), (14, 4, False), (14, 3, True), (22, 3, False), (24, 3, True)]
)
def test_the_optimum_of_small_graphs(nodes: int, kinds: int, chains: bool) -> None:
    rng = random.Random(nodes)
    found = [0, 0]
    rounds = 150
    for _ in range(rounds):
        graph = random_graph(rng, nodes, kinds, chains)
        g = Recorded(graph, kinds)
        g.buffers["launch"] = 100_000  # a search pays
        best = fewest_batches(graph)
        for k, effort in enumerate((2, -1)):
            count = g.count(effort=effort)
            assert count >= best >= g.bound
            found[k] += count == best
    assert found[0] >= 0.95 * rounds and found[1] >= 0.9 * rounds


def test_what_the_bound_proves_is_optimal() -> None:
    rng = random.Random(5)
    proved = 0
    for _ in range(300):
        graph = random_graph(rng, 10, 3, rng.random() < 0.5)
        g = Recorded(graph, 3)
        g.buffers["launch"] = 100_000  # a search pays
        if g.count() == g.bound:
            proved += 1
            assert fewest_batches(graph) == g.bound
    assert proved > 100


def test_the_bound_of_any_schedule_leaves_it_as_it_is() -> None:
    rng = random.Random(6)
    for _ in range(100):
        graph = random_graph(rng, 40, 4, False)
        g = Recorded(graph, 4)
        g.run()
        want = g.bound
        for policy in (state.BY_DEPTH, state.BY_AGENDA):
            g.run(policy)
            g.buffers["bound"] = -1
            g.call("bound")
            assert g.bound == want


def out_of_step(words: list[str]) -> tuple[Graph, int]:
    """A chain of nodes for each word; a letter is a kind."""
    graph: Graph = []
    letters = sorted(set("".join(words)))
    for word in words:
        for k, letter in enumerate(word):
            graph.append((letters.index(letter), [len(graph) - 1] if k else []))
    return graph, len(letters)


def test_known_words() -> None:
    """Chains are words, and a schedule is a common supersequence of them."""
    for words, best in (
        (["ab", "ba"], 3),
        (["abab", "baba"], 5),
        (["aabb", "bbaa"], 6),
        (["abc", "bca", "cab"], 5),
        (["abc" * 20, "bca" * 20, "cab" * 20], 62),
    ):
        graph, kinds = out_of_step(words)
        g = Recorded(graph, kinds)
        assert g.count(effort=3) == best
        if len(graph) < 20:
            assert fewest_batches(graph) == best


@pytest.mark.parametrize(
    ("words", "alone", "best"),
    [
        ("baabb a ba baab bab abaa b", 7, state.BY_AGENDA),
        ("ca a bccaccc caccbaaa ca", 12, state.BY_AGENDA),
        ("deddb fedde feddb feddb", 8, state.BY_DEPTH),
        ("bddad bddcdd cddcd bddcd", 9, state.BY_DEPTH),
    ],
)
def test_where_an_old_schedule_beats_the_search(words: str, alone: int, best: int) -> None:
    """Found by a search: only with the schedules by agenda and by depth among the candidates, the promise is kept."""
    graph, kinds = out_of_step(words.split())
    g = Recorded(graph, kinds)
    promised = g.count(best, phased=False)
    assert g.count(effort=2) == alone > promised
    assert g.count(effort=3) <= promised
    g.buffers["launch"] = 10**6  # everything pays
    assert g.count() <= promised
    g.buffers["launch"] = 0  # nothing does
    assert g.count() == g.count(state.BY_DEPTH)


def test_components_are_searched_apart() -> None:
    """A search in one component, between others that are proved optimal, leaves those as they are."""
    graph: Graph = [(0, []) for _ in range(4)]  # leaves
    for start, word in enumerate(("abab", "baba", "aabb", "bbaa")):
        last = start
        for letter in word:
            graph.append((1 + "ab".index(letter), [last]))
            last = len(graph) - 1
        graph.append((3, [last]))  # classifier
    g = Recorded(graph, 4)
    batches = g.run(effort=3)
    check(graph, batches)
    assert batches[0] == [0, 1, 2, 3] and [graph[v][0] for v in batches[-1]] == [3] * 4
    assert len(batches) == 2 + fewest_batches(out_of_step(["abab", "baba", "aabb", "bbaa"])[0])


def test_the_end_of_the_range() -> None:
    for graph, kinds, count in (
        ([], 0, 0),
        ([], 3, 0),
        ([(2, [])], 5, 1),  # the other kinds have no nodes
        ([(0, [])] * 7, 1, 1),
        ([(0, [v - 1] if v else []) for v in range(50)], 1, 50),
        ([(v % 2, [v - 1] if v else []) for v in range(50)], 2, 50),
        ([(0, []), (1, [0, 0, 0]), (1, [1, 1])], 2, 3),
    ):
        for effort in (0, 1, 2, 3, -1):
            g = Recorded(graph, kinds)
            batches = g.run(effort=effort)
            check(graph, batches)
            assert len(batches) == g.bound == count


def test_more_kinds_than_a_word_has_bits() -> None:
    """200 kinds that feed each other in one component, and a chain of 100 that do not."""
    rng = random.Random(7)
    graph: Graph = []
    for _ in range(12):
        order = rng.sample(range(200), 60)
        for k, kind in enumerate(order):
            graph.append((kind, [len(graph) - 1] if k else []))
    for k in range(100):
        graph.append((200 + k, [len(graph) - 1]))
    g = Recorded(graph, 300)
    batches = g.run(effort=3)
    check(graph, batches)
    assert longest_chains(graph) == g.bound <= len(batches) < g.count(state.BY_DEPTH)
    assert len(batches) <= g.count(state.BY_AGENDA)


def test_compiled_and_plain_python_agree() -> None:
    rng = random.Random(8)
    for k in range(24):
        kinds = (1, 2, 3, 5, 9, 70)[k % 6]
        graph = random_graph(rng, rng.choice((0, 1, 8, 20)), kinds, k % 2 == 0)
        dims = [rng.randrange(2) for _ in graph] if k % 3 == 0 else None
        ours = Recorded(graph, kinds, dims, lists=k % 4 == 1)
        definition = Recorded(graph, kinds, dims, lists=k % 4 == 1, compiled=False)
        for policy, effort in ((state.BY_LOOKAHEAD, 3), (state.BY_LOOKAHEAD, -1), (state.BY_AGENDA, 0)):
            assert ours.run(policy, effort=effort) == definition.run(policy, effort=effort)
        ours.call("bound")
        definition.call("bound")
        assert ours.bound == definition.bound


def test_a_mini_batch_does_not_depend_on_the_last_one() -> None:
    """The buffers are used again by graphs of other kinds, sizes and components."""
    rng = random.Random(9)
    graphs = [random_graph(rng, rng.choice((3, 20, 60)), 6, rng.random() < 0.5) for _ in range(40)]
    shared = Recorded([(0, [])] * 60, 6)
    for graph in graphs:
        alone = Recorded(graph, 6)
        want = alone.run(effort=3)
        shared.buffers.table.rows[:] = alone.buffers.table.rows
        for name in ("kind", "depth", "row"):
            shared.buffers.columns[name][:] = alone.buffers.columns[name]
        shared.graph = graph
        shared.buffers["n"] = len(graph)
        assert shared.run(effort=3) == want and shared.bound == alone.bound


def test_memory_is_linear() -> None:
    """500 kinds in one component need no more than 5 in one."""
    rng = random.Random(10)
    for kinds in (5, 500):
        graph: Graph = [(rng.randrange(kinds), [v - 1] if v % 40 else []) for v in range(4096)]
        g = Recorded(graph, kinds)
        check(graph, g.run(effort=3))
        assert sum(t.nbytes for t in g.buffers.tables.values()) < 200 * len(graph)


def test_a_learned_policy_is_a_schedule_of_more_batches() -> None:
    """The state machine of ED-Batch, learned on one mini-batch and used on another."""
    rng = random.Random(11)

    def columns(graph: Graph) -> dict[str, Any]:
        first = np.cumsum([0, *(len(ops) for _, ops in graph)])
        return {
            "key": np.array([k for k, _ in graph], np.int32),
            "first": first.astype(np.int32),
            "operand": np.array([u for _, ops in graph for u in ops], np.int32),
        }

    ours = theirs = 0
    for kinds in (1, 3, 5):
        seen, new = (random_graph(rng, 60, kinds, True) for _ in range(2))
        policy = learn([columns(seen)], 60)
        given = columns(new)
        levels = policy(given)
        check_levels(levels, given["key"], given["first"], given["operand"])
        ours += Recorded(new, kinds).count()
        theirs += int(levels.max()) + 1
    assert ours < theirs
