"""Nests of loops: stores and reductions over one iteration space.

In: a `Nest`. Out: its loops. The innermost axis is computed in vectors; where all stores are element-wise on tensors
of one shape there is one loop over all elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from acronumba.emit import tree
from acronumba.emit.tree import I1, I32, I64, Expr, Local, Ty, const, convert, intrinsic, select
from acronumba.ir.spec import Dim, Size
from acronumba.kernels.stages.along import vector_axis
from acronumba.kernels.stages.index import ONE, ZERO, Index, Poly, count, size_poly
from acronumba.kernels.stages.tasks import Nest
from acronumba.kernels.write.element import DTYPES, Dtype, cast, combine, identity
from acronumba.kernels.write.writer import OUTSIDE, BandRows, Writer, to_memory

FLAT = Dim(-1)  # stands for the number of elements of a tensor in a loop over them


class NestWriter(Writer):
    """Writes nests."""

    def lanes_for(self, values: Sequence[int]) -> int:
        sizes = [4]
        for v in values:
            sizes.append(DTYPES[self.graph.dtype(v)].size)
            op = self.graph.op(v)
            if self.graph.kind(v) != "reduce" and op is not None:
                sizes += [DTYPES[self.graph.dtype(a)].size for a in op.args]
        return self.kernel.target.lanes(Ty("i", 8 * max(sizes)))

    def nest(self, nest: Nest) -> None:
        """Write the loops of a nest."""
        self.inline = set(nest.stores)
        space = nest.space
        reduced = [k for k in nest.reduced if space[k] != 1]
        real = [k for k in range(len(space)) if space[k] != 1]
        rank = len(self.lead)
        others: dict[int, Expr] = {}  # terms of reductions outside of the band
        at = [*self.lead[:-1], *[ZERO] * (len(space) - max(rank - 1, 0))]
        lanes = self.lanes_for(nest.values)
        vector = vector_axis(self.stages, nest, lanes)
        vector = None if vector is not None and vector < rank else vector
        outer = sorted((k for k in real if k not in nest.reduced and k >= rank - 1), key=lambda k: k == vector)
        self.note_names(nest.values)
        if len(real) > 1 and not rank and not nest.reductions and all(self.flat(v) for v in nest.stores):
            self.flat_nest(nest, lanes)
            return

        def loops(axes: list[int], inner: object) -> None:
            if not axes:
                inner()  # type: ignore[operator]
                return
            k = axes[0]
            with self.axis_of_nest(k, space, k == vector, lanes) as var:
                at[k] = Poly.of(var.name)
                if k == rank - 1 and self.banded(space):
                    others.update(self.leave_band(nest, at[:rank]))
                loops(axes[1:], inner)

        def innermost() -> None:
            index = Index(space, tuple(at))
            for v in nest.stores:
                self.prepare(v, index)
                x = self.value(v, index)
                self.put(v, index, x)
                if count(space) == ONE:
                    self.register(v, x)
            for v in nest.reductions:
                self.step(v, index, accumulators[v], wide)

        accumulators: dict[int, Local] = {}
        wide = lanes if vector is not None else 1
        # A sum over columns has one order, known to be a single one or not: that of a sum for each of several columns.
        one_column = vector in nest.reduced and len(space) > 1 and space[-1] == 1

        def reductions() -> None:
            for v in nest.reductions:
                accumulators[v] = self.accumulator(v, 1 if one_column else wide)
            loops(reduced, innermost)
            for v in nest.reductions:
                if v in others:
                    self.take_in(v, accumulators[v], others[v])
                self.finish(v, Index(space, tuple(at)), accumulators[v], nest.reduced, vector in nest.reduced)

        loops(outer, reductions if nest.reductions else innermost)
        self.inline = set()

    def flat(self, v: int) -> bool:
        """Whether the elements of `v` can be computed in the order of memory, whatever its shape."""
        todo, seen = [v], {v}
        while todo:
            u = todo.pop()
            op = self.graph.op(u)
            if op is None or (self.stages.leaf(u) and u not in self.inline) or count(op.shape) == ONE:
                continue
            if self.graph.kind(u) == "element":
                if any(self.graph.shape(a) != op.shape and count(self.graph.shape(a)) != ONE for a in op.args):
                    return False
            elif op.op != "reshape":
                return False
            todo += [a for a in op.args if a not in seen]
            seen.update(op.args)
        return True

    def flat_nest(self, nest: Nest, lanes: int) -> None:
        """Write one loop for a nest of element-wise operations on tensors of one shape."""
        many = count(nest.space)
        size: Size = many.constant if many.constant is not None else FLAT
        with self.loop("j", 0, self.number(many), lanes) as j:
            before = self.lane, self.lanes, self.left, self.lane_size
            self.lane, self.lanes, self.lane_size, self.left = j.name, lanes, many, None
            if not isinstance(size, int) or size % lanes:
                self.left = self.bind("left", self.number(many) - j)
            index = Index((size,), (Poly.of(j.name),))
            for v in nest.stores:
                self.prepare(v, index)
                self.put(v, index, self.value(v, index))
            self.lane, self.lanes, self.left, self.lane_size = before
        self.inline = set()

    def register(self, v: int, x: Expr) -> None:
        """Remember the only element of a stored value in a local."""
        if self.kernel.homes[v].local:
            self.scopes[self.home_depth].cache[("register", v)] = x

    def note_names(self, values: Sequence[int]) -> None:
        names = ", ".join(self.kernel.names[v] for v in values)
        if names:
            self.f.comment(names)

    def banded(self, space: Sequence[Size]) -> bool:
        """Whether only the columns of a band are computed in a space."""
        return self.band is not None and len(space) == len(self.lead) + 1 and space[-1] == self.band.size

    def axis_of_nest(self, k: int, space: Sequence[Size], vector: bool, lanes: int) -> AbstractContextManager[Local]:
        """Write a loop over an axis of a nest; in a stage in tiles, only over the current rows and columns."""
        if k == len(self.lead) - 1:
            return self.rows_of_tile(space[k])
        if k == len(self.lead) and self.banded(space):
            return self.columns_of_band(vector, lanes)
        return self.axis(k, space[k], vector, lanes)

    def rows_of_tile(self, size: Size) -> AbstractContextManager[Local]:
        """A loop over the rows of a tile."""
        assert self.stop is not None
        return self.loop("i", self.number(self.lead[-1]), self.stop, extent=size)

    @contextmanager
    def columns_of_band(self, vector: bool, lanes: int) -> Iterator[Local]:
        """A loop over the columns of a band."""
        assert self.band is not None
        low, high, size = self.band.low, self.band.high, self.band.size
        if vector:
            with self.loop("j", low, high, lanes, extent=size) as var, self.lanes_of(var, lanes, size):
                yield var
        else:
            with self.loop("j", low, high, extent=size) as var:
                yield var

    def leave_band(self, nest: Nest, at: Sequence[Poly]) -> dict[int, Expr]:
        """Write the values of a nest outside of a row's band; return the term that each reduction takes from there."""
        rows = self.band
        assert rows is not None
        here = Index(nest.space, (*at, Poly.of(OUTSIDE)))
        ops = {v: op for v in nest.reductions if (op := self.graph.op(v)) is not None}
        others = [v for v in ops if v not in rows.band.zero]
        out = {v: self.local("term", const(0, DTYPES[ops[v].dtype].ty)) for v in others}
        with self.when(rows.partial):
            for v in nest.stores:
                x = self.value(v, here)
                self.f.store_lanes(self.outside_at(v, at[-1]), to_memory(x, DTYPES[self.graph.dtype(v)]))
                if v in rows.band.zero:
                    self.must_be_zero(x, rows)
            for v, op in ops.items():
                source = op.args[0]
                x = cast(self.value(source, here), DTYPES[self.graph.dtype(source)], DTYPES[op.dtype])
                if v in out:
                    self.f.set(out[v], x)
                else:
                    self.must_be_zero(x, rows)
        return {**out}

    def must_be_zero(self, x: Expr, rows: BandRows) -> None:
        with self.when(x.ne(0)):
            self.f.set(rows.bad, 1)

    def take_in(self, v: int, total: Local, x: Expr) -> None:
        """Combine the result of a reduction with the number outside of the band, if the band is not the whole row."""
        op = self.graph.op(v)
        assert op is not None and self.band is not None
        there = self.band.partial
        both = combine(op.op, total, const(x, total.type) if total.type.lanes > 1 else x, DTYPES[op.dtype])
        every = const(there, I1.vector(total.type.lanes)) if total.type.lanes > 1 else there
        self.f.set(total, select(every, both, total))

    @contextmanager
    def axis(self, k: int, size: Size, vector: bool, lanes: int) -> Iterator[Local]:
        """Write a loop over one axis, in vectors if it is the vectorised one."""
        n = self.number(size_poly(size))
        if not vector:
            with self.loop("ijklmn"[min(k, 5)], 0, n, extent=size) as var:
                yield var
            return
        with self.loop("j", 0, n, lanes, extent=size) as var, self.lanes_of(var, lanes, size):
            yield var

    @contextmanager
    def lanes_of(self, var: Local, lanes: int, size: Size) -> Iterator[None]:
        """Compute vectors along `var`, which steps by `lanes` below `size`."""
        before = self.lane, self.lanes, self.left, self.lane_size
        self.lane, self.lanes, self.lane_size = var.name, lanes, size_poly(size)
        self.left = None
        if not isinstance(size, int) or size % lanes:
            self.left = self.bind("left", self.number(size_poly(size)) - var)
        try:
            yield
        finally:
            self.lane, self.lanes, self.left, self.lane_size = before

    def accumulator(self, v: int, lanes: int) -> Local:
        op = self.graph.op(v)
        assert op is not None
        t = DTYPES[op.dtype]
        ty = t.ty.vector(lanes)
        local = Local(self.f.fresh(self.kernel.names[v]), ty)
        self.f.locals[local.name] = local
        self.depth[local.name] = len(self.scopes) - 1
        self.f.body.append(tree.Assign(local, const(identity(op.op, t), ty)))
        return local

    def step(self, v: int, index: Index, total: Local, lanes: int) -> None:
        op = self.graph.op(v)
        assert op is not None
        t = DTYPES[op.dtype]
        a = op.args[0]
        self.prepare(a, index)
        x = cast(self.value(a, index), DTYPES[self.graph.dtype(a)], t)
        if x.type.lanes < lanes:
            x = const(x, t.ty.vector(lanes))
        if self.left is not None and lanes > 1:
            x = select(self.inside(), x, const(identity(op.op, t), x.type))
        self.add_term(v, total, self.bind("term", x, len(self.scopes) - 1), lanes)

    def add_term(self, v: int, total: Local, x: Expr, lanes: int) -> None:
        """Add a term of a reduction to its total."""
        op, t = self.graph.op(v), DTYPES[self.graph.dtype(v)]
        assert op is not None
        for k in range(lanes) if total.type.lanes < lanes else ():
            self.f.set(total, combine(op.op, total, intrinsic("extract", x, const(k, I64), type=t.ty), t))
        if total.type.lanes == lanes:
            self.f.set(total, combine(op.op, total, x, t))

    def inside(self) -> Expr:
        """Return the mask of valid lanes."""
        key = ("inside", self.lane)
        known = self.cached(key)
        if known is None:
            assert self.left is not None
            wide = I32.vector(self.lanes)
            numbers = tree.Call("lanes", (const(0, wide),), wide)
            known = self.keep(key, self.bind("inside", numbers < const(convert(self.left, I32), wide)))
        return known

    def finish(self, v: int, index: Index, total: Local, reduced: Sequence[int], across: bool) -> None:
        op = self.graph.op(v)
        assert op is not None
        t = DTYPES[op.dtype]
        x: Expr = total
        if across and total.type.lanes > 1:
            x = self.horizontal(op.op, total, t)
        place = Index(op.shape, tuple(a for k, a in enumerate(index.at) if k not in reduced))
        x = self.bind(self.kernel.names[v], x, len(self.scopes) - 1) if not isinstance(x, Local) else x
        self.put(v, place, x)
        if count(op.shape) == ONE:
            self.register(v, x)

    def horizontal(self, op: str, x: Local, t: Dtype) -> Expr:
        """Combine the lanes of a vector, in an order that depends on their number only."""
        if t.kind in "fi" and op in ("sum", "max", "min"):
            return intrinsic({"sum": "hsum", "max": "hmax", "min": "hmin"}[op], x, type=t.ty)
        out = self.variable("total", intrinsic("extract", x, const(0, I64), type=t.ty))
        for k in range(1, x.type.lanes):
            self.f.set(out, combine(op, out, intrinsic("extract", x, const(k, I64), type=t.ty), t))
        return out
