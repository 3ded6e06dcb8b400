"""Writes grouped stages: the product of a matrix and a vector, where several nodes may have the same matrix.

In: a `RowStage` that is `grouped`. Out: statements of one function. The nodes are sorted by the address of their
matrix; for those with the same one, a few of its rows at a time are multiplied with all of their vectors, so that the
matrix is read from memory once. The order of summation is that of `ProductWriter.lanes_product`: the bits of a node do
not depend on which others have its matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acronumba.emit import tree
from acronumba.emit.tree import I64, Expr, Load, Local, Ty, const, convert, intrinsic, select
from acronumba.kernels.element import DTYPES
from acronumba.kernels.index import ZERO, Index, Poly, size_poly
from acronumba.kernels.products import ProductWriter
from acronumba.kernels.stages import Product


@dataclass(frozen=True, slots=True)
class GroupSlots:
    """Scratch slots of a grouped stage, of each thread its own."""

    matrices: int  # int64: address of each node's matrix
    vectors: int  # int64: address of its vector
    order: int  # int64: the nodes, those with one matrix next to each other
    panel: int  # rows of a matrix, aligned


class GroupWriter(ProductWriter):
    """Writes one grouped stage of a kernel as a function."""

    def product(self, product: Product, slots: GroupSlots) -> None:
        """Write the product for nodes u0..u1 of the block."""
        op = self.graph.op(product.value)
        assert op is not None
        f, v, t = self.f, product.value, DTYPES[op.dtype]
        (n,) = op.shape
        matrices, vectors = self.scratch(slots.matrices), self.scratch(slots.vectors)
        order, panel = self.scratch(slots.order), self.scratch(slots.panel)
        shape, size = self.graph.shape(product.left), self.graph.shape(product.right)[0]
        lanes = self.target.lanes(t.ty)
        ty = t.ty.vector(lanes)
        nodes = self.bind("nodes", f["u1"] - f["u0"])
        with self.loop("r", f["u0"], f["u1"]) as r:
            self.at_node(r, f["i0"])
            f.store(matrices, r, self.address(product.left, Index(shape, (ZERO, ZERO))))
            f.store(vectors, r, self.address(product.right, Index((size,), (ZERO,))))
            f.store(order, r - f["u0"], r)
        f.comment("do some of the first nodes have the same matrix? then put those with the same one together")
        some = self.bind("some", select(nodes < 8, nodes, const(8, I64)))
        same = self.local("same", const(0, I64))
        with self.loop("r", 0, some) as r, self.loop("s", 0, r) as s:
            one, other = (tree.load(matrices, f["u0"] + k) for k in (r, s))
            f.set(same, same + convert(one.eq(other), I64))
        with self.when(same > 0):
            self.sort(order, matrices, nodes)
        f.comment(f"{self.kernel.names[v]}: group by group, a few rows of the matrix at a time, aligned if that pays")
        begin = self.local("begin", const(0, I64))
        wide, tall = (8, 3) if self.target.registers >= 32 else (4, 2)
        with f.while_(begin < nodes), self.scope():
            matrix = self.local("matrix", tree.load(matrices, tree.load(order, begin)))
            end = self.local("end", begin + 1)
            more = self.local("more", end < nodes)
            with f.while_(more), self.scope():
                f.set(more, tree.load(matrices, tree.load(order, end)).eq(matrix))
                f.set(end, end + convert(more, I64))
                f.set(more, more & (end < nodes))
            length = self.bind("length", self.number(size_poly(size)) * t.size)
            aligned = self.bind("aligned", (length + 63) & -64)
            with self.loop("j", 0, self.number(size_poly(n)), lanes, extent=n) as j:
                rows = self.local("rows", matrix + j * (product.step * t.size))
                apart = self.local("apart", const(product.step * t.size, I64))
                with self.when(end - begin > tall):
                    count = self.bind("count", self.number(size_poly(n)) - j)
                    with self.loop("i", 0, select(count < lanes, count, lanes)) as i:
                        f.do(intrinsic("copy_bytes", panel + i * aligned, rows + i * apart, length, type=tree.VOID))
                    f.set(rows, panel)
                    f.set(apart, aligned)
                at = self.local("at", begin)
                for together in (tall, 1):
                    with f.while_(at + together <= end), self.scope():
                        several = [self.local("r", tree.load(order, at + i)) for i in range(together)]
                        self.tile(product, j, (rows, apart), vectors, several, wide if together > 1 else 8, ty)
                        f.set(at, at + together)
            f.set(begin, end)

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

    def tile(
        self, product: Product, j: Local, matrix: tuple[Local, Local], vectors: Expr, several: Sequence[Local],
        wide: int, ty: Ty,
    ) -> None:  # fmt: skip
        """Compute the elements from `j` on for some nodes of one matrix, `wide` of its rows at a time.

        `matrix`: where its row `j` lies, and how far apart its rows are.
        """
        f, v = self.f, product.value
        shape, size = self.graph.shape(v), self.graph.shape(product.right)[0]
        (n,) = shape
        lanes, width = ty.lanes, ty.scalar.bits // 8
        last = self.bind("last_row", self.number(size_poly(n)) - 1 - j)
        xs = [self.local("x", tree.load(vectors, r)) for r in several]
        sums: list[list[Local]] = [[] for _ in several]
        for first in range(0, lanes, wide):
            rows = []
            for t in range(first, min(first + wide, lanes)):
                rows.append(self.local("row", matrix[0] + select(last < t, last, const(t, I64)) * matrix[1]))
            here = [[self.local("c", const(0.0, ty)) for _ in rows] for _ in several]
            with self.axis(9, size, True, lanes) as k:
                parts = [self.local("part", Load(x + k * width, ty, self.left)) for x in xs]
                for m, row in enumerate(rows):
                    w = self.local("w", Load(row + k * width, ty, self.left))
                    for x, cs in zip(parts, here, strict=True):
                        f.set(cs[m], intrinsic("fma", w, x, cs[m]))
            for all_, cs in zip(sums, here, strict=True):
                all_ += cs
        for r, cs in zip(several, sums, strict=True):
            with self.scope():
                self.one_vector(cs)
                self.at_node(self.local("row", r), f["i0"])
                self.put_lanes(v, Index(shape, (ZERO if n == 1 else Poly.of(j.name),)), cs[0], j, lanes)
