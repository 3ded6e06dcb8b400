"""Writes products of one node's own operands, and what all writers of products need.

In: a `Product` that reads no shared weight. Out: statements of one function. With a few rows on the left, columns of
the right operand are packed into scratch and multiplied by register tiles; a vector takes loops of its own: along
memory, or with squares of the matrix transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acronumba.emit import tree
from acronumba.emit.target import Target
from acronumba.emit.tree import I1, I64, Expr, Load, Local, call_address, const, convert, intrinsic, select
from acronumba.ir.spec import Size
from acronumba.kernels.stages.graph import stretch, through
from acronumba.kernels.stages.index import ZERO, Index, Poly, size_poly
from acronumba.kernels.stages.passes import tile_shape
from acronumba.kernels.stages.tasks import Product
from acronumba.kernels.tiles import CHUNK
from acronumba.kernels.write.element import DTYPES, cast
from acronumba.kernels.write.kernel import Kernel
from acronumba.kernels.write.nests import NestWriter


@dataclass(slots=True, eq=False)
class Slots:
    """Scratch slots of a product."""

    rows: int  # int64: addresses of the left operand's rows, piece by piece
    lengths: int  # int64: elements of the pieces of a row
    sums: int  # what one call of a tile computes
    panel: int = -1  # columns of the right operand, packed


class MatrixWriter(NestWriter):
    """Writes products of one node's own operands."""

    def __init__(
        self, kernel: Kernel, slots: dict[tuple[str, int], Slots], name: str, params: Sequence[str], doc: str = ""
    ) -> None:
        super().__init__(kernel, name, params, doc)
        self.slots = slots

    @property
    def target(self) -> Target:
        return self.kernel.target

    def local(self, name: str, value: Expr) -> Local:
        """Assign to a new local in the current scope; it may change later."""
        out = self.f.let(name, value)
        self.depth[out.name] = len(self.scopes) - 1
        return out

    def space(
        self, axes: Sequence[int], shape: Sequence[Size], at: list[Poly], inner: Callable[[], None],
        vector: int | None = None,
        lanes: int = 1,
    ) -> None:  # fmt: skip
        """Write loops over some axes of a shape, the axis `vector` by lanes; `at` is filled in for `inner`."""
        axes = [k for k in axes if shape[k] != 1]
        if not axes:
            inner()
            return
        k = axes[0]
        with self.axis(k, shape[k], k == vector, lanes) as var:
            at[k] = Poly.of(var.name)
            self.space(axes[1:], shape, at, inner, vector, lanes)
        at[k] = ZERO

    def address(self, v: int, index: Index) -> Expr:
        """Return the address of an element of a view of something stored."""
        while not self.stages.leaf(v):
            v, index = through(self, self.graph, v, index)
        flat = index.flat
        base = self.base(v)
        return self.plus(base, flat * DTYPES[self.graph.dtype(v)].size)

    def one_product(self, product: Product) -> None:
        self.note_names([product.value])
        if product.how == "panel":
            self.panel_product(product)
        elif product.how == "lanes":
            self.lanes_product(product)
        elif product.how == "transposed":
            self.transposed_product(product)
        else:
            self.loops_product(product)

    def operand_places(self, product: Product, at: Sequence[Poly], m: Poly, n: Poly, k: Poly) -> tuple[Index, Index]:
        """Return the places in x and y for the batch axes `at`, row m, column n and inner index k."""
        op = self.graph.op(product.value)
        assert op is not None
        x, y = op.args
        sx, sy = self.graph.shape(x), self.graph.shape(y)
        batch = op.shape[: len(at)]
        here = Index(tuple(batch), tuple(at))

        def place(shape: tuple[Size, ...], last: tuple[Poly, ...]) -> Index:
            outer = stretch(self, here, shape[: len(shape) - len(last)])
            ends = tuple(ZERO if s == 1 else p for s, p in zip(shape[len(shape) - len(last) :], last, strict=True))
            return Index(shape, (*outer.at, *ends))

        return place(sx, (k,) if len(sx) == 1 else (m, k)), place(sy, (k,) if len(sy) == 1 else (k, n))

    def loops_product(self, product: Product) -> None:
        """K ascending, one accumulator per element, by chunks as in tiles; vectors along the result's last axis."""
        op = self.graph.op(product.value)
        assert op is not None
        v = product.value
        x, y = op.args
        sx, sy = self.graph.shape(x), self.graph.shape(y)
        t = DTYPES[op.dtype]
        inner_size = sx[-1]
        batch = len(op.shape) - (len(sx) > 1) - (len(sy) > 1)
        at = [ZERO] * len(op.shape)
        real = [k for k in range(len(op.shape)) if op.shape[k] != 1]
        vector = real[-1] if real else None
        lanes = self.lanes_for([v])

        def inner() -> None:
            here = Index(op.shape, tuple(at))
            m = at[batch] if len(sx) > 1 else ZERO
            n = at[-1] if len(sy) > 1 else ZERO
            ty = t.ty.vector(lanes if self.lane is not None else 1)
            total = self.local(self.kernel.names[v], const(0, ty))

            def terms(first: Expr | int, stop: Expr | int, total: Local) -> None:
                with self.loop("k", first, stop, extent=inner_size) as k:
                    px, py = self.operand_places(product, at[:batch], m, n, Poly.of(k.name))
                    a = cast(self.value(x, px), DTYPES[self.graph.dtype(x)], t)
                    b = cast(self.value(y, py), DTYPES[self.graph.dtype(y)], t)
                    a, b = (const(e, ty) if e.type != ty else e for e in (a, b))
                    if t.kind == "f":
                        self.f.set(total, intrinsic("fma", a, b, total))
                    elif t.kind == "b":
                        self.f.set(total, total | (a & b))
                    else:
                        self.f.set(total, total + a * b)

            end = self.number(size_poly(inner_size))
            if t.kind != "f" or (isinstance(inner_size, int) and inner_size <= CHUNK):
                terms(0, end, total)
            else:
                with self.loop("first", 0, end, CHUNK, extent=inner_size) as first:
                    chunk = self.local("chunk", const(0, ty))
                    stop = first + CHUNK
                    terms(first, self.bind("stop", select(end < stop, end, stop)), chunk)
                    self.f.set(total, select(const(first.eq(0), I1.vector(ty.lanes)), chunk, total + chunk))
            self.put(v, here, total)

        self.space(range(len(op.shape)), op.shape, at, inner, vector, lanes)

    def lanes_product(self, product: Product) -> None:
        """Sums along contiguous memory: lanes along k, then the same fixed tree for every element."""
        op = self.graph.op(product.value)
        assert op is not None
        v = product.value
        matrix, vector = product.left, product.right
        shape = self.graph.shape(matrix)
        t = DTYPES[op.dtype]
        lanes = self.target.lanes(t.ty)
        size = self.graph.shape(vector)[0]
        rank = len(op.shape)
        at = [ZERO] * rank
        ty = t.ty.vector(lanes)
        f = self.f
        x = self.bind("vector", self.address(vector, Index((size,), (ZERO,))), self.home_depth)

        def row(last: Poly | None) -> Expr:
            """The address of a row of the matrix."""
            if last is None:
                place = Index(shape, (ZERO,))
            elif product.flip:
                place = Index(shape, (ZERO, last))
            else:
                place = Index(shape, (*at[:-1], last, ZERO))
            return self.address(matrix, place)

        def along(rows: Sequence[Local], sums: Sequence[Local]) -> None:
            with self.axis(9, size, True, lanes) as k:
                xs = self.local("x", Load(x + k * t.size, ty, self.left))
                for a, c in zip(rows, sums, strict=True):
                    f.set(c, intrinsic("fma", Load(a + k * t.size, ty, self.left), xs, c))

        if rank == 0:
            a = self.bind("row", row(None), self.home_depth)
            c = self.local(self.kernel.names[v], const(0.0, ty))
            along([a], [c])
            out = self.local(self.kernel.names[v], intrinsic("hsum", c, type=t.ty))
            self.put(v, Index((), ()), out)
            return

        def inner() -> None:
            n = op.shape[-1]
            with self.loop("j", 0, self.number(size_poly(n)), lanes, extent=n) as j:
                last = self.bind("last_row", self.number(size_poly(n)) - 1)
                sums = []
                for first in range(0, lanes, 8):
                    several = range(first, min(first + 8, lanes))
                    places = [self.named("i", select(j + t_ < last, j + t_, last)) for t_ in several]
                    rows = [self.local("row", row(p if n != 1 else ZERO)) for p in places]
                    here = [self.local("c", const(0.0, ty)) for _ in several]
                    along(rows, here)
                    sums += here
                self.one_vector(sums)
                at[-1] = ZERO if n == 1 else Poly.of(j.name)
                self.put_lanes(v, Index(op.shape, tuple(at)), sums[0], j, lanes)

        self.space(range(rank - 1), op.shape, at, inner)

    def transposed_product(self, product: Product) -> None:
        """A large matrix that is read in rows, and summed along them: squares of it are transposed in registers.

        So sums are those of the tiles, k ascending, and a matrix that several nodes have can be multiplied by tiles.
        """
        f, v, matrix = self.f, product.value, product.left
        shape = self.graph.shape(matrix)
        n, size = (shape[1], shape[0]) if product.flip else shape
        assert isinstance(n, int) and isinstance(size, int)
        t = DTYPES[self.graph.dtype(v)]
        lanes = self.target.lanes(t.ty)
        ty = t.ty.vector(lanes)
        x = self.bind("vector", self.address(product.right, Index((size,), (ZERO,))), self.home_depth)

        def terms(columns: Sequence[Local], k: Expr, total: Local) -> None:
            for i, w in enumerate(columns):
                factor = self.local("x", convert(Load(x + (k + i) * t.size, t.ty), ty, "spread"))
                f.set(total, intrinsic("fma", factor, w, total))

        with self.loop("j", 0, n, lanes, extent=n) as j:

            def row(i: int) -> Expr:
                at = j + i if n % lanes == 0 else select(j + i < n - 1, j + i, const(n - 1, I64))
                place = self.named("i", at) if n > 1 else ZERO
                return self.address(matrix, Index(shape, (ZERO, place) if product.flip else (place, ZERO)))

            rows = [self.local("row", row(i)) for i in range(lanes)]
            total = self.local(self.kernel.names[v], const(0.0, ty))

            def squares(first: Expr, stop: Expr, total: Local) -> None:
                with self.loop("k", first, stop, lanes) as k:
                    terms(self.transposed([Load(row + k * t.size, ty) for row in rows]), k, total)

            chunks = size - size % CHUNK if size > CHUNK else 0
            if chunks:
                with self.loop("first", 0, chunks, CHUNK) as first:
                    chunk = self.local("chunk", const(0.0, ty))
                    squares(first, first + CHUNK, chunk)
                    f.set(total, select(const(first.eq(0), I1.vector(lanes)), chunk, total + chunk))
            if chunks < size:
                rest = self.local("chunk", const(0.0, ty)) if chunks else total
                whole = size - size % lanes
                if chunks < whole:
                    squares(const(chunks, I64), const(whole, I64), rest)
                if whole < size:
                    last = [Load(row + whole * t.size, ty, const(size - whole, I64)) for row in rows]
                    terms(self.transposed(last)[: size - whole], const(whole, I64), rest)
                if chunks:
                    f.set(total, total + rest)
            self.put_lanes(v, Index((n,), (ZERO if n == 1 else Poly.of(j.name),)), total, j, lanes)

    def transposed(self, rows: Sequence[Expr]) -> list[Local]:
        """Return the columns of a square whose rows are in vectors."""
        out = [self.local("row", row) for row in rows]
        d = len(out) // 2
        while d:
            for i in range(len(out)):
                if not i & d:
                    one, other = out[i], out[i + d]
                    for at, half in ((i, "low"), (i + d, "high")):
                        out[at] = self.local("part", intrinsic(f"shuffle_{half}", one, other, const(d, I64)))
            d //= 2
        return out

    def one_vector(self, sums: Sequence[Local]) -> None:
        """Sum the lanes of each of some vectors, in one tree; the sums become the lanes of the first."""
        d = len(sums) // 2
        while d:
            distance = const(d, I64)
            for one, other in zip(sums[:d], sums[d:], strict=False):
                low, high = (intrinsic(f"shuffle_{half}", one, other, distance) for half in ("low", "high"))
                self.f.set(one, low + high)
            d //= 2

    def put_lanes(self, v: int, place: Index, x: Expr, j: Local, lanes: int) -> None:
        """Store the elements of `v` from `j` on, along its last axis."""
        n = place.shape[-1]
        if n == 1:
            self.put(v, place, intrinsic("extract", x, const(0, I64), type=x.type.scalar))
        else:
            with self.lanes_of(j, lanes, n):
                self.put(v, place, x)

    def panel_product(self, product: Product) -> None:
        """Tiles over rows of the left operand; columns of the right one are packed into scratch, panel by panel."""
        _PanelProduct(self, product).write()


class _PanelProduct:
    """Writes a product of matrices that are both a node's own."""

    def __init__(self, w: MatrixWriter, product: Product) -> None:
        op = w.graph.op(product.value)
        assert op is not None
        self.w, self.product, self.op = w, product, op
        self.t = DTYPES[op.dtype]
        self.lanes = w.target.lanes(self.t.ty)
        self.q, self.height = tile_shape([1], product.columns, w.target, self.t.name)
        self.width = self.q * self.lanes * self.t.size
        sx, self.sy = w.graph.shape(op.args[0]), w.graph.shape(op.args[1])
        self.many, self.columns, self.inner_size = sx[-2], op.shape[-1], self.sy[-2]
        self.batch = len(op.shape) - 2
        self.at = [ZERO] * len(op.shape)

    def write(self) -> None:
        w, slots = self.w, self.w.slots["value", self.product.value]
        self.table, self.lengths = w.scratch(slots.rows), w.scratch(slots.lengths)
        self.sums, self.panel = w.scratch(slots.sums), w.scratch(slots.panel)
        for s, piece in enumerate(self.product.pieces):
            w.f.store(self.lengths, s, w.number(size_poly(w.graph.shape(piece)[-1])))
        self.total = w.number(size_poly(self.many))
        self.tiles = w.bind("tiles", (self.total + (self.height - 1)) // self.height)
        w.space(range(self.batch), self.op.shape, self.at, self.one)

    def one(self) -> None:
        """Write one product of two matrices."""
        w, at, batch, total, tiles = self.w, self.at, self.batch, self.total, self.tiles
        outer = Index(self.op.shape[:batch], tuple(at[:batch]))
        self.addresses(outer)
        with w.loop("first", 0, w.number(size_poly(self.columns)), self.q * self.lanes) as first:
            self.pack(outer, first)
            with w.loop("t", 0, tiles) as tile:
                a = w.bind("a", total * tile // tiles)
                m = w.bind("m", total * (tile + 1) // tiles - a)
                entry = w.kernel.tile(self.q, self.height, self.t.name) - 1
                w.f.do(call_address(
                    tree.load(w.f["P"] + 8 * entry, m), self.table + a * 8, total,
                    const(len(self.product.pieces), I64), self.lengths,
                    self.panel, const(self.width, I64), self.sums, const(self.width, I64),
                ))  # fmt: skip
                with w.loop("r", a, a + m, extent=self.many) as r:
                    at[batch] = ZERO if self.many == 1 else Poly.of(r.name)
                    self.each_vector(first, lambda number, j: self.unload(r, a, number, j))

    def addresses(self, outer: Index) -> None:
        """Write down where the rows of the left operand lie."""
        w, many = self.w, self.many
        with w.loop("i", 0, self.total, extent=many) as i:
            for s, piece in enumerate(self.product.pieces):
                shape = w.graph.shape(piece)
                place = stretch(w, outer, shape[:-2])
                here = Index(shape, (*place.at, ZERO if many == 1 else Poly.of(i.name), ZERO))
                w.f.store(w.plus(self.table, size_poly(many) * (8 * s)), i, w.address(piece, here))

    def each_vector(self, first: Local, inner: Callable[[Expr, Local], None]) -> None:
        """Write something for each vector of the panel that begins with column `first`."""
        w, q, lanes = self.w, self.q, self.lanes
        with w.loop("q", 0, q) as number:
            j = w.local("j", first + number * lanes if q > 1 else first)
            w.symbols[j.name] = j
            w.extents[j.name] = self.columns
            with w.when(j < w.number(size_poly(self.columns))), w.lanes_of(j, lanes, self.columns):
                inner(number, j)

    def right(self, outer: Index, k: Local, j: Local) -> Expr:
        """Return the elements of the right operand at row `k` from column `j` on."""
        place = stretch(self.w, outer, self.sy[:-2])
        row = ZERO if self.inner_size == 1 else Poly.of(k.name)
        column = ZERO if self.columns == 1 else Poly.of(j.name)
        return self.w.value(self.product.right, Index(self.sy, (*place.at, row, column)))

    def pack_columns(self, outer: Index, first: Local) -> None:
        """The right operand lies column by column: read along k, store apart."""
        w = self.w
        end = w.bind("end", first + self.q * self.lanes)
        last = w.number(size_poly(self.columns))
        end = w.bind("end", select(end < last, end, last))
        with w.loop("j", first, end, extent=self.columns) as j:
            to = w.bind("column", self.panel + (j - first) * self.t.size)
            with w.loop("k", 0, w.number(size_poly(self.inner_size)), extent=self.inner_size) as k:
                w.f.store_lanes(to + k * self.width, self.right(outer, k, j))

    def clear(self, first: Local) -> None:
        """Zero what the last panel has beyond its columns: odd bits may be denormal numbers, which take long.

        Where all vectors are full, the first panel has none beyond, and later ones have the first one's bits there.
        """
        w = self.w
        if isinstance(self.columns, int) and self.columns % self.lanes == 0:
            return
        last = w.number(size_poly(self.columns))
        used = (last - first) // self.lanes
        k_end = w.number(size_poly(self.inner_size))
        with w.when(used < self.q), w.loop("k", 0, k_end) as k, w.loop("number", used, self.q) as number:
            place = self.panel + k * self.width + number * (self.lanes * self.t.size)
            w.f.store_lanes(place, const(0, self.t.ty.vector(self.lanes)))

    def pack(self, outer: Index, first: Local) -> None:
        """Copy the columns of a panel side by side."""
        self.clear(first)
        if self.product.flip:
            self.pack_columns(outer, first)
            return
        w, t, lanes = self.w, self.t, self.lanes
        with w.loop("k", 0, w.number(size_poly(self.inner_size)), extent=self.inner_size) as k:

            def inner(number: Expr, j: Local) -> None:
                x = self.right(outer, k, j)
                x = const(x, t.ty.vector(lanes)) if x.type.lanes == 1 else x
                w.f.store_lanes(self.panel + k * self.width + number * (lanes * t.size), x, w.left)

            self.each_vector(first, inner)

    def unload(self, r: Expr, a: Expr, number: Expr, j: Local) -> None:
        """Store a vector of the sums of row `r`."""
        w, t, lanes = self.w, self.t, self.lanes
        place = self.sums + (r - a) * self.width + number * (lanes * t.size)
        self.at[-1] = ZERO if self.columns == 1 else Poly.of(j.name)
        ty = t.ty if self.columns == 1 else t.ty.vector(lanes)
        v = self.product.value
        w.put(v, Index(self.op.shape, tuple(self.at)), w.local(w.kernel.names[v], Load(place, ty)))
