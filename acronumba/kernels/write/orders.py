"""Writes what is stored at computed places: sorting, and rows that are added to the rows which an index names.

In: a value of such a kind. Out: statements of one function; one text serves processors and GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from acronumba.emit.tree import I64, Expr, Load, Local, const, select
from acronumba.kernels.stages.graph import axis_of
from acronumba.kernels.stages.index import ZERO, Index, size_poly
from acronumba.kernels.write.element import DTYPES, less
from acronumba.kernels.write.matrices import MatrixWriter
from acronumba.kernels.write.writer import to_memory


class OrderWriter(MatrixWriter):
    """Writes sorts and sums by places."""

    def order(self, v: int) -> None:
        """Sort places along an axis by the elements there, and equal ones by the places themselves.

        Pairs that are some steps apart are put in order: which ones depends on the extent alone, and those of one step
        have nothing in common (Batcher's merge exchange: Knuth, The Art of Computer Programming 3, algorithm 5.2.2 M).
        """
        op = self.graph.op(v)
        assert op is not None
        (source,), shape, axis = op.args, op.shape, axis_of(op)
        t, f, at = DTYPES[self.graph.dtype(source)], self.f, [ZERO] * len(shape)
        self.note_names([v])
        n = self.bind("n", self.number(size_poly(shape[axis])))
        bits = self.local("bits", const(0, I64))
        with self.loop("bit", 0, 62) as bit, self.when((const(1, I64) << bit) < n):
            f.set(bits, bit + 1)

        def place(k: Expr) -> Index:
            at[axis] = self.named("at", k) if shape[axis] != 1 else ZERO
            return Index(shape, tuple(at))

        def there(k: Expr) -> Local:
            address = self.plus(self.base(v), place(k).flat * 8)
            return self.bind("place", Load(address, I64), len(self.scopes) - 1)

        def key(k: Expr) -> Expr:
            here = place(k)
            self.prepare(source, here)
            return self.bind("key", to_memory(self.value(source, here), t), len(self.scopes) - 1)

        def before(x: Expr, y: Expr) -> Expr:
            return less(x, y, t) | (y.ne(y) & x.eq(x)) if t.kind == "f" else less(x, y, t)

        def exchange(i: Expr, d: Expr) -> None:
            a, b = there(i), there(i + d)
            x, y = key(a), key(b)
            with self.when(before(y, x) | (before(x, y).eq(0) & (b < a))):
                self.put(v, place(i), b)
                self.put(v, place(i + d), a)

        def row() -> None:
            with self.workers(n) as k:
                self.put(v, place(k), k)
            self.meet()
            with self.loop("a", 0, bits) as a:
                p = self.bind("p", const(1, I64) << (bits - 1 - a), len(self.scopes) - 1)
                with self.loop("s", 0, a + 1) as s:
                    first = s.eq(0)
                    d = self.bind("d", select(first, p, (const(1, I64) << (bits - s)) - p), len(self.scopes) - 1)
                    r = self.bind("r", select(first, 0, p), len(self.scopes) - 1)
                    with self.workers(n - d) as i, self.when((i & p).eq(r)):
                        exchange(i, d)
                    self.meet()

        self.space([k for k in range(len(shape)) if k != axis], shape, at, row)

    @contextmanager
    def workers(self, many: Expr) -> Iterator[Expr]:
        """Write a loop whose turns have nothing to do with one another: they may be shared out."""
        with self.loop("k", 0, many) as k:
            yield k

    def meet(self) -> None:
        """Wait for all that have a share of a loop."""

    def scattered(self, v: int) -> None:
        """Add each row of the argument to the row that its index names, in their order."""
        op = self.graph.op(v)
        assert op is not None
        (source, index), shape, axis = op.args, op.shape, axis_of(op)
        numbers, t = self.graph.shape(index), DTYPES[op.dtype]
        others = [k for k in range(len(shape)) if k != axis and shape[k] != 1]
        vector = others[-1] if others and others[-1] > axis else None
        lanes = self.lanes_for([v]) if vector is not None else 1
        at, turn = [ZERO] * len(shape), [ZERO] * len(numbers)
        rows = self.number(size_poly(shape[axis]))
        self.note_names([v])
        zero = const(0, t.ty.vector(lanes))
        self.space(range(len(shape)), shape, at, lambda: self.put(v, Index(shape, tuple(at)), zero), vector, lanes)

        def row() -> None:
            here = Index(numbers, tuple(turn))
            self.prepare(index, here)
            k = self.position(index, here)
            k = self.bind("at", select(k < rows, k, rows - 1), len(self.scopes) - 1)
            at[axis] = self.named("at", select(k < 0, 0, k)) if shape[axis] != 1 else ZERO
            self.space(others, shape, at, add, vector, lanes)

        def add() -> None:
            place = Index(self.graph.shape(source), (*at[:axis], *turn, *at[axis + 1 :]))
            self.prepare(source, place)
            x = const(self.bind("x", self.value(source, place), len(self.scopes) - 1), zero.type)
            there = Index(shape, tuple(at))
            so_far = Load(self.plus(self.base(v), there.flat * t.size), zero.type, self.left)
            self.put(v, there, self.bind("total", so_far + x, len(self.scopes) - 1))

        with self.when(rows > 0):
            self.space(range(len(numbers)), numbers, turn, row)
