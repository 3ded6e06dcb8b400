"""Writes the stages of a kernel for a GPU: a warp works like a CPU whose vectors have 32 lanes.

In: `Stages` and the homes of stored values, as for CPUs. Out: statements of the small language, which `emit.simt`
prints for `numba.cuda`. Loops over nodes are shared out to warps: a warp does all that `kernels.write.nests` writes for
one node, element-wise operations and reductions with one lane per thread. Tiles of products are shared out to blocks:
the threads of a block find the rows of the left operand, compute the tile into shared memory, and finish it element by
element, the elements shared out to threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from acronumba.emit import tree
from acronumba.emit.simt import RESERVED, SHARED_MEMORY, WARP, device
from acronumba.emit.tree import I64, VOID, Const, Expr, Load, Local, const, select
from acronumba.ir.spec import PARAMETERS, Size
from acronumba.kernels.cuda.nodes import Counted, NodeTable
from acronumba.kernels.cuda.own import name_of
from acronumba.kernels.cuda.shares import elements_of, shares_of
from acronumba.kernels.cuda.tiles import MOST, MOST_STAGES, ROWS, THREADS, WIDEST, Tile, kind_of, shapes
from acronumba.kernels.stages.graph import axis_of
from acronumba.kernels.stages.index import ONE, ZERO, Index, Poly, count, size_poly
from acronumba.kernels.stages.passes import Pass
from acronumba.kernels.stages.steps import Step
from acronumba.kernels.stages.tasks import Nest, Product, ProductStage, Single
from acronumba.kernels.write.element import DTYPES, Dtype, combine
from acronumba.kernels.write.kernel import Home, Kernel
from acronumba.kernels.write.matrices import Along
from acronumba.kernels.write.orders import NOWHERE, Relation
from acronumba.kernels.write.products import ProductWriter
from acronumba.kernels.write.scopes import Scope
from acronumba.operations import OwnCall
from acronumba.records import record

WARPS = THREADS // WARP
TOGETHER = 8  # rows of a matrix that a warp multiplies with a vector at once, a power of two
OWN_BYTES = PARAMETERS.at["extents"]  # the word of P that says how many bytes of scratch a warp has


@record()
class Grid:
    """Number of useful blocks of a launch: `times` for every `nodes` nodes. Any number of blocks is correct.

    `cost` is the estimated time of a block, relative to other grids of the function: a launch chooses among the grids
    by its number of nodes, and the function infers the grid from its number of blocks.
    """

    nodes: int
    times: int
    cost: int = 1
    counted: int = 0  # if not 0, `nodes` are units of count number `counted - 1` of `NodeTable.counted`
    panels: int = 0  # if not 0, so many blocks for each useful one, and only as many as are at work at once
    kept: int = 0  # bytes of the weights of a panel, which may stay in shared memory
    pool: int = 0  # bytes that a block shares, if that is more than it may without asking: a launch by itself asks
    level: int = 0  # of the function among those of its kernel: it reads only what those of lower levels compute


def columns_of(n: int, gates: int) -> int:
    """Return the number of columns of each gate in a panel: as many as tiles can do, unless many would be empty."""
    whole = -(-n // 8) * 8
    return max(c for c in (8, 16, 32, 64) if c == 8 or (gates * c <= WIDEST and 4 * (-(-n // c) * c) <= 5 * whole))


def whose(kernel: Kernel, slot: int) -> str:
    """Return whose a slot of scratch is: of a "warp", of a "block" of threads, which works on a tile of rows, of a
    "node", whose extents it depends on, or of the "batch".
    """
    stage = kernel.scratch.own.get(slot)
    if slot in kernel.fronts:
        return "block"
    if stage is not None:
        return "block" if kernel.stages.stages[stage].lead else "warp"
    return "node" if kernel.scratch.slots[slot][1].symbols - {"block"} else "batch"


class SimtWriter(ProductWriter):
    """Writes one stage as a function of all threads: of the table P, the nodes of a batch, and scratch memory."""

    padded = False

    def start_function(self, table: NodeTable, precision: str = "float32") -> None:
        """Make the names that every kernel needs; `precision`: of products, see `kernels.cuda.tiles`."""
        self.table = table
        self.precision = precision
        self.called: set[Tile] = set()
        self.node_words: set[Load] = set()  # of words, which the host has written
        self.totals: dict[int, list[Local]] = {}  # sums of products of the current element, by gate
        self.panel_axis = -1  # the axis of the columns of a panel
        self.row_of_tile: Expr | None = None  # in a tile of products, the number of the current row
        self.share: tuple[Expr, int] | None = None  # of the next loop: its number, and how many there are
        self.f.reserved = RESERVED
        self.symbols["block"] = self.f["nodes"]

    # ---- numbers and addresses

    def math(self, name: str, *args: Expr) -> Expr:
        ty = args[0].type
        if (name, ty.scalar) not in self.kernel.wanted:
            self.kernel.wanted.append((name, ty.scalar))
        return tree.Call(f"{name}_{ty.scalar}", args, ty)

    def extent(self, k: int) -> Expr:
        return tree.load(self.f["D"], k) if "D" in self.f.locals else self.word(self.table.arguments + k)

    def operand_word(self, v: int) -> Expr:
        return self.word(self.graph.spec.operands[v].index)

    def result(self, k: int, home: Home) -> Local:
        if not self.table.dims:
            return super().result(k, home)
        return self.bind(f"result_{k}", self.word(self.table.result(k)))

    def base(self, v: int) -> Expr:
        home = self.kernel.homes.get(v)
        if home is None or home.kind != "front":
            return super().base(v)
        known = self.cached(("base", v))
        if known is None:
            assert self.row_of_tile is not None
            place = self.scratch(home.slot) + self.row_of_tile * self.number(home.row_bytes)
            known = self.keep(("base", v), self.bind(f"{self.kernel.names[v]}_row", place))
        return known

    def word(self, k: int) -> Expr:
        """Return a word of the current node, from the table at P[0], see `kernels.cuda.nodes`."""
        assert self.node is not None
        table = self.loaded("words", self.f["P"], PARAMETERS.at["nodes"])
        column = self.bind("column", table + self.f["nodes"] * (8 * k)) if k else table
        out = Load(column + self.node * 8, I64)
        self.node_words.add(out)
        return out

    def starts(self, counted: Counted) -> Local:
        """Return the address of a table of starts."""
        k = self.table.counted.index(counted)
        table = self.loaded("words", self.f["P"], PARAMETERS.at["nodes"])
        before = self.f["nodes"] * (8 * (self.table.words + k)) + 8 * k
        return self.bind("starts", table + before)

    def scratch(self, slot: int) -> Expr:
        key = ("scratch", slot)
        known = self.cached(key)
        if known is None:
            known = self.bind(
                self.kernel.scratch.slots[slot][0], self.memory_of(whose(self.kernel, slot)) + self.offset(slot)
            )
            self.keep(key, known)
        return known

    def of_node(self, slot: int) -> bool:
        return whose(self.kernel, slot) == "node"

    def memory_of(self, kind: str) -> Expr:
        """Return the address of the slots of an owner, see `whose`."""
        if kind == "batch":
            return self.f["S"]
        known = self.cached(("memory", kind))
        if known is None:
            if kind == "node":  # behind the scratch that all nodes share
                place = self.f["S"] + self.end_of("batch") + self.word(self.table.place)
            else:
                size = self.loaded("own", self.f["P"], OWN_BYTES) if self.table.dims else self.own_bytes()
                number = self.warp() if kind == "warp" else device("block", type=I64) * WARPS
                place = self.f["T"] + number * size
            known = self.keep(("memory", kind), self.bind(f"{kind}_memory", place))
        return known

    def own_bytes(self) -> Expr:
        """Return the bytes of scratch of a warp, or a warp's share of its block's scratch if that is more."""
        warp, block = self.end_of("warp"), self.end_of("block")
        if isinstance(block, Const) and block.value == 0:
            return warp
        part = (block + (64 * WARPS - 1)) // (64 * WARPS) * 64
        return self.bind("own", select(part > warp, part, warp))

    def offset(self, slot: int) -> Expr:
        """Return the offset of a slot of scratch, among the slots of its owner: batch, node, block or warp."""
        known = self.cached(("offset", slot))
        if known is None:
            before = [k for k in range(slot) if whose(self.kernel, k) == whose(self.kernel, slot)]
            known = self.end_after(before[-1]) if before else const(0, I64)
            self.keep(("offset", slot), known)
        return known

    def end_after(self, slot: int) -> Expr:
        size = self.kernel.scratch.slots[slot][1]
        start = self.offset(slot)
        if isinstance(start, Const) and size.constant is not None:
            return const((int(start.value) + size.constant + 63) & -64, I64)
        return self.bind("end", (start + self.number(size) + 63) & -64)

    def end_of(self, kind: str) -> Expr:
        """Return the bytes of all slots of a kind, see `whose`."""
        slots = [k for k in range(len(self.kernel.scratch.slots)) if whose(self.kernel, k) == kind]
        return self.end_after(slots[-1]) if slots else const(0, I64)

    def warp(self) -> Expr:
        """Return the number of this warp among all."""
        known = self.cached("warp")
        if known is None:
            known = self.bind("warp", device("block", type=I64) * WARPS + device("thread", type=I64) // WARP)
            self.keep("warp", known)
        return known

    # ---- lanes are threads

    def by_lanes(self, v: int, index: Index) -> Expr:
        """Compute a vector without a vector form: each thread computes its lane."""
        lanes = self.lanes
        x = self.one_lane(v, index, device("lane", type=I64))
        return self.bind(self.kernel.names[v], device("varying", x, type=x.type.vector(lanes)))

    def apart(self, v: int, index: Index, step: Expr) -> Expr:
        return self.by_lanes(v, index)

    def scatter(self, bases: Sequence[Expr], flat: Poly, x: Expr, t: Dtype) -> None:
        assert self.lane is not None
        step = flat.slope(self.lane)
        assert step is not None
        lane = self.bind("lane_at", device("lane", type=I64) * self.number(step * t.size))
        one = device("own", x, type=x.type.scalar)

        def write() -> None:
            for base in bases:
                self.f.store_lanes(self.plus(base, flat * t.size) + lane, one)

        if self.left is None:
            write()
            return
        with self.when(device("lane", type=I64) < self.left):
            write()

    def horizontal(self, op: str, x: Local, t: Dtype) -> Expr:
        """Combine the lanes of a vector, by halving."""
        out = self.local("total", x)
        d = x.type.lanes // 2
        while d:
            other = self.local("other", device("exchange", out, const(d, I64), type=x.type))
            self.f.set(out, combine(op, out, other, t))
            d //= 2
        # of equal numbers, such as +0 and -0, each lane has kept its own: let it be that of the first
        return self.local("total", tree.Call("extract", (out, const(0, I64)), x.type.scalar))

    def first_of_lanes(
        self, name: str, t: Dtype, best: Local, found: Local, better: Relation, equal: Relation
    ) -> Local:
        nowhere = const(NOWHERE, found.type)
        d = WARP // 2
        while d:
            x = self.local("x", device("exchange", best, const(d, I64), type=best.type))
            place = self.local("place", device("exchange", found, const(d, I64), type=found.type))
            take = found.eq(nowhere) | better(x, best) | (equal(x, best) & (place < found))
            take = place.ne(nowhere) & take
            take = self.local("better", take)
            self.f.set(best, select(take, x, best))
            self.f.set(found, select(take, place, found))
            d //= 2
        return self.local(name, device("own", found, type=I64))

    @contextmanager
    def workers(self, many: Expr) -> Iterator[Expr]:
        with self.loop("first", 0, many, WARP) as first:
            k = self.bind("k", first + device("lane", type=I64), len(self.scopes) - 1)
            with self.when(k < many):
                yield k

    def meet(self) -> None:
        self.f.do(device("meet_warp"))

    def scattered(self, v: int) -> None:
        """Write a scatter-add of rows, the columns shared out to threads; without columns, each result is one sum."""
        op = self.graph.op(v)
        assert op is not None
        (source, index), shape, axis = op.args, op.shape, axis_of(op)
        numbers, t = self.graph.shape(index), DTYPES[op.dtype]
        if any(n != 1 for n in shape[axis + 1 :]):
            super().scattered(v)
            return
        at, turn = [ZERO] * len(shape), [ZERO] * len(numbers)
        self.note_names([v])

        def sums() -> None:
            total = self.local(self.kernel.names[v], const(0, t.ty))
            last = self.number(size_poly(shape[axis]) - ONE)

            def step() -> None:
                here = Index(numbers, tuple(turn))
                self.prepare(index, here)
                k = self.position(index, here)
                k = self.bind("at", select(k < last, k, last), len(self.scopes) - 1)
                hit = select(k < 0, 0, k).eq(self.number(at[axis]))
                row = Index(self.graph.shape(source), (*at[:axis], *turn, *at[axis + 1 :]))
                self.prepare(source, row)
                x = self.bind("x", self.value(source, row), len(self.scopes) - 1)
                self.f.set(total, select(hit, total + x, total))

            self.space(range(len(numbers)), numbers, turn, step)
            self.put(v, Index(shape, tuple(at)), total)

        self.space(range(len(shape)), shape, at, sums)

    def called_own(self, call: OwnCall, table: Expr) -> Expr:
        """Call the device function of an operation, by the first thread of the warp; all know what it has stored."""
        if call.operation.cuda is None:  # of a kernel that runs on the CPU: `pipeline.link_device` rejects others
            return const(1, I64)
        failed = self.local("failed", tree.Call(name_of(call), (table,), I64))
        self.meet()
        return failed

    # ---- nodes

    @contextmanager
    def shared_out(
        self, name: str, many: Expr, first: Expr, step: Expr, base: Expr | None = None, extent: Size | None = None
    ) -> Iterator[Local]:
        """Loop over first, first + step, ... below `many`, and add `base` to each."""
        turns = self.bind("turns", (many - first + step - 1) // step)
        with self.loop("turn", 0, turns) as turn:
            var = self.local(name, first + turn * step if base is None else base + first + turn * step)
            self.symbols[var.name] = var
            if extent is not None:
                self.extents[var.name] = extent
            yield var

    def rows_of_tile(self, size: Size) -> AbstractContextManager[Local]:
        """Write a loop over the rows of a tile, shared out to the warps of the block."""
        assert self.stop is not None
        first = self.number(self.lead[-1])
        return self.shared_out("i", self.stop - first, self.thread() // WARP, const(WARPS, I64), first, size)

    def nodes(self, items: Sequence[Nest | Single]) -> Grid:
        """Write a loop over the nodes of a batch: each warp does one after the other, or one share of it."""
        warps = self.bind("warps", device("blocks", type=I64) * WARPS)
        many = shares_of(self.stages, items)
        with self.shared_out("r", self.f["nodes"] * many if many > 1 else self.f["nodes"], self.warp(), warps) as r:
            node = self.local("node", r // many) if many > 1 else r
            self.at_node(node, None)
            for item in items:
                self.share_of_item(item, r - node * many, many)
                self.f.do(device("meet_warp"))
        return Grid(max(WARPS // many, 1), -(-many // WARPS))

    def share_of_item(self, item: Nest | Single, number: Expr, many: int) -> None:
        """Write a share of a task: its outermost loop is shared out; without one, the first share does it."""
        if many == 1:
            self.item(item)
        elif elements_of(self.stages, item) is not None:
            self.share = number, many
            self.item(item)
            self.share = None
        else:
            with self.when(number.eq(0)):
                self.item(item)

    @contextmanager
    def loop(
        self, name: str, start: Expr | int, stop: Expr | int, step: int = 1, extent: Size | None = None
    ) -> Iterator[Local]:
        if self.share is None:
            with super().loop(name, start, stop, step, extent) as var:
                yield var
            return
        (number, many), self.share = self.share, None
        known = int(stop.value) if isinstance(stop, Const) and start == 0 else 1
        if known % (step * many) == 0:  # all warps have as many turns
            with super().loop("turn", 0, known // many, step) as turn:
                var = self.local(name, number * (known // many) + turn)
                self.symbols[var.name] = var
                if extent is not None:
                    self.extents[var.name] = extent
                yield var
            return
        turns = self.bind("turns", (const(stop, I64) - start + (step * many - 1)) // (step * many) * step)
        first = self.local("first", start + number * turns)
        with super().loop(name, first, select(first + turns < stop, first + turns, stop), step, extent) as var:
            yield var

    def at_node(self, r: Local, first: Expr | None) -> None:
        self.home_depth = len(self.scopes) - 1
        self.node = r
        self.row = r

    def elements_of_list(self, operand: int) -> Expr:
        return self.operand_word(operand)

    def elements_of_array(self, items: Expr, k: Expr) -> Expr:
        return tree.load(items, k)

    def copy(self, to: Expr, source: Expr, size: Expr) -> None:
        self.f.do(tree.Call("copy_bytes", (to, source, size), VOID))

    def gather(self, operands: Sequence[int]) -> None:
        """Copy operands into rows of scratch: the stage that `gather_fusion` saves."""
        warps = self.bind("warps", device("blocks", type=I64) * WARPS)
        with self.shared_out("r", self.f["nodes"], self.warp(), warps) as r:
            self.at_node(r, None)
            for v in operands:
                row = self.kernel.gathered[v]
                size = count(self.graph.shape(v)) * DTYPES[self.graph.dtype(v)].size
                self.copy(self.block_row(f"{self.kernel.names[v]}_row", row), self.operand_word(v), self.number(size))

    def one_product(self, product: Product) -> None:
        self.note_names([product.value])
        if product.how in ("lanes", "transposed"):
            self.lanes_product(product)
        else:
            self.loops_product(product)

    def sums_of_rows(self, v: int, j: Local, last: Local, row: Callable[[Poly], Expr], along: Along) -> Local:
        """Return the sums along `TOGETHER` rows from `j` on: each one in `WARP` // `TOGETHER` lanes.

        The lanes of a sum are added as `horizontal` does it, which halves them time after time. Here the first times
        also halve the rows of a lane.
        """
        t = DTYPES[self.graph.dtype(v)]
        ty = t.ty.vector(WARP)
        n = self.graph.shape(v)[-1]
        whole = isinstance(n, int) and n % TOGETHER == 0
        places = [Poly.of(j.name) + k if whole else self.named("at", select(j + k < last, j + k, last))
                  for k in range(TOGETHER)]  # fmt: skip
        rows = [self.local("row", row(place)) for place in places]
        sums = [self.local("c", const(0.0, ty)) for _ in rows]
        along(rows, sums)
        return self.sum_of_lanes(sums)

    def sum_of_lanes(self, sums: list[Local]) -> Local:
        """Return the sums of vectors, each one in as many lanes."""
        self.meet()  # after a store by some lanes; the compiler does not put it there
        d = WARP // 2
        while d:
            half = len(sums) // 2
            upper = self.local("upper", (device("lane", type=I64) & d).ne(0)) if half else None
            for k in range(max(half, 1)):
                mine: Expr = sums[k]
                given: Expr = mine
                if upper is not None:
                    given = self.local("given", select(upper, mine, sums[k + half]))
                    mine = select(upper, sums[k + half], mine)
                other = device("exchange", given, const(d, I64), type=given.type)
                self.f.set(sums[k], mine + other)
            sums = sums[: max(half, 1)]
            d //= 2
        return sums[0]

    def rows_at_once(self, lanes: int) -> int:
        return TOGETHER

    def put_rows(self, v: int, place: Index, x: Expr, j: Local, many: int = TOGETHER) -> None:
        """Store the sums of `many` rows from `j` on, each by the first of its lanes."""
        each = WARP // many
        lane = device("lane", type=I64)
        row = self.local("row_of", j + lane // each)
        self.symbols[row.name] = row
        with self.when((lane & (each - 1)).eq(0) & (row < self.number(size_poly(place.shape[-1])))):
            at = (*place.at[:-1], ZERO if place.shape[-1] == 1 else Poly.of(row.name))
            self.put(v, Index(place.shape, at), device("own", x, type=x.type.scalar))

    # ---- products with shared weights

    def tiling(
        self, gates: Sequence[int], pieces: int, n: int, dtype: Dtype, words: int
    ) -> tuple[int, list[Tile], bool]:
        """Choose tiles for products of so many gates each that fit in shared memory, with `words` words per row.

        Return the number of rows, the tiles, and whether sums overwrite the ring of steps: with a single product, they
        need no memory of their own.
        """
        columns = columns_of(n, sum(gates))
        kind = kind_of(dtype.name, self.precision)
        own = kind in MOST and len(gates) == 1
        rows = ROWS
        while True:
            for stages in range(MOST_STAGES, 1, -1):
                tiles = [Tile(kind, g, columns, max(rows, 16), stages) for g in gates]
                size = sum(tile.shared(own) for tile in {*tiles}) + 8 * (pieces + words * rows)
                if not own:
                    size += rows * sum(gates) * columns * dtype.size
                if size <= SHARED_MEMORY - 64 or (rows == 1 and stages == 2):
                    return rows, tiles, own
            rows //= 2

    def thread(self) -> Expr:
        """Return the number of the thread in its block."""
        return self.bind("thread", device("thread", type=I64))

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Context in which values are bound inside: a value that leaves a loop would take a register of each tile."""
        outer, self.scopes = self.scopes, [Scope(self.f.body) for _ in self.scopes]
        try:
            yield
        finally:
            self.scopes = outer

    def enter_row_of_tile(
        self, lead: tuple[Size, ...], starts: Expr | None, owners: Expr | None, row: Local, e: Expr
    ) -> list[Poly]:
        """Find the node of row `e` of a tile by the tables of first rows and owners, if nodes differ in their rows."""
        if starts is None or owners is None:
            return self.enter_row(row, lead)
        node = self.local("node_of", tree.load(owners, e))
        self.home_depth = len(self.scopes) - 1
        self.enter_node(node)
        return self.place_of(self.bind("row_of_node", row - tree.load(starts, node)), lead)

    def enter_node(self, row: Expr) -> None:
        self.row = self.node = self.bind("node", row)

    def from_panel(self, v: int, index: Index, t: Dtype) -> Expr:
        own, axis = self.own(v, index), self.panel_axis
        offset = (own.at[axis] - self.panel_at[axis]).constant
        assert offset is not None, "the plan has checked that"
        gate = offset // self.panel_n
        if v in self.totals:
            return self.totals[v][gate]
        acc, columns, _ = self.panels[v]
        return self.bind(self.kernel.names[v], Load(acc + gate * columns * t.size if gate else acc, t.memory))


class Tiles:
    """Writes the tiles of a pass: a block of threads does some columns of a panel for some rows after the other.

    How many of both is the smallest of the ladder of shapes that leaves no block without work.
    """

    def __init__(self, w: SimtWriter, stage: ProductStage, one: Pass) -> None:
        self.w, self.stage, self.one = w, stage, one
        self.dtype = DTYPES[w.graph.dtype(stage.parts[0].product.value)]
        # the products of each member, side by side, and the pieces of their left operand
        self.members = [(p, l) for call in one.calls for p, l in zip(call.members, call.lefts, strict=True)]
        self.pieces = sum(len(lefts) for _, lefts in self.members)
        gates = [sum(part.gates for part in parts) for parts, _ in self.members]
        self.gates = sum(gates)
        rows = count(stage.lead)
        self.counted = Counted(rows) if rows.constant is None else None
        words = self.pieces + (self.counted is not None)
        self.height, self.made, self.own = w.tiling(gates, self.pieces, stage.n, self.dtype, words)
        w.called.update(self.made)
        self.columns = self.made[0].columns
        self.ladder = shapes(self.height, self.gates, self.columns)
        self.apart = sum(tile.width for tile in self.made) * self.dtype.size  # bytes from one row of sums to the next

    def grids(self) -> tuple[Grid, ...]:
        """Return the grid of each shape of the ladder, for the launch to choose from."""
        kind, lead = self.made[0].kind, count(self.stage.lead).constant or 1
        counted = self.w.table.counted.index(self.counted) + 1 if self.counted is not None else 0
        return tuple(
            Grid(max(1, s.rows // lead), -(-self.stage.n // s.columns), s.cost(kind, self.gates), counted)
            for s in self.ladder
        )

    def write(self) -> None:
        w, f = self.w, self.w.f
        block, blocks = device("block", type=I64), w.bind("blocks", device("blocks", type=I64))
        if self.counted is None:
            self.starts, total = None, w.rows_of(self.stage, f["nodes"])
        else:
            self.starts = w.starts(self.counted)
            total = w.bind("total", tree.load(self.starts, f["nodes"]))
        high, self.bits, across = self.choose(total, blocks)
        tiles = w.local("tiles", (total + (high - 1)) // high)
        self.memory()
        units = w.local("units", tiles * across)
        with w.shared_out("u", units, w.bind("block_at", block), blocks) as u:
            across_at = w.local("across_at", u // tiles)
            tile = w.local("t", u - across_at * tiles)
            a = w.local("a", total * tile // tiles)
            m = w.local("m", total * (tile + 1) // tiles - a)
            column = w.local("column", across_at << self.bits)
            panel = w.local("panel", column // self.columns)
            column = w.local("first", column - panel * self.columns)
            self.addresses(a, m)
            f.do(device("meet"))
            starts, found = self.sum(m, panel, column)
            f.do(device("meet"))
            if self.one.tail:
                self.tail(a, m, panel * self.columns + column, found if self.own else self.sums, starts)
                f.do(device("meet"))

    def choose(self, total: Expr, blocks: Expr) -> tuple[Local, Local, Local]:
        """Choose a shape; return its rows, its columns as a power of two, and the number of them side by side."""
        w, f, n = self.w, self.w.f, self.stage.n
        high = w.local("high", const(self.height, I64))
        bits = w.local("power", const(self.columns.bit_length() - 1, I64))
        across = w.local("across", const(-(-n // self.columns), I64))
        for shape in self.ladder[1:]:
            many = -(-n // shape.columns)
            with w.when((total + (shape.rows - 1)) // shape.rows * many <= blocks):
                f.set(high, shape.rows)
                f.set(bits, shape.columns.bit_length() - 1)
                f.set(across, many)
        return high, bits, across

    def memory(self) -> None:
        """Allocate shared memory of the block: addresses of rows, lengths of their pieces, sums."""
        w, height = self.w, self.height

        def block_memory(size: int) -> Expr:
            return device("block_memory", const(size, I64), type=I64)

        self.table = w.local("rows", block_memory(8 * height * self.pieces))
        self.lengths = w.local("lengths", block_memory(8 * self.pieces))
        self.owners = w.local("owners", block_memory(8 * height)) if self.starts is not None else None
        self.sums = w.local("sums", const(0, I64) if self.own else block_memory(height * self.apart))

    def addresses(self, a: Expr, m: Expr) -> None:
        """Write the addresses of rows a..a+m of the left operands."""
        w, f, stage = self.w, self.w.f, self.stage
        f.comment("the rows of the left operand")
        with w.anew(), w.shared_out("e", m, w.thread(), const(THREADS, I64)) as e:
            row = w.local("r", a + e)
            if self.starts is not None and self.owners is not None:
                f.store(self.owners, e, w.find("of_node", self.starts, row, f["nodes"]))
            at = self.enter(row, e)
            k = 0
            for parts, lefts in self.members:
                for piece in lefts:
                    size = w.graph.shape(piece)[-1]
                    f.store(
                        self.table + e * 8, k * self.height, w.address(piece, Index((*stage.lead, size), (*at, ZERO)))
                    )
                    # the extent of a single one may be its own, and is checked to be that of the weight
                    length = size_poly(size) if len(lefts) > 1 else Poly.of(w.inner(parts[0].product))
                    f.store(self.lengths, k, w.number(length))
                    k += 1
        w.home_depth = 0

    def enter(self, row: Local, e: Expr) -> list[Poly]:
        """Find the node of a row, number `e` of the tile; return the index of the row in the node."""
        return self.w.enter_row_of_tile(self.stage.lead, self.starts, self.owners, row, e)

    def sum(self, m: Expr, panel: Local, column: Local) -> tuple[dict[int, int], Local]:
        """Call the tiles; return where each product is in a row of the sums, and where the last sums lie."""
        w, size, height, columns = self.w, self.dtype.size, self.height, self.columns
        starts: dict[int, int] = {}
        before = start = 0
        for (parts, lefts), made in zip(self.members, self.made, strict=True):
            inner = w.inner(parts[0].product)
            with w.anew():
                weight = w.weights(parts, self.stage.n, 1, columns, self.dtype.name)
            done = device(
                f"tile_{made.kind}", self.table + 8 * height * before if before else self.table, m,
                const(height, I64), const(len(lefts), I64), self.lengths + 8 * before if before else self.lengths,
                weight + panel * (inner * made.width * size), column, self.bits,
                self.sums + start if start else self.sums, const(self.apart, I64),
                *(const(x, I64) for x in (made.gates, columns, made.rows, made.stages)), type=I64,
            )  # fmt: skip
            at = start
            for part in parts:
                starts[part.product.value] = at
                at += part.gates * columns * size
            start += made.width * size
            before += len(lefts)
            found = w.local("found", done)
        return starts, found

    def tail(self, a: Expr, m: Expr, first: Expr, sums: Expr, starts: dict[int, int]) -> None:
        """Finish rows a..a+m, element by element; `first`: the column that the tile begins with."""
        w = self.w
        w.note_names(self.one.tail)
        with w.anew(), w.shared_out("e", m << self.bits, w.thread(), const(THREADS, I64)) as e:
            row = w.local("e_row", e >> self.bits)
            self.element(a, row, e - (row << self.bits), first, sums + row * self.apart, starts)
        w.home_depth = 0

    def element(self, a: Expr, row: Expr, column: Expr, first: Expr, sums: Expr, starts: dict[int, int]) -> None:
        """Finish one element of a tile."""
        w, stage, columns, tail = self.w, self.stage, self.columns, self.one.tail
        c = w.local("c", column)
        j = w.local("j", first + c)
        w.symbols[j.name] = j
        w.extents[j.name] = stage.n
        gates = {part.product.value for part in stage.parts}

        def finish() -> None:
            at = self.enter(w.local("r", a + row), row)
            acc = w.local("acc", sums + c * self.dtype.size)
            w.panels = {v: (acc + start if start else acc, columns, Const(0, I64)) for v, start in starts.items()}
            w.panel_n = stage.n
            w.panel_at = (*at, ZERO if stage.n == 1 else Poly.of(j.name))
            w.inline = {v for v in tail if v not in gates}
            w.finish_vector(stage, Step(done=list(tail)))
            w.panels, w.inline = {}, set()

        if stage.n % columns == 0:
            finish()
        else:
            with w.when(j < stage.n):
                finish()
