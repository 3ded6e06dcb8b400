"""Writes the description of a block of nodes with run-time extents.

In: the stages of a kernel. Out: statements of its function `begin`. A block has at least one node. It ends when the
rows of its products fill the caches, when scratch that depends on the extents takes much memory, or before a node whose
rows consist of pieces of another length. The times and starts of each node are stored in tables of the block
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
    """Return the number of a word of a stage's UNITS in the scratch of a block."""
    return BLOCK.count + UNITS.count * stage + UNITS.at[name]


class BlockOfNodes:
    """Writes the description of a block.

    Parameters
    ----------
    w
        Writer of the function.
    rows
        Number of rows of products that makes a block full; None: no limit.
    time_of
        Function from a stage's number to its nanoseconds for the current node.
    operands
        Function that writes the addresses of a node's operands, given its number in the block and its argument words.
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
        """Write the description of a block of nodes from i0 on, below `hi`; return the end of the block."""
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
        """Return the number of rows of products of the current node: at least one."""
        w = self.w
        out: Expr = const(1, I64)
        for lead in w.stages.leads if self.most_rows is not None else ():
            if lead != ONE:
                many = w.bind("rows_of", w.number(lead))
                out = w.bind("rows_of", select(many > out, many, out))
        return out

    def has_room(self, rows: Expr, size: Expr) -> Expr:
        """Return whether the block can take the current node."""
        room = self.top + size <= self.fixed + self.w.stages.strategy.ragged_bytes
        for n, length in self.lengths.items():
            room = room & length.eq(self.w.number(size_poly(n)))
        return room if self.most_rows is None else room & (self.rows + rows <= self.most_rows)

    def add(self, row: Local, rows: Expr, size: Expr) -> None:
        """Write the addition of the current node to the block."""
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
        """Write the ends of tables, and the units of each stage."""
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
