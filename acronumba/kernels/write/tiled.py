"""Writes stages in tiles: all tasks for some rows of a node, then all for the next rows.

In: a `RowStage` with a lead. Out: statements of one function. A unit is a tile of rows at one index of the other axes
of the lead; right operands of products are packed when that index changes.
"""

from __future__ import annotations

from acronumba.emit import tree
from acronumba.emit.tree import I64, Expr, Local, const, convert, select
from acronumba.kernels.stages.index import ZERO, Index, Poly, count, size_poly
from acronumba.kernels.stages.tasks import Band, RowStage, Single
from acronumba.kernels.write.matrices import PanelProduct
from acronumba.kernels.write.products import ProductWriter
from acronumba.kernels.write.scopes import Scopes
from acronumba.kernels.write.writer import OUTSIDE, BandRows

UNKNOWN = -1  # whether a packed operand is odd
STEP = 16  # a band begins and ends at a multiple of so many columns: the elements of any vector


class Tiles:
    """Writes a stage in tiles."""

    def __init__(self, w: ProductWriter, number: int, stage: RowStage) -> None:
        self.w, self.number, self.stage = w, number, stage
        self.most = Poly.of(f"tile{number}")
        self.products: dict[int, PanelProduct] = {}

    def write(self) -> None:
        """Write units u0..u1 of the block: node after node."""
        w, f = self.w, self.w.f
        unit = w.local("unit", f["u0"])
        ragged = w.kernel.ragged
        if ragged is not None:
            starts = w.scratch(ragged.starts[self.number])
            node = w.find("r", starts, unit, f["i1"] - f["i0"])
        else:
            many = units(w, self.number, self.stage)
            node = w.local("r", unit // select(many < 1, 1, many))
        with f.while_(unit < f["u1"]), w.scope():
            begin, end = (
                (tree.load(starts, node), tree.load(starts, node + 1))
                if ragged is not None
                else (node * many, node * many + many)
            )
            begin, end = w.local("begin", begin), w.local("end", end)
            stop = w.local("until", select(end < f["u1"], end, f["u1"]))
            w.home_depth = len(w.scopes) - 1
            w.enter_node(w.local("row", node))
            self.of_node(unit - begin, stop - begin)
            f.set(unit, stop)
            f.set(node, node + 1)

    def of_node(self, low: Expr, high: Expr) -> None:
        """Write units low..high of the current node."""
        w, stage, f = self.w, self.stage, self.w.f
        products = [item.value for item in stage.items if isinstance(item, Single)]
        self.products = {v: PanelProduct(w, w.stages.products[v]) for v in products}
        rows = w.number(size_poly(stage.lead[-1]))
        tiles = tiles_of(w, self.most, stage)
        packed = w.local("packed", const(-1, I64))
        odd = w.local("odd", const(UNKNOWN, I64)) if stage.band is not None else None
        with w.loop("u", low, high) as u:
            matrix, outer, first = w.tile_at(u, rows, tiles, stage)
            f.comment("right operands, where the last tile had others")
            with w.when(matrix.ne(packed)):
                f.set(packed, matrix)
                self.pack(outer, odd)
            w.lead, w.views = (*outer.at, w.named("first", first)), stage.views
            assert w.stop is not None
            if stage.band is None or odd is None:
                self.items(outer, first, w.stop)
            else:
                self.in_band(outer, first, w.stop, stage.band, odd)
            w.lead, w.stop, w.views = (), None, {}

    def pack(self, outer: Index, odd: Local | None) -> None:
        """Pack the right operands of products."""
        if odd is not None:
            self.w.f.set(odd, UNKNOWN)
        for product in self.products.values():
            product.pack_all(outer)

    def find_odd(self, band: Band, odd: Local) -> None:
        """See whether a packed operand has an element that gives no 0 when multiplied by 0, unless that is known."""
        w = self.w
        with w.when(odd.eq(UNKNOWN)):
            w.f.set(odd, 0)
            for product in self.products.values():
                if product.product.left in band.zero:
                    product.find_odd(odd)

    def items(self, outer: Index, first: Expr, stop: Expr) -> None:
        """Write the tasks for rows first..stop."""
        w = self.w
        for item in self.stage.items:
            if isinstance(item, Single):
                w.note_names([item.value])
                self.products[item.value].write_tile(outer, first, stop, self.most)
            else:
                w.nest(item)

    def in_band(self, outer: Index, first: Expr, stop: Expr, band: Band, odd: Local) -> None:
        """Write the tasks for the columns of the band of rows first..stop; then for all, if the band was wrong."""
        w, f = self.w, self.w.f
        size = w.graph.shape(self.stage.items[0].values[0])[-1]
        columns = w.number(size_poly(size))
        bad = w.local("bad", const(0, I64))
        with w.loop("turn", 0, 2) as turn, w.when(turn.eq(0) | bad.ne(0)):
            low, high = w.local("low", const(0, I64)), w.local("high", columns)
            with w.when(turn.eq(0)):
                narrow_all(w, band, first, stop, columns, low, high, STEP)
                with w.when((low > 0) | (high < columns)):
                    self.find_odd(band, odd)
                    f.set(low, select(odd.eq(0), low, 0))
                    f.set(high, select(odd.eq(0), high, columns))
            w.band = BandRows(band, size, low, high, w.local("partial", (low > 0) | (high < columns)), bad)
            w.extents[OUTSIDE] = size
            self.items(outer, first, stop)
            w.band = None


def narrow(w: ProductWriter, band: Band, condition: Poly, first: Expr, stop: Expr, low: Local, high: Local) -> None:
    """Move the bounds of the columns where a number is not negative in none of some rows."""
    for v in (int(name[3:]) for name in condition.symbols if name.startswith("arg")):
        w.symbols[f"arg{v}"] = w.bind(f"arg{v}", convert(w.value(v, Index((), ())), I64))
    slopes = [condition.slope(name) for name in (band.row, band.column)]
    row, column = (s.constant or 0 if s is not None else 0 for s in slopes)
    last = w.named("last", stop - 1) if row > 0 else w.named("first", first)
    edge = w.local("edge", w.number(condition.put(band.column, ZERO).put(band.row, last)))  # the largest of them
    if column < 0:
        w.f.set(high, select(edge + 1 < high, edge + 1, high))
    else:
        w.f.set(low, select(low < -edge, -edge, low))


def narrow_all(
    w: ProductWriter, band: Band, first: Expr, stop: Expr, columns: Expr, low: Local, high: Local, step: int
) -> None:  # fmt: skip
    """Narrow the columns low..high of some rows, all so far, to the band; its ends are multiples of a step."""
    for condition in band.conditions:
        narrow(w, band, condition, first, stop, low, high)
    some = w.local("some", low < high)
    w.f.set(low, select(some, low & -step, 0))
    w.f.set(high, select(some, (high + (step - 1)) & -step, columns))
    w.f.set(high, select(high < columns, high, columns))


def tiles_of(w: Scopes, most: Poly, stage: RowStage) -> Local:
    """Return the number of tiles, of a maximum height, of a node's rows."""
    return w.bind("tiles", (w.number(size_poly(stage.lead[-1])) + (w.number(most) - 1)) // w.number(most))


def units(w: Scopes, number: int, stage: RowStage) -> Local:
    """Return the number of units of a node."""
    tiles = tiles_of(w, Poly.of(f"tile{number}"), stage)
    return w.bind("units", w.number(count(stage.lead[:-1])) * tiles)
