"""What a kernel keeps for its backward kernel: a minimum cut of the joint graph.

In: a `Joint` and the forward values that the backward half reads. Out: the values that become further results of the
forward kernel; all others are computed again from them, and from operands and results, which are there anyway.

To keep a value costs that it is written and read, `2 * bytes`; to compute it again its `cost`, per element. Products,
reductions and draws of random numbers are never computed again. With one edge per such cost and infinite ones for what
needs what, the cheapest choice is a minimum cut: that of the maximum flow (Ford and Fulkerson 1956; by shortest paths,
Dinitz 1970). The same question for whole networks: AOTAutograd of PyTorch, `min_cut_rematerialization_partition`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from acronumba.analysis.backward.joint import Joint, elements
from acronumba.ir.ops import KINDS, TENSORS

NEVER = 1 << 60
DRAWS = frozenset(("threefry",))


def keep(joint: Joint, read: Iterable[int], stored: Iterable[int]) -> list[int]:
    """Return which forward values are kept, in their order.

    Parameters
    ----------
    joint
        The joint graph.
    read
        Forward values that the backward half reads.
    stored
        Values that must lie in memory, whatever that costs: results of the forward kernel among them cost nothing.
    """
    results = frozenset(joint.spec.results)
    must = [v for v in stored if v >= joint.first]
    wanted = [v for v in read if v >= joint.first]
    flow = _Flow()
    seen: set[int] = set()
    todo = [*wanted, *must]
    while todo:
        v = todo.pop()
        if v < joint.first or v in seen:
            continue
        seen.add(v)
        val = joint.vals[v]
        flow.edge(("there", v), ("again", v), 0 if v in results or v in must else _bytes(joint, v))
        flow.edge(("again", v), _SINK, _price(joint, v))
        for a in (*val.args, *val.numbers):
            if a >= joint.first:
                flow.edge(("again", v), ("there", a), NEVER)
                todo.append(a)
    for v in wanted:
        flow.edge(_SOURCE, ("there", v), NEVER)
    side = flow.cut(_SOURCE, _SINK)
    found = {v for v in seen if ("there", v) in side and ("again", v) not in side}
    return sorted((found | set(must)) - results)


_SOURCE, _SINK = ("source", 0), ("sink", 0)
_Node = tuple[str, int]


def _bytes(joint: Joint, v: int) -> int:
    return 2 * elements(joint.shape(v)) * np.dtype(joint.dtype(v)).itemsize


def _price(joint: Joint, v: int) -> int:
    """Return what it costs to compute a value again; views and constants nothing."""
    op = joint.spec.body[v - joint.first]
    row = TENSORS[op.op]
    if op.site >= 0 or op.op in DRAWS or (KINDS[row.kind].loops and row.kind != "concat"):
        return NEVER
    return (
        0
        if row.kind in ("view", "create")
        else row.cost * elements(op.shape)
        if row.kind == "element"
        else elements(op.shape)
    )


class _Flow:
    """A network, and its maximum flow."""

    def __init__(self) -> None:
        self.number: dict[_Node, int] = {}
        self.out: list[list[int]] = []  # per node: its edges
        self.to: list[int] = []  # per edge; edge k goes back by edge k ^ 1
        self.room: list[int] = []

    def node(self, name: _Node) -> int:
        if name not in self.number:
            self.number[name] = len(self.out)
            self.out.append([])
        return self.number[name]

    def edge(self, a: _Node, b: _Node, room: int) -> None:
        for x, y, r in ((a, b, room), (b, a, 0)):
            self.out[self.node(x)].append(len(self.to))
            self.to.append(self.node(y))
            self.room.append(r)

    def cut(self, source: _Node, sink: _Node) -> set[_Node]:
        """Return the nodes on the side of the source of a minimum cut: the fewest there can be."""
        s, t = self.node(source), self.node(sink)
        while (level := self._levels(s))[t] >= 0:
            next_ = [0] * len(self.out)
            while self._push(s, t, level, next_):
                pass
        names = {k: name for name, k in self.number.items()}
        return {names[k] for k, n in enumerate(level) if n >= 0}

    def _levels(self, s: int) -> list[int]:
        level = [-1] * len(self.out)
        level[s] = 0
        todo = deque([s])
        while todo:
            v = todo.popleft()
            for e in self.out[v]:
                if self.room[e] and level[self.to[e]] < 0:
                    level[self.to[e]] = level[v] + 1
                    todo.append(self.to[e])
        return level

    def _push(self, s: int, t: int, level: list[int], next_: list[int]) -> int:
        """Push as much as one path takes; `next_` is the first edge of each node that may have room."""
        path: list[int] = []
        v = s
        while v != t:
            while next_[v] < len(self.out[v]):
                e = self.out[v][next_[v]]
                if self.room[e] and level[self.to[e]] == level[v] + 1:
                    break
                next_[v] += 1
            else:
                if not path:
                    return 0
                v = self.to[path.pop() ^ 1]
                next_[v] += 1
                continue
            path.append(e)
            v = self.to[e]
        least = min(self.room[e] for e in path)
        for e in path:
            self.room[e] -= least
            self.room[e ^ 1] += least
        return least
