"""Writes stages in tiles for a GPU: all tasks for some rows of a node, then all for the next rows.

In: a `RowStage` with a lead. Out: statements of one function. A unit is a tile of rows at one index of the other axes
of the lead; each block of threads does one unit after the other. Products are tiles computed by all threads of the
block; other tasks are done row by row, the rows shared out to warps. Values that tasks pass to each other lie in
scratch memory of the block: `HEIGHTS[0]` rows of each.
"""

from __future__ import annotations

from acronumba.emit import tree
from acronumba.emit.simt import SHARED_MEMORY, WARP, device
from acronumba.emit.tree import I64, Expr, Load, Local, const, select
from acronumba.ir.spec import Dim
from acronumba.kernels.cuda.nodes import Counted
from acronumba.kernels.cuda.tiles import MOST, MOST_STAGES, PART, THREADS, Shape, Tile, kind_of
from acronumba.kernels.cuda.writer import Grid, SimtWriter, columns_of
from acronumba.kernels.stages.graph import stretch, through
from acronumba.kernels.stages.index import ZERO, Index, Poly, count, size_poly
from acronumba.kernels.stages.tasks import Band, Product, RowStage, Single
from acronumba.kernels.write.element import DTYPES
from acronumba.kernels.write.tiled import narrow_all
from acronumba.kernels.write.writer import OUTSIDE, BandRows

HEIGHTS = (64, 32, 16)  # rows of a tile: fewer where blocks would have nothing to do
PANEL = 64  # columns of a product that are computed at a time, if their number is not known before


def counted(stage: RowStage) -> tuple[Counted, ...]:
    """Return a stage's count of tiles of each node, for each height; () if all nodes have equally many rows."""
    if count(stage.lead).constant is not None:
        return ()
    return tuple(Counted(size_poly(stage.lead[-1]), height, count(stage.lead[:-1])) for height in HEIGHTS)


class BlockTiles:
    """Writes a stage in tiles.

    Parameters
    ----------
    w
        Of the function.
    stage
        The stage.
    """

    def __init__(self, w: SimtWriter, stage: RowStage) -> None:
        self.w, self.stage = w, stage
        self.counted = counted(stage)
        products = [w.stages.products[item.value] for item in stage.items if isinstance(item, Single)]
        self.made = dict(zip([p.value for p in products], self.tiling(products), strict=True))
        w.called.update(self.made.values())

    def tiling(self, products: list[Product]) -> list[Tile]:
        """Choose the tiles of products so that they fit in the shared memory of a block."""
        for stages in range(MOST_STAGES, 1, -1):
            made = [self.tile(product, stages) for product in products]
            size = sum(tile.shared(True) for tile in {*made})
            if size + 8 * (HEIGHTS[0] + 3) <= SHARED_MEMORY - 64:
                break
        return made

    def tile(self, product: Product, stages: int) -> Tile:
        columns = PANEL if isinstance(product.columns, Dim) else columns_of(product.columns, 1)
        kind = kind_of(DTYPES[self.w.graph.dtype(product.value)].name, "float32")
        return Tile(kind, 1, columns, HEIGHTS[0], stages, "columns" if product.flip else "rows")

    def grids(self) -> tuple[Grid, ...]:
        """Return the grid of each height, for the launch to choose from."""
        tile = next(iter(self.made.values()))
        costs = [Shape(height, tile.columns).cost(tile.kind, 1) for height in HEIGHTS]
        if self.counted:
            first = self.w.table.counted.index(self.counted[0]) + 1
            return tuple(Grid(1, 1, cost, first + k) for k, cost in enumerate(costs))
        known = [self.units_of_node(height) for height in HEIGHTS]
        return tuple(Grid(1, many, cost) for many, cost in zip(known, costs, strict=True))

    def units_of_node(self, height: int) -> int:
        """Return the number of units of a node, if all nodes have equally many rows."""
        rows, times = size_poly(self.stage.lead[-1]).constant, count(self.stage.lead[:-1]).constant
        assert rows is not None and times is not None
        return -(-rows // height) * times

    def write(self) -> None:
        w, f = self.w, self.w.f
        block, blocks = w.bind("block_at", device("block", type=I64)), w.bind("blocks", device("blocks", type=I64))
        high, units, starts = self.choose(blocks)
        self.rows = w.local("rows", device("block_memory", const(8 * HEIGHTS[0], I64), type=I64))
        self.lengths = w.local("lengths", device("block_memory", const(8, I64), type=I64))
        if self.stage.band is not None:
            self.flags = w.local("flags", device("block_memory", const(16, I64), type=I64))
        apart = [8 * HEIGHTS[0] * tile.width for tile in self.made.values() if tile.kind not in MOST]
        self.sums = w.local(
            "sums", device("block_memory", const(max(apart), I64), type=I64) if apart else const(0, I64)
        )
        with w.shared_out("u", units, block, blocks) as u:
            if starts is None:
                many = w.local("many", units // f["nodes"])
                node = w.local("node", u // many)
                unit = w.local("unit", u - node * many)
            else:
                node = w.find("of_node", starts, u, f["nodes"])
                unit = w.local("unit", u - tree.load(starts, node))
            w.at_node(node, None)
            self.unit(unit, high)

    def choose(self, blocks: Expr) -> tuple[Local, Local, Local | None]:
        """Choose the height of tiles; return it, the number of units, and the table of the first unit of each node."""
        w, f = self.w, self.w.f
        high = w.local("high", const(HEIGHTS[0], I64))
        tables = [w.starts(one) for one in self.counted]
        if tables:
            many = [w.bind("units_of", tree.load(table, f["nodes"])) for table in tables]
        else:
            many = [w.bind("units_of", f["nodes"] * self.units_of_node(height)) for height in HEIGHTS]
        units = w.local("units", many[0])
        starts = w.local("starts", tables[0]) if tables else None
        for k, height in enumerate(HEIGHTS[1:], 1):
            with w.when(many[k] <= blocks):
                f.set(high, height)
                f.set(units, many[k])
                if starts is not None:
                    f.set(starts, tables[k])
        return high, units, starts

    def unit(self, unit: Local, high: Local) -> None:
        """Write a tile of rows of the current node."""
        w, stage = self.w, self.stage
        rows = w.number(size_poly(stage.lead[-1]))
        tiles = w.local("tiles", (rows + (high - 1)) // high)
        _, outer, first = w.tile_at(unit, rows, tiles, stage)
        w.lead, w.views = (*outer.at, w.named("first", first)), stage.views
        assert w.stop is not None
        if stage.band is None:
            self.items(outer, first)
        else:
            self.in_band(outer, first, w.stop, stage.band)
        w.lead, w.stop, w.views = (), None, {}

    def items(self, outer: Index, first: Local) -> None:
        """Write the tasks for the current rows."""
        w = self.w
        for item in self.stage.items:
            if isinstance(item, Single):
                w.note_names([item.value])
                self.product(w.stages.products[item.value], outer, first)
            else:
                w.nest(item)
            w.f.do(device("meet"))

    def in_band(self, outer: Index, first: Local, stop: Expr, band: Band) -> None:
        """Write the tasks for the columns of the band of the current rows; then for all columns, if the band was wrong.

        It is wrong, which all threads of the block see, if a right operand has an element that times 0 is not 0, or if
        a summed value is not 0 outside of the band.
        """
        w, f = self.w, self.w.f
        size = w.graph.shape(self.stage.items[0].values[0])[-1]
        columns = w.number(size_poly(size))
        with w.loop("turn", 0, 2) as turn:
            wanted = w.local("wanted", turn.eq(0) | tree.load(self.flags, 1).ne(0))
            f.do(device("meet"))
            with w.when(wanted):
                low, high = w.local("low", const(0, I64)), w.local("high", columns)
                with w.when(turn.eq(0)):
                    narrow_all(w, band, first, stop, columns, low, high, WARP)
                    f.store(self.flags, 0, 0)
                    f.store(self.flags, 1, 0)
                    f.do(device("meet"))
                    for product in (w.stages.products[v] for v in self.made):
                        if product.left in band.zero:
                            self.find_odd(product, outer, low, high)
                    f.do(device("meet"))
                    with w.when(tree.load(self.flags).ne(0)):
                        f.set(low, 0)
                        f.set(high, columns)
                bad = w.local("bad", const(0, I64))
                w.band = BandRows(band, size, low, high, w.local("partial", (low > 0) | (high < columns)), bad)
                w.extents[OUTSIDE] = size
                self.items(outer, first)
                w.band = None
                with w.when(bad.ne(0)):
                    f.store(self.flags, 1, 1)
                f.do(device("meet"))

    def find_odd(self, product: Product, outer: Index, low: Local, high: Local) -> None:
        """Write a search for elements that are not finite, in rows of the right operand outside of low..high."""
        w, t = self.w, DTYPES[self.w.graph.dtype(product.value)]
        right, stride = self.right(product, outer)
        inner, columns = (w.number(size_poly(n)) for n in w.graph.shape(product.right)[-2:])
        many = w.local("many", (inner - high + low) * columns)
        with w.anew(), w.shared_out("e", many, w.thread(), const(THREADS, I64)) as e:
            row = w.local("e_row", e // columns)
            c = w.local("c", e - row * columns)
            k = w.local("k", select(row < low, row, row + high - low))
            at = right + c * stride + k * t.size if product.flip else right + k * stride + c * t.size
            x = w.local("x", Load(at, t.memory))
            with w.when((x - x).ne(0)):
                w.f.store(self.flags, 0, 1)

    def product(self, product: Product, outer: Index, first: Local) -> None:
        """Write the rows of a product, column block by column block; within a band, known zeros are left out."""
        w, f, made, band = self.w, self.w.f, self.made[product.value], self.w.band
        assert w.stop is not None
        t = DTYPES[w.graph.dtype(product.value)]
        m = w.local("m", w.stop - first)
        right, stride = self.right(product, outer)
        columns = w.local("columns", w.number(size_poly(product.columns)))
        begin, end = w.local("begin", const(0, I64)), w.local("end", columns)
        if band is not None and product.left in band.band.zero:
            terms = self.terms(product, outer, first, band)
            f.set(right, right + terms * (const(t.size, I64) if product.flip else stride))
        else:
            terms = None
            f.store(self.lengths, 0, w.number(size_poly(w.graph.shape(product.right)[-2])))
            if band is not None and product.columns == band.size:
                f.set(begin, band.low)
                f.set(end, band.high)
        self.addresses(product, outer, first, m, terms)
        f.do(device("meet"))
        with w.loop("column", begin, end, made.columns) as column:
            power = w.local("power", const(made.columns.bit_length() - 1, I64))
            for bits in range(made.columns.bit_length() - 2, 2, -1):
                with w.when(end - column <= 1 << bits):
                    f.set(power, bits)
            found = w.local("found", device(
                f"tile_{made.kind}_{made.right}", self.rows, m, const(HEIGHTS[0], I64), const(1, I64), self.lengths,
                right, column, power, stride, columns, self.sums, const(made.width * t.size, I64),
                *(const(x, I64) for x in (made.gates, made.columns, made.rows, made.stages)), type=I64,
            ))  # fmt: skip
            self.store(product, outer, first, m, column, power, columns, found)
            f.do(device("meet"))

    def terms(self, product: Product, outer: Index, first: Local, band: BandRows) -> Local:
        """Return the first term of sums whose others before are 0: the beginning of a part."""
        w, f, left = self.w, self.w.f, product.left
        assert w.stop is not None
        t = DTYPES[w.graph.dtype(left)]
        low = w.local("part", band.low & -PART)
        f.comment("0 from there to the band")
        with w.rows_of_tile(w.graph.shape(left)[-2]) as i, w.loop("j", low, band.low, WARP) as j:
            place = Index(w.graph.shape(left), (*outer.at, Poly.of(i.name), w.named("at", j)))
            f.store_lanes(w.address(left, place), const(0, t.ty.vector(WARP)))
        f.store(self.lengths, 0, band.high - low)
        return low

    def addresses(self, product: Product, outer: Index, first: Local, m: Local, begin: Local | None) -> None:
        """Write the addresses of the rows of the left operand, from an element on."""
        w, f = self.w, self.w.f
        (piece,) = product.pieces
        shape = w.graph.shape(piece)
        with w.anew(), w.shared_out("e", m, w.thread(), const(THREADS, I64)) as e:
            place = stretch(w, outer, shape[:-2])
            row = ZERO if shape[-2] == 1 else w.named("row", first + e)
            column = ZERO if begin is None else w.named("begin", begin)
            f.store(self.rows, e, w.address(piece, Index(shape, (*place.at, row, column))))

    def right(self, product: Product, outer: Index) -> tuple[Local, Local]:
        """Return the address of the right operand, and the bytes from one row, or column, to the next."""
        w, v = self.w, product.right
        shape = w.graph.shape(v)
        place = stretch(w, outer, shape[:-2])
        w.extents["over"] = shape[-1 if product.flip else -2]
        at = (ZERO, Poly.of("over")) if product.flip else (Poly.of("over"), ZERO)
        index = Index(shape, (*place.at, *(ZERO if n == 1 else x for n, x in zip(shape[-2:], at, strict=True))))
        while not w.stages.leaf(v):
            v, index = through(w, w.graph, v, index)
        flat, size = w.element_at(v, index), DTYPES[w.graph.dtype(v)].size
        slope = flat.slope("over")
        assert slope is not None, "the plan has checked that"
        begin = w.plus(w.base(v), flat.put("over", ZERO) * size)
        return w.local("right", begin), w.local("stride", w.number(slope * size))

    def store(
        self, product: Product, outer: Index, first: Local, m: Local, column: Local, power: Local, columns: Local,
        sums: Local,
    ) -> None:  # fmt: skip
        """Write the store of the sums of some columns."""
        w, made, v = self.w, self.made[product.value], product.value
        op = w.graph.op(v)
        assert op is not None
        t = DTYPES[op.dtype]
        with w.anew(), w.shared_out("e", m << power, w.thread(), const(THREADS, I64)) as e:
            row = w.local("e_row", e >> power)
            c = w.local("c", e - (row << power))
            j = w.named("j", w.local("j", column + c))
            with w.when(column + c < columns):
                ends = [
                    ZERO if n == 1 else x for n, x in zip(op.shape[-2:], (w.named("i", first + row), j), strict=True)
                ]
                x = Load(sums + row * (made.width * t.size) + c * t.size, t.memory)
                w.put(v, Index(op.shape, (*outer.at, *ends)), w.bind(w.kernel.names[v], x, len(w.scopes) - 1))
