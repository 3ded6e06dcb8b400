"""Writes stages: matrix products, and what is no element-wise loop (concatenations, argmax, checks that fail a node).

In: a stage of `kernels.stages`. Out: statements of one function. Products with shared weights call register tiles
(`kernels.tiles`) by address, panel by panel of the packed weight, and finish the panel while it is in the cache.
Products of a node's own matrices pack columns of the right operand into scratch and call the same tiles; vectors take
loops of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from acronumba.emit import tree
from acronumba.emit.target import Target
from acronumba.emit.tree import I1, I64, Const, Expr, Load, Local, call_address, const, convert, intrinsic, select
from acronumba.kernels.element import DTYPES, cast, less
from acronumba.kernels.index import ONE, ZERO, Index, Poly, count, size_poly
from acronumba.kernels.spec import Size
from acronumba.kernels.stages import (
    Nest,
    Part,
    Product,
    ProductStage,
    Single,
    Stages,
    axes_of,
    axis_of,
    stretch,
    through,
)
from acronumba.kernels.steps import Place, Step, column, steps_of
from acronumba.kernels.tiles import CHUNK, Packing, narrow, panel_shape, widest
from acronumba.kernels.weights import SideBySide, ViewPacking
from acronumba.kernels.writer import Kernel, Writer, to_memory


@dataclass(slots=True, eq=False)
class Slots:
    """Scratch slots of a product."""

    rows: int  # int64: addresses of the left operand's rows, piece by piece
    lengths: int  # int64: elements of the pieces of a row
    sums: int  # what one call of a tile computes
    panel: int = -1  # columns of the right operand, packed


def tile_shape(gates: Sequence[int], n: Size, target: Target, dtype: str) -> tuple[int, int]:
    """Return the vectors per gate and the rows of tiles for calls of so many gates each."""
    shapes = [panel_shape(g, n if isinstance(n, int) else 1 << 20, target, dtype) for g in gates]
    return min(s.q for s in shapes), min(s.rows for s in shapes)


@dataclass(slots=True, eq=False)
class Call:
    """What one call of a tile computes, for each of some rows.

    The products of a member have one left operand and lie side by side in the packed weight. Members have the same
    weights: the rows of their left operands lie side by side in the table of addresses, and so do their sums.
    """

    members: list[list[Part]]

    @property
    def gates(self) -> int:
        return sum(part.gates for part in self.members[0])

    @property
    def lefts(self) -> tuple[tuple[int, ...], ...]:
        """The pieces of each member's left operand."""
        return tuple(parts[0].product.pieces for parts in self.members)


@dataclass(slots=True, eq=False)
class Pass:
    """Products of a stage that tiles compute together, panel by panel, and what follows on each panel."""

    q: int  # vectors per gate
    rows: int  # rows that one call works on; times `members` is the height of the tile
    members: int  # of every call
    calls: list[Call]
    tail: list[int]
    steps: list[Step]  # of the tail

    @property
    def vectors(self) -> int:
        """Vectors of sums, and of what steps keep, that belong to one row of a tile."""
        return (sum(call.gates for call in self.calls) + sum(len(step.kept) for step in self.steps)) * self.q


Lefts = tuple[tuple[int, ...], ...]  # pieces of the left operand of each member


def passes_of(stage: ProductStage, stages: Stages, target: Target) -> list[Pass]:
    """Share out the products of a stage to passes and calls of tiles.

    Products are in one pass if a tail needs both, if they have one weight, or if they lie side by side: the others
    would only drive each other's panels out of the cache.
    """
    graph = stages.graph
    dtype = graph.dtype(stage.parts[0].product.value)
    same: dict[object, list[list[Part]]] = {}
    for parts in _side_by_side(stage, target, dtype):
        sizes = tuple(graph.shape(piece)[-1] for piece in parts[0].product.pieces)
        same.setdefault((sizes, *((part.product.matrix, part.gates) for part in parts)), []).append(parts)
    groups = [({part.product.value for parts in members for part in parts}, [members]) for members in same.values()]
    for v in stage.tail:
        near = {v, *stages.reads[v]}
        met = [g for g in groups if not near.isdisjoint(g[0])]
        if met:
            one = {v}.union(*(values for values, _ in met)), [members for _, lists in met for members in lists]
            groups = sorted([one, *(g for g in groups if near.isdisjoint(g[0]))], key=lambda g: min(g[0]))
    out = []
    for values, lists in groups:
        calls = [Call(members) for members in lists]
        q, rows = tile_shape([call.gates for call in calls], stage.n, target, dtype)
        many = len(calls[0].members)
        if many > rows or any(len(call.members) != many for call in calls):
            calls, many = [Call([parts]) for call in calls for parts in call.members], 1
        tail = [v for v in stage.tail if v in values]
        steps = steps_of(tail, (*stage.lead, stage.n), stages, dtype)
        out.append(Pass(q, rows // many, many, calls, tail, steps))
    return out


def table_of(passes: Sequence[Pass], rows: Poly) -> tuple[dict[Lefts, tuple[Poly, int]], Poly, int]:
    """Lay out the addresses of left operands, `rows` of each in a block.

    Return where those of a call start: in the table, in bytes, and among the lengths of pieces; and the ends of both.
    """
    out: dict[Lefts, tuple[Poly, int]] = {}
    end, pieces = ZERO, 0
    for one in passes:
        for call in one.calls:
            if call.lefts not in out:
                out[call.lefts] = end, pieces
                end = end + rows * (8 * one.members * len(call.lefts[0]))
                pieces += len(call.lefts[0])
    return out, end, pieces


def _side_by_side(stage: ProductStage, target: Target, dtype: str) -> list[list[Part]]:
    """Put products with one left operand next to each other where each alone leaves a tile idle."""
    left: dict[tuple[int, ...], list[Part]] = {}
    out = []
    for part in stage.parts:
        if part.gates < widest(target) and narrow(part.gates, stage.n, target, dtype):
            left.setdefault(part.product.pieces, []).append(part)
        else:
            out.append([part])
    for parts in left.values():
        together: list[Part] = []
        for part in parts:
            if together and sum(p.gates for p in together) + part.gates > widest(target):
                out.append(together)
                together = []
            together.append(part)
        out.append(together)
    return out


def panels_of(one: Pass, n: int, lanes: int) -> int:
    """Return how many panels a pass over `n` columns takes."""
    return -(-n // (one.q * lanes))


def tiles_of(one: Pass, rows: Expr) -> Expr:
    """Return how many tiles high so many rows are."""
    return (rows + (one.rows - 1)) // one.rows


class ProductWriter(Writer):
    """Writes one stage of a kernel as a function."""

    def __init__(
        self, kernel: Kernel, slots: dict[tuple[str, int], Slots], name: str, params: Sequence[str], doc: str = ""
    ) -> None:
        super().__init__(kernel, name, params, doc)
        self.slots = slots

    # ---- stages of rows

    def rows(self, items: Sequence[Nest | Single], start: Expr, stop: Expr, first: Expr | None) -> None:
        """Write a loop over nodes; `first` is the block's first node, None if the loop counts in the batch."""
        with self.loop("row" if first is None else "r", start, stop) as r:
            self.at_node(r, first)
            for item in items:
                match item:
                    case Nest():
                        self.nest(item)
                    case Single(kind="concat"):
                        self.concat(item.value)
                    case Single(kind="stack"):
                        self.stack(item.value)
                    case Single(kind="arg"):
                        self.arg(item.value)
                    case Single(kind="check"):
                        self.check(item.value)
                    case Single():
                        self.one_product(self.stages.products[item.value])

    def at_node(self, r: Local, first: Expr | None) -> None:
        """From here on, in the current scope, values are those of one node."""
        self.home_depth = len(self.scopes) - 1
        if first is None:
            self.node = r
            self.row = None
            words = tree.load(tree.load(self.f["P"], 0), r)
            self.words = (
                self.bind("words", words) if any(o.kind != "shared" for o in self.graph.spec.operands) else None
            )
        else:
            self.row = r
            self.node = self.bind("node", first + r)

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

    def concat(self, v: int) -> None:
        op = self.graph.op(v)
        assert op is not None
        axis = axis_of(op)
        self.note_names([v])
        before = ZERO
        for piece in op.args:
            shape = self.graph.shape(piece)
            at = [ZERO] * len(shape)
            real = [k for k in range(len(shape)) if shape[k] != 1]

            def inner(
                piece: int = piece, shape: tuple[Size, ...] = shape, at: list[Poly] = at, before: Poly = before
            ) -> None:
                here = Index(shape, tuple(at))
                self.prepare(piece, here)
                x = cast(self.value(piece, here), DTYPES[self.graph.dtype(piece)], DTYPES[op.dtype])
                place = [a + before if k == axis else a for k, a in enumerate(at)]
                self.put(v, Index(op.shape, tuple(place)), x)

            self.space(range(len(shape)), shape, at, inner, real[-1] if real else None, self.lanes_for([v, piece]))
            before = before + size_poly(shape[axis])

    def stack(self, v: int) -> None:
        """Copy the elements of a list into the rows of an array."""
        op = self.graph.op(v)
        assert op is not None
        operand = self.graph.spec.operands[op.args[0]]
        t = DTYPES[op.dtype]
        f = self.f
        self.note_names([v])
        items = self.bind("items", tree.load(self.operand_word(op.args[0])))
        out = self.base(v)
        rows = self.number(size_poly(op.shape[0]))
        if operand.kind == "list":
            size = self.number(count(op.shape[1:]) * t.size)
            with self.loop("k", 0, rows) as k:
                f.do(intrinsic("copy_bytes", out + k * size, tree.load(tree.load(items, k)), size, type=tree.VOID))
        elif t.size == 8:
            f.do(intrinsic("copy_bytes", out, items, rows * 8, type=tree.VOID))
        else:
            with self.loop("k", 0, rows) as k:
                f.store(out, k, convert(tree.load(items, k), tree.I8))

    def arg(self, v: int) -> None:
        """The first place of the largest or smallest element; NaN wins."""
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
        """The same along the innermost axis: every lane keeps its best, then the lanes are compared in order."""
        op = self.graph.op(v)
        assert op is not None
        source = op.args[0]
        t = DTYPES[self.graph.dtype(source)]
        f, name, lanes = self.f, self.kernel.names[v], self.lanes_for([source])
        wide = I64.vector(lanes)
        nowhere = (1 << 63) - 1

        def better(x: Expr, best: Expr) -> Expr:
            out = less(best, x, t) if op.op == "argmax" else less(x, best, t)
            return out | (x.ne(x) & best.eq(best)) if t.kind == "f" else out

        best = self.local(f"{name}_best", const(0, t.ty.vector(lanes)))
        found = self.local(f"{name}_at", const(nowhere, wide))
        with self.axis(0, shape[axis], True, lanes) as j:
            at[axis] = Poly.of(j.name)
            here = Index(shape, tuple(at))
            self.prepare(source, here)
            x = self.value(source, here)
            x = const(x, best.type) if x.type.lanes == 1 else x
            take = better(x, best) | found.eq(const(nowhere, wide))
            if self.left is not None:
                take = take & self.inside()
            take = self.local("better", take)
            numbers = tree.Call("lanes", (const(0, wide),), wide)
            f.set(best, select(take, x, best))
            f.set(found, select(take, const(j, wide) + numbers, found))
        values = self.scratch(self.kernel.lane_slot)
        places = values + 512
        f.store_lanes(values, best)
        f.store_lanes(places, found)
        top = self.local(name, tree.load(places))
        most = self.local(f"{name}_best", Load(values, t.memory))
        with self.loop("lane", 1, lanes) as k:
            x = self.local("x", Load(values + k * t.size, t.memory))
            place = self.local("place", tree.load(places, k))
            tie = x.eq(most)
            if t.kind == "f":
                tie = tie | (x.ne(x) & most.ne(most))
            first = top.eq(nowhere) | better(x, most) | (tie & (place < top))
            with self.when(place.ne(nowhere) & first):
                f.set(most, x)
                f.set(top, place)
        out = Index(op.shape, tuple(a for k, a in enumerate(at) if k != axis))
        with self.when(top.ne(nowhere)):
            self.put(v, out, cast(top, DTYPES["int64"], DTYPES[op.dtype]))

    def local(self, name: str, value: Expr) -> Local:
        """Assign to a new local in the current scope; it may change later."""
        out = self.f.let(name, value)
        self.depth[out.name] = len(self.scopes) - 1
        return out

    # ---- failures

    def check(self, v: int) -> None:
        """Fail the node where the operation has no result."""
        op = self.graph.op(v)
        assert op is not None
        self.f.comment(f"{self.kernel.names[v]}: can it be computed?")
        if self.graph.kind(v) == "element":
            at = [ZERO] * len(op.shape)

            def inner() -> None:
                places = [stretch(self, Index(op.shape, tuple(at)), self.graph.shape(a)) for a in op.args]
                for a, place in zip(op.args, places, strict=True):
                    self.prepare(a, place)
                x, y = map(self.value, op.args, places)
                self.fail_if(y < 0 if op.op == "pow" else (x + y < 0) | (x >= y), v)

            if op.op == "index" or DTYPES[op.dtype].kind == "i":
                self.space(range(len(op.shape)), op.shape, at, inner)
            return
        shape = self.graph.shape(op.args[0])
        axes = axes_of(op) if op.op in ("max", "min") else (axis_of(op),)
        among = count([shape[k] for k in axes])
        out = count(op.shape) if op.op in ("max", "min") else ONE
        if among.constant is None or out.constant is None:
            self.fail_if(self.number(among).eq(0) & self.number(out).ne(0), v)
        elif among.constant == 0 and out.constant != 0:
            self.fail_if(const(True, I1), v)

    def fail_if(self, bad: Expr, v: int) -> None:
        op = self.graph.op(v)
        assert op is not None and self.node is not None
        with self.when(bad):
            place = self.f.let("failed", tree.load(self.f["P"], 1) + self.node * 8)
            seen = self.f.let("seen", tree.load(place))
            for name in (place.name, seen.name):
                self.depth[name] = len(self.scopes) - 1
            free = seen.eq(0)
            later = {o.site for k, o in enumerate(self.graph.spec.body) if o.site >= 0 and k + self.graph.first > v}
            for site in sorted(later - {op.site}):  # an earlier operation of the program has failed after all
                free = free | seen.eq(1 + site)
            with self.when(free):
                self.f.store(place, 0, 1 + op.site)

    # ---- products with shared weights

    def units(self, stage: ProductStage, nodes: Expr) -> Expr:
        """Return the number of units that a stage can be cut into, for a block of so many nodes."""
        lanes = self.target.lanes(DTYPES[self.graph.dtype(stage.parts[0].product.value)].ty)
        total = self.rows_of(stage, nodes)
        out: Expr = const(0, I64)
        for one in passes_of(stage, self.stages, self.target):
            many, panels = tiles_of(one, total), panels_of(one, stage.n, lanes)
            many = many * panels if panels != 1 else many
            out = many if isinstance(out, Const) else out + many
        return out

    def rows_of(self, stage: ProductStage, nodes: Expr) -> Expr:
        lead = count(stage.lead)
        return self.bind("total", nodes * self.number(lead)) if lead != ONE else nodes

    def products(self, number: int, stage: ProductStage) -> None:
        """Write units u0..u1 of a stage: a unit is a tile of rows of one panel; panel after panel, pass after pass."""
        f = self.f
        slots = self.slots["stage", number]
        dtype = DTYPES[self.graph.dtype(stage.parts[0].product.value)]
        lanes = self.target.lanes(dtype.ty)
        width = lanes * dtype.size
        lead = count(stage.lead)
        passes = passes_of(stage, self.stages, self.target)
        places, _, _ = table_of(passes, self.kernel.block * lead)
        nodes = self.bind("nodes", f["i1"] - f["i0"])
        table = self.scratch(slots.rows)
        lengths = self.scratch(slots.lengths)
        sums = self.scratch(slots.sums)
        names = ", ".join(self.kernel.names[p.product.value] for p in stage.parts)
        f.comment(f"{names}: the rows of the left operand")
        with self.loop("r", 0, nodes) as r:
            self.at_node(r, f["i0"])
            for lefts, (start, _) in places.items():
                step = self.kernel.block * lead * (8 * len(lefts))  # from the rows of one piece to those of the next
                for j, left in enumerate(lefts):
                    for k, piece in enumerate(left):
                        at = self.plus(table, start + step * k)
                        self.row_addresses(piece, stage.lead, at, r, len(lefts), j)
        self.home_depth = 0
        for lefts, (_, first) in places.items():
            for k, piece in enumerate(lefts[0], first):
                f.store(lengths, k, self.number(size_poly(self.graph.shape(piece)[-1])))
        if stage.n == 0:
            return
        total = self.rows_of(stage, nodes)
        before: Expr | None = None  # units of earlier passes
        for one in passes:
            q, members = one.q, one.members
            step = self.kernel.block * lead * members
            tiles = self.bind("tiles", tiles_of(one, total))
            panels = panels_of(one, stage.n, lanes)
            low: Expr = f["u0"]
            high: Expr = f["u1"]
            if before is not None:
                low, high = self.bind("low", select(low > before, low - before, 0)), self.bind("high", high - before)
            if one is not passes[-1]:
                many = self.bind("units", tiles * panels if panels > 1 else tiles)
                high = self.bind("high", select(high < many, high, many))
                before = self.bind("before", many if before is None else before + many)
            weights = [self.weights(call.members[0], stage.n, q, lanes, dtype.name) for call in one.calls]
            apart = one.vectors * width  # bytes of sums from one row of a tile to the next
            with self.loop("u", low, high) as u:
                panel = self.local("panel", u // tiles if panels > 1 else const(0, I64))
                t = self.local("t", u - panel * tiles if panels > 1 else u)
                a = self.bind("a", total * t // tiles)
                m = self.bind("m", total * (t + 1) // tiles - a)
                begin = 0
                starts = {}
                for call, weight in zip(one.calls, weights, strict=True):
                    tile = self.kernel.tile(call.gates * q, one.rows * members, dtype.name) - 1
                    start, first = places[call.lefts]
                    wide = call.gates * q * width
                    panel_bytes = self.inner(call.members[0][0].product) * wide
                    f.do(call_address(
                        tree.load(f["P"] + 8 * tile, m * members if members > 1 else m),
                        self.plus(table, start) + a * (8 * members), self.number(step),
                        const(len(call.lefts[0]), I64), lengths + 8 * first if first else lengths,
                        weight + panel * panel_bytes, const(wide, I64), sums + begin if begin else sums,
                        const(apart, I64),
                    ))  # fmt: skip
                    for j, parts in enumerate(call.members):
                        at_ = begin + j * apart
                        for part in parts:
                            starts[part.product.value] = at_
                            at_ += part.gates * q * width
                    begin += wide
                if one.tail:
                    self.tail(stage, one, panel, a, m, sums, starts, lanes, apart * members)

    @property
    def target(self) -> Target:
        return self.kernel.target

    @staticmethod
    def inner(product: Product) -> int:
        """Return the extent that a product with a shared weight sums over."""
        assert product.weight is not None
        return product.weight.shape[1] if product.flip else product.weight.shape[0]

    def weights(self, parts: Sequence[Part], n: int, q: int, lanes: int, dtype: str) -> Local:
        """Return the address of the packed weights of some products, side by side."""
        packings: list[Packing | ViewPacking] = []
        for part in parts:
            weight, flip = part.product.weight, part.product.flip
            assert weight is not None
            k = self.inner(part.product)
            packing = Packing(gates=part.gates, n=n, k=k, q=q, lanes=lanes, dtype=dtype, transposed=flip)
            packings.append(ViewPacking(weight.steps, packing) if weight.steps else packing)
        operands = tuple(part.product.right for part in parts)
        entry = self.kernel.share(operands, packings[0] if len(parts) == 1 else SideBySide(tuple(packings)))
        name = "_".join(self.kernel.names[v] for v in operands)
        return self.bind(f"{name}_packed", tree.load(self.f["P"], 3 + self.kernel.results + entry))

    def row_addresses(self, v: int, lead: tuple[Size, ...], table: Expr, r: Expr, members: int, member: int) -> None:
        """Store the addresses of the rows of `v` for the node at hand, `lead` rows per node, `members` side by side."""
        at = [ZERO] * len(lead)
        row = count(lead) * (8 * members)

        def inner() -> None:
            here = Index((*lead, self.graph.shape(v)[-1]), (*at, ZERO))
            sub = Index(lead, tuple(at)).flat * (8 * members) + 8 * member
            self.f.store(self.plus(table + r * self.number(row), sub), 0, self.address(v, here))

        self.space(range(len(lead)), lead, at, inner)

    def address(self, v: int, index: Index) -> Expr:
        """Return the address of an element of a view of something stored."""
        while not self.stages.leaf(v):
            v, index = through(self, self.graph, v, index)
        flat = index.flat
        base = self.base(v)
        return self.plus(base, flat * DTYPES[self.graph.dtype(v)].size)

    def tail(
        self, stage: ProductStage, one: Pass, panel: Local, a: Expr, m: Expr, sums: Expr, starts: Mapping[int, int],
        lanes: int, apart: int,
    ) -> None:  # fmt: skip
        """Finish the panel just computed, rows a..a+m; `starts`: where products are in a row of `apart` bytes."""
        self.note_names(one.tail)
        q = one.q
        single = Const(0, I64)
        j = self.column(panel, single, q, lanes, stage.n) if q == 1 else None
        # panels are whole: of the last one's vectors some may have no columns left
        ragged = -(-stage.n // lanes) % q != 0
        width = lanes * DTYPES[self.graph.dtype(stage.parts[0].product.value)].size
        end = sum(call.gates for call in one.calls) * q * width  # of the sums; behind them lies what is kept
        _, names = column((*stage.lead, stage.n))
        room = {place: end + k * q * width for k, place in enumerate(p for step in one.steps for p in step.kept)}
        kept: set[Place] = set()  # by earlier steps
        gates = {part.product.value for part in stage.parts}
        self.inline = {v for v in one.tail if v not in gates}

        def vector(step: Step, at: Sequence[Poly], acc: Expr, number: Expr, j: Local) -> None:
            self.panels = {
                v: (self.bind("sums_of", acc + start) if start else acc, q, number) for v, start in starts.items()
            }
            self.panel_n = stage.n
            self.panel_at = (*at, ZERO if stage.n == 1 else Poly.of(j.name))

            def beside(start: int) -> Expr:
                out = acc + start
                if not isinstance(number, Const):
                    out = out + number * width
                return out

            def here(place: Place) -> Place:
                v, index = place
                for name, at in zip(names, self.panel_at, strict=True):
                    index = index.put(name, at)
                return v, index

            self.kept = {here(place): beside(room[place]) for place in kept}
            with self.lanes_of(j, lanes, stage.n):
                for place in step.kept:
                    self.prepare(*here(place))
                    self.f.store_lanes(beside(room[place]), self.value(*here(place)))
                self.finish_vector(stage, step)
            self.panels, self.kept = {}, {}

        for step in one.steps:
            with self.loop("r", a, a + m) as r:
                acc = self.bind("acc", sums + (r - a) * apart)
                at = self.enter_row(r, stage.lead)
                if j is not None:
                    vector(step, at, acc, single, j)
                else:
                    with self.loop("q", 0, q) as number:
                        at_column = self.column(panel, number, q, lanes, stage.n)
                        if ragged:
                            with self.when(at_column < stage.n):
                                vector(step, at, acc, number, at_column)
                        else:
                            vector(step, at, acc, number, at_column)
            self.home_depth = 0
            kept |= {*step.kept}
            self.inline -= set(step.done)
        self.inline = set()

    def enter_row(self, r: Local, lead: tuple[Size, ...]) -> list[Poly]:
        """Find the node that row `r` of the block belongs to; return the place of the row in the node."""
        at = [ZERO] * len(lead)
        node: Expr = r
        if count(lead) != ONE:
            many = self.number(count(lead))
            node = self.bind("node_of", r // many)
            rest = self.named("row_of", r - node * many)
            real = [k for k in range(len(lead)) if lead[k] != 1]
            for k in reversed(real[1:]):
                rest, at[k] = self.split(rest, size_poly(lead[k]))
            at[real[0]] = rest
        self.row = node
        self.home_depth = len(self.scopes) - 1
        self.node = self.bind("node", self.f["i0"] + node)
        return at

    def finish_vector(self, stage: ProductStage, step: Step) -> None:
        """Compute and store the values that a step of the tail finishes, at one vector of columns."""
        here = Index((*stage.lead, stage.n), self.panel_at)
        gates = {part.product.value: part.gates for part in stage.parts}
        for v in step.done:
            if v not in gates:
                self.prepare(v, here)
                self.put(v, here, self.value(v, here))
                continue
            for g in range(gates[v]):
                place = Index(self.graph.shape(v), (*self.panel_at[:-1], self.panel_at[-1] + g * stage.n))
                self.put(v, place, self.from_panel(v, place, DTYPES[self.graph.dtype(v)]))

    def column(self, panel: Local, number: Expr, q: int, lanes: int, n: int) -> Local:
        """Return the first column of a vector of the panel."""
        vector = panel * q + number if q > 1 else panel
        j = self.local("j", vector * lanes)
        self.symbols[j.name] = j
        self.extents[j.name] = n
        return j

    # ---- products of one node's own operands

    def one_product(self, product: Product) -> None:
        self.note_names([product.value])
        if product.how == "panel":
            self.panel_product(product)
        elif product.how == "lanes":
            self.lanes_product(product)
        elif product.how == "turned":
            self.turned_product(product)
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

    def turned_product(self, product: Product) -> None:
        """A large matrix that is read in rows, along which is summed: squares of it are turned in registers, so that
        sums are those of the tiles, k ascending, and a matrix that several nodes have can be multiplied by tiles.
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
                    terms(self.turned([Load(row + k * t.size, ty) for row in rows]), k, total)

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
                    terms(self.turned(last)[: size - whole], const(whole, I64), rest)
                if chunks:
                    f.set(total, total + rest)
            self.put_lanes(v, Index((n,), (ZERO if n == 1 else Poly.of(j.name),)), total, j, lanes)

    def turned(self, rows: Sequence[Expr]) -> list[Local]:
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
        op = self.graph.op(product.value)
        assert op is not None
        v, y = product.value, product.right
        slots = self.slots["value", v]
        t = DTYPES[op.dtype]
        lanes = self.target.lanes(t.ty)
        q, height = tile_shape([1], product.columns, self.target, t.name)
        width = q * lanes * t.size
        sx, sy = self.graph.shape(op.args[0]), self.graph.shape(op.args[1])
        many, columns, inner_size = sx[-2], op.shape[-1], sy[-2]
        batch = len(op.shape) - 2
        at = [ZERO] * len(op.shape)
        f = self.f
        table, lengths = self.scratch(slots.rows), self.scratch(slots.lengths)
        sums, panel = self.scratch(slots.sums), self.scratch(slots.panel)
        for s, piece in enumerate(product.pieces):
            f.store(lengths, s, self.number(size_poly(self.graph.shape(piece)[-1])))
        total = self.number(size_poly(many))
        tiles = self.bind("tiles", (total + (height - 1)) // height)

        def one() -> None:
            outer = Index(op.shape[:batch], tuple(at[:batch]))
            with self.loop("i", 0, total, extent=many) as i:
                for s, piece in enumerate(product.pieces):
                    shape = self.graph.shape(piece)
                    place = stretch(self, outer, shape[:-2])
                    here = Index(shape, (*place.at, ZERO if many == 1 else Poly.of(i.name), ZERO))
                    f.store(self.plus(table, size_poly(many) * (8 * s)), i, self.address(piece, here))
            with self.loop("first", 0, self.number(size_poly(columns)), q * lanes) as first:
                pack(outer, first)
                with self.loop("t", 0, tiles) as tile:
                    a = self.bind("a", total * tile // tiles)
                    m = self.bind("m", total * (tile + 1) // tiles - a)
                    entry = self.kernel.tile(q, height, t.name) - 1
                    f.do(call_address(
                        tree.load(f["P"] + 8 * entry, m), table + a * 8, total,
                        const(len(product.pieces), I64), lengths,
                        panel, const(width, I64), sums, const(width, I64),
                    ))  # fmt: skip
                    with self.loop("r", a, a + m, extent=many) as r:
                        at[batch] = ZERO if many == 1 else Poly.of(r.name)
                        each_vector(first, lambda number, j: unload(r, a, number, j))

        def each_vector(first: Local, inner: Callable[[Expr, Local], None]) -> None:
            with self.loop("q", 0, q) as number:
                j = self.local("j", first + number * lanes if q > 1 else first)
                self.symbols[j.name] = j
                self.extents[j.name] = columns
                with self.when(j < self.number(size_poly(columns))), self.lanes_of(j, lanes, columns):
                    inner(number, j)

        def pack_columns(outer: Index, first: Local) -> None:
            """The right operand lies column by column: read along k, store apart."""
            place = stretch(self, outer, sy[:-2])
            end = self.bind("end", first + q * lanes)
            last = self.number(size_poly(columns))
            end = self.bind("end", select(end < last, end, last))
            with self.loop("j", first, end, extent=columns) as j:
                to = self.bind("column", panel + (j - first) * t.size)
                with self.loop("k", 0, self.number(size_poly(inner_size)), extent=inner_size) as k:
                    ends = (ZERO if inner_size == 1 else Poly.of(k.name), ZERO if columns == 1 else Poly.of(j.name))
                    f.store_lanes(to + k * width, self.value(y, Index(sy, (*place.at, *ends))))

        def pack(outer: Index, first: Local) -> None:
            if product.flip:
                pack_columns(outer, first)
                return
            with self.loop("k", 0, self.number(size_poly(inner_size)), extent=inner_size) as k:

                def inner(number: Expr, j: Local) -> None:
                    place = stretch(self, outer, sy[:-2])
                    ends = (ZERO if inner_size == 1 else Poly.of(k.name), ZERO if columns == 1 else Poly.of(j.name))
                    x = self.value(y, Index(sy, (*place.at, *ends)))
                    x = const(x, t.ty.vector(lanes)) if x.type.lanes == 1 else x
                    f.store_lanes(panel + k * width + number * (lanes * t.size), x)

                each_vector(first, inner)

        def unload(r: Expr, a: Expr, number: Expr, j: Local) -> None:
            place = sums + (r - a) * width + number * (lanes * t.size)
            at[-1] = ZERO if columns == 1 else Poly.of(j.name)
            ty = t.ty if columns == 1 else t.ty.vector(lanes)
            self.put(v, Index(op.shape, tuple(at)), self.local(self.kernel.names[v], Load(place, ty)))

        self.space(range(batch), op.shape, at, one)
