"""Values of a kernel, which are lazy: they become expressions where they are needed.

In: `Stages` and the homes of stored values. Out: statements of the small language, collected in a `Builder`.
`Writer.value` returns the expression of any value at any index: operands and stored values are loaded, views are index
arithmetic, element-wise operations are computed from their arguments.

The innermost axis is computed in vectors: a value that depends on the lane variable is a vector of its `lanes`
neighbours, others are scalars, spread where an operation has both. An access without a vector form (a gather, a strided
access) is computed lane by lane through a small buffer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from acronumba.emit import tree
from acronumba.emit.target import Target
from acronumba.emit.tree import I1, I8, I64, Const, Expr, Load, Local, const, convert, intrinsic, select
from acronumba.errors import Loc
from acronumba.ir.ops import TENSORS
from acronumba.ir.spec import BLOCK, FIXED, PARAMETERS, Dim, Size
from acronumba.kernels.stages.graph import axis_of, onward, stretch, through
from acronumba.kernels.stages.index import ONE, ZERO, Index, Poly, count, divide, reindex, rounded, size_poly
from acronumba.kernels.stages.tasks import Band
from acronumba.kernels.write.element import DTYPES, ELEMENT, Dtype, NeedScalar, cast
from acronumba.kernels.write.kernel import Gathered, Home, Kernel
from acronumba.kernels.write.scopes import Scopes
from acronumba.records import record

OUTSIDE = "outside"  # stands for a column outside of a band


@record()
class BandRows:
    """The band of a tile of rows."""

    band: Band
    size: Size  # columns of a row
    low: Expr  # columns that are computed, whole vectors
    high: Expr
    partial: Expr  # whether there are others
    bad: Local  # set where a value that is summed is not 0 outside


class Writer(Scopes):
    """Writes one function of a kernel."""

    padded = True  # lanes beyond the end of values in scratch may be read

    def __init__(self, kernel: Kernel, name: str, params: Sequence[str], doc: str = "") -> None:
        super().__init__(kernel, name, params, doc)
        self.graph = kernel.stages.graph
        self.lane: str | None = None
        self.lanes = 1
        self.left: Expr | None = None  # lanes that exist, if not all do
        self.lane_size: Poly = ONE
        self.guard: Local | None = None
        self.inline: set[int] = set()  # stored values that are being computed here
        self.panels: dict[
            int, tuple[Expr, int, Expr]
        ] = {}  # products of the current panel: (row of C, vectors per gate, q)
        self.kept: dict[tuple[int, Index], Expr] = {}  # addresses of values that earlier steps of a tail have computed
        self.panel_at: tuple[Poly, ...] = ()
        self.panel_n = 0
        self.home_depth = 0  # scope of the node
        self.lead: tuple[Poly, ...] = ()  # in a stage in tiles: the place of the tile's first row
        self.stop: Expr | None = None  # there: where the tile's rows end
        self.band: BandRows | None = None  # there
        self.views: dict[int, tuple[int, ...]] = {}  # there: the view that is stored in place of a value
        self.node: Local | None = None  # number in the batch
        self.row: Expr | None = None  # number in the block
        self.words: Expr | None = None  # address of the node's argument words
        self.line = 0

    # ---- Places

    @property
    def target(self) -> Target:
        return self.kernel.target

    def start(self, value: object) -> Poly:
        if isinstance(value, int | Dim):
            return size_poly(value)
        assert isinstance(value, tuple) and value[0] == "value"
        x = self.value(value[1], Index(self.graph.shape(value[1]), ()))
        return self.named("start", convert(x, I64))

    def wide(self, size: Size) -> Poly:
        assert isinstance(size, Dim)
        return Poly.of(f"wided{size.index}")

    def split(self, flat: Poly, by: Poly) -> tuple[Poly, Poly]:
        done = divide(flat, by, self.extents)
        if done is not None:
            return done
        if self.lane is not None and self.lane in flat.symbols:
            raise NeedScalar
        key = ("split", flat, by)
        quotient = self.cached((key, 0))
        rest = self.cached((key, 1))
        if quotient is None or rest is None:
            whole, part = self.number(flat), self.number(by)
            quotient = self.bind("quotient", whole // part)
            rest = self.bind("rest", whole - quotient * part)
            self.keep((key, 0), quotient)
            self.keep((key, 1), rest)
        return self.named("quotient", quotient), self.named("rest", rest)

    def taken(self, v: int, at: Index) -> Poly:
        op = self.graph.op(v)
        assert op is not None
        index, extent = self.graph.op(op.args[1]), self.graph.shape(op.args[0])[axis_of(op)]
        if index is not None and index.op == "const" and isinstance(extent, int):
            k = int(index.attrs[0])  # type: ignore[call-overload]
            return Poly.of(max(0, min(k, extent - 1)))
        if at.depends(self.lane):
            raise NeedScalar
        key = ("taken", v, at)
        local = self.cached(key)
        if local is None:
            source = self.graph.shape(op.args[0])
            n = self.number(size_poly(source[axis_of(op)]))
            x = self.position(op.args[1], at)
            x = self.bind("at", select(x < n, x, n - 1))
            local = self.bind("at", select(x < 0, 0, x))
            self.keep(key, local)
        return self.named("at", local)

    def position(self, v: int, at: Index) -> Expr:
        """Return an index (an integer tensor's element or a host int) as int64."""
        x = self.value(v, at)
        return self.bind("index", cast(x, DTYPES[self.graph.dtype(v)], DTYPES["int64"]))

    # ---- Functions

    def math(self, name: str, *args: Expr) -> Expr:
        ty = args[0].type
        if (name, ty) not in self.kernel.wanted:
            self.kernel.wanted.append((name, ty))
        return tree.Call(f"{name}_{ty}", args, ty)

    def helper(self, name: str, *args: Expr) -> Expr:
        if name not in self.kernel.helpers:
            self.kernel.helpers.append(name)
        return tree.Call(name, args, args[0].type)

    # ---- addresses

    def extent(self, k: int) -> Expr:
        if "D" in self.f.locals:
            return tree.load(self.f["D"], k)
        known = self.cached("extents")
        if known is None:
            assert self.words is not None
            before = self.loaded("before_extents", self.f["P"], PARAMETERS.at["extents"])
            known = self.keep("extents", self.bind("extents", self.words + before))
        return tree.load(known, k)

    def loaded(self, name: str, table: Expr, word: int) -> Expr:
        """Return a word of a table, loaded once."""
        key = ("loaded", name)
        known = self.cached(key)
        return known if known is not None else self.keep(key, self.bind(name, tree.load(table, word)))

    def scratch(self, slot: int) -> Expr:
        key = ("scratch", slot)
        known = self.cached(key)
        if known is None:
            scratch = self.kernel.scratch
            stage = scratch.own.get(slot)
            base: Expr = self.f["T" if stage is not None and "T" in self.f.locals else "S"]
            if scratch.slots[slot][1].constant is None:
                base = self.block_place() if stage is None else self.own_place(base)
            known = self.bind(scratch.slots[slot][0], after(base, self.offset(slot)))
            self.keep(key, known)
        return known

    def block_place(self) -> Expr:
        """Return the address of the block's slots whose size depends on the current node."""
        assert self.kernel.ragged is not None and self.row is not None
        return tree.load(self.scratch(self.kernel.ragged.places), self.row)

    def own_place(self, base: Expr) -> Expr:
        """Return the address of a thread's local slots whose size depends on extents; `base`: its scratch."""
        if "T" not in self.f.locals:
            return base + self.kernel.scratch.fixed()[1]
        return base + self.loaded("own", self.f["S"], BLOCK.at["own"])

    def offset(self, slot: int) -> Expr:
        """Return the offset of a slot in scratch; if its size depends on extents, among the slots of its kind."""
        scratch = self.kernel.scratch
        fixed, _ = scratch.fixed()
        if slot in fixed:
            return const(fixed[slot], I64)
        before = [k for k in scratch.dynamic(scratch.own.get(slot)) if k < slot]
        return self.end(before[-1]) if before else const(0, I64)

    def end(self, slot: int) -> Expr:
        """Return the end of a slot whose size depends on extents, as an offset among the slots of its kind."""
        key = ("end", slot)
        known = self.cached(key)
        if known is None:
            size = self.number(self.kernel.scratch.slots[slot][1])
            known = self.keep(key, self.bind("end", (after(size, self.offset(slot)) + 127) & -64))
        return known

    def ends(self, own: int | None = None) -> Expr:
        """Return the bytes of the slots whose size depends on extents, see `Scratch.dynamic`."""
        slots = self.kernel.scratch.dynamic(own)
        return self.end(slots[-1]) if slots else const(0, I64)

    def operand_word(self, v: int) -> Expr:
        """Return the word of an operand of the current node: a tensor's address, a number's bits."""
        operand = self.graph.spec.operands[v]
        if self.kernel.table and v in self.kernel.table:
            assert self.row is not None
            base = self.scratch(self.kernel.table_slot)
            column = Poly.of(self.kernel.table[v]) * self.kernel.block * 8
            return Load(self.plus(base, column) + self.row * 8, I64)
        assert self.words is not None
        word = tree.load(self.words, operand.index)
        return tree.load(self.bind("record", word)) if operand.kind == "tensor" else word

    def base(self, v: int) -> Expr:
        """Return the address of an operand's or stored value's data (of the current node)."""
        key = ("base", v)
        known = self.cached(key)
        if known is not None:
            return known
        name = self.kernel.names[v]
        if v < self.graph.first:
            if v in self.kernel.gathered:
                known = self.block_row(f"{name}_row", self.kernel.gathered[v])
            elif self.graph.spec.operands[v].kind == "shared":
                known = self.bind(
                    name, tree.load(self.f["P"], FIXED + self.kernel.results + self.kernel.share((v,), None))
                )
            else:
                known = self.bind(name, self.operand_word(v))
            return self.keep(key, known)
        home = self.kernel.homes[v]
        if home.kind == "result":
            known = self.result(home.slot, home)
        elif home.kind == "block":
            known = self.block_row(f"{name}_row", home)
        else:
            return self.scratch(home.slot)
        return self.keep(key, known)

    def block_row(self, name: str, home: Home | Gathered) -> Local:
        """Return the address of the current node's row in scratch."""
        assert self.row is not None
        place = self.scratch(home.slot)
        return self.bind(name, place if self.of_node(home.slot) else place + self.row * self.number(home.row_bytes))

    def of_node(self, slot: int) -> bool:
        """Whether a slot of scratch is that of one node, not of all."""
        return self.kernel.ragged is not None and self.kernel.scratch.slots[slot][1].constant is None

    def result(self, k: int, home: Home) -> Local:
        assert self.node is not None
        start = self.bind(f"out_{k}", tree.load(self.f["P"], FIXED + k))
        if self.kernel.ragged is not None:
            assert self.words is not None
            return self.bind(f"result_{k}", tree.load(self.words + start))
        return self.bind(f"result_{k}", start + self.node * self.number(home.row_bytes))

    def element_at(self, v: int, index: Index) -> Poly:
        """Return the number of the element, in the memory of an operand or a stored value, at an index."""
        home = self.kernel.homes.get(v)
        if home is None or home.kind != "tile":
            return index.flat
        own, rank = self.own(v, index), len(self.lead)
        step = row_step(self.graph.shape(v)[rank:], self.target.lanes(DTYPES[self.graph.dtype(v)].ty))
        inner = Index(own.shape[rank:], own.at[rank:])
        return (own.at[rank - 1] - self.lead[-1]) * step + inner.flat

    def in_vectors(self, v: int) -> bool:
        """Whether the rows of a value in tiles are whole vectors."""
        return len([n for n in self.graph.shape(v)[len(self.lead) :] if n != 1]) == 1

    def stored_at(self, v: int, index: Index) -> tuple[int, Poly]:
        """Return the value that is stored for `v`, itself or a view of it, and the number of its element at `index`."""
        if (views := self.views.get(v)) is None:
            return v, self.element_at(v, index)
        return views[-1], self.element_at(views[-1], onward(self, self.graph, views, index))

    # ---- values

    def value(self, v: int, index: Index) -> Expr:
        """Return the element of `v` at an index: a vector if the index depends on the lane variable, else a scalar."""
        key = (v, index, None if self.guard is None else self.guard.name)
        known = self.cached(key)
        if known is not None:
            return known
        if self.band is not None and index.depends(OUTSIDE):
            beyond = self.outside(v, index, self.band)
            if beyond is not None:
                return beyond
        if (v, index) in self.kept:
            t = DTYPES[self.graph.dtype(v)]
            out: Expr = self.bind(self.kernel.names[v], Load(self.kept[v, index], t.ty.vector(self.lanes)))
        elif self.stages.leaf(v) and v not in self.inline:
            out = self.load(v, index)
        else:
            kind = self.graph.kind(v)
            try:
                if kind == "element":
                    out = self.element(v, index)
                elif kind == "view":
                    out = self.viewed(v, index)
                elif kind == "create":
                    out = self.create(v, index)
                else:
                    raise AssertionError(f"{kind} is stored")
            except NeedScalar:
                if self.lane is None:
                    raise
                out = self.by_lanes(v, index)
        floor = self.home_depth if self.stages.leaf(v) and v >= self.graph.first else 0
        if isinstance(out, Const):
            return self.keep(key, out)
        return self.keep(key, out, floor)

    def outside(self, v: int, index: Index, rows: BandRows) -> Expr | None:
        """Return the number that `v` is outside of the band of a row; None if it is computed as inside."""
        op = self.graph.op(v)
        t = DTYPES[self.graph.dtype(v)]
        if v in rows.band.outside and v not in self.inline:
            place = self.outside_at(v, self.own(v, index).at[len(self.lead) - 1])
            return self.bind(f"{self.kernel.names[v]}_outside", Load(place, t.memory), len(self.scopes) - 1)
        if op is None or op.op != "where" or op.args[0] != rows.band.mask:
            return None
        other = op.args[rows.band.beyond]
        x = self.value(other, stretch(self, self.own(v, index), self.graph.shape(other)))
        return cast(x, DTYPES[self.graph.dtype(other)], t)

    def outside_at(self, v: int, row: Poly) -> Expr:
        """Return the address of the number that `v` is outside of the band of a row."""
        size = DTYPES[self.graph.dtype(v)].size
        return self.plus(self.scratch(self.kernel.outside[v]), (row - self.lead[-1]) * size)

    def own(self, v: int, index: Index) -> Index:
        return reindex(index, self.graph.shape(v), self.split)

    def viewed(self, v: int, index: Index) -> Expr:
        op = self.graph.op(v)
        assert op is not None
        if op.op == "take":
            size = self.graph.shape(op.args[0])[axis_of(op)]
            if isinstance(size, Dim) or size == 0:
                return self.guarded(v, index, size)
        source, place = through(self, self.graph, v, index)
        return self.value(source, place)

    def guarded(self, v: int, index: Index, size: Size) -> Expr:
        """Take along an axis that may have no element: nothing is read then."""
        outer = self.guard
        key = ("guard", size, None if outer is None else outer.name)
        cond = self.cached(key)
        if cond is None:
            cond = self.number(size_poly(size)) > 0
            cond = self.keep(key, self.bind("any_row", cond if outer is None else outer & cond))
        assert isinstance(cond, Local)
        self.guard = cond
        try:
            source, place = through(self, self.graph, v, index)
            return self.value(source, place)
        finally:
            self.guard = outer

    def create(self, v: int, index: Index) -> Expr:
        op = self.graph.op(v)
        assert op is not None
        t = DTYPES[op.dtype]
        if op.op == "const":
            return constant(op.attrs[0], t)
        flat = self.own(v, index).at[0]
        if self.lane is not None and self.lane in flat.symbols:
            slope = flat.slope(self.lane)
            if slope is None:
                raise NeedScalar
            wide = I64.vector(self.lanes)
            steps = tree.Call("lanes", (const(0, wide),), wide)
            x = const(self.number(flat), wide) + steps * const(self.number(slope), wide)
        else:
            x = self.number(flat)
        return self.bind(self.kernel.names[v], cast(x, DTYPES["int64"], t))

    def element(self, v: int, index: Index) -> Expr:
        op = self.graph.op(v)
        assert op is not None
        t = DTYPES[op.dtype]
        args = []
        for a in op.args:
            if self.graph.shape(a) == op.shape:
                place = index
            elif count(self.graph.shape(a)) == ONE:
                place = Index(self.graph.shape(a), (ZERO,) * len(self.graph.shape(a)))
            else:
                place = stretch(self, self.own(v, index), self.graph.shape(a))
            args.append((self.value(a, place), DTYPES[self.graph.dtype(a)]))
        row = TENSORS[op.op]
        common = t
        if op.op == "where":
            common = args[-1][1]
            args = [args[0], *((cast(x, have, t), t) for x, have in args[1:])]
        else:
            if row.takes != "float" and row.gives != "any":
                common = max((have for _, have in args), key=lambda h: ("buif".index(h.kind), h.size))
            args = [(cast(x, have, common), common) for x, have in args]
        self.note(op.loc)
        exprs = alike([x for x, _ in args])
        out = ELEMENT[op.op](self, exprs, common)
        if row.gives == "same" and op.op != "where":
            out = cast(out, common, t)
        return self.bind(self.kernel.names[v], out)

    def note(self, loc: Loc) -> None:
        """Note the user's line of the statements that follow; a new line also becomes a comment."""
        if loc.line:
            self.scopes[-1].body.append(tree.Comment(f"line {loc.line}" if loc.line != self.line else "", loc))
            self.line = loc.line

    def load(self, v: int, index: Index) -> Expr:
        """Load from memory."""
        name = self.kernel.names[v]
        t = DTYPES[self.graph.dtype(v)]
        if v < self.graph.first and self.graph.spec.operands[v].kind not in ("tensor", "shared"):
            word = self.bind(f"{name}_word", self.operand_word(v))
            if t.kind == "f":
                return self.bind(name, convert(word, tree.F64, "bits"))
            return self.bind(name, word.ne(0) if t.kind == "b" else word)
        if v in self.panels:
            return self.from_panel(v, index, t)
        key = ("register", v)
        if (known := self.cached(key)) is not None:
            return known
        flat = self.element_at(v, index)
        floor = max(self.barrier, 0 if v < self.graph.first else self.home_depth)
        if self.lane is None or self.lane not in flat.symbols:
            address = self.plus(self.base(v), flat * t.size)
            return self.fetch(name, address, t, floor)
        if flat.slope(self.lane) != ONE:
            return self.strided(v, index)
        address = self.base(v) + self.number(flat * t.size)
        inside = not self.padded or v < self.graph.first or self.kernel.homes[v].kind == "result"
        left = self.left if inside else None
        if self.guard is not None:
            left = select(self.guard, left if left is not None else const(self.lanes, I64), 0)
        x: Expr = Load(address, t.memory.vector(self.lanes), left)
        if t.kind == "b":
            x = x.ne(const(0, x.type))
        return self.bind(name, x, floor)

    def strided(self, v: int, index: Index) -> Expr:
        """Load a vector whose lanes are apart. A run-time extent may be 1: then all lanes are one element."""
        flat = self.element_at(v, index)
        slope = flat.slope(self.lane or "")
        if slope is not None and len(slope.terms) == 1 and slope.terms[0][1] == 1:
            symbols = slope.terms[0][0]
            if len(symbols) == 1 and symbols[0].startswith("wided") and self.guard is None:
                t = DTYPES[self.graph.dtype(v)]
                every = self.symbol(symbols[0])
                left = select(every.ne(0), self.left if self.left is not None else const(self.lanes, I64), 1)
                address = self.base(v) + self.number(flat * t.size)
                x: Expr = Load(address, t.memory.vector(self.lanes), left)
                name = self.kernel.names[v]
                raw = self.bind(name, x, max(self.barrier, 0 if v < self.graph.first else self.home_depth))
                one = const(intrinsic("extract", raw, const(0, I64), type=t.memory), raw.type)
                x = select(every.ne(0), raw, one)
                if t.kind == "b":
                    x = x.ne(const(0, x.type))
                return self.bind(name, x)
        step = self.step_of(slope)
        return self.by_lanes(v, index) if step is None or self.guard is not None else self.apart(v, index, step)

    def step_of(self, slope: Poly | None) -> Expr | None:
        """Return the stride of the lanes if it is a run-time extent, which may be 1; else None."""
        if slope is None or len(slope.terms) != 1:
            return None
        symbols, factor = slope.terms[0]
        extents = all(re.fullmatch(r"d\d+", s) for s in symbols)
        return self.number(slope) if factor == 1 and extents else None

    def apart(self, v: int, index: Index, step: Expr) -> Expr:
        """Load a vector whose lanes are `step` elements apart; directly if `step` is 1 at run time (a column)."""
        t, name = DTYPES[self.graph.dtype(v)], self.kernel.names[v]
        far = self.bind("far", step.ne(1))
        buffer = self.scratch(self.kernel.lane_slot)
        address = self.base(v) + self.number(self.element_at(v, index) * t.size)
        with self.when(far), self.loop("lane", 0, self.lanes_left()) as k:
            self.f.store_lanes(buffer + k * t.size, Load(address + k * (step * t.size), t.memory))
        x: Expr = Load(select(far, buffer, address), t.memory.vector(self.lanes), self.left)
        x = self.bind(name, x, len(self.scopes) - 1)
        return self.bind(name, x.ne(const(0, x.type))) if t.kind == "b" else x

    def fetch(self, name: str, address: Expr, t: Dtype, floor: int) -> Expr:
        """Load one element."""
        if self.guard is None:
            x: Expr = self.bind(name, Load(address, t.memory), floor)
        else:
            level = max(floor, self.deep(address), self.depth[self.guard.name])
            x = self.bind(name, const(0, t.memory), level)
            self.scopes[level].body.append(tree.If(self.guard, [tree.Assign(x, Load(address, t.memory))], []))
        return self.bind(name, x.ne(const(0, t.memory))) if t.kind == "b" else x

    def from_panel(self, v: int, index: Index, t: Dtype) -> Expr:
        """Load a product from the panel just computed."""
        acc, vectors, q = self.panels[v]
        own = self.own(v, index)
        offset = (own.at[-1] - self.panel_at[-1]).constant
        assert offset is not None and own.at[:-1] == self.panel_at[:-1], "the plan has checked that"
        gate = offset // self.panel_n
        bytes_ = self.kernel.target.lanes(t.ty) * t.size
        place: Expr = acc + (gate * vectors) * bytes_ if gate else acc
        if not isinstance(q, Const):
            place = place + q * bytes_
        elif q.value:
            place = place + int(q.value) * bytes_
        if self.lane is None or self.lane not in own.at[-1].symbols:
            return self.bind(self.kernel.names[v], Load(place, t.memory))
        return self.bind(self.kernel.names[v], Load(place, t.ty.vector(self.lanes)))

    def by_lanes(self, v: int, index: Index) -> Expr:
        """Compute a vector element by element."""
        lanes = self.lanes
        t = DTYPES[self.graph.dtype(v)]
        buffer = self.scratch(self.kernel.lane_slot)
        with self.loop("lane", 0, lanes) as k:
            x = self.one_lane(v, index, k)
            self.f.store_lanes(buffer + k * t.size, to_memory(x, t))
        x = Load(buffer, t.memory.vector(lanes))
        out = self.bind(self.kernel.names[v], x, len(self.scopes) - 1)
        return self.bind(self.kernel.names[v], out.ne(const(0, out.type))) if t.kind == "b" else out

    def lanes_left(self) -> Expr:
        """Return the number of valid lanes of the current vector."""
        lanes = const(self.lanes, I64)
        return lanes if self.left is None else select(self.left < lanes, self.left, lanes)

    def one_lane(self, v: int, index: Index, k: Expr) -> Expr:
        """Compute lane `k` of a vector; beyond its end, the last one."""
        lane, lanes, left = self.lane, self.lanes, self.left
        assert lane is not None
        self.lane, self.left, self.lanes = None, None, 1
        try:
            at: Expr = self.symbols[lane] + k
            if left is not None:
                last = self.bind("last", self.number(self.lane_size) - 1)
                at = self.bind("at", at)
                at = select(at < last, at, last)
            name = self.named("at", at)
            (symbol,) = name.symbols
            if lane in self.extents:
                self.extents[symbol] = self.extents[lane]
            return self.value(v, index.put(lane, name))
        finally:
            self.lane, self.left, self.lanes = lane, left, lanes

    def prepare(self, v: int, index: Index) -> None:
        """Compute the values that `v` needs at the same index, in order: keeps the recursion of `value` shallow."""
        needed: set[int] = set()
        todo = [v]
        while todo:
            u = todo.pop()
            op = self.graph.op(u)
            if u in needed or op is None or (self.stages.leaf(u) and u not in self.inline):
                continue
            if self.graph.kind(u) != "element" or (u, index) in self.kept:
                continue
            needed.add(u)
            todo += [a for a in op.args if self.graph.shape(a) == op.shape]
        for u in sorted(needed):
            self.value(u, index)

    # ---- storing

    def put(self, v: int, index: Index, x: Expr) -> None:
        """Store an element (or a vector along the lane variable) of `v`."""
        t = DTYPES[self.graph.dtype(v)]
        v, flat = self.stored_at(v, index)
        home = self.kernel.homes[v]
        vector = self.lane is not None and self.lane in flat.symbols
        if vector and x.type.lanes == 1:
            x = const(x, x.type.vector(self.lanes))
        x = to_memory(x, t)
        bases = [self.base(v), *(self.result(k, home) for k in home.copies)]
        if vector and flat.slope(self.lane or "") != ONE:
            self.scatter(bases, flat, x, t)
            return
        left = self.left if vector and not (home.kind == "tile" and self.in_vectors(v)) else None
        for base in bases:
            address = self.plus(base, flat * t.size)
            self.f.store_lanes(address, x, left)

    def scatter(self, bases: Sequence[Expr], flat: Poly, x: Expr, t: Dtype) -> None:
        """Store the lanes of a vector with a stride; if the stride is 1 at run time, as a vector."""
        assert self.lane is not None
        slope = flat.slope(self.lane)
        assert slope is not None
        step = self.step_of(slope)
        if step is None:
            self.scatter_apart(bases, flat, x, t, slope)
            return
        far = self.bind("far", step.ne(1))
        with self.when(far):
            self.scatter_apart(bases, flat, x, t, slope)
        with self.when(far.eq(0)):
            for base in bases:
                self.f.store_lanes(self.plus(base, flat * t.size), x, self.left)

    def scatter_apart(self, bases: Sequence[Expr], flat: Poly, x: Expr, t: Dtype, step: Poly) -> None:
        """Store the lanes of a vector one by one: each is written out where all of them exist."""
        if self.left is None:
            places = [self.bind("apart", self.plus(base, flat * t.size)) for base in bases]
            far = self.bind("step", self.number(step * t.size))
            for lane in range(self.lanes):
                one = self.f.let("one", intrinsic("extract", x, const(lane, I64), type=t.memory))
                for place in places:
                    self.f.store_lanes(place + far * lane, one)
            return
        buffer = self.scratch(self.kernel.lane_slot)
        self.f.store_lanes(buffer, x)
        with self.loop("lane", 0, self.lanes_left()) as k:
            one = self.f.let("one", Load(buffer + k * t.size, t.memory))
            for base in bases:
                self.f.store_lanes(self.plus(base, flat * t.size) + k * self.number(step * t.size), one)


def row_step(shape: Sequence[Size], lanes: int) -> Poly:
    """Return the number of elements from one row of a tile to the next; rows have `shape` and begin with a vector."""
    real = [n for n in shape if n != 1]
    return rounded(real[0], lanes) if len(real) == 1 else count(shape)


def after(base: Expr, offset: Expr) -> Expr:
    """Return the address `base + offset`."""
    return base if isinstance(offset, Const) and offset.value == 0 else base + offset


def alike(args: list[Expr]) -> list[Expr]:
    """Spread scalars where other arguments are vectors."""
    lanes = max((a.type.lanes for a in args), default=1)
    return [const(a, a.type.vector(lanes)) if a.type.lanes < lanes else a for a in args]


def to_memory(x: Expr, t: Dtype) -> Expr:
    return convert(x, I8.vector(x.type.lanes), "unsigned") if t.kind == "b" else x


def constant(value: object, t: Dtype) -> Expr:
    assert isinstance(value, bool | int | float) or hasattr(value, "item")
    number = value if isinstance(value, bool | int | float) else value.item()
    if t.kind == "b":
        return Const(int(bool(number)), I1)
    if t.kind == "f":
        return const(float(number), t.ty)
    bits = t.ty.bits
    wrapped = int(number) & ((1 << bits) - 1)
    return Const(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped, t.ty)
