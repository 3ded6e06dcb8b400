"""The pending tasks of a kernel.

In: the stored values. Out: a `Pending`: the tasks in order, the values that each of them reads, the tasks done.
"""

from __future__ import annotations

from collections.abc import Iterable

from acronumba.ir.spec import Size
from acronumba.kernels.stages.choose import Chooser
from acronumba.kernels.stages.graph import axes_of


class Pending:
    """Tasks that no stage has yet."""

    def __init__(self, chosen: Chooser) -> None:
        self.chosen = chosen
        self.graph = chosen.graph
        self.products = chosen.products
        self.strategy = chosen.strategy
        self.target = chosen.target
        self.reads = self._reads()  # of every value: the stored values read, and whether only at the same place
        failing = [self.graph.first + k for k, op in enumerate(self.graph.spec.body) if op.site >= 0]
        self.own = [v for v in failing if self.graph.kind(v) == "own"]  # computed, whether they are read or not
        self.fails = [v for v in failing if v not in self.own]
        self.checks = list(self.fails)  # operations that may fail and are not checked yet
        self.done: set[int] = set()
        self.tasks = self._alive()

    def ready(self, v: int) -> bool:
        """Whether all that a task reads is done."""
        return self.reads[v].keys() <= self.done

    def shared(self, v: int) -> bool:
        """Whether a task is a product with a shared weight."""
        return v in self.products and self.products[v].how == "shared"

    def finish(self, values: Iterable[int]) -> None:
        self.done.update(values)
        self.tasks = [v for v in self.tasks if v not in self.done]

    def _reads(self) -> list[dict[int, bool]]:
        """Return per value a map: stored values that it is computed from -> whether only at the same index."""
        graph = self.graph
        out: list[dict[int, bool]] = [{} for _ in range(graph.count)]
        for v in range(graph.first, graph.count):
            op = graph.op(v)
            assert op is not None
            args = op.args
            if self.shared(v):
                args = (self.products[v].left,)
            for a in args:
                same = (graph.kind(v) == "element" and graph.shape(a) == op.shape) or (graph.kind(v) == "reduce")
                found = {a: True} if a in self.chosen.stored else {} if a < graph.first else out[a]
                for leaf, exact in found.items():
                    out[v][leaf] = out[v].get(leaf, True) and exact and same
        return out

    def check_reads(self, v: int) -> set[int]:
        """Return the stored values that decide whether an operation fails."""
        stored = self.chosen.stored
        return {u for a in self.graph.checked(v) for u in ([a] if a in stored else self.reads[a])}

    def _alive(self) -> list[int]:
        """Return the stored values that a result or a check needs."""
        needed: set[int] = set()
        todo = [*self.graph.spec.results, *self.own]
        for v in self.checks:
            todo += self.check_reads(v)
        while todo:
            v = todo.pop()
            if v not in needed:
                needed.add(v)
                todo += self.reads[v]
        stored = self.chosen.stored
        return [v for v in range(self.graph.first, self.graph.count) if v in stored and v in needed]

    def loops_of(self, v: int) -> tuple[tuple[Size, ...], tuple[int, ...]] | None:
        """Return iteration space and reduced axes of a task that can share a nest."""
        graph = self.graph
        op = graph.op(v)
        assert op is not None
        match graph.kind(v):
            case "element" | "view" | "create":
                return op.shape, ()
            case "reduce":
                return graph.shape(op.args[0]), axes_of(op)
        return None
