"""Writes stages in tiles: all tasks for some rows of a node, then all for the next rows.

In: a `RowStage` with a lead. Out: statements of one function. A unit is a tile of rows at one place of the other axes
of the lead; right operands of products are packed when that place changes.
"""

from __future__ import annotations

from acronumba.emit.tree import Local
from acronumba.kernels.stages.index import Index, Poly, count, size_poly
from acronumba.kernels.stages.tasks import RowStage, Single
from acronumba.kernels.write.matrices import PanelProduct
from acronumba.kernels.write.products import ProductWriter
from acronumba.kernels.write.scopes import Scopes


class Tiles:
    """Writes a stage in tiles."""

    def __init__(self, w: ProductWriter, number: int, stage: RowStage) -> None:
        self.w, self.stage = w, stage
        self.most = Poly.of(f"tile{number}")
        products = [item.value for item in stage.items if isinstance(item, Single)]
        self.products = {v: PanelProduct(w, w.stages.products[v]) for v in products}

    def write(self) -> None:
        """Write units u0..u1 of the block."""
        w, stage, f = self.w, self.stage, self.w.f
        rows = w.number(size_poly(stage.lead[-1]))
        tiles = tiles_of(w, self.most, stage)
        packed = w.local("packed", f["u0"] - f["u0"] - 1)
        with w.loop("u", f["u0"], f["u1"]) as u:
            matrix = w.local("matrix", u // tiles)
            tile = w.local("tile", u - matrix * tiles)
            first, w.stop = w.local("first", rows * tile // tiles), w.local("stop", rows * (tile + 1) // tiles)
            batch = w.enter_row(matrix, stage.lead[:-1])
            for at, size in zip(batch, stage.lead, strict=False):
                w.extents.update(dict.fromkeys(at.symbols, size))
            outer = Index(stage.lead[:-1], tuple(batch))
            if self.products:
                f.comment("right operands, where the last tile had others")
            with w.when(matrix.ne(packed)):
                f.set(packed, matrix)
                for product in self.products.values():
                    product.pack_all(outer)
            w.lead, w.views = (*batch, w.named("first", first)), stage.views
            for item in stage.items:
                if isinstance(item, Single):
                    w.note_names([item.value])
                    self.products[item.value].write_tile(outer, first, w.stop, self.most)
                else:
                    w.nest(item)
            w.lead, w.stop, w.views = (), None, {}


def tiles_of(w: Scopes, most: Poly, stage: RowStage) -> Local:
    """Return how many tiles of at most so many rows the rows of a node are."""
    return w.bind("tiles", (w.number(size_poly(stage.lead[-1])) + (w.number(most) - 1)) // w.number(most))


def units(w: Scopes, number: int, stage: RowStage) -> Local:
    """Return how many units a node is."""
    tiles = tiles_of(w, Poly.of(f"tile{number}"), stage)
    return w.bind("units", w.number(count(stage.lead[:-1])) * tiles)
