"""Writes how a block of nodes is described whose nodes have run-time extents of their own.

In: the stages of a kernel. Out: statements of its function `begin`. A block has one node at least. It ends where the
rows of its products are as many as the caches keep, where what depends on the extents takes much memory, or where the
pieces that rows consist of have another length. What each node adds is noted in tables of the block
(`kernel.RaggedSlots`).
"""

from __future__ import annotations

from collections.abc import Callable

from acronumba.emit.tree import I1, I64, Expr, Local, const, select
from acronumba.ir.spec import BLOCK, UNITS, Dim
from acronumba.kernels.stages.index import ONE, count, size_poly
from acronumba.kernels.stages.tasks import ProductStage
from acronumba.kernels.write.groups import group_units
from acronumba.kernels.write.products import ProductWriter
from acronumba.kernels.write.tiled import units


def word_of(stage: int, name: str) -> int:
    """Return the place of a word of UNITS, of a stage, in the scratch of a block."""
    return BLOCK.count + UNITS.count * stage + UNITS.at[name]


class BlockOfNodes:
    """Writes the description of a block.

    Parameters
    ----------
    w
        Of the function.
    rows
        Rows of products from which on a block is full; None: there are none.
    time_of
        What returns the nanoseconds that a stage takes for the node at hand.
    operands
        What writes down where the operands of a node are, from its number in the block and its argument words.
    """

    def __init__(
        self, w: ProductWriter, rows: int | None, time_of: Callable[[int], Expr], operands: Callable[[Expr, Expr], None]
    ) -> None:
        assert w.kernel.ragged is not None
        self.w, self.slots, self.time_of, self.operands = w, w.kernel.ragged, time_of, operands
        self.stages = w.stages.stages
        self.most_rows, self.fixed = rows, w.kernel.scratch.fixed()[1]
        self.nodes, self.rows = w.local("nodes", const(0, I64)), w.local("rows", const(0, I64))
        self.top = w.local("top", const(self.fixed, I64))
        self.times = [w.local("time", const(0, I64)) for _ in self.stages]
        self.starts = {number: w.local("start", const(0, I64)) for number in self.slots.starts}
        self.lengths = {n: w.local("length", const(0, I64)) for n in self.lengths_of_pieces()}

    def write(self) -> Expr:
        """Write it for nodes i0... before `hi`; return the end of the block."""
        w, f = self.w, self.w.f
        most, more = w.kernel.block.constant, w.local("more", const(True, I1))
        assert most is not None
        with f.while_(more), w.scope():
            row = w.local("row", self.nodes)
            w.home_depth = len(w.scopes) - 1
            w.enter_node(row)
            if w.kernel.scratch.dynamic():
                f.store(w.scratch(self.slots.places), row, f["S"] + self.top)
            rows, size = self.rows_of_node(), w.ends()
            fits = w.local("fits", row.eq(0) | self.has_room(rows, size))
            with w.when(fits):
                self.add(row, rows, size)
            f.set(more, fits & (self.nodes < most) & (f["i0"] + self.nodes < f["hi"]))
        w.row = w.node = w.words = None
        w.home_depth = 0
        self.finish()
        return w.bind("i1", f["i0"] + self.nodes)

    def lengths_of_pieces(self) -> list[Dim]:
        """Return the run-time lengths of pieces that make up rows of products."""
        products = [part.product for s in self.stages if isinstance(s, ProductStage) for part in s.parts]
        pieces = [piece for product in products if len(product.pieces) > 1 for piece in product.pieces]
        found = (self.w.graph.shape(piece)[-1] for piece in pieces)
        return list(dict.fromkeys(n for n in found if isinstance(n, Dim)))

    def rows_of_node(self) -> Expr:
        """Return how many rows of products the node at hand has: one at least."""
        w = self.w
        out: Expr = const(1, I64)
        for lead in w.stages.leads if self.most_rows is not None else ():
            if lead != ONE:
                many = w.bind("rows_of", w.number(lead))
                out = w.bind("rows_of", select(many > out, many, out))
        return out

    def has_room(self, rows: Expr, size: Expr) -> Expr:
        """Return whether the node at hand can be one more of the block."""
        room = self.top + size <= self.fixed + self.w.stages.strategy.ragged_bytes
        for n, length in self.lengths.items():
            room = room & length.eq(self.w.number(size_poly(n)))
        return room if self.most_rows is None else room & (self.rows + rows <= self.most_rows)

    def add(self, row: Local, rows: Expr, size: Expr) -> None:
        """Add the node at hand."""
        w, f = self.w, self.w.f
        for number, stage in enumerate(self.stages):
            if number in self.slots.times:
                f.store(w.scratch(self.slots.times[number]), row, self.times[number])
            f.set(self.times[number], self.times[number] + self.time_of(number))
            if number in self.slots.starts:
                many = w.number(count(stage.lead)) if isinstance(stage, ProductStage) else units(w, number, stage)
                f.store(w.scratch(self.slots.starts[number]), row, self.starts[number])
                f.set(self.starts[number], self.starts[number] + many)
        assert w.words is not None
        self.operands(row, w.words)
        for n, length in self.lengths.items():
            f.set(length, w.number(size_poly(n)))
        f.set(self.nodes, self.nodes + 1)
        f.set(self.rows, self.rows + rows)
        f.set(self.top, self.top + size)

    def finish(self) -> None:
        """Write down the ends of tables, and what is known of the stages."""
        w, f, s = self.w, self.w.f, self.w.f["S"]
        f.store(s, BLOCK.at["own"], self.top)
        for number, stage in enumerate(self.stages):
            times, starts = self.slots.times.get(number), self.slots.starts.get(number)
            for slot, total in ((times, self.times[number]), (starts, self.starts.get(number))):
                if slot is not None and total is not None:
                    f.store(w.scratch(slot), self.nodes, total)
            many: Expr = self.nodes if starts is None else self.starts[number]
            if isinstance(stage, ProductStage):
                many = w.units(stage, w.rows_of(stage, many) if starts is None else many)
                starts = None
            elif stage.grouped is not None:
                many = const(group_units(w.kernel, stage.grouped), I64)
            f.store(s, word_of(number, "count"), many)
            f.store(s, word_of(number, "time"), self.times[number])
            f.store(s, word_of(number, "times"), const(0, I64) if times is None else w.scratch(times))
            f.store(s, word_of(number, "starts"), const(0, I64) if starts is None else w.scratch(starts))
