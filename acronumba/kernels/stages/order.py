"""The order of what a kernel computes: tasks become stages.

In: a `KernelSpec`. Out: `Stages`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acronumba.emit.target import Target
from acronumba.ir.spec import KernelSpec, Size
from acronumba.kernels.stages.choose import Chooser
from acronumba.kernels.stages.constants import fold
from acronumba.kernels.stages.graph import Symbolic, Untraceable, axes_of, axis_of, stretch, through
from acronumba.kernels.stages.index import ZERO, Index, Poly, reindex
from acronumba.kernels.stages.tasks import Nest, Part, Product, ProductStage, RowStage, Single, Stages
from acronumba.kernels.strategy import EVERYTHING, Fusion
from acronumba.kernels.write.element import DTYPES

MOST_GATES = 6


class Planner(Chooser):
    """Makes `Stages` of a spec; see `plan_stages`."""

    def reads_of(self) -> list[dict[int, bool]]:
        """For every value: the stored values that computing it reads, and whether only at the same place."""
        graph = self.graph
        out: list[dict[int, bool]] = [{} for _ in range(graph.count)]
        for v in range(graph.first, graph.count):
            op = graph.op(v)
            assert op is not None
            args = op.args
            if v in self.products and self.products[v].how == "shared":
                args = (self.products[v].left,)
            for a in args:
                same = (graph.kind(v) == "element" and graph.shape(a) == op.shape) or (graph.kind(v) == "reduce")
                found = {a: True} if a in self.stored else {} if a < graph.first else out[a]
                for leaf, exact in found.items():
                    out[v][leaf] = out[v].get(leaf, True) and exact and same
        return out

    def fails(self) -> list[int]:
        return [self.graph.first + k for k, op in enumerate(self.graph.spec.body) if op.site >= 0]

    def run(self) -> Stages:
        self.choose()
        graph = self.graph
        reads = self.reads_of()
        stages: list[RowStage | ProductStage] = []
        done: set[int] = set()
        checks = self.fails()
        pending = [v for v in range(graph.first, graph.count) if v in self.stored]
        pending = self.alive(pending, reads, checks)
        current: RowStage | None = None
        while pending or checks:
            ready = [
                v
                for v in pending
                if reads[v].keys() <= done and not (v in self.products and self.products[v].how == "shared")
            ]
            ripe = [v for v in checks if self.check_reads(v, reads) <= done]
            if ready or ripe:
                if current is None:
                    current = RowStage()
                    stages.append(current)
                for v in ripe:
                    current.items.append(Single("check", v))
                    checks.remove(v)
                if ready:
                    item = self.nest(ready, pending, reads, done)
                    if isinstance(item, Single) and self.grouped(item.value):
                        if current.items:
                            current = RowStage()
                            stages.append(current)
                        current.grouped = self.products[item.value]
                    current.items.append(item)
                    if current.grouped is not None:
                        current = None
                    made = item.values if isinstance(item, Nest) else [item.value]
                    done.update(made)
                    pending = [v for v in pending if v not in done]
                    if not self.fusion.vertical:
                        current = None
                continue
            stage = self.product_stage(pending, reads, done)
            stages.append(stage)
            current = None
            done.update(part.product.value for part in stage.parts)
            done.update(stage.tail)
            pending = [v for v in pending if v not in done]
        operands = [] if self.fusion.gather else enumerate(graph.spec.operands)
        gathered = [v for v, o in operands if o.kind == "tensor" and graph.users[v]]
        by_value = {v: reads[v] for v in range(graph.count)}
        return Stages(graph, self.stored, self.products, stages, by_value, gathered)

    def check_reads(self, v: int, reads: list[dict[int, bool]]) -> set[int]:
        return {u for a in self.graph.checked(v) for u in ([a] if a in self.stored else reads[a])}

    def alive(self, pending: list[int], reads: list[dict[int, bool]], checks: Iterable[int]) -> list[int]:
        """Drop what no result needs."""
        needed: set[int] = set()
        todo = list(self.graph.spec.results)
        for v in checks:
            todo += self.check_reads(v, reads)
        while todo:
            v = todo.pop()
            if v not in needed:
                needed.add(v)
                todo += reads[v]
        return [v for v in pending if v in needed]

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

    def nest(
        self, ready: Sequence[int], pending: Sequence[int], reads: list[dict[int, bool]], done: set[int]
    ) -> Nest | Single:
        v = ready[0]
        loops = self.loops_of(v)
        if loops is None:
            return Single(self.graph.kind(v), v)
        space, _ = loops
        nest = Nest(space, ())
        inside: set[int] = set()
        lanes = self.lanes(v)
        for u in pending if self.fusion.vertical else [v]:
            other = self.loops_of(u)
            if other is None or other[0] != space or self.lanes(u) != lanes:
                continue
            unmet = {x: same for x, same in reads[u].items() if x not in done}
            if any(x not in inside or not same for x, same in unmet.items()):
                continue
            if nest.values and not unmet and not self.fusion.horizontal:
                continue
            if self.graph.kind(u) == "reduce":
                if nest.reductions and other[1] != nest.reduced:
                    continue
                if nest.stores and not self.suffix(space, other[1]):
                    continue
                nest.reduced = other[1]
                nest.reductions.append(u)
            else:
                if nest.reductions and not self.suffix(space, nest.reduced):
                    continue
                nest.stores.append(u)
                inside.add(u)
        return nest

    def lanes(self, v: int) -> int:
        """Return how many elements a nest handles at once for this task."""
        widths = [DTYPES[self.graph.dtype(v)].size]
        if self.graph.kind(v) != "reduce":
            op = self.graph.op(v)
            assert op is not None
            widths += [DTYPES[self.graph.dtype(a)].size for a in op.args]
        from acronumba.emit.tree import Ty

        return self.target.lanes(Ty("i", 8 * max(4, *widths)))

    @staticmethod
    def suffix(space: tuple[Size, ...], reduced: tuple[int, ...]) -> bool:
        real = [k for k in range(len(space)) if space[k] != 1]
        axes = [k for k in reduced if space[k] != 1]
        return real[len(real) - len(axes) :] == axes

    # ---- products with shared weights

    def product_stage(self, pending: list[int], reads: list[dict[int, bool]], done: set[int]) -> ProductStage:
        ready = [v for v in pending if v in self.products and reads[v].keys() <= done]
        first = self.products[ready[0]]
        best: tuple[tuple[int, int], ProductStage] | None = None
        for n in self.widths(first, pending, reads):
            stage = self.try_stage(first, n, ready, pending, reads, done)
            score = (len(stage.tail), n)
            if best is None or score > best[0]:
                best = (score, stage)
        assert best is not None
        stage = best[1]
        computed = {part.product.value for part in stage.parts}
        fused = computed | set(stage.tail)
        needed = set(self.graph.spec.results) & computed
        for v in pending:
            if v not in fused:
                needed |= reads[v].keys() & computed
        for v in self.fails():
            needed |= self.check_reads(v, reads) & computed
        stage.tail[:0] = sorted(needed)
        return stage

    def widths(self, product: Product, pending: Sequence[int], reads: list[dict[int, bool]]) -> list[int]:
        whole = product.columns
        assert isinstance(whole, int)
        out = [whole]
        if not self.fusion.vertical:
            return out
        lanes = self.target.column_step(DTYPES[self.graph.dtype(product.value)].ty)
        for v in pending:
            if product.value in reads[v] and v not in self.products:
                shape = self.graph.shape(v)
                n = shape[-1] if shape else 0
                if isinstance(n, int) and 0 < n < whole and whole % n == 0 and whole // n <= MOST_GATES:
                    if -(-n // lanes) * (whole // n) <= 2 * -(-whole // lanes):
                        out.append(n)
        return list(dict.fromkeys(out))

    def try_stage(
        self,
        first: Product,
        n: int,
        ready: Sequence[int],
        pending: Sequence[int],
        reads: list[dict[int, bool]],
        done: set[int],
    ) -> ProductStage:
        group = [first.value]
        dtype = self.graph.dtype(first.value)

        def fits(v: int) -> bool:
            p = self.products.get(v)
            if p is None or v not in ready or p.how != "shared" or p.lead != first.lead:
                return False
            if not self.fusion.horizontal:
                return False
            whole = p.columns
            return (
                isinstance(whole, int)
                and self.graph.dtype(v) == dtype
                and whole % max(n, 1) == 0
                and (whole == n or whole // max(n, 1) <= MOST_GATES)
            )

        # What is ready depends on nothing that is not done: no product of the group feeds another.
        alike = [v for v in ready if v not in group and fits(v)]
        while joined := [v for v in alike if any(self.alike(v, u) for u in group)]:
            group += joined
            alike = [v for v in alike if v not in joined]
        tail: list[int] = []
        space = (*first.lead, n)
        changed = self.fusion.vertical
        while changed:
            changed = False
            for v in pending:
                if v in tail or self.loops_of(v) != (space, ()) or v in self.products:
                    continue
                unmet = [u for u in reads[v] if u not in done and u not in group and u not in tail]
                if any(not fits(u) for u in unmet):
                    continue
                if not any(u in group or u in unmet for u in reads[v]) and not any(u in tail for u in reads[v]):
                    continue
                if self.matches(v, n, space, {*group, *unmet}, set(tail), done):
                    group += unmet
                    tail.append(v)
                    changed = True
        parts = []
        for v in group:
            p = self.products[v]
            assert isinstance(p.columns, int)
            parts.append(Part(p, p.columns // n if n else 1))
        order = {v: k for k, v in enumerate(pending)}
        return ProductStage(first.lead, n, parts, sorted(tail, key=order.__getitem__))

    def alike(self, v: int, u: int) -> bool:
        """Whether two products read the same left operand or the same weight."""
        p, q = self.products[v], self.products[u]
        return p.pieces == q.pieces or p.matrix == q.matrix

    def matches(self, v: int, n: int, space: tuple[Size, ...], group: set[int], tail: set[int], done: set[int]) -> bool:
        """Whether the stored value `v` can be computed panel by panel: products are read at the panel's own columns."""
        names = [f"i{k}" for k in range(len(space))]
        at = tuple(ZERO if s == 1 else Poly.of(x) for s, x in zip(space, names, strict=True))
        here = Index(space, at)
        places = Symbolic(dict(zip(names, space, strict=True)), names[-1])
        seen: set[tuple[int, Index]] = set()
        op = self.graph.op(v)
        todo = [(v, here)]
        while todo:
            u, index = todo.pop()
            if (u, index) in seen:
                continue
            seen.add((u, index))
            if u != v and self.leaf(u):
                if u in group:
                    try:
                        own = reindex(index, self.graph.shape(u), places.split)
                    except Untraceable:
                        return False
                    offset = (own.at[-1] - here.at[-1]).constant
                    if own.at[:-1] != here.at[:-1] or offset is None or n == 0 or offset % n:
                        return False
                elif u in tail:
                    if index != here:
                        return False
                elif u >= self.graph.first and u not in done:
                    return False
                continue
            op = self.graph.op(u)
            if op is None or self.graph.kind(u) == "create":
                continue
            try:
                if self.graph.kind(u) == "element":
                    for a in op.args:
                        if self.graph.shape(a) == op.shape:
                            todo.append((a, index))
                        else:
                            todo.append(
                                (a, stretch(places, reindex(index, op.shape, places.split), self.graph.shape(a)))
                            )
                elif self.graph.kind(u) == "view":
                    todo.append(through(places, self.graph, u, index))
                    if op.op == "take":
                        own = reindex(index, op.shape, places.split)
                        axis, shape = axis_of(op), self.graph.shape(op.args[1])
                        todo.append((op.args[1], Index(shape, own.at[axis : axis + len(shape)])))
                else:
                    return False
            except Untraceable:
                if self.below(u) & (group | tail):
                    return False
        return True


def plan_stages(spec: KernelSpec, target: Target, fusion: Fusion = EVERYTHING) -> Stages:
    """Decide what the kernel stores and in which order it computes."""
    return Planner(fold(spec), target, fusion).run()
