"""Writes stages: matrix products, concatenations, and checks that fail a node.

In: a stage of `kernels.stages`. Out: statements of one function. Products with shared weights call register tiles
(`kernels.tiles`) by address, panel by panel of the packed weight, and finish the panel while it is in the cache.
`kernels.write.matrices` writes products of a node's local operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from acronumba.emit import tree
from acronumba.emit.tree import I1, I64, Const, Expr, Local, call_address, const, convert, intrinsic, select
from acronumba.ir.spec import FIXED, Dim, Size
from acronumba.kernels.lookups import LookupPacking
from acronumba.kernels.own import table_places
from acronumba.kernels.stages.graph import Place, axes_of, axis_of, stretch
from acronumba.kernels.stages.index import ONE, ZERO, Index, Poly, count, size_poly
from acronumba.kernels.stages.passes import Pass, panels_of, passes_of, table_of, tiles_of
from acronumba.kernels.stages.steps import Step, column
from acronumba.kernels.stages.tasks import Nest, Product, ProductPart, ProductStage, RowStage, Single
from acronumba.kernels.stages.weights import SideBySide, ViewPacking
from acronumba.kernels.tiles import AnyPacking, bytes_of_panel, packing_of
from acronumba.kernels.write.element import DTYPES, cast, combine, identity
from acronumba.kernels.write.kernel import Kernel
from acronumba.kernels.write.matrices import LINE, Turn
from acronumba.kernels.write.orders import OrderWriter
from acronumba.kernels.write.writer import to_memory
from acronumba.operations import OwnCall

_FETCHED = 8  # vectors of a panel that are fetched ahead, for each value


class ProductWriter(OrderWriter):
    """Writes one stage of a kernel as a function."""

    # ---- stages of rows

    def rows(self, items: Sequence[Nest | Single], start: Expr, stop: Expr, first: Expr | None) -> None:
        """Write a loop over nodes; `first` is the block's first node, None if the loop counts in the batch."""
        with self.loop("row" if first is None else "r", start, stop) as r:
            self.at_node(r, first)
            self.turn = Turn(r, stop, first)
            for item in items:
                self.item(item)
            self.turn = None

    def item(self, item: Nest | Single) -> None:
        """Write a task of the current node."""
        if isinstance(item, Nest):
            self.nest(item)
        else:
            SINGLES[item.kind](self, item.value)

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
        self.note_names([v])
        items = self.bind("items", self.elements_of_list(op.args[0]))
        out = self.base(v)
        rows = self.number(size_poly(op.shape[0]))
        if operand.kind == "list":
            size = self.number(count(op.shape[1:]) * t.size)
            with self.loop("k", 0, rows) as k:
                self.copy(out + k * size, self.elements_of_array(items, k), size)
        elif t.size == 8:
            self.copy(out, items, rows * 8)
        else:
            with self.loop("k", 0, rows) as k:
                self.f.store(out, k, convert(tree.load(items, k), tree.I8))

    def elements_of_list(self, operand: int) -> Expr:
        """Return the address of the elements of a list."""
        return tree.load(self.operand_word(operand))

    def elements_of_array(self, items: Expr, k: Expr) -> Expr:
        """Return the address of the elements of the k-th array in a list."""
        return tree.load(tree.load(items, k))

    def copy(self, to: Expr, source: Expr, size: Expr) -> None:
        self.f.do(intrinsic("copy_bytes", to, source, size, type=tree.VOID))

    def scan(self, v: int) -> None:
        """Every sum, product, ... along an axis, one after the other; neighbours across the axis in vectors."""
        op = self.graph.op(v)
        assert op is not None
        (source,), shape, axis = op.args, op.shape, axis_of(op)
        t, step = DTYPES[op.dtype], op.op.removeprefix("cum")
        outer = [k for k in range(len(shape)) if k != axis and shape[k] != 1]
        vector = outer[-1] if outer and outer[-1] > axis else None
        lanes = self.lanes_for([v]) if vector is not None else 1
        at = [ZERO] * len(shape)
        self.note_names([v])

        def inner() -> None:
            first = -0.0 if (step, t.kind) == ("sum", "f") else identity(step, t)
            total = self.local(self.kernel.names[v], const(first, t.ty.vector(lanes)))
            with self.loop("k", 0, self.number(size_poly(shape[axis])), extent=shape[axis]) as k:
                at[axis] = Poly.of(k.name) if shape[axis] != 1 else ZERO
                here = Index(shape, tuple(at))
                self.prepare(source, here)
                x = self.value(source, here)
                x = const(x, total.type) if x.type.lanes < lanes else x
                self.f.set(total, combine(step, self.bind("x", x, len(self.scopes) - 1), total, t))
                self.put(v, here, total)

        self.space(outer, shape, at, inner, vector, lanes)

    def fold(self, v: int) -> None:
        """Sum over the axes that the result has not, or has with extent 1: some may turn out to be at run time."""
        op = self.graph.op(v)
        assert op is not None
        (source,), shape = op.args, op.shape
        wide, t = self.graph.shape(source), DTYPES[op.dtype]
        skip = len(wide) - len(shape)
        same = [k for k in range(len(shape)) if shape[k] == wide[skip + k] and shape[k] != 1]
        gone = [*range(skip), *(skip + k for k in range(len(shape)) if k not in same and isinstance(shape[k], Dim))]
        gone += [skip + k for k in range(len(shape)) if shape[k] == 1]
        gone = sorted(k for k in gone if wide[k] != 1)
        lanes = self.lanes_for([v]) if same else 1
        at, inside = [ZERO] * len(shape), [ZERO] * len(wide)
        self.note_names([v])

        def turns(axes: Sequence[int], inner: Callable[[], None]) -> None:
            if not axes:
                inner()
                return
            k = axes[0]
            many = self.number(size_poly(wide[k]))
            maybe = k >= skip and isinstance(shape[k - skip], Dim)
            if maybe:
                many = select(self.number(size_poly(shape[k - skip])).eq(1), many, 1)
            with self.loop("k", 0, many, extent=None if maybe else wide[k]) as turn:
                inside[k] = Poly.of(turn.name)
                turns(axes[1:], inner)

        def place() -> Index:
            return Index(wide, tuple(x + at[k - skip] if k >= skip else x for k, x in enumerate(inside)))

        def sums() -> None:
            total = self.local(self.kernel.names[v], const(-0.0, t.ty.vector(lanes)))

            def step() -> None:
                self.prepare(source, place())
                x = self.value(source, place())
                self.f.set(total, total + const(self.bind("x", x, len(self.scopes) - 1), total.type))

            turns(gone, step)
            self.put(v, Index(shape, tuple(at)), total)

        self.space(range(len(shape)), shape, at, sums, same[-1] if same else None, lanes)

    # ---- operations of the user's own

    def own_call(self, v: int) -> None:
        """Call the kernel of an operation by its address, with a table of its arguments and results."""
        op, own = self.graph.op(v), self.kernel.own.get(v)
        assert op is not None
        call, *shapes = op.attrs
        assert isinstance(call, OwnCall)
        self.note_names([v])
        if own is None:  # with another result
            return
        self.f.comment(f"{call.operation.__name__}, an operation of your own: where its arguments and results are")
        table = self.scratch(own.table)
        places, _ = table_places([g.rank for g in call.given] + list(call.ranks))
        for a, at in zip(op.args, places, strict=False):
            self.own_argument(a, table, at)
        made = [self.base(u) if u >= 0 else self.scratch(slot) for u, slot in zip(own.values, own.slots, strict=True)]
        for base, shape, at in zip(made, shapes, places[len(op.args) :], strict=True):
            self.f.store(table, at, base)
            assert isinstance(shape, tuple)
            for k, n in enumerate(shape):
                self.f.store(table, at + 2 + k, self.number(size_poly(n)))
        failed = self.bind("failed", self.called_own(call, table), len(self.scopes) - 1)
        if op.site >= 0:
            self.fail_if(failed.ne(0), v)
        for u, base in zip(own.values, made, strict=True):
            if u >= 0:
                self.own_result(u, base, failed, op.site < 0)

    def called_own(self, call: OwnCall, table: Expr) -> Expr:
        """Call the kernel of an operation; return whether it has failed."""
        return call_address(tree.load(self.f["P"], self.kernel.own_entry(call.text)), table, result=I64)

    def own_argument(self, a: int, table: Expr, at: int) -> None:
        """Note where an argument is, or store its only element, and its extents."""
        shape, t = self.graph.shape(a), DTYPES[self.graph.dtype(a)]
        if count(shape) == ONE:
            here = Index(shape, (ZERO,) * len(shape))
            self.prepare(a, here)
            self.f.store_lanes(table + 8 * (at + 1), to_memory(self.value(a, here), t))
            self.f.store(table, at, table + 8 * (at + 1))
        else:
            self.f.store(table, at, self.base(a))
        for k, n in enumerate(shape):
            self.f.store(table, at + 2 + k, self.number(size_poly(n)))

    def own_result(self, u: int, base: Expr, failed: Expr, unseen: bool) -> None:
        """Copy a result to the other places that have it; `unseen`: NaN where no instance fails, in a backward pass."""
        home, t = self.kernel.homes[u], DTYPES[self.graph.dtype(u)]
        many = self.number(count(self.graph.shape(u)))
        if unseen and t.kind == "f":
            with self.when(failed.ne(0)), self.loop("k", 0, many) as k:
                self.f.store_lanes(base + k * t.size, const(float("nan"), t.ty))
        for number in home.copies:
            self.copy(self.result(number, home), base, many * t.size)

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

    def units(self, stage: ProductStage, total: Expr) -> Expr:
        """Return the number of units that a stage can be cut into, for a block of so many rows."""
        lanes = self.target.lanes(DTYPES[self.graph.dtype(stage.parts[0].product.value)].ty)
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
        _Products(self, number, stage).write()

    def backwards(self, stage: ProductStage, total: Expr) -> Local | None:
        """Return whether to begin with the last panel, for a block of `total` rows; None if no block does."""
        strategy = self.stages.strategy
        if self.stages.weight_bytes(stage) <= strategy.turn_bytes:
            return None
        self.f.comment("few rows: every other time from the last panel to the first, the weights read last are near")
        return self.bind("backwards", select(total <= strategy.turn_rows, tree.load(self.f["P"], 3) & 1, 0))

    @staticmethod
    def inner(product: Product) -> int:
        """Return the extent that a product with a shared weight sums over."""
        assert product.weight is not None
        return product.weight.shape[1] if product.flip else product.weight.shape[0]

    def weights(self, parts: Sequence[ProductPart], n: int, q: int, lanes: int, dtype: str) -> Local:
        """Return the address of the packed weights of some products, side by side."""
        operands = tuple(part.product.right for part in parts)
        return self.packed(operands, self.packing(parts, n, q, lanes, dtype))

    def packed(self, operands: tuple[int, ...], packing: object) -> Local:
        """Return the address of packed weights."""
        entry = self.kernel.share(operands, packing)
        name = "_".join(self.kernel.names[v] for v in operands)
        return self.bind(f"{name}_packed", tree.load(self.f["P"], FIXED + self.kernel.results + entry))

    def packing(self, parts: Sequence[ProductPart], n: int, q: int, lanes: int, dtype: str) -> object:
        """Return the packing of the weights of some products."""
        if dtype == "lookups":  # never side by side
            return LookupPacking(gates=parts[0].gates, n=n, k=self.inner(parts[0].product), q=q)
        packings: list[AnyPacking | ViewPacking] = []
        for part in parts:
            weight, flip = part.product.weight, part.product.flip
            assert weight is not None
            k = self.inner(part.product)
            packing = packing_of(self.target, dtype, gates=part.gates, n=n, k=k, q=q, lanes=lanes, transposed=flip)
            packings.append(ViewPacking(weight.steps, packing) if weight.steps else packing)
        return packings[0] if len(parts) == 1 else SideBySide(tuple(packings))

    def row_addresses(
        self, v: int, lead: tuple[Size, ...], table: Expr, first: Expr, members: int, member: int
    ) -> None:
        """Store the addresses of the rows of `v` for the current node, from row `first` on, `members` side by side."""
        at = [ZERO] * len(lead)

        def inner() -> None:
            here = Index((*lead, self.graph.shape(v)[-1]), (*at, ZERO))
            sub = Index(lead, tuple(at)).flat * (8 * members) + 8 * member
            self.f.store(self.plus(table + first * (8 * members), sub), 0, self.address(v, here))

        self.space(range(len(lead)), lead, at, inner)

    def enter_row(self, r: Local, lead: tuple[Size, ...]) -> list[Poly]:
        """Make the node of row `r` of the block current; return the index of the row in the node."""
        many = self.number(count(lead))
        node = r if count(lead) == ONE else self.bind("node_of", r // many)
        self.home_depth = len(self.scopes) - 1
        self.enter_node(node)
        return self.place_of(r - node * many, lead)

    @contextmanager
    def rows_of_block(
        self, begin: Expr, end: Expr, lead: tuple[Size, ...], owners: int | None
    ) -> Iterator[tuple[Local, list[Poly]]]:
        """Write a loop over rows of the block; yield the row, and its index in the current node.

        `owners`: the scratch slot with the node of each row, if nodes differ in their number of rows.
        """
        if owners is None:
            with self.loop("r", begin, end) as r:
                yield r, self.enter_row(r, lead)
            return
        first, end = self.local("first", begin), self.local("end", end)
        with self.f.while_(first < end), self.scope():
            owner = self.local("owner", tree.load(self.scratch(owners), first))
            row = self.bind("row_of", owner & 0xFFFFFFFF)
            self.home_depth = len(self.scopes) - 1
            self.enter_node(self.bind("node_of", owner >> 32))
            until = self.local("until", first - row + self.number(count(lead)))
            self.f.set(until, select(until < end, until, end))
            with self.loop("r", first, until) as r:
                yield r, self.place_of(row + (r - first), lead)
            self.f.set(first, until)

    def place_of(self, row: Expr, lead: tuple[Size, ...]) -> list[Poly]:
        """Return the index, along the axes of the lead, of a row of the current node."""
        at = [ZERO] * len(lead)
        real = [k for k in range(len(lead)) if lead[k] != 1]
        if real:
            rest = self.named("row_of", row)
            for k in reversed(real[1:]):
                rest, at[k] = self.split(rest, size_poly(lead[k]))
            at[real[0]] = rest
        return at

    def tile_at(self, unit: Expr, rows: Expr, tiles: Expr, stage: RowStage) -> tuple[Local, Index, Local]:
        """Begin a tile of rows: return the number of its matrix in the node, the index of the matrix, the first row."""
        matrix = self.local("matrix", unit // tiles)
        tile = self.local("tile", unit - matrix * tiles)
        first, self.stop = self.local("first", rows * tile // tiles), self.local("stop", rows * (tile + 1) // tiles)
        batch = self.place_of(matrix, stage.lead[:-1])
        for at, size in zip(batch, stage.lead, strict=False):
            self.extents.update(dict.fromkeys(at.symbols, size))
        return matrix, Index(stage.lead[:-1], tuple(batch)), first

    def find(self, name: str, starts: Expr, unit: Expr, nodes: Expr) -> Local:
        """Return the node that a unit belongs to, by the first unit of each node."""
        f, node, end = self.f, self.local(name, const(0, I64)), self.local("above", nodes)
        with f.while_(end - node > 1), self.scope():
            middle = self.local("middle", (node + end) >> 1)
            before = self.local("before", tree.load(starts, middle) <= unit)
            f.set(node, select(before, middle, node))
            f.set(end, select(before, end, middle))
        return node

    def enter_node(self, row: Expr) -> None:
        """Make a node of the block current."""
        self.enter(row, self.bind("node", self.f["i0"] + row))

    def finish_vector(self, stage: ProductStage, step: Step) -> None:
        """Compute and store the values that a step of the tail finishes, at one vector of columns."""
        here = Index(stage.space, self.panel_at)
        gates = {part.product.value: part.gates for part in stage.parts}
        for v in step.done:
            if v not in gates:
                self.prepare(v, here)
                self.put(v, here, self.value(v, here))
                continue
            for g in range(gates[v]):
                at = [*self.panel_at]
                at[stage.axis] = at[stage.axis] + g * stage.n
                place = Index(self.graph.shape(v), tuple(at))
                self.put(v, place, self.from_panel(v, place, DTYPES[self.graph.dtype(v)]))

    def column(self, panel: Local, number: Expr, q: int, lanes: int, n: int) -> Local:
        """Return the first column of a vector of the panel."""
        vector = panel * q + number if q > 1 else panel
        j = self.local("j", vector * lanes)
        self.symbols[j.name] = j
        self.extents[j.name] = n
        return j


# Writers of tasks with separate loops, by kind.
SINGLES: Mapping[str, Callable[[ProductWriter, int], None]] = {
    "own": lambda w, v: w.own_call(v),
    "concat": lambda w, v: w.concat(v),
    "stack": lambda w, v: w.stack(v),
    "arg": lambda w, v: w.arg(v),
    "scan": lambda w, v: w.scan(v),
    "order": lambda w, v: w.order(v),
    "search": lambda w, v: w.search(v),
    "fold": lambda w, v: w.fold(v),
    "scatter": lambda w, v: w.scattered(v),
    "check": lambda w, v: w.check(v),
    "product": lambda w, v: w.one_product(w.stages.products[v]),
}


def most_rows(kernel: Kernel, number: int, stage: ProductStage) -> Poly:
    """Return the maximum number of rows of a stage in a block."""
    if kernel.ragged is None:
        return kernel.block * count(stage.lead)
    known = count(stage.lead).constant
    return Poly.of(f"rows{number}") if known is None else Poly.of(max(known, kernel.block.constant or 0))


def placed(place: Place, names: Sequence[str], at: Sequence[Poly]) -> Place:
    """Return a symbolic place of `column`, whose axes have these names, at a given row and column."""
    v, index = place
    for name, x in zip(names, at, strict=True):
        index = index.put(name, x)
    return v, index


class _Products:
    """Writes a stage of products with shared weights."""

    def __init__(self, w: ProductWriter, number: int, stage: ProductStage) -> None:
        self.w, self.number, self.stage = w, number, stage
        self.slots = w.slots["stage", number]
        self.dtype = DTYPES[w.graph.dtype(stage.parts[0].product.value)]
        self.form = stage.parts[0].product.form
        self.lanes = w.target.lanes(self.dtype.ty)
        self.width = self.lanes * self.dtype.size  # bytes of a vector
        self.owners = w.kernel.ragged.owners.get(number) if w.kernel.ragged is not None else None
        self.starts = w.kernel.ragged.starts.get(number) if w.kernel.ragged is not None else None
        self.rows = most_rows(w.kernel, number, stage)
        self.passes = passes_of(stage, w.stages, w.target)
        self.places, _, _ = table_of(self.passes, self.rows)

    def write(self) -> None:
        w, stage, f = self.w, self.stage, self.w.f
        nodes = w.bind("count", f["i1"] - f["i0"])
        if self.starts is None:
            self.total = w.rows_of(stage, nodes)
        else:
            self.total = w.bind("total", tree.load(w.scratch(self.starts), nodes))
            w.symbols[f"rows{self.number}"] = self.total
        self.table, self.lengths = w.scratch(self.slots.rows), w.scratch(self.slots.lengths)
        self.sums = w.scratch(self.slots.sums)
        names = ", ".join(w.kernel.names[p.product.value] for p in stage.parts)
        f.comment(f"{names}: the rows of the left operand")
        self.addresses(nodes)
        if stage.n == 0:
            return
        self.backwards = w.backwards(stage, self.total)
        before: Expr | None = None  # units of earlier passes
        for one in self.passes:
            tiles = w.bind("tiles", tiles_of(one, self.total))
            panels = panels_of(one, stage.n, self.lanes)
            low: Expr = f["u0"]
            high: Expr = f["u1"]
            if before is not None:
                low, high = w.bind("low", select(low > before, low - before, 0)), w.bind("high", high - before)
            if one is not self.passes[-1]:
                many = w.bind("units", tiles * panels if panels > 1 else tiles)
                high = w.bind("high", select(high < many, high, many))
                before = w.bind("before", many if before is None else before + many)
            self.units(one, low, high, tiles, panels)

    def addresses(self, nodes: Expr) -> None:
        """Write the addresses of the rows of the left operands, and the lengths of their pieces."""
        w, stage = self.w, self.stage
        many = count(stage.lead)
        with w.loop("r", 0, nodes) as r:
            w.at_node(r, w.f["i0"])
            if self.starts is None or self.owners is None:
                begin: Expr = r if many == ONE else w.bind("begin", r * w.number(many))
            else:
                begin = w.bind("begin", tree.load(w.scratch(self.starts), r))
                with w.loop("k", 0, w.number(many)) as k:
                    w.f.store(w.scratch(self.owners), begin + k, (r << 32) | k)
            for lefts, (start, _) in self.places.items():
                step = self.rows * (8 * len(lefts))  # from the rows of one piece to those of the next
                for j, left in enumerate(lefts):
                    for part, piece in enumerate(left):
                        at = w.plus(self.table, start + step * part)
                        w.row_addresses(piece, stage.lead, at, begin, len(lefts), j)
        lengths: dict[tuple[int, ...], list[Size]] = {}
        for product in (part.product for part in stage.parts):
            sizes = [w.graph.shape(piece)[-1] for piece in product.pieces]
            # the extent of a single one may be its own, and is checked to be that of the weight
            lengths[product.pieces] = sizes if len(sizes) > 1 else [w.inner(product)]
        known = all(isinstance(n, int) for sizes in lengths.values() for n in sizes)
        with nullcontext() if known else self.first_node():
            for lefts, (_, first) in self.places.items():
                for number, n in enumerate(lengths[lefts[0]], first):
                    w.f.store(self.lengths, number, w.number(size_poly(n)))
        w.home_depth = 0

    @contextmanager
    def first_node(self) -> Iterator[None]:
        """Context in which the first node is current: pieces have the same lengths in all nodes."""
        with self.w.loop("r", 0, 1) as r:
            self.w.at_node(r, self.w.f["i0"])
            yield

    def units(self, one: Pass, low: Expr, high: Expr, tiles: Local, panels: int) -> None:
        """Write units low..high of a pass: its sums, then its tail."""
        w, backwards = self.w, self.backwards
        weights = [w.weights(call.members[0], self.stage.n, one.q, self.lanes, self.form) for call in one.calls]
        with w.loop("u" if backwards is None else "k", low, high) as u:
            if backwards is not None:
                u = w.local("u", select(backwards.eq(0), u, low + high - 1 - u))
            panel = w.local("panel", u // tiles if panels > 1 else const(0, I64))
            t = w.local("t", u - panel * tiles if panels > 1 else u)
            a = w.bind("a", self.total * t // tiles)
            m = w.bind("m", self.total * (t + 1) // tiles - a)
            if one.touched and w.stages.strategy.prefetch:
                self.fetch(one, panel, a, m)
            starts = self.sum(one, weights, panel, a, m)
            if one.tail:
                _Tail(self, one, panel, starts).write(a, m)

    def fetch(self, one: Pass, panel: Local, a: Expr, m: Expr) -> None:
        """Prefetch the operands and results of the tail of rows a..a+m while the tiles compute."""
        w, n = self.w, self.stage.n
        _, names = column((*self.stage.lead, n))
        w.f.comment("fetched while the tile computes: what is read, and where results go")
        with w.rows_of_block(a, a + m, self.stage.lead, self.owners) as (_, at):
            for number in range(min(one.q, _FETCHED)):
                if number * self.width % LINE and number < one.q - 1:
                    continue
                j = w.column(panel, const(number, I64), one.q, self.lanes, n)
                for place in one.touched:
                    v, index = placed(place, names, (*at, ZERO if n == 1 else Poly.of(j.name)))
                    w.f.do(intrinsic("prefetch", w.address(v, index), type=tree.VOID))
        w.home_depth = 0

    def sum(self, one: Pass, weights: Sequence[Local], panel: Local, a: Expr, m: Expr) -> dict[int, int]:
        """Call the tiles of a unit; return where each product is in a row of the sums."""
        w, f, width, members = self.w, self.w.f, self.width, one.members
        step = self.rows * members
        apart = one.vectors * width  # bytes of sums from one row of a tile to the next
        begin = 0
        starts = {}
        for call, weight in zip(one.calls, weights, strict=True):
            tile = w.kernel.tile_of(one.q, call.gates, self.stage.n, self.lanes, one.rows * members, self.form, panel)
            start, first = self.places[call.lefts]
            wide = call.gates * one.q * width
            panel_bytes = bytes_of_panel(w.target, self.form, w.inner(call.members[0][0].product), wide)
            f.do(call_address(
                tree.load(f["P"] + tile, m * members if members > 1 else m),
                w.plus(self.table, start) + a * (8 * members), w.number(step),
                const(len(call.lefts[0]), I64), self.lengths + 8 * first if first else self.lengths,
                weight + panel * panel_bytes, const(wide, I64), self.sums + begin if begin else self.sums,
                const(apart, I64), w.scratch(self.slots.tables) if self.form == "lookups" else const(0, I64),
            ))  # fmt: skip
            for j, parts in enumerate(call.members):
                at = begin + j * apart
                for part in parts:
                    starts[part.product.value] = at
                    at += part.gates * one.q * width
            begin += wide
        return starts


class _Tail:
    """Writes the tail of a panel's products.

    Parameters
    ----------
    starts
        Map from products to their offsets in a row of the sums, in bytes.
    """

    def __init__(self, of: _Products, one: Pass, panel: Local, starts: Mapping[int, int]) -> None:
        self.w, self.stage, self.lanes, self.sums, self.owners = of.w, of.stage, of.lanes, of.sums, of.owners
        self.one, self.panel, self.starts, self.q = one, panel, starts, one.q
        self.width = of.width
        self.apart = one.vectors * of.width * one.members  # bytes from one row of sums to the next
        end = sum(call.gates for call in one.calls) * one.q * self.width  # of the sums; kept values follow
        _, self.names = column((*self.stage.lead, self.stage.n))
        places = (p for step in one.steps for p in step.kept)
        self.room = {place: end + k * one.q * self.width for k, place in enumerate(places)}
        self.kept: set[Place] = set()  # by earlier steps

    def write(self, a: Expr, m: Expr) -> None:
        """Finish rows a..a+m of the panel just computed."""
        w, one = self.w, self.one
        w.note_names(one.tail)
        single = Const(0, I64)
        j = w.column(self.panel, single, self.q, self.lanes, self.stage.n) if self.q == 1 else None
        gates = {part.product.value for part in self.stage.parts}
        w.inline = {v for v in one.tail if v not in gates}
        for step in one.steps:
            with w.rows_of_block(a, a + m, self.stage.lead, self.owners) as (r, at):
                acc = w.bind("acc", self.sums + (r - a) * self.apart)
                if j is not None:
                    self.vector(step, at, acc, single, j)
                else:
                    self.vectors(step, at, acc)
            w.home_depth = 0
            self.kept |= {*step.kept}
            w.inline -= set(step.done)
        w.inline = set()

    def vectors(self, step: Step, at: Sequence[Poly], acc: Expr) -> None:
        """Write a step for each vector of a row."""
        w, n = self.w, self.stage.n
        # panels are whole: of the last one's vectors some may have no columns left
        ragged = -(-n // self.lanes) % self.q != 0
        with w.loop("q", 0, self.q) as number:
            j = w.column(self.panel, number, self.q, self.lanes, n)
            if ragged:
                with w.when(j < n):
                    self.vector(step, at, acc, number, j)
            else:
                self.vector(step, at, acc, number, j)

    def vector(self, step: Step, at: Sequence[Poly], acc: Expr, number: Expr, j: Local) -> None:
        """Write a step for the columns from `j` on; `acc`: the row of sums, `number`: of the vector in the panel."""
        w, stage, q = self.w, self.stage, self.q
        w.panels = {
            v: (w.bind("sums_of", acc + start) if start else acc, q, number) for v, start in self.starts.items()
        }
        w.panel_n = stage.n
        w.panel_at = (*at, ZERO if stage.n == 1 else Poly.of(j.name))

        def beside(start: int) -> Expr:
            out = acc + start
            return out if isinstance(number, Const) else out + number * self.width

        w.kept = {placed(place, self.names, w.panel_at): beside(self.room[place]) for place in self.kept}
        with w.lanes_of(j, self.lanes, stage.n):
            for place in step.kept:
                here = placed(place, self.names, w.panel_at)
                w.prepare(*here)
                w.f.store_lanes(beside(self.room[place]), w.value(*here))
            w.finish_vector(stage, step)
        w.panels, w.kept = {}, {}
