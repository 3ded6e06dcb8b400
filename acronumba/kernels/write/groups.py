"""Writes grouped stages: the product of a large matrix and a vector, where several nodes may have the same matrix.

In: a `RowStage` that is `grouped`. Out: statements of one function. The nodes are sorted by the address of their
matrix. A matrix of several nodes is packed, panel by panel, like a shared weight, and multiplied by register tiles
whose rows are the nodes' vectors; a node whose matrix no other has takes the loops of `ProductWriter`. Both sum in the
same order: the bits of a node do not depend on other nodes with its matrix.

A unit is a panel of the matrices of some consecutive nodes in that order: threads that share the stage pack a panel
twice only if the boundary between their units lies among nodes with the same matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from acronumba.emit import tree
from acronumba.emit.tree import I64, Expr, Load, Local, call_address, const, convert, select
from acronumba.kernels.stages.index import ZERO, Index, Poly
from acronumba.kernels.stages.passes import tile_shape
from acronumba.kernels.stages.tasks import Product
from acronumba.kernels.write.element import DTYPES
from acronumba.kernels.write.kernel import Kernel
from acronumba.kernels.write.products import ProductWriter
from acronumba.records import record

SPANS = 64  # into which the nodes of a block are cut, in their order: each is a unit of each panel


def panel_of(kernel: Kernel, product: Product) -> tuple[int, int, int]:
    """Return the width of a grouped product's panel in vectors, the rows of its tiles, and the number of panels."""
    (n,) = kernel.stages.graph.shape(product.value)
    assert isinstance(n, int)
    t = DTYPES[kernel.stages.graph.dtype(product.value)]
    q, height = tile_shape([1], n, kernel.target, t.name, kernel.stages.strategy)
    return q, height, -(-n // (q * kernel.target.lanes(t.ty)))


def group_units(kernel: Kernel, product: Product) -> int:
    """Return the units of a grouped stage."""
    return panel_of(kernel, product)[2] * SPANS


@record()
class GroupSlots:
    """Scratch slots of a grouped stage, one set per thread."""

    matrices: int  # int64: address of each node's matrix
    vectors: int  # int64: address of each node's vector
    order: int  # int64: the nodes, sorted so that nodes with the same matrix are adjacent
    rows: int  # int64: addresses of the vectors of nodes with one matrix
    length: int  # int64: elements of a vector
    sums: int  # results of one call of a tile
    panel: int  # columns of a matrix, packed


class GroupWriter(ProductWriter):
    """Writes one grouped stage of a kernel as a function."""

    def product(self, product: Product, slots: GroupSlots) -> None:
        """Write units u0..u1 of the product."""
        f = self.f
        self.note_names([product.value])
        shape = self.graph.shape(product.left)
        n, size = (shape[1], shape[0]) if product.flip else shape
        assert isinstance(n, int) and isinstance(size, int)
        matrices, vectors = self.scratch(slots.matrices), self.scratch(slots.vectors)
        order, rows = self.scratch(slots.order), self.scratch(slots.rows)
        nodes = self.bind("nodes", f["i1"] - f["i0"])
        panels = panel_of(self.kernel, product)[2]
        with self.loop("r", 0, nodes) as r:
            self.at_node(r, f["i0"])
            f.store(matrices, r, self.address(product.left, Index(shape, (ZERO, ZERO))))
            f.store(vectors, r, self.address(product.right, Index((size,), (ZERO,))))
            f.store(order, r, r)
        f.store(self.scratch(slots.length), 0, const(size, I64))
        f.comment("do some of the first nodes have the same matrix? then put those with the same one together")
        some = self.bind("some", select(nodes < 8, nodes, const(8, I64)))
        same = self.local("same", const(0, I64))
        with self.loop("r", 0, some) as r, self.loop("s", 0, r) as s:
            one, other = (tree.load(matrices, k) for k in (r, s))
            f.set(same, same + convert(one.eq(other), I64))
        with self.when(same > 0):
            self.sort(order, matrices, nodes)
        begin = self.local("begin", const(0, I64))
        with f.while_(begin < nodes), self.scope():
            matrix = self.local("matrix", tree.load(matrices, tree.load(order, begin)))
            end = self.local("end", begin + 1)
            more = self.local("more", end < nodes)
            with f.while_(more), self.scope():
                f.set(more, tree.load(matrices, tree.load(order, end)).eq(matrix))
                f.set(end, end + convert(more, I64))
                f.set(more, more & (end < nodes))
            alone = self.bind("alone", end.eq(begin + 1))
            low, high = self.span(begin * panels // nodes, nodes)
            with self.when(alone & (low <= begin) & (begin < high)):
                self.at_node(self.local("row", tree.load(order, begin)), f["i0"])
                self.one_product(product)
            self.home_depth = 0
            with self.when(alone.eq(False)):
                with self.loop("r", 0, end - begin) as r:
                    f.store(rows, r, tree.load(vectors, tree.load(order, begin + r)))
                with self.loop("panel", f["u0"] // SPANS, (f["u1"] + (SPANS - 1)) // SPANS) as number:
                    low, high = self.span(number, nodes)
                    f.set(low, select(low > begin, low, begin))
                    f.set(high, select(high < end, high, end))
                    with self.when(low < high):
                        self.together(product, slots, n, size, matrix, number, begin, low, high)
            f.set(begin, end)

    def span(self, panel: Expr, nodes: Expr) -> tuple[Local, Local]:
        """Return the range of sorted nodes, first and end, that this call computes a panel for."""
        f = self.f
        first = self.bind("first", panel * SPANS)
        ends = []
        for unit in (f["u0"], f["u1"]):
            inside = self.bind("inside", unit - first)
            inside = self.bind("inside", select(inside < 0, 0, select(inside < SPANS, inside, SPANS)))
            ends.append(self.local("end", (inside * nodes + (SPANS - 1)) // SPANS))
        return ends[0], ends[1]

    def together(
        self, product: Product, slots: GroupSlots, n: int, size: int, matrix: Local, number: Expr, begin: Local,
        low: Local, high: Local,
    ) -> None:  # fmt: skip
        """Multiply a panel of one matrix with the vectors of nodes low..high; `begin`: first node with the matrix."""
        f, v = self.f, product.value
        t = DTYPES[self.graph.dtype(v)]
        lanes = self.target.lanes(t.ty)
        q, height, _ = panel_of(self.kernel, product)
        width = q * lanes * t.size
        panel, sums = self.scratch(slots.panel), self.scratch(slots.sums)
        order, rows = self.scratch(slots.order), self.scratch(slots.rows)
        count = self.bind("count", high - low)
        tiles = self.bind("tiles", (count + (height - 1)) // height)
        ty = t.ty.vector(lanes)
        first = self.local("first", number * (q * lanes))

        def vectors() -> Sequence[tuple[int, Local]]:
            out = []
            for k in range(q):
                j = self.local("j", first + k * lanes if k else first)
                self.symbols[j.name], self.extents[j.name] = j, n
                out.append((k, j))
            return out

        ragged = n % (q * lanes) != 0
        for k, j in vectors():
            with self.when(j < n) if ragged and k else nullcontext():
                if product.how == "transposed":
                    self.pack_rows(product, matrix, j, n, size, panel + k * lanes * t.size, width)
                else:
                    left = n - j if n % lanes else None
                    with self.loop("k", 0, size) as i:
                        w = Load(matrix + i * (product.step * t.size) + j * t.size, ty, left)
                        f.store_lanes(panel + i * width + k * lanes * t.size, self.local("w", w))
        with self.loop("t", 0, tiles) as tile:
            a = self.bind("a", count * tile // tiles)
            m = self.bind("m", count * (tile + 1) // tiles - a)
            entry = self.kernel.tile_of(q, 1, n, lanes, height, t.name, number)
            f.do(call_address(
                tree.load(f["P"] + entry, m), rows + (low - begin + a) * 8, count, const(1, I64),
                self.scratch(slots.length), panel, const(width, I64), sums, const(width, I64), const(0, I64),
            ))  # fmt: skip
            with self.loop("r", 0, m) as r:
                node = self.local("row", tree.load(order, low + a + r))
                self.at_node(node, f["i0"])
                for k, j in vectors():
                    with self.when(j < n) if ragged and k else nullcontext():
                        x = self.local(self.kernel.names[v], Load(sums + r * width + k * lanes * t.size, ty))
                        self.put_lanes(v, Index((n,), (ZERO if n == 1 else Poly.of(j.name),)), x, j, lanes)
        self.home_depth = 0

    def pack_rows(self, product: Product, matrix: Local, j: Local, n: int, size: int, panel: Expr, width: int) -> None:
        """Turn rows `j`... of a matrix into columns of the panel."""
        f, t = self.f, DTYPES[self.graph.dtype(product.value)]
        lanes = self.target.lanes(t.ty)
        ty = t.ty.vector(lanes)
        step = product.step * t.size
        inside = n % lanes == 0
        rows = [
            self.local("row", matrix + (j + i if inside else select(j + i < n - 1, j + i, const(n - 1, I64))) * step)
            for i in range(lanes)
        ]
        whole = size - size % lanes

        def square(k: Expr, count: int, left: Expr | None) -> None:
            for i, column in enumerate(self.transposed([Load(row + k * t.size, ty, left) for row in rows])[:count]):
                f.store_lanes(panel + (k + i) * width, column)

        if whole:
            with self.loop("k", 0, whole, lanes) as k:
                square(k, lanes, None)
        if whole < size:
            square(const(whole, I64), size - whole, const(size - whole, I64))

    def sort(self, order: Expr, keys: Expr, count: Expr) -> None:
        """Put numbers with the same key next to each other, in the order in which keys come first."""
        f = self.f
        first = self.local("first", const(0, I64))
        with f.while_(first < count), self.scope():
            key = self.local("key", tree.load(keys, tree.load(order, first)))
            f.set(first, first + 1)
            with self.loop("s", first, count) as s:
                r = self.local("r", tree.load(order, s))
                with self.when(tree.load(keys, r).eq(key)):
                    f.store(order, s, tree.load(order, first))
                    f.store(order, first, r)
                    f.set(first, first + 1)
