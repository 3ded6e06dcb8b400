"""Writes products of a node's local operands, and helpers of all writers of products.

In: a `Product` that reads no shared weight. Out: statements of one function. With a few rows on the left, columns of
the right operand are packed into scratch and multiplied by register tiles; products with a vector have separate loops:
along memory, or with squares of the matrix transposed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeAlias

from acronumba.emit import tree
from acronumba.emit.tree import I1, I64, Const, Expr, Load, Local, call_address, const, convert, intrinsic, select
from acronumba.ir.spec import CHUNK, PARAMETERS, Size
from acronumba.kernels.stages.graph import stretch, through
from acronumba.kernels.stages.index import ZERO, Index, Poly, rounded, size_poly
from acronumba.kernels.stages.passes import tile_shape
from acronumba.kernels.stages.tasks import Product
from acronumba.kernels.tiles import tallest
from acronumba.kernels.write import halves
from acronumba.kernels.write.element import DTYPES, cast
from acronumba.kernels.write.kernel import Kernel
from acronumba.kernels.write.nests import NestWriter
from acronumba.kernels.write.writer import BandRows
from acronumba.records import record

LINE = 64  # bytes of memory that a cache takes in at once
Along: TypeAlias = Callable[[Sequence[Local], Sequence[Local]], None]  # addresses of rows, sums to add to


@record()
class Turn:
    """A node of a loop over nodes."""

    node: Local  # the loop's variable
    stop: Expr  # its end
    first: Expr | None  # the block's first node, None if the loop counts in the batch


@record(eq=False, frozen=False)
class Slots:
    """Scratch slots of a product."""

    rows: int  # int64: addresses of the left operand's rows, piece by piece
    lengths: int  # int64: elements of the pieces of a row
    sums: int  # results of one call of a tile
    panel: int = -1  # columns of the right operand, packed: a panel, or all of them for a stage in tiles
    tables: int = -1  # scratch of tiles that look up sums


class MatrixWriter(NestWriter):
    """Writes products of a node's local operands."""

    def __init__(
        self, kernel: Kernel, slots: dict[tuple[str, int], Slots], name: str, params: Sequence[str], doc: str = ""
    ) -> None:
        super().__init__(kernel, name, params, doc)
        self.slots = slots
        self.turn: Turn | None = None  # while nodes are computed one by one

    def at_node(self, r: Local, first: Expr | None) -> None:
        """Make a node current: from here on, in the current scope, operands are this node's."""
        self.home_depth = len(self.scopes) - 1
        if first is None:
            self.enter(None, r)
        else:
            self.enter(r, self.bind("node", first + r))

    def enter(self, row: Expr | None, node: Local) -> None:
        """Make a node current: number `row` of the block, or None if the kernel has no blocks."""
        self.row, self.node, self.words = row, node, None
        arguments = row is None and any(o.kind != "shared" for o in self.graph.spec.operands)
        if arguments or self.kernel.ragged is not None:
            self.words = self.bind("words", tree.load(self.loaded("nodes", self.f["P"], PARAMETERS.at["nodes"]), node))

    @contextmanager
    def next_node(self, turn: Turn) -> Iterator[None]:
        """Context in which the node after the current one is current; its code is skipped at the last node."""
        hidden = [(scope, scope.cache) for scope in self.scopes[self.home_depth :]]
        before = self.home_depth, self.row, self.node, self.words
        for scope, _ in hidden:
            scope.cache = {}
        after = turn.node + 1
        with self.loop("next", after, select(after < turn.stop, after + 1, after)) as following:
            self.at_node(following, turn.first)
            yield
        self.home_depth, self.row, self.node, self.words = before
        for scope, cache in hidden:
            scope.cache = cache

    def given(self, v: int) -> bool:
        """Whether a value is an operand of the node that is read in place, or a view of one."""
        while not self.stages.leaf(v):
            op = self.graph.op(v)
            assert op is not None
            v = op.args[0]
        own = v < self.graph.first and v not in self.kernel.gathered
        return own and self.graph.spec.operands[v].kind == "tensor"

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
        return self.plus(self.base(v), self.element_at(v, index) * DTYPES[self.graph.dtype(v)].size)

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
        """Return the indices in x and y for the batch axes `at`, row m, column n and inner index k."""
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
            with self.loop("j", 0, self.number(size_poly(n)), self.rows_at_once(lanes), extent=n) as j:
                last = self.bind("last_row", self.number(size_poly(n)) - 1)
                total = self.sums_of_rows(v, j, last, lambda place: row(ZERO if n == 1 else place), along)
                at[-1] = ZERO if n == 1 else Poly.of(j.name)
                self.put_rows(v, Index(op.shape, tuple(at)), total, j)

        self.space(range(rank - 1), op.shape, at, inner)

    def rows_at_once(self, lanes: int) -> int:
        """Return how many rows `sums_of_rows` sums along."""
        return lanes

    def put_rows(self, v: int, place: Index, x: Expr, j: Local) -> None:
        """Store what `sums_of_rows` has returned."""
        self.put_lanes(v, place, x, j, x.type.lanes)

    def sums_of_rows(self, v: int, j: Local, last: Local, row: Callable[[Poly], Expr], along: Along) -> Local:
        """Return the sums along rows from `j` on, in the lanes of a vector."""
        ty = DTYPES[self.graph.dtype(v)].ty
        lanes, sums = self.target.lanes(ty), list[Local]()
        for first in range(0, lanes, 8):
            several = range(first, min(first + 8, lanes))
            places = [self.named("i", select(j + k < last, j + k, last)) for k in several]
            rows = [self.local("row", row(place)) for place in places]
            sums += (here := [self.local("c", const(0.0, ty.vector(lanes))) for _ in several])
            along(rows, here)
        self.one_vector(sums)
        return sums[0]

    def transposed_product(self, product: Product) -> None:
        """Write a product that sums along the rows of a large matrix: squares of it are transposed in registers.

        So the order of summation is that of tiles, k ascending, and tiles can multiply a matrix of several nodes.
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
        PanelProduct(self, product).write()


class PanelProduct:
    """Writes a product of two local matrices of a node: some rows by some panels of columns.

    A panel is some vectors of columns of the right operand, packed. Vectors are dealt out evenly to as few panels as
    tiles allow.
    """

    def __init__(self, w: MatrixWriter, product: Product) -> None:
        op = w.graph.op(product.value)
        assert op is not None
        self.w, self.product, self.op = w, product, op
        self.t = DTYPES[op.dtype]
        self.lanes = w.target.lanes(self.t.ty)
        self.width = self.lanes * self.t.size  # bytes of a vector
        self.halves = product.form == "bf16"  # the right operand is packed as words of two terms
        self.slots = w.slots["value", product.value]
        sx, self.sy = w.graph.shape(op.args[0]), w.graph.shape(op.args[1])
        self.many, self.columns, self.inner_size = sx[-2], op.shape[-1], self.sy[-2]
        self.batch = len(op.shape) - 2
        most, _ = tile_shape([1], self.columns, w.target, self.t.name, w.stages.strategy)
        if isinstance(self.columns, int):
            vectors = -(-self.columns // self.lanes)
            panels = -(-vectors // most)
            cuts = [vectors * p // panels for p in range(panels + 1)] if panels else [0]
            self.widths = sorted({b - a for a, b in pairwise(cuts)})
            self.vectors: Expr = const(vectors, I64)
            self.panels: Expr = const(panels, I64)
        else:
            self.widths = list(range(1, most + 1))
            columns = w.number(size_poly(self.columns))
            self.vectors = w.bind("vectors", (columns + (self.lanes - 1)) // self.lanes)
            self.panels = w.bind("panels", (self.vectors + (most - 1)) // most)

    def write(self) -> None:
        """Write the product of a node, panel by panel."""
        w, at = self.w, [ZERO] * len(self.op.shape)
        rows = w.number(size_poly(self.many))
        self.begin()

        def one() -> None:
            outer = Index(self.op.shape[: self.batch], tuple(at[: self.batch]))
            self.addresses(outer, const(0, I64), rows, size_poly(self.many))
            packed = w.scratch(self.slots.panel)
            with self.each_panel() as (first, wide):
                self.pack(outer, packed, first, wide)
                self.multiply(outer, const(0, I64), rows, size_poly(self.many), packed, first, wide, turn=w.turn)

        w.space(range(self.batch), self.op.shape, at, one)

    def write_tile(self, outer: Index, first: Expr, stop: Expr, most: Poly) -> None:
        """Write rows first..stop, `most` or fewer, of one product of matrices whose right operand is packed."""
        w, rows = self.w, self.w.band
        if rows is not None and self.product.left in rows.band.zero:
            self.write_terms(outer, first, stop, most, rows)
            return
        self.begin()
        self.addresses(outer, first, stop, most)
        with self.each_panel() as (vector, wide):
            if rows is None or self.columns != rows.size:
                self.multiply(outer, first, stop, most, self.packed(vector), vector, wide)
            else:
                with w.when((vector * self.lanes < rows.high) & ((vector + wide) * self.lanes > rows.low)):
                    self.multiply(outer, first, stop, most, self.packed(vector), vector, wide)

    def write_terms(self, outer: Index, first: Expr, stop: Expr, most: Poly, rows: BandRows) -> None:
        """Like `write`, for a left operand that is 0 outside of a band: chunks end at the same terms as without."""
        w, low = self.w, rows.low
        w.f.store(w.scratch(self.slots.lengths), 0, rows.high - low)
        self.addresses(outer, first, stop, most, w.named("at", low))
        passed = w.bind("passed", low & (CHUNK - 1))
        with self.each_panel() as (vector, wide):
            packed = self.packed(vector) + (low >> 1 if self.halves else low) * (wide * self.width)
            self.multiply(outer, first, stop, most, packed, vector, wide, passed)
        if (target := self.target(outer, w.named("row", first), const(0, I64))) is None:
            return
        to, step = target
        with w.loop("r", 0, stop - first) as r, w.loop("q", 0, self.vectors) as number:
            at = w.local("at", to + r * step + number * self.width)
            w.f.store_lanes(at, self.no_negative_zero(Load(at, self.t.ty.vector(self.lanes))))

    @staticmethod
    def no_negative_zero(x: Expr) -> Expr:
        """Return a sum of which terms that are 0 may have been left out.

        Whether they would have made -0 to +0, and how many they are, depends on how rows are cut.
        """
        return x + const(0.0, x.type)

    def find_odd(self, odd: Local) -> None:
        """Set `odd` if the packed operand has an infinity or NaN, which times 0 is not 0."""
        w = self.w
        if self.halves:
            halves.find_odd(self, odd)
            return
        ty = self.t.ty.vector(self.lanes)
        total = w.local("total", const(0, ty))
        with self.each_panel() as (vector, wide):
            packed = self.packed(vector)
            with w.loop("k", 0, w.number(size_poly(self.inner_size)) * wide) as k:
                x = w.local("x", Load(packed + k * self.width, ty))
                w.f.set(total, total + (x - x))
        one = w.local("sum", intrinsic("hsum", total, type=self.t.ty))
        with w.when(one.ne(one)):
            w.f.set(odd, 1)

    def pack_all(self, outer: Index) -> None:
        """Pack all columns of the right operand."""
        with self.each_panel() as (vector, wide):
            self.pack(outer, self.packed(vector), vector, wide)

    def packed(self, vector: Expr) -> Expr:
        """Return the address of the packed panel that begins with a vector of columns, if all are packed."""
        inner = rounded(self.inner_size, self.lanes)
        return self.w.bind("packed", self.w.scratch(self.slots.panel) + vector * self.w.number(inner * self.width))

    def begin(self) -> None:
        """Write the lengths of the pieces of a row of the left operand."""
        w = self.w
        for s, piece in enumerate(self.product.pieces):
            w.f.store(w.scratch(self.slots.lengths), s, w.number(size_poly(w.graph.shape(piece)[-1])))

    @contextmanager
    def each_panel(self) -> Iterator[tuple[Expr, Expr]]:
        """Write a loop over panels; yield the first vector of columns and the number of vectors."""
        w = self.w
        if isinstance(self.panels, Const) and self.panels.value == 1:
            yield const(0, I64), self.vectors
        else:
            with w.loop("p", 0, self.panels) as p:
                first = w.local("vector", self.vectors * p // self.panels)
                if len(self.widths) == 1:
                    yield first, const(self.widths[0], I64)
                else:
                    yield first, w.local("wide", self.vectors * (p + 1) // self.panels - first)

    def addresses(self, outer: Index, first: Expr, stop: Expr, most: Poly, begin: Poly = ZERO) -> None:
        """Write the addresses of rows first..stop of the left operand, piece by piece, `most` entries for each."""
        w, many = self.w, self.many
        table = w.scratch(self.slots.rows)
        with w.loop("i", first, stop, extent=many) as i:
            for s, piece in enumerate(self.product.pieces):
                shape = w.graph.shape(piece)
                place = stretch(w, outer, shape[:-2])
                here = Index(shape, (*place.at, ZERO if many == 1 else Poly.of(i.name), begin))
                w.f.store(w.plus(table, most * (8 * s)), i - first, w.address(piece, here))

    @contextmanager
    def each_vector(self, vector: Expr, wide: Expr, step: int = 1) -> Iterator[tuple[Expr, Local]]:
        """Write a loop over the vectors of a panel; yield the number in the panel, and the first column."""
        w = self.w
        with w.loop("q", 0, wide, step) as number:
            j = w.local("j", (vector + number) * self.lanes)
            w.symbols[j.name] = j
            w.extents[j.name] = self.columns
            yield number, j

    def right(self, piece: int, outer: Index, k: Poly, j: Poly) -> Index:
        """Return the index of row `k` and column `j` in a piece of the right operand."""
        shape = self.w.graph.shape(piece)
        place = stretch(self.w, outer, shape[:-2])
        return Index(shape, (*place.at, ZERO if shape[-2] == 1 else k, ZERO if shape[-1] == 1 else j))

    def pack(self, outer: Index, to: Expr, vector: Expr, wide: Expr) -> None:
        """Copy the columns of a panel side by side; lanes beyond the last column are zero or repeat it."""
        w, t = self.w, self.t
        step = wide * self.width
        if self.product.flip:
            self.turn(outer, to, vector, wide)
            return
        if self.halves:
            halves.pack_pairs(self, outer, to, vector, wide)
            return
        ty = t.ty.vector(self.lanes)
        for piece in self.product.terms:
            size = w.graph.shape(piece)[-2]
            with (
                w.loop("k", 0, w.number(size_poly(size)), extent=size) as k,
                self.each_vector(vector, wide) as (number, j),
                w.lanes_of(j, self.lanes, self.columns),
            ):
                x = w.value(piece, self.right(piece, outer, Poly.of(k.name), Poly.of(j.name)))
                x = const(x, ty) if x.type.lanes == 1 else x
                x = x if w.left is None else select(w.inside(), x, const(0, ty))
                w.f.store_lanes(to + k * step + number * self.width, x)
            to = to + w.number(size_poly(size)) * step

    def turn(self, outer: Index, to: Expr, vector: Expr, wide: Expr) -> None:
        """Pack a right operand that is stored column by column: squares of it are transposed in registers."""
        w, t, lanes, right = self.w, self.t, self.lanes, self.product.right
        step = wide * self.width
        ty = t.ty.vector(lanes)
        last = w.bind("last", w.number(size_poly(self.columns)) - 1)
        with self.each_vector(vector, wide) as (number, j):
            places = [w.named("at", select(j + i < last, j + i, last)) for i in range(lanes)]
            rows = [w.local("row", w.address(right, self.right(right, outer, ZERO, at))) for at in places]
            with w.loop("k", 0, w.number(size_poly(self.inner_size)), lanes) as k:
                whole = isinstance(self.inner_size, int) and self.inner_size % lanes == 0
                left = None if whole else w.bind("left", w.number(size_poly(self.inner_size)) - k)
                found = w.transposed([Load(row + k * t.size, ty, left) for row in rows])
                out: Sequence[Expr] = found
                if self.halves:
                    out = [halves.word(x, y) for x, y in zip(found[::2], found[1::2], strict=True)]
                first = k >> 1 if self.halves else k
                for i, x in enumerate(out):
                    w.f.store_lanes(to + (first + i) * step + number * self.width, x)

    def multiply(
        self, outer: Index, first: Expr, stop: Expr, most: Poly, packed: Expr, vector: Expr, wide: Expr,
        passed: Expr | None = None, turn: Turn | None = None,
    ) -> None:  # fmt: skip
        """Write rows first..stop of the columns of a panel, tile by tile.

        If zero terms may have been left out (`passed`: their number in the first chunk), no stored sum is -0. `turn`:
        the current node, if the matrices of the next one may be prefetched.
        """
        w, width = self.w, self.width
        rows = w.bind("rows", stop - first)
        height, entry = self.tiles(wide)
        count = w.bind("tiles", (rows + (height - 1)) // height)
        table, lengths = w.scratch(self.slots.rows), w.scratch(self.slots.lengths)
        with w.loop("t", 0, count) as tile:
            a = w.bind("a", rows * tile // count)
            m = w.bind("m", rows * (tile + 1) // count - a)
            target = self.target(outer, w.named("row", first + a), vector)
            to, step = target or (w.scratch(self.slots.sums), wide * width)
            if turn is not None and w.stages.strategy.prefetch:
                self.fetch(turn, vector, wide, tile, count)
                if target is not None:
                    self.fetch_results(to, step, m, wide)
            w.f.do(call_address(
                tree.load(w.f["P"] + entry * 8, m), table + a * 8, w.number(most),
                const(len(self.product.pieces), I64), lengths, packed, wide * width, to, step,
                const(0, I64) if passed is None else passed,
            ))  # fmt: skip
            if target is None:
                with (
                    w.loop("r", first + a, first + a + m, extent=self.many) as r,
                    self.each_vector(vector, wide) as (number, j),
                    w.lanes_of(j, self.lanes, self.columns),
                ):
                    self.unload(outer, r, to + (r - first - a) * step + number * width, j, passed is not None)

    def fetch(self, turn: Turn, vector: Expr, wide: Expr, tile: Local, count: Expr) -> None:
        """Fetch the next node's panel while the tiles of this one compute, each tile its share of the rows."""
        w = self.w
        pieces = [piece for piece in self.product.terms if w.given(piece)]
        if not pieces or self.product.flip or self.batch:
            return
        w.f.comment("fetched while the tiles compute: the matrices of the next node")
        with w.next_node(turn):
            for piece in pieces:
                size = w.graph.shape(piece)[-2]
                rows = w.number(size_poly(size))
                with (
                    w.loop("k", rows * tile // count, rows * (tile + 1) // count, extent=size) as k,
                    self.each_vector(vector, wide, max(1, LINE // self.width)) as (_, j),
                ):
                    at = w.address(piece, self.right(piece, Index((), ()), Poly.of(k.name), Poly.of(j.name)))
                    w.f.do(intrinsic("prefetch_far", at, type=tree.VOID))

    def fetch_results(self, to: Expr, step: Expr, rows: Expr, wide: Expr) -> None:
        """Fetch where a tile writes `rows` rows."""
        w, apart = self.w, max(1, LINE // self.width)
        with w.loop("r", 0, rows) as r, w.loop("q", 0, wide, apart) as number:
            w.f.do(intrinsic("prefetch_far", to + r * step + number * self.width, type=tree.VOID))

    def tiles(self, wide: Expr) -> tuple[Expr, Expr]:
        """Return the number of rows of the tallest tile, and the index in P just before that of the one-row tile."""
        w = self.w
        known = [(n, tallest(n, w.target, w.stages.strategy.tile_rows)) for n in self.widths]
        found = [(n, rows, w.kernel.tile(n, rows, self.product.form) - 1) for n, rows in known]
        _, rows, at = found[-1] if found else (0, 1, 0)
        height, entry = const(rows, I64), const(at, I64)
        for n, rows, at in found[-2::-1]:
            height = select(wide.eq(n), const(rows, I64), height)
            entry = select(wide.eq(n), const(at, I64), entry)
        return (w.bind("height", height), w.bind("entry", entry)) if len(found) > 1 else (height, entry)

    def place(self, outer: Index, row: Poly, column: Poly) -> Index:
        return Index(self.op.shape, (*outer.at, ZERO if self.many == 1 else row, ZERO if self.columns == 1 else column))

    def target(self, outer: Index, row: Poly, vector: Expr) -> tuple[Expr, Expr] | None:
        """Return the address of a row of a tile's sums, and bytes to the next row; None if tiles cannot write there."""
        w, v = self.w, self.product.value
        stored, at = w.stored_at(v, self.place(outer, row, ZERO))
        home = w.kernel.homes[stored]
        vectors = isinstance(self.columns, int) and self.columns % self.lanes == 0
        whole = vectors or (home.kind == "tile" and w.in_vectors(v))
        if not whole or home.copies:
            return None
        (name,) = row.symbols
        step = at.slope(name)
        assert step is not None
        return w.plus(w.base(stored), at * self.t.size) + vector * self.width, w.number(step * self.t.size)

    def unload(self, outer: Index, r: Local, sums: Expr, j: Local, left_out: bool) -> None:
        """Store a vector of the sums of row `r`."""
        w, t, v = self.w, self.t, self.product.value
        ty = t.ty if self.columns == 1 else t.ty.vector(self.lanes)
        place = self.place(outer, Poly.of(r.name), Poly.of(j.name))
        x = self.no_negative_zero(Load(sums, ty)) if left_out else Load(sums, ty)
        w.put(v, place, w.local(w.kernel.names[v], x))
