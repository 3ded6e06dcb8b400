"""Dataflow graphs that no machine has recorded, put into the columns that schedules read, and what to compare with."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.emit import compile, interpret
from acronumba.memory import address
from acronumba.runtime import state
from acronumba.runtime.buffers import Buffers
from acronumba.runtime.engines import runtime_module
from acronumba.runtime.kernel_table import KernelTable
from acronumba.strategy import DEFAULT

Graph = list[tuple[int, list[int]]]  # (kind, operands) of each node, in the order of recording


@functools.cache
def library() -> Any:
    return compile.load([runtime_module()])[0]


class Recorded:
    """A graph in memory; `run` schedules it, compiled or in plain Python.

    `dims`: an extent of each node. `lists`: of its operands, all but the first are in a list.
    """

    def __init__(
        self,
        graph: Graph,
        kinds: int,
        dims: Sequence[int] | None = None,
        *,
        lists: bool = False,
        compiled: bool = True,
    ) -> None:
        self.graph, self.compiled = graph, compiled
        self.memory = interpret.InterpreterMemory()
        reach: Any = (lambda a: None) if compiled else self.memory.add
        n = len(graph)
        kernels = KernelTable((), (), DEFAULT, reach, more=kinds)
        self.buffers = buffers = Buffers(functions=0, table=kernels, most=1, keyed=dims is not None, reach=reach)
        if n > buffers["ncap"]:
            buffers.grow_nodes(n, 0)
        degree = [0] * kinds
        for kind, operands in graph:
            degree[kind] = max(degree[kind], min(len(operands), 1) if lists else len(operands))
        table = buffers.table.rows[:kinds]
        table[:, state.TABLE["tensors"]] = degree
        table[:, state.TABLE["lists"]] = lists
        table[:, state.TABLE["args"]] = [d + lists for d in degree]
        table[:, state.TABLE["dims"]] = dims is not None
        width = max(degree, default=0) + lists + 4  # arguments, an extent, the value record
        self.outside = np.array([0, -1, 0], np.int64)
        self.keep: list[Any] = []
        self.rows = np.full((max(n, 1), width), address(self.outside), np.int64)
        reach(self.rows)
        reach(self.outside)
        first = address(self.rows)
        # Where in its row the value record of a node begins: behind its arguments and its extent.
        self.place = [degree[kind] + lists + (dims is not None) for kind, _ in graph]
        depth: list[int] = []
        for v, (kind, operands) in enumerate(graph):
            depth.append(1 + max((depth[u] for u in operands), default=-1))
            records = [self.record(u) for u in operands]
            if lists:
                items = np.array([*records[1:], 0], np.int64)
                header = np.array([address(items), len(records[1:]), len(items)], np.int64)
                self.keep += [items, header]
                reach(items)
                reach(header)
                self.rows[v, degree[kind]] = address(header)
                records = records[:1]
            self.rows[v, : len(records)] = records
            if dims is not None:
                self.rows[v, degree[kind] + lists] = dims[v]
            self.rows[v, self.place[v] + 1] = v << 32 | depth[v]
        buffers.columns["kind"][:n] = [kind for kind, _ in graph]
        buffers.columns["depth"][:n] = depth
        buffers.columns["row"][:n] = first + 8 * width * np.arange(n)
        buffers["n"], buffers["effort"], buffers["launch"] = n, -1, 1000

    def record(self, v: int) -> int:
        """Return the address of the value record of a node."""
        return address(self.rows) + 8 * (self.rows.shape[1] * v + self.place[v])

    def call(self, name: str) -> None:
        buffers = self.buffers
        while True:
            if self.compiled:
                status = library().call(name, buffers.address)
            else:
                status = interpret.run(runtime_module(), name, [buffers.address], self.memory)
            if status == state.DONE:
                return
            (buffers.grow_lives if status in (state.GROW_LIVES, state.GROW_FOUND) else buffers.grow_tables)(status)

    def run(self, policy: int = state.BY_LOOKAHEAD, *, effort: int = -1, phased: bool = True) -> list[list[int]]:
        """Return the batches: lists of nodes."""
        buffers = self.buffers
        buffers["policy"], buffers["phased"], buffers["effort"] = policy, int(phased), effort
        buffers["stage"], buffers["stop"] = state.TO_SCHEDULE, state.TO_LAYOUT
        self.call("drive")
        n = len(self.graph)
        order = buffers.column("order", n)
        assert (buffers.column("args", n) == buffers.column("row", n)[order]).all()
        nodes, starts = order.tolist(), buffers.columns["bstart"][: buffers["batches"] + 1].tolist()
        return [nodes[a:b] for a, b in itertools.pairwise(starts)]

    def count(self, policy: int = state.BY_LOOKAHEAD, **options: Any) -> int:
        return len(self.run(policy, **options))

    @property
    def bound(self) -> int:
        return self.buffers["bound"]


def check(graph: Graph, batches: list[list[int]], keys: Sequence[object] | None = None) -> None:
    """Every node runs once, after its operands, beside nodes of its key only, which keep their order."""
    place = {v: b for b, nodes in enumerate(batches) for v in nodes}
    assert sum(map(len, batches)) == len(graph) and sorted(place) == list(range(len(graph)))
    for v, (_, operands) in enumerate(graph):
        assert all(place[u] < place[v] for u in operands)
    for nodes in batches:
        assert nodes == sorted(nodes)
        assert len({graph[v][0] if keys is None else keys[v] for v in nodes}) == 1


def longest_chains(graph: Graph, keys: Sequence[Any] | None = None) -> int:
    """Sum over the keys of the most nodes of a key on a path: the bound, by its definition."""
    names = [kind for kind, _ in graph] if keys is None else list(keys)
    most: dict[Any, int] = {}
    paths: list[dict[Any, int]] = []
    for v, (_, operands) in enumerate(graph):
        path: dict[Any, int] = {}
        for u in operands:
            for key, count in paths[u].items():
                path[key] = max(path.get(key, 0), count)
        path[names[v]] = path.get(names[v], 0) + 1
        paths.append(path)
        most[names[v]] = max(most.get(names[v], 0), path[names[v]])
    return sum(most.values())


def fewest_batches(graph: Graph) -> int:
    """The optimum, by breadth-first search over sets of nodes that have run; for small graphs.

    It suffices to run all ready nodes of a kind, and to go on from the larger of two sets if it holds the other.
    """
    needs = [sum({1 << u for u in operands}) for _, operands in graph]
    of_kind: dict[int, list[int]] = {}
    for v, (kind, _) in enumerate(graph):
        of_kind.setdefault(kind, []).append(v)
    full = (1 << len(graph)) - 1
    sets, steps = {0}, 0
    while full not in sets:
        found = set()
        for done in sets:
            for nodes in of_kind.values():
                ready = sum(1 << v for v in nodes if not done >> v & 1 and needs[v] & ~done == 0)
                if ready:
                    found.add(done | ready)
        kept: list[int] = []
        for s in sorted(found, key=int.bit_count, reverse=True):
            if not any(s | k == k for k in kept[:60]):
                kept.append(s)
        sets = set(kept)
        steps += 1
    return steps


def random_graph(rng: random.Random, nodes: int, kinds: int, chains: bool) -> Graph:
    """Chains, of four nodes on average, or a graph whose nodes have up to three operands, mostly recent ones."""
    graph: Graph = []
    for v in range(nodes):
        if chains:
            operands = [v - 1] if v and rng.random() < 0.75 else []
        else:
            recent = max(0, v - 8) if rng.random() < 0.7 else 0
            operands = [rng.randrange(recent, v) for _ in range(rng.randrange(4))] if v else []
        graph.append((rng.randrange(kinds), operands))
    return graph
