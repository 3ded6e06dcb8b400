"""The order of a kernel's computation: tasks become stages.

In: a `KernelSpec`. Out: `Stages`.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.emit.target import Target
from acronumba.emit.tree import Ty
from acronumba.ir.spec import FAR, KernelSpec, Size
from acronumba.kernels.stages.choose import Chooser
from acronumba.kernels.stages.codes import for_machine
from acronumba.kernels.stages.constants import fold
from acronumba.kernels.stages.halves import in_halves
from acronumba.kernels.stages.pending import Pending
from acronumba.kernels.stages.products import product_stage
from acronumba.kernels.stages.tasks import Nest, ProductStage, RowStage, Single, Stages
from acronumba.kernels.stages.tiled import tiled_stage
from acronumba.kernels.write.element import DTYPES
from acronumba.strategy import DEFAULT, Strategy


def plan_stages(
    spec: KernelSpec, target: Target, strategy: Strategy = DEFAULT, precision: str = "float32"
) -> Stages:  # fmt: skip
    """Choose the stored values of a kernel and the order in which they are computed; `precision`: of `config`."""
    spec = for_machine(fold(spec), target)
    chosen = Chooser(in_halves(spec) if precision == "bf16" and not target.warps else spec, target, strategy)
    chosen.choose()
    return _Order(chosen).run()


class _Order:
    """Makes the stages of a kernel."""

    def __init__(self, chosen: Chooser) -> None:
        self.chosen = chosen
        self.graph = chosen.graph
        self.strategy = chosen.strategy
        self.pending = Pending(chosen)
        self.stages: list[RowStage | ProductStage] = []
        self.current: RowStage | None = None  # the stage of rows that may have more

    def run(self) -> Stages:
        pending, graph = self.pending, self.graph
        while pending.tasks or pending.checks:
            ready = [v for v in pending.tasks if pending.ready(v) and not pending.shared(v)]
            checks = [v for v in pending.checks if pending.check_reads(v) <= pending.done]
            if ready or checks:
                self.in_rows(ready, checks)
                continue
            stage = product_stage(pending)
            self.stages.append(stage)
            self.current = None
            pending.finish([*(part.product.value for part in stage.parts), *stage.tail])
        operands = [] if self.strategy.gather else enumerate(graph.spec.operands)
        gathered = [v for v, o in operands if o.kind == "tensor" and graph.users[v] and o.shape[:1] != (FAR,)]
        reads = dict(enumerate(pending.reads))
        return Stages(graph, self.chosen.stored, self.chosen.products, self.stages, reads, gathered, self.strategy)

    def in_tiles(self, stage: RowStage, tasks: list[int]) -> None:
        """Put tasks into a stage in tiles."""
        self.stages.append(stage)
        self.current = None
        while among := [v for v in self.pending.tasks if v in tasks]:
            item = self.nest(among[0], among)
            stage.items.append(item)
            self.pending.finish(item.values)
        self.pending.finish(stage.values)

    def in_rows(self, ready: list[int], checks: list[int]) -> None:
        """Put checks and the first ready task, with the tasks that fit in its loops, into a stage of rows."""
        if checks:
            self.stage().items += [Single("check", v) for v in checks]
            self.pending.checks = [v for v in self.pending.checks if v not in checks]
        if not ready:
            return
        if (tiles := tiled_stage(self.pending, ready[0])) is not None:
            self.in_tiles(*tiles)
            return
        item = self.nest(ready[0], self.pending.tasks)
        grouped = isinstance(item, Single) and self.chosen.grouped(item.value)
        current = self.stage()
        if grouped and current.items:
            self.current = None
            current = self.stage()
        current.items.append(item)
        if isinstance(item, Single) and grouped:
            current.grouped = self.chosen.products[item.value]
        if grouped or not self.strategy.vertical:
            self.current = None
        self.pending.finish(item.values)

    def stage(self) -> RowStage:
        """Return the stage of rows that tasks go into now."""
        if self.current is None:
            self.current = RowStage()
            self.stages.append(self.current)
        return self.current

    def nest(self, v: int, among: Sequence[int]) -> Nest | Single:
        """Return a nest with a task, and with all of the other tasks that it can hold."""
        pending = self.pending
        loops = pending.loops_of(v)
        if loops is None:
            return Single(self.graph.kind(v), v)
        space, _ = loops
        nest = Nest(space, ())
        inside: set[int] = set()
        lanes = self.lanes(v)
        for u in among if self.strategy.vertical else [v]:
            other = pending.loops_of(u)
            if other is None or other[0] != space or self.lanes(u) != lanes:
                continue
            unmet = {x: same for x, same in pending.reads[u].items() if x not in pending.done}
            if any(x not in inside or not same for x, same in unmet.items()):
                continue
            if nest.values and not unmet and not self.strategy.horizontal:
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
        """Return the number of elements that a nest handles at once for this task."""
        widths = [DTYPES[self.graph.dtype(v)].size]
        if self.graph.kind(v) != "reduce":
            op = self.graph.op(v)
            assert op is not None
            widths += [DTYPES[self.graph.dtype(a)].size for a in op.args]
        return self.chosen.target.lanes(Ty("i", 8 * max(4, *widths)))

    @staticmethod
    def suffix(space: tuple[Size, ...], reduced: tuple[int, ...]) -> bool:
        real = [k for k in range(len(space)) if space[k] != 1]
        axes = [k for k in reduced if space[k] != 1]
        return real[len(real) - len(axes) :] == axes
