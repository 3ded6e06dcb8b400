"""Stages in tiles: products of a node's local matrices and the tasks after them, some rows at a time.

In: a `Pending` and a ready product. Out: the stage of tasks done together with it, or None. Attention is such a stage:
scores, softmax and the second product of some queries, then those of the next. The scores of all queries are never
stored at once.

All values of a stage have the same first axes, the lead, and are independent along them: a value reads others only at
its own index of the lead.
"""

from __future__ import annotations

from acronumba.ir.ops import TENSORS
from acronumba.kernels.stages.bands import find_band
from acronumba.kernels.stages.graph import Place, Symbolic, Untraceable, arguments, onward, stretch
from acronumba.kernels.stages.index import ONE, ZERO, Index, Poly, count, reindex
from acronumba.kernels.stages.pending import Pending
from acronumba.kernels.stages.tasks import Product, RowStage


def tiled_stage(pending: Pending, seed: int) -> tuple[RowStage, list[int]] | None:
    """Return a stage in tiles that begins with a product, still empty, and its tasks; None if it does not pay."""
    product = pending.products.get(seed)
    if product is None or product.how != "panel" or not pending.strategy.vertical or not multiplied(pending, product):
        return None
    return _Growth(pending, seed).run()


def multiplied(pending: Pending, product: Product) -> bool:
    """Whether tiles can multiply with the right operand of a product: tiles of a GPU read it in place."""
    return not pending.target.warps or pending.chosen.evenly(product.right)


class _Growth:
    """State of `tiled_stage`: the tasks of a growing stage."""

    def __init__(self, pending: Pending, seed: int) -> None:
        self.pending, self.graph = pending, pending.graph
        self.lead = self.graph.shape(seed)[:-1]
        self.tasks = [seed]

    def run(self) -> tuple[RowStage, list[int]] | None:
        pending = self.pending
        for v in pending.tasks:
            reads = pending.reads[v].keys()
            near = [u for u in reads if u in self.tasks]
            if v not in self.tasks and near and all(u in pending.done or u in near for u in reads) and self.joins(v):
                self.tasks.append(v)
        stage = RowStage(lead=self.lead)
        small, kept = True, set()
        for u in self.tasks:
            users = self.users(u)
            if u in self.graph.spec.results or any(v not in self.tasks for v in users):
                kept.add(u)
                if (views := self.views(u, users)) is not None:
                    stage.views[u] = views
            else:
                size = count(self.graph.shape(u)).constant
                small = small and size is not None and size < pending.strategy.tiled_elements
        if small:
            return None
        columns = self.graph.shape(self.tasks[0])[-1]
        inner = [v for v in self.tasks if self.graph.shape(v) == (*self.lead, columns)]
        if not any(v in kept for v in inner):
            stage.band = find_band(pending.chosen, pending.reads, self.lead, columns, self.tasks)
        return stage, self.tasks

    def users(self, u: int) -> list[int]:
        """Return the tasks that read value `u`, and the operations whose failure depends on it."""
        pending = self.pending
        failing = [v for v in pending.checks if u in pending.check_reads(v)]
        return [v for v in pending.tasks if u in pending.reads[v]] + failing

    def joins(self, v: int) -> bool:
        """Whether a task reads the values of the stage only at its own index of the lead."""
        graph, rank = self.graph, len(self.lead)
        if (product := self.pending.products.get(v)) is not None:
            if product.how != "panel" or graph.shape(v)[:-1] != self.lead or self.read(product.right) & {*self.tasks}:
                return False
            if not multiplied(self.pending, product):
                return False
            names = self.names(self.lead)
            places = Symbolic(dict(zip(names, self.lead, strict=True)) | {"k": graph.shape(product.left)[-1]})
            here = self.at(self.lead, names)
            return all(
                self.at_lead([(piece, self.left(piece, here, places))], here.at, places) for piece in product.pieces
            )
        loops = self.pending.loops_of(v)
        if loops is None or loops[0][:rank] != self.lead or any(k < rank for k in loops[1]):
            return False
        space, _ = loops
        names = self.names(space)
        here, places = self.at(space, names), Symbolic(dict(zip(names, space, strict=True)))
        op = graph.op(v)
        assert op is not None
        try:
            roots = [(op.args[0], here)] if TENSORS[op.op].kind == "reduce" else arguments(places, graph, v, here)
        except Untraceable:
            return False
        return self.at_lead(roots, here.at[:rank], places)

    def left(self, piece: int, here: Index, places: Symbolic) -> Index:
        """Return the index of a row in a piece of a product's left operand."""
        shape = self.graph.shape(piece)
        batch = stretch(places, Index(here.shape[:-1], here.at[:-1]), shape[:-2])
        return Index(shape, (*batch.at, here.at[-1], ZERO if shape[-1] == 1 else Poly.of("k")))

    def at_lead(self, roots: list[Place], lead: tuple[Poly, ...], places: Symbolic) -> bool:
        """Whether `roots` are computed from values of the stage at one index of the lead only."""
        chosen, graph = self.pending.chosen, self.graph
        for u, index in chosen.leaves(roots, places):
            if u in self.tasks:
                if index is None:
                    return False
                try:
                    own = reindex(index, graph.shape(u), places.split)
                except Untraceable:
                    return False
                if own.at[: len(lead)] != lead:
                    return False
        return True

    def read(self, v: int) -> set[int]:
        """Return the stored values that are read to compute a value."""
        return {v} if self.pending.chosen.leaf(v) else self.pending.chosen.below(v)

    def views(self, u: int, users: list[int]) -> tuple[int, ...] | None:
        """Return the chain of views from a value to its only reader, if that can be stored in place of the value.

        None if it cannot.
        """
        graph = self.graph
        if len(users) != 1 or u in graph.spec.results or users[0] in self.tasks or graph.shape(u)[-1] == 1:
            return None
        found: list[int] = []
        v = users[0]
        while v != u:
            op = graph.op(v)
            if op is None or op.op not in ("reshape", "transpose") or (found and self.pending.chosen.leaf(v)):
                return None
            found.append(v)
            v = op.args[0]
        shape = graph.shape(u)
        names = self.names(shape)
        try:
            place = onward(Symbolic(dict(zip(names, shape, strict=True))), graph, found[::-1], self.at(shape, names))
        except Untraceable:
            return None
        return tuple(found[::-1]) if place.flat.slope(names[-1]) == ONE else None

    @staticmethod
    def names(space: tuple[object, ...]) -> list[str]:
        return [f"i{k}" for k in range(len(space))]

    @staticmethod
    def at(space: tuple[object, ...], names: list[str]) -> Index:
        """Return the symbolic index in `space` with these names as symbols."""
        return Index(space, tuple(ZERO if n == 1 else Poly.of(x) for n, x in zip(space, names, strict=True)))  # type: ignore[arg-type]
