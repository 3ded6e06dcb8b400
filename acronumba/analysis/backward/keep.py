"""Saving or recomputing the values that a backward kernel reads: a minimum cut.

In: operations, the values that the backward kernel reads, and the cost of recomputing and of saving each value. Out:
the values to save. A value that is needed is saved, or recomputed from its arguments, which are then needed too; values
that lie in memory anyway cost nothing. The cheapest choice is the minimum cut of a graph with two vertices for each
value: "needed", with an edge to "recomputed" of the capacity that saving costs, from there an edge to the sink of the
capacity that recomputing costs, and edges of infinite capacity to the arguments.

The maximum flow is computed by E. Dinic's algorithm (1970). PyTorch's AOTAutograd uses the same cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count

NEVER = 1 << 60  # cost of values that must not be recomputed, or cannot be saved


def choose_kept(
    wanted: Iterable[int],
    there: Collection[int],
    arguments: Callable[[int], Sequence[int]],
    keeping: Callable[[int], int],
    computing: Callable[[int], int],
) -> set[int]:
    """Return the values to save.

    Parameters
    ----------
    wanted
        Numbers of values that are read.
    there
        Values that lie in memory anyway.
    arguments
        Function from a value to the values that it is computed from.
    keeping, computing
        Functions from a value to the cost of saving and of recomputing it.
    """
    graph = _Graph()
    todo = [v for v in wanted if v not in there]
    for v in todo:
        graph.edge("source", (v, "wanted"), NEVER)
    seen = set(todo)
    while todo:
        v = todo.pop()
        graph.edge((v, "wanted"), (v, "again"), keeping(v))
        graph.edge((v, "again"), "sink", computing(v))
        for a in arguments(v):
            if a in there:
                continue
            graph.edge((v, "again"), (a, "wanted"), NEVER)
            if a not in seen:
                seen.add(a)
                todo.append(a)
    reached = graph.cut("source", "sink")
    return {v for v in seen if (v, "wanted") in reached and (v, "again") not in reached}


class _Graph:
    """A flow network; vertices have any names."""

    def __init__(self) -> None:
        self._number: dict[object, int] = {}
        self._out: list[list[int]] = []  # per vertex its edges; edge e ^ 1 is e turned round
        self._to: list[int] = []
        self._room: list[int] = []

    def _vertex(self, name: object) -> int:
        if name not in self._number:
            self._number[name] = len(self._out)
            self._out.append([])
        return self._number[name]

    def edge(self, start: object, end: object, room: int) -> None:
        for a, b, r in ((start, end, room), (end, start, 0)):
            self._out[self._vertex(a)].append(len(self._to))
            self._to.append(self._vertex(b))
            self._room.append(r)

    def cut(self, source: object, sink: object) -> set[object]:
        """Return the vertices on the source's side of the minimum cut that is nearest to the source."""
        s, t = self._vertex(source), self._vertex(sink)
        while (level := self._levels(s)).get(t) is not None:
            left = [iter(edges) for edges in self._out]
            while self._push(s, t, level, left):
                pass
        return {name for name, v in self._number.items() if v in level}

    def _levels(self, s: int) -> dict[int, int]:
        level = {s: 0}
        front = [s]
        for depth in count(1):
            front = [b for a in front for b in self._next(a, level, depth)]
            if not front:
                return level
        raise AssertionError

    def _next(self, a: int, level: dict[int, int], depth: int) -> list[int]:
        found = []
        for e in self._out[a]:
            b = self._to[e]
            if self._room[e] and b not in level:
                level[b] = depth
                found.append(b)
        return found

    def _push(self, s: int, t: int, level: dict[int, int], left: list[Iterator[int]]) -> bool:
        """Push as much flow as one path takes; return whether a path was found."""
        path: list[int] = []
        at = s
        while at != t:
            for e in left[at]:
                if self._room[e] and level.get(self._to[e]) == level[at] + 1:
                    path.append(e)
                    at = self._to[e]
                    break
            else:  # a dead end
                if not path:
                    return False
                level[at] = -1
                at = self._to[path.pop() ^ 1]
        flow = min(self._room[e] for e in path)
        for e in path:
            self._room[e] -= flow
            self._room[e ^ 1] += flow
        return True
