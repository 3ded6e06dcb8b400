"""Writes argmax, sorts, and scatter-adds of rows.

In: a value of such a kind. Out: statements of one function; one text serves CPUs and GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from acronumba.emit import tree
from acronumba.emit.tree import I64, Expr, Load, Local, const, select
from acronumba.ir.spec import Size
from acronumba.kernels.stages.graph import axis_of
from acronumba.kernels.stages.index import ZERO, Index, Poly, size_poly
from acronumba.kernels.write.element import DTYPES, Dtype, cast, less
from acronumba.kernels.write.matrices import MatrixWriter
from acronumba.kernels.write.writer import to_memory

NOWHERE = (1 << 63) - 1  # the position of the best element of a lane without elements
Relation: TypeAlias = Callable[[Expr, Expr], Expr]


class OrderWriter(MatrixWriter):
    """Writes argmax, sorts and scatter-adds."""

    def order(self, v: int) -> None:
        """Write a stable argsort along an axis.

        A sorting network: the pairs that are compared depend on the extent alone, and the pairs of one step are
        disjoint (Batcher's merge exchange: Knuth, The Art of Computer Programming 3, algorithm 5.2.2 M).
        """
        op = self.graph.op(v)
        assert op is not None
        (source,), shape, axis = op.args, op.shape, axis_of(op)
        t, at = DTYPES[self.graph.dtype(source)], [ZERO] * len(shape)
        self.note_names([v])
        n, bits = self.bits_of(shape[axis])

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

        def exchange(i: Expr, d: Expr) -> None:
            a, b = there(i), there(i + d)
            x, y = key(a), key(b)
            with self.when(before(y, x, t) | (before(x, y, t).eq(0) & (b < a))):
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

    def bits_of(self, size: Size) -> tuple[Local, Local]:
        """Return an extent, and how often 1 must be doubled to be no smaller."""
        n = self.local("n", self.number(size_poly(size)))
        bits = self.local("bits", const(0, I64))
        with self.loop("bit", 0, 62) as bit, self.when((const(1, I64) << bit) < n):
            self.f.set(bits, bit + 1)
        return n, bits

    def arg(self, v: int) -> None:
        """Write argmax or argmin: the first position of the largest or smallest element, or of the first NaN."""
        op = self.graph.op(v)
        assert op is not None
        source = op.args[0]
        shape = self.graph.shape(source)
        axis = axis_of(op)
        t = DTYPES[self.graph.dtype(source)]
        at = [ZERO] * len(shape)
        self.note_names([v])

        def element(place: Index) -> Expr:
            self.prepare(source, place)
            return to_memory(self.value(source, place), t)

        real = [k for k in range(len(shape)) if shape[k] != 1]
        outer = [k for k in range(len(shape)) if k != axis]
        if real and real[-1] == axis and t.kind != "b" and t.size >= 4:
            self.space(outer, shape, at, lambda: self.arg_lanes(v, shape, axis, at))
            return

        def inner() -> None:
            name = self.kernel.names[v]
            best = self.local(f"{name}_best", const(0, t.memory))
            found = self.local(name, const(0, I64))
            with self.loop("k", 0, self.number(size_poly(shape[axis])), extent=shape[axis]) as k:
                at[axis] = Poly.of(k.name) if shape[axis] != 1 else ZERO
                x = self.bind("x", element(Index(shape, tuple(at))), len(self.scopes) - 1)
                better = less(best, x, t) if op.op == "argmax" else less(x, best, t)
                if t.kind == "f":
                    better = better | (x.ne(x) & best.eq(best))
                if t.kind == "b":
                    better = x > best if op.op == "argmax" else x < best
                with self.when(better | k.eq(0)):
                    self.f.set(best, x)
                    self.f.set(found, k)
            place = Index(op.shape, tuple(a for k, a in enumerate(at) if k != axis))
            self.put(v, place, cast(found, DTYPES["int64"], DTYPES[op.dtype]))

        self.space(outer, shape, at, inner)

    def arg_lanes(self, v: int, shape: tuple[Size, ...], axis: int, at: list[Poly]) -> None:
        """Write `arg` along the innermost axis: every lane keeps its best, then the lanes are compared in order."""
        op = self.graph.op(v)
        assert op is not None
        source = op.args[0]
        t = DTYPES[self.graph.dtype(source)]
        f, name, lanes = self.f, self.kernel.names[v], self.lanes_for([source])
        wide = I64.vector(lanes)

        def better(x: Expr, best: Expr) -> Expr:
            out = less(best, x, t) if op.op == "argmax" else less(x, best, t)
            return out | (x.ne(x) & best.eq(best)) if t.kind == "f" else out

        def equal(x: Expr, best: Expr) -> Expr:
            return x.eq(best) | (x.ne(x) & best.ne(best)) if t.kind == "f" else x.eq(best)

        best = self.local(f"{name}_best", const(0, t.ty.vector(lanes)))
        found = self.local(f"{name}_at", const(NOWHERE, wide))
        with self.axis(0, shape[axis], True, lanes) as j:
            at[axis] = Poly.of(j.name)
            here = Index(shape, tuple(at))
            self.prepare(source, here)
            x = self.value(source, here)
            x = const(x, best.type) if x.type.lanes == 1 else x
            take = better(x, best) | found.eq(const(NOWHERE, wide))
            if self.left is not None:
                take = take & self.inside()
            take = self.local("better", take)
            numbers = tree.Call("lanes", (const(0, wide),), wide)
            f.set(best, select(take, x, best))
            f.set(found, select(take, const(j, wide) + numbers, found))
        top = self.first_of_lanes(name, t, best, found, better, equal)
        out = Index(op.shape, tuple(a for k, a in enumerate(at) if k != axis))
        with self.when(top.ne(NOWHERE)):
            self.put(v, out, cast(top, DTYPES["int64"], DTYPES[op.dtype]))

    def first_of_lanes(
        self, name: str, t: Dtype, best: Local, found: Local, better: Relation, equal: Relation
    ) -> Local:
        """Return the first position of the best element among those of the lanes; `NOWHERE` if no lane has one."""
        values = self.scratch(self.kernel.lane_slot)
        places = values + 512
        self.f.store_lanes(values, best)
        self.f.store_lanes(places, found)
        top = self.local(name, tree.load(places))
        most = self.local(f"{name}_best", Load(values, t.memory))
        with self.loop("lane", 1, best.type.lanes) as k:
            x = self.local("x", Load(values + k * t.size, t.memory))
            place = self.local("place", tree.load(places, k))
            first = top.eq(NOWHERE) | better(x, most) | (equal(x, most) & (place < top))
            with self.when(place.ne(NOWHERE) & first):
                self.f.set(most, x)
                self.f.set(top, place)
        return top

    def search(self, v: int) -> None:
        """Find where values belong in a vector by halves, from where the last one was found: as NumPy does."""
        op = self.graph.op(v)
        assert op is not None
        (table, keys), shape, (side,) = op.args, op.shape, op.attrs
        (size,), t, f, at = self.graph.shape(table), DTYPES[self.graph.dtype(table)], self.f, [ZERO] * len(op.shape)
        self.note_names([v])
        n, bits = self.bits_of(size)
        low, high = self.local("low", const(0, I64)), self.local("high", n)
        last, first = self.local("last", const(0, t.memory)), self.local("first", const(1, I64))

        def goes_on(x: Expr, key: Expr) -> Expr:
            return before(x, key, t) if side == "left" else before(key, x, t).eq(0)

        def inner() -> None:
            here = Index(shape, tuple(at))
            self.prepare(keys, here)
            key = self.bind("key", to_memory(self.value(keys, here), t), len(self.scopes) - 1)
            f.set(last, select(first.ne(0), key, last))
            f.set(first, 0)
            up = self.bind("up", goes_on(last, key), len(self.scopes) - 1)
            f.set(high, select(up, n, select(high < n, high + 1, n)))
            f.set(low, select(up, low, 0))
            f.set(last, key)
            with self.loop("half", 0, bits + 1), self.when(low < high):
                middle = self.bind("middle", (low + high) >> 1, len(self.scopes) - 1)
                place = Index((size,), (self.named("at", middle) if size != 1 else ZERO,))
                self.prepare(table, place)
                x = self.bind("x", to_memory(self.value(table, place), t), len(self.scopes) - 1)
                behind = self.bind("behind", goes_on(x, key), len(self.scopes) - 1)
                f.set(low, select(behind, middle + 1, low))
                f.set(high, select(behind, high, middle))
            self.put(v, here, low)

        self.space(range(len(shape)), shape, at, inner)

    @contextmanager
    def workers(self, many: Expr) -> Iterator[Expr]:
        """Write a loop of independent steps, which may be shared out to threads."""
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


def before(x: Expr, y: Expr, t: Dtype) -> Expr:
    """Whether x comes before y in an order that has NaN last; bools must be bytes already."""
    return less(x, y, t) | (y.ne(y) & x.eq(x)) if t.kind == "f" else less(x, y, t)
