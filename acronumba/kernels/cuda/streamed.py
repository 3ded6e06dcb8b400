"""Writes passes of float32 products for a GPU, whose rows stream past weights in registers (`kernels.cuda.stream`).

In: a `ProductStage` and a `Pass`. Out: statements of one function. A block computes a panel, all gates of some hidden
units, for a share of the rows, a tile of `Core.tile` rows after the other. Products with several left operands, or of
more than 8 parts, take several rounds. Each thread finishes one element of a tile; what it needs for that besides the
sums, it asks for before the products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from acronumba.emit import tree
from acronumba.emit.simt import SHARED_MEMORY, WARP, device
from acronumba.emit.tree import F32, I1, I32, I64, Const, Expr, Load, Local, const, convert, intrinsic, select
from acronumba.ir.spec import FIXED
from acronumba.kernels.cuda import stream
from acronumba.kernels.cuda.gate import divide
from acronumba.kernels.cuda.nodes import Counted
from acronumba.kernels.cuda.tiles import PART
from acronumba.kernels.cuda.writer import WARPS, Grid, SimtWriter
from acronumba.kernels.stages.index import ZERO, Index, Poly, count, size_poly
from acronumba.kernels.stages.passes import Pass
from acronumba.kernels.stages.steps import Step
from acronumba.kernels.stages.tasks import Nest, ProductPart, ProductStage, Single
from acronumba.kernels.stages.weights import InRegisters, SideBySide, ViewPacking
from acronumba.kernels.tiles import Packing
from acronumba.records import record

SIZE = 4  # bytes of an element
SPLIT_MEMORY = 96 << 10  # bytes that a block may share on every GPU that has tensor cores for float32


@record(eq=False)
class Member:
    """Products of one left operand: its pieces, of which the first is row `first` of the table of addresses."""

    parts: list[ProductPart]
    lefts: tuple[int, ...]
    first: int
    core: stream.Core
    steps: tuple[int, ...]  # of each piece, from one term to the next if rows are columns


@record(eq=False)
class Warp:
    """The share of a warp in a round: which part of the sum (of those of the round), and which rows of a tile.

    Warps without a part do what the last part's warps do, into memory of their own: so all warps go the same way.
    """

    number: int  # of the round
    member: Member
    many: int  # parts of the round
    slot: Expr  # of shared memory
    share: Expr  # its first group of rows
    every: int  # how many groups of rows it goes on by
    part: Expr  # of the sum
    terms: Expr  # the first one of its part
    kept: Expr  # where a lane's weights lie in the place of the panel


def divided(a: Expr, b: Expr) -> Expr:
    """Return the quotient of numbers of less than 31 bits: a division of 64 bits is a call."""
    return convert(convert(a, I32) // convert(b, I32), I64)


class Streams:
    """Writes the products of a pass, and its tail.

    Parameters
    ----------
    w
        Of the function.
    stage
        The stage.
    one
        The pass.
    """

    def __init__(self, w: SimtWriter, stage: ProductStage, one: Pass) -> None:
        self.w, self.stage, self.one = w, stage, one
        rows = count(stage.lead)
        self.counted = Counted(rows) if rows.constant is None else None
        found = [(p, l) for call in one.calls for p, l in zip(call.members, call.lefts, strict=True)]
        gates = [sum(part.gates for part in parts) for parts, _ in found]
        # where a block works on whole rows, there is one panel
        self.units = stream.units_of(stage.n, max(gates), stream.MANY if stage.end else rows.constant or 1)
        whole = stage.across or stage.front or stage.end
        split = w.precision == "tf32x3" and max(gates) >= stream.SPLIT_GATES and not whole
        if split:
            self.units = min(self.units, stream.SPLIT_UNITS)
        self.bits = self.units.bit_length() - 1
        self.panels = -(-stage.n // self.units)
        self.members: list[Member] = []
        self.pieces = 0
        for (parts, lefts), many in zip(found, gates, strict=True):
            product = parts[0].product
            core = stream.Core(many, self.units, w.inner(product), product.across, split)
            self.members.append(Member(parts, lefts, self.pieces, core, product.steps))
            self.pieces += len(lefts)
        self.core = self.members[0].core  # all are of one kind
        # rows that a block has at least: fewer than a warp multiplies at once if much is done for each before
        self.group = 1 if any(isinstance(item, Single) for item in stage.front) else self.core.group
        room = SPLIT_MEMORY if split else SHARED_MEMORY
        most = (room - 64 - 8 * self.core.tile * (self.pieces + 1)) // self.core.part_bytes
        self.most = max(p for p in (1, 2, 4, 8) if p <= max(most, 1))  # parts of a round
        self.rounds = [(m, *ends) for m in self.members for ends in self.rounds_of(m.core.parts)]
        self.totals: dict[int, list[Local]] = {}  # the sums of each product, of the thread's element

    def rounds_of(self, parts: int) -> list[tuple[int, int]]:
        """Return the first part of each round, and the one behind it; many whole rounds are one, with a loop."""
        whole = parts // self.most * self.most
        later = range(whole if whole > 2 * self.most else 2 * self.most, parts, self.most)
        starts = [0, *([self.most] if parts > self.most else []), *later]
        return [*pairwise([*starts, parts])]

    def grids(self) -> tuple[Grid, ...]:
        """Return the grid: a block for every `Core.group` rows of each panel, if so many are at work at once."""
        lead = count(self.stage.lead).constant or 1
        counted = self.w.table.counted.index(self.counted) + 1 if self.counted is not None else 0
        group = self.group
        kept = sum(m.core.parts * m.core.bytes for m in self.members)
        pool = self.bytes if self.bytes > SHARED_MEMORY else 0
        return (
            Grid(max(1, group // lead), -(-lead // group), counted=counted, panels=self.panels, kept=kept, pool=pool),
        )

    def write(self) -> None:
        """Write the function: the shares of the blocks, their tiles, and what is done for each."""
        w, f = self.w, self.w.f
        blocks = w.bind("blocks", device("blocks", type=I64))
        if self.counted is None:
            self.starts, total = None, w.rows_of(self.stage, f["nodes"])
        else:
            self.starts = w.starts(self.counted)
            total = w.bind("total", tree.load(self.starts, f["nodes"]))
        self.memory()
        many = w.local("groups", blocks // self.panels)
        f.set(many, select(many < 1, 1, many))
        # rows of a share: whole groups of rows, so that no warp has less than it could have
        share = w.local("share", divided(total + (many * self.group - 1), many * self.group) * self.group)
        units = w.local("units", many * self.panels)
        u = w.local("u", device("block", type=I64))
        with f.while_(u < units), w.scope():
            which = w.local("group", u // self.panels)
            self.panel = w.local("panel", u - which * self.panels)
            start = w.local("start", which * share)
            stop = w.local("stop", select(start + share < total, start + share, total))
            rounds = [self.round(k) for k in range(len(self.rounds))]
            fresh = w.local("fresh", const(1, I64))
            high = self.core.tile
            with w.loop("a", start, stop, high) as a:
                m = w.local("m", select(stop - a < high, stop - a, high) & 2 * high - 1)  # a small number
                self.tile(a, m, rounds, fresh)
                f.set(fresh, 0)
                with f.when(a + high < stop):
                    f.do(device("meet"))
            f.set(u, u + blocks)
            with f.when(u < units):
                f.do(device("meet"))
        f.do(device("gate"))  # of a block without rows

    def memory(self) -> None:
        """Allocate shared memory of the block: rows of parts, addresses of rows."""
        w = self.w
        self.thread = w.thread()
        self.lane = w.local("lane_at", self.thread & (WARP - 1))
        self.warp = w.local("warp_at", self.thread >> (WARP.bit_length() - 1))
        parts = self.slots * self.core.part_bytes
        memory = w.local("memory", device("block_memory", const(self.bytes, I64), type=I64))
        self.near = w.local("near", device("shared_at", memory, type=I64))
        self.table = w.local("rows", memory + parts)
        self.table_near = parts
        self.owners = (
            w.local("owners", self.table + 8 * self.core.tile * self.pieces) if self.starts is not None else None
        )

    @property
    def slots(self) -> int:
        """How many parts have rows in shared memory at once."""
        most = max(min(m.core.parts, self.most) for m in self.members)
        return WARPS // self.together(most)

    @property
    def bytes(self) -> int:
        """Bytes of shared memory."""
        return self.slots * self.core.part_bytes + 8 * self.core.tile * (self.pieces + (self.counted is not None))

    def together(self, parts: int) -> int:
        """Return how many warps share each of so many parts."""
        return stream.together(parts, self.core.tile // self.core.group)

    def addresses(self, a: Expr, m: Expr) -> Local:
        """Write the addresses of rows a..a+m of the left operands, the last one as often as a tile has more rows.

        Return whether one of the thread's is no multiple of 16 bytes.
        """
        w, f, stage = self.w, self.w.f, self.stage
        f.comment("the rows of the left operand")
        odd = w.local("odd", const(0, I64))
        with w.anew(), w.when(self.thread < self.core.tile):
            of_group = self.thread & (stream.GROUP - 1)
            last = m - stream.GROUP + of_group if self.in_groups else m - 1
            row = w.local("r", a + select(self.thread < m, self.thread, last))
            if self.starts is not None and self.owners is not None:
                f.store(self.owners, self.thread, w.find("of_node", self.starts, row, f["nodes"]))
            at = self.enter(row, self.thread)
            w.row_of_tile = w.local("e", select(self.thread < m, self.thread, m - 1)) if stage.front else None
            found: list[Local] = []  # all before the first is stored: what is loaded for them comes at once
            for piece in (piece for member in self.members for piece in member.lefts):
                shape = w.graph.shape(piece)
                first = (ZERO, *at) if stage.across else (*at, ZERO)
                place = Index((shape[0], *stage.lead) if stage.across else (*stage.lead, shape[-1]), first)
                found.append(w.local("row_at", w.address(piece, place)))
            for k, address in enumerate(found):
                f.store(self.table + self.thread * 8, k * self.core.tile, address)
                # rows that are columns are copied four at a time: what counts is where the first of four lies
                f.set(odd, odd | (address - of_group * SIZE if stage.across else address))
        w.home_depth = 0
        return odd

    def enter(self, row: Local, e: Expr) -> list[Poly]:
        """Find the node of a row, number `e` of the tile; return the index of the row in the node."""
        self.w.row_of_tile = e
        return self.w.enter_row_of_tile(self.stage.lead, self.starts, self.owners, row, e)

    # ---- the products

    def round(self, number: int) -> Warp:
        """Share out the parts of a round to warps; of a few parts, each is shared by warps that have other rows."""
        w = self.w
        member, first, stop = self.rounds[number]
        many = min(stop - first, self.most)
        every = self.together(many)
        slots = WARPS // every
        share = w.local("share_of_part", self.warp >> (slots.bit_length() - 1))
        slot = w.local("slot", self.warp & (slots - 1))
        part: Expr = slot if many == slots else select(slot < many, slot, many - 1)
        return self.at_part(Warp(number, member, many, slot, share, every, part, part, part), first)

    def at_part(self, warp: Warp, first: Expr | int) -> Warp:
        """Return a warp's share of a round that begins so many parts later."""
        part = self.w.local("part", warp.part + first)
        terms, kept = self.w.local("terms", part * PART), self.lane_of(warp.member, part)
        return Warp(warp.number, warp.member, warp.many, warp.slot, warp.share, warp.every, part, terms, kept)

    def lane_of(self, member: Member, part: Local) -> Expr:
        """Return where the weights of a lane lie in the place of the panel, if it stays in shared memory."""
        before = sum(m.core.parts * m.core.bytes for m in self.members[: self.members.index(member)])
        return part * member.core.bytes + (self.lane * 16 + before)

    def keep(self) -> list[Expr]:
        """Write what makes the panel's weights stay in shared memory, in kernels where they do.

        Return where those of each member are.
        """
        found = [self.panel_at(one) for one in self.members]
        each = [(at, *self.numbers(one.core)) for at, one in zip(found, self.members, strict=True)]
        self.w.f.do(device("stream_keep", self.panel, self.thread, *(e for own in each for e in own)))
        return found

    def weights(self, warp: Warp, panel: Expr) -> None:
        """Load the weights of the warp's part of the current panel, which is at an address."""
        at = self.weight_at(warp, panel)
        self.w.f.do(device("stream_weights", at, warp.kept, *self.numbers(warp.member.core)))

    def weight_at(self, warp: Warp, panel: Expr) -> Local:
        """Return the address of a lane's first weights of the warp's part."""
        return self.w.local("weight_at", panel + warp.part * warp.member.core.bytes + self.lane * 16)

    def panel_at(self, member: Member) -> Expr:
        """Return the address of a member's weights of the current panel."""
        w, core, parts = self.w, member.core, member.parts
        packing = w.packing(parts, self.stage.n, 1, self.units, "float32")
        assert isinstance(packing, Packing | ViewPacking | SideBySide)
        with w.anew():
            own = InRegisters(packing, core.parts, core.quads, core.share, core.own, core.split)
            packed = w.packed(tuple(part.product.right for part in parts), own)
        return w.local("panel_at", packed + self.panel * (core.parts * core.bytes))

    def place(self, group: Expr, core: stream.Core) -> tuple[Expr, Local]:
        """Return the first unit and the first gate of a group of lanes."""
        if core.share == 1:
            return group, self.w.local("gate", const(0, I64))
        return group & (self.units - 1), self.w.local("gate", (group >> self.bits) * core.own)

    @staticmethod
    def numbers(core: stream.Core) -> tuple[Const, ...]:
        return tuple(Const(int(n), I64) for n in (core.gates, core.units, core.terms, core.across, core.split))

    def products(self, warp: Warp, m: Local) -> Callable[[], None]:
        """Write the addresses that a round needs; return what writes the round.

        Each warp multiplies groups of rows; the others are fetched while the first is multiplied.
        """
        w, core = self.w, warp.member.core
        mine = w.local("mine", self.near + warp.slot * core.part_bytes)
        fetch = self.across_fetcher(warp, mine) if core.across else self.fetcher(warp, mine)
        further = warp.share * (core.group * stream.STEP * SIZE)
        if core.split:
            # 8 lanes that load at once find their two rows in different banks
            row = self.lane >> 2 & 4 | self.lane >> 1 & 2 | self.lane >> 3 & 1
            sub = self.lane & 3
            row_at = w.local("row_of_lane", mine + further + row * (stream.STEP * SIZE))
            rows, sums = w.local("rows_at", row_at + sub * 16), w.local("sums_at", row_at + sub * 8)
            where: tuple[Expr, ...] = (self.weight_at(warp, self.panel_at(warp.member)), warp.kept)
        else:
            group, sub = w.local("lane_group", self.lane & 7), w.local("sub", self.lane >> 3)
            unit, gate = self.place(group, core)
            rows = w.local("rows_at", mine + further + sub * (64 if core.across else 16))
            sums = w.local("sums_at", mine + further + (sub * stream.STEP + unit * core.apart + gate) * SIZE)
            where = (sub,)
        high = core.group * warp.every  # rows of a turn; a tile has one at least
        turns = w.local("turns", (m + (high - 1)) // high) if high < core.tile else const(1, I64)
        return lambda: self.multiply(warp, fetch, turns, rows, sums, where)

    def multiply(
        self, warp: Warp, fetch: Callable[[Expr], None], turns: Expr, rows: Local, sums: Local,
        where: tuple[Expr, ...],
    ) -> None:  # fmt: skip
        """Write the copies and the products of a round."""
        w, f, core = self.w, self.w.f, warp.member.core
        fetch(turns)
        if core.split:
            f.do(device("wait_for_copies"))
            f.do(device("meet_lanes"))
            most = core.tile // (core.group * warp.every)
            with w.when(turns >= most) if most > 1 else w.scope():
                f.do(device("stream_products", rows, sums, *where, const(most, I64), *self.numbers(core)))
            if most > 1:
                with f.otherwise(), w.scope():
                    f.do(device("stream_products", rows, sums, *where, const(1, I64), *self.numbers(core)))
            return
        if isinstance(turns, Const):  # one
            f.do(device("wait_for_older_copies"))
            f.do(device("meet_lanes"))
            f.do(device("stream_products", rows, sums, *where, *self.numbers(core)))
            return
        with w.loop("turn", 0, turns) as turn:
            f.do(device("warp_is_whole"))
            with w.when(turn.eq(0)):
                f.do(device("wait_for_older_copies"))
            with f.otherwise(), w.scope():
                f.do(device("wait_for_copies"))
            f.do(device("meet_lanes"))
            further = w.local("further", turn * (warp.every * core.group * stream.STEP * SIZE))
            f.do(device("stream_products", w.local("x_at", rows + further), w.local("to", sums + further), *where,
                        *self.numbers(core)))  # fmt: skip

    def fetcher(self, warp: Warp, mine: Local) -> Callable[[Expr], None]:
        """Return a writer of copies of a part of rows: of four at a time, 16 lanes copy a row, 16 bytes each, twice."""
        w, f = self.w, self.w.f
        k = w.local("k", warp.terms + (self.lane & 15) * 4)
        piece, offset, left = self.piece_of(warp.member, k)
        table = w.local("table_at", self.near + self.table_near + (piece + warp.member.first) * (8 * self.core.tile))
        half, column = w.local("half", self.lane >> 4), w.local("column", (self.lane & 15) * 16)

        divided, terms = self.divided(warp.member), warp.member.core.terms
        has = const(1, I64) if terms and terms % PART == 0 else w.local("has_terms", select(left > 0, const(1, I64), 0))

        def place(row: Expr) -> tuple[Expr, Local]:
            """Return where a row of the part is copied to, and from."""
            word = device("load_near_word", table + row * 8, type=I64)
            return mine + row * (stream.STEP * SIZE) + column, w.local("source", w.local("row_at", word) + offset)

        high, pairs = warp.member.core.group, warp.member.core.group // 2
        # what all rows have would come from the same lines of the second cache for all of them, in all blocks
        often = [convert(piece.eq(n), I64) for n, v in enumerate(warp.member.lefts) if self.is_shared(v)]

        def fetch(groups: Sequence[Expr]) -> None:
            rows = [w.local("row_of_part", g * high + (half + 2 * h)) for g in groups for h in range(pairs)]
            for to, source in [place(row) for row in rows]:
                if often:
                    f.do(device("copy_often", to, source, has * 16, sum(often[1:], often[0])))
                else:
                    f.do(device("copy_near", to, source, has * 16))

        def fetch_slowly(turns: Expr) -> None:
            each = 4 if divided else 1
            e = w.local("e", const(0, I64))
            with f.while_(e < _times(turns, each * pairs)), w.scope():
                n = w.local("n", e // each)
                group = (n >> pairs.bit_length() - 1) * warp.every + warp.share
                row = w.local("row_of_part", group * high + (half + (n & pairs - 1) * 2))
                if divided:
                    to = mine + row * (stream.STEP * SIZE) + column + (e & 3) * SIZE
                    self.element(warp, w.local("term", k + (e & 3)), row, w.local("to", to))
                else:
                    to, source = place(row)
                    for i in range(4):
                        f.do(device("copy_one_near", to + i * SIZE, source + i * SIZE, has * 4))
                f.set(e, e + (device("nothing", type=I64) + 1))  # the compiler does not write the loop several times

        return self.in_time(
            warp, fetch, fetch_slowly, lambda: self.odd | (left < 4) | (offset & 15).ne(0) if divided else self.odd
        )

    def is_shared(self, v: int) -> bool:
        """Tell whether a left operand is a value that all nodes share."""
        graph = self.w.graph
        return v < graph.first and graph.spec.operands[v].kind == "shared"

    def in_time(
        self, warp: Warp, fetch: Callable[[Sequence[Expr]], None], fetch_slowly: Callable[[Expr], None],
        slow: Callable[[], Expr] | None,
    ) -> Callable[[Expr], None]:  # fmt: skip
        """Return a writer of the copies of all groups of a warp, the first of which come first.

        `slow`: returns whether copies of 16 bytes are impossible; None: they always are.
        """
        w, f = self.w, self.w.f

        def fetch_all(turns: Expr) -> None:
            fast = w.local("fast", const(0, I64) if slow is None else select(slow(), const(0, I64), 1))
            with w.when(fast.eq(0)):
                fetch_slowly(turns)
            with f.otherwise(), w.scope():
                fetch([warp.share])
            f.do(device("copies_end"))
            count = self.core.tile // (self.core.group * warp.every)
            if later := [n * warp.every + warp.share for n in range(1, count)]:
                with w.when((turns > 1) & fast.ne(0)):
                    fetch(later)
            f.do(device("copies_end"))

        return fetch_all

    def across_fetcher(self, warp: Warp, mine: Local) -> Callable[[Expr], None]:
        """Return a writer of copies of a part of rows that are columns: the same terms of four rows at a time."""
        w, f, member = self.w, self.w.f, warp.member

        def place(group: Expr, number: Expr) -> tuple[Local, Local, Local, Local]:
            """Return where chunk `number` of a group is copied to, the table of its rows, and their terms' offset."""
            number = w.local("number", number)
            piece, offset, left = self.piece_of(member, w.local("k", warp.terms + number))
            chunk = number ^ (number >> 3 & 1)
            to = w.local("to", mine + group * stream.GROUP_BYTES + chunk * 16)
            table = self.near + self.table_near + (piece + member.first) * (8 * self.core.tile)
            table = w.local("table_at", table + group * (8 * stream.GROUP))
            return to, table, offset, w.local("has_terms", select(left > 0, const(1, I64), 0))

        def fetch(groups: Sequence[Expr]) -> None:
            for to, table, offset, has in [place(g, self.lane + h) for g in groups for h in (0, WARP)]:
                f.do(device("copy_near", to, device("load_near_word", table, type=I64) + offset, has * 16))

        def fetch_slowly(turns: Expr) -> None:
            e = w.local("e", const(0, I64))
            with f.while_(e < _times(turns, 8)), w.scope():
                inside = w.local("inside", (e & 7) * WARP + self.lane)
                row = w.local("row_of_group", inside & 3)
                to, table, offset, has = place((e >> 3) * warp.every + warp.share, inside >> 2)
                source = device("load_near_word", table + row * 8, type=I64) + offset
                f.do(device("copy_one_near", to + row * SIZE, source, has * SIZE))
                f.set(e, e + (device("nothing", type=I64) + 1))  # the compiler does not write the loop several times

        fast = self.in_groups and all(step % 4 == 0 for step in member.steps)
        return self.in_time(warp, fetch, fetch_slowly, (lambda: self.odd) if fast else None)

    @property
    def in_groups(self) -> bool:
        """Whether rows are columns, and a group of them lies in one node."""
        return self.stage.across and (count(self.stage.lead).constant or 1) % stream.GROUP == 0

    def divided(self, member: Member) -> bool:
        """Whether a row's piece may end within four terms that are copied together."""
        lengths = [self.w.graph.shape(piece)[-1] for piece in member.lefts] if len(member.lefts) > 1 else []
        return any(not isinstance(n, int) or n % 4 for n in (*lengths, member.core.terms))

    def element(self, warp: Warp, k: Local, row: Expr, to: Expr) -> None:
        """Write the copy of one element of a part; where the row has none, it is 0."""
        w, f = self.w, self.w.f
        piece, offset, left = self.piece_of(warp.member, k)
        table = self.near + self.table_near + (piece + warp.member.first) * (8 * self.core.tile)
        source = w.local("source", device("load_near_word", table + row * 8, type=I64))
        x = w.local("x", const(0.0, F32))
        with w.when(left > 0):
            f.set(x, Load(source + offset, F32))
        f.do(device("store_near", to, x))

    def piece_of(self, member: Member, k: Local) -> tuple[Local, Local, Local]:
        """Return which piece of a row a term lies in, its offset in bytes there, and how many terms are left of it."""
        w, f = self.w, self.w.f
        lengths = [w.graph.shape(piece)[0 if member.steps else -1] for piece in member.lefts]
        ends: list[Expr] = []
        for length in lengths if len(lengths) > 1 else [member.core.terms]:
            ends.append(w.bind("end_of_piece", (ends[-1] if ends else const(0, I64)) + w.number(size_poly(length))))
        piece, first, end = w.local("piece", const(0, I64)), w.local("first", const(0, I64)), w.local("end", ends[0])
        for n, (before, after) in enumerate(pairwise(ends), 1):
            f.set(piece, select(k >= before, n, piece))
            f.set(first, select(k >= before, before, first))
            f.set(end, select(k >= before, after, end))
        steps, size = member.steps, const(SIZE, I64)
        bytes_: Expr = size * steps[0] if steps else size
        for n in range(1, len({*steps}) and len(steps)):
            bytes_ = select(piece >= n, size * steps[n], bytes_)
        return piece, w.local("offset", (k - first) * bytes_), w.local("left_of_piece", end - k)

    # ---- the tail

    def tile(self, a: Expr, m: Local, rounds: Sequence[Warp], fresh: Local) -> None:
        """Write the products and the tail of a tile: what the tail loads that no product depends on goes before.

        Nothing that other blocks compute is read in front of the gate: the rows are, and what the tail loads.
        """
        w, f = self.w, self.w.f
        w.note_names(self.one.tail)
        with f.nested() as early, w.anew(), w.scope():
            row, column = self.thread >> self.bits, self.thread & (self.units - 1)
            if self.stage.across:  # neighbours are in one row of the result
                row, column = self.thread & (stream.TILE - 1), self.thread >> (stream.TILE.bit_length() - 1)
            row, column = w.local("e_row", row), w.local("e_column", column)
            self.row = w.local("e", select(row < m, row, m - 1))
            self.column = w.local("c", select(column < self.units, column, self.units - 1))
            j = w.local("j", self.panel * self.units + self.column)
            self.inside: Expr = (row < m) & (column < self.units) if self.stage.across else row < m
            if self.stage.n % self.units:
                self.inside = self.inside & (j < self.stage.n)
                j = w.local("j", select(j < self.stage.n, j, self.stage.n - 1))
            self.inside = w.local("inside", self.inside)
            at = self.enter(w.local("r", a + self.row), self.row)
            with f.nested() as late, w.scope():
                self.begin_totals()
                self.tail(at, j)
        front, behind = divide(early, "P", FIXED + w.kernel.results, w.node_words)
        f.body += front
        odd = self.addresses(a, m)
        with f.when(fresh.ne(0)):  # the panel's first tile: other loads are under way while its weights come
            panels = self.keep()
            if len(rounds) == 1 and not self.core.split:
                self.weights(rounds[0], panels[0])
        first = self.products(rounds[0], m) if len(rounds) == 1 else None
        f.do(device("gate"))
        self.front(a, m)
        # whether no row can be copied 16 bytes at a time
        self.odd = w.local("any_odd", device("meet_any", (odd & 15).ne(0), type=I1))
        f.body += behind
        places = [w.local("sum_at", self.near + (self.row * stream.STEP + self.column * member.core.apart) * SIZE)
                  for member in self.members]  # fmt: skip
        for one in rounds:
            _, start, stop = self.rounds[one.number]
            place = places[self.members.index(one.member)]
            if stop - start > one.many:
                with w.loop("further", 0, stop - start, one.many) as further, w.anew():
                    f.do(device("meet"))
                    self.a_round(self.at_part(one, further), m, None, place)
                continue
            if one.number:
                f.do(device("meet"))
            with w.anew():
                self.a_round(one, m, first, place)
        for member in self.members if self.core.split else ():
            self.again(member)
        with f.when(self.inside):
            f.body += late
        self.end(a, m)

    def front(self, a: Expr, m: Expr) -> None:
        """Write what makes rows of the tile: warps have rows, or shares of the products of a matrix and a vector."""
        f = self.w.f
        groups: list[tuple[int, list[Nest | Single]]] = []
        for item in self.stage.front:
            many = WARPS if isinstance(item, Single) else 1
            if many > 1 or not groups or groups[-1][0] > 1:
                groups.append((many, []))
            groups[-1][1].append(item)
        for many, items in groups:
            f.do(device("meet"))  # at first with the thread that has waited at the gate
            self.items(a, m, items, many)

    def end(self, a: Expr, m: Expr) -> None:
        """Write what reads whole rows of the tile: a warp does one after the other."""
        if not self.stage.end:
            return
        w = self.w
        w.f.do(device("meet"))
        self.items(a, m, self.stage.end, 1)

    def items(self, a: Expr, m: Expr, items: Sequence[Nest | Single], many: int) -> None:
        """Write tasks for the rows of the tile, which are nodes, in `many` shares each, and share them out to warps.

        All warps take as many turns: those without a share do the last one again. A compiler that sees no warp divided
        exchanges values between lanes by one instruction.
        """
        w = self.w
        units = w.local("units", m * many)
        turns = w.local("turns", (units + (WARPS - 1)) // WARPS)
        with w.anew(), w.loop("turn", 0, turns) as turn:
            e = w.local("e", turn * WARPS + self.warp)
            w.f.set(e, select(e < units, e, units - 1))
            row = w.local("e_row", e // many)
            w.row_of_tile = row
            w.at_node(w.local("r", a + row), None)
            for item in items:
                w.share_of_item(item, e - row * many, many)
                w.f.do(device("meet_warp"))
        w.home_depth = 0

    def begin_totals(self) -> None:
        """Make the locals of the sums, which values of the tail cannot leave."""
        w = self.w
        self.totals = {}
        for member in self.members:
            for part in member.parts:
                locals_ = []
                for _ in range(part.gates):
                    local = Local(w.f.fresh("total"), F32)
                    w.f.locals[local.name] = local
                    w.depth[local.name] = len(w.scopes) - 1
                    locals_.append(local)
                self.totals[part.product.value] = locals_

    def tail(self, at: list[Poly], j: Local) -> None:
        """Write what finishes the thread's element; loads of operands go before the products."""
        w, stage, tail = self.w, self.stage, self.one.tail
        if not tail:
            return
        w.symbols[j.name] = j
        w.extents[j.name] = stage.n
        w.home_depth = len(w.scopes) - 1
        barrier, w.barrier = w.barrier, w.home_depth - 1
        w.totals = self.totals
        w.panels = {v: (const(0, I64), self.units, const(0, I64)) for v in self.totals}
        w.panel_n, w.panel_axis = stage.n, stage.axis
        here = ZERO if stage.n == 1 else Poly.of(j.name)
        w.panel_at = (here, *at) if stage.across else (*at, here)
        w.inline = {v for v in tail if v not in self.totals}
        w.finish_vector(stage, Step(done=list(tail)))
        w.totals, w.panels, w.inline = {}, {}, set()
        w.barrier, w.home_depth = barrier, 0

    def a_round(self, one: Warp, m: Local, write: Callable[[], None] | None, at: Local) -> None:
        """Write a round, and what the thread's sums gain by it."""
        f, core = self.w.f, one.member.core
        if write is None:
            if not core.split:
                self.weights(one, self.panel_at(one.member))
            write = self.products(one, m)
        write()
        f.do(device("meet"))
        first = self.rounds[one.number][1] == 0
        for gate, total in enumerate(t for p in one.member.parts for t in self.totals[p.product.value]):
            place = at + core.gate_at(gate) * SIZE if gate else at
            numbers = const(one.many, I64), const(core.part_bytes, I64)
            f.set(total, device("stream_added", *([] if first else [total]), place, *numbers, type=F32))

    def again(self, member: Member) -> None:
        """Write what sums the thread's sums anew that are not finite, term by term: the rest of an infinity is NaN."""
        w, f, core = self.w, self.w.f, member.core
        totals = [t for p in member.parts for t in self.totals[p.product.value]]
        odd: Expr = (totals[0] - totals[0]).ne(0)
        for total in totals[1:]:
            odd = odd | (total - total).ne(0)
        with w.anew(), w.when(odd):
            sums = [w.local("sum_again", const(0.0, F32)) for _ in totals]
            packed = w.local("weight_at", self.panel_at(member) + self.column * 64)
            with w.loop("k", 0, core.terms) as k:
                piece, offset, _ = self.piece_of(member, k)
                table = self.near + self.table_near + (piece + member.first) * (8 * self.core.tile) + self.row * 8
                x = w.local("x", Load(device("load_near_word", table, type=I64) + offset, F32))
                of_part = w.local("of_part", packed + (k >> 6) * core.bytes + (k >> 2 & 3) * 16)
                four = w.local("four", (k >> 4 & 3) * 4 + (k & 3))
                for gate, total in enumerate(sums):
                    n = w.local("n", four * core.own + gate % core.own)
                    place = of_part + (n >> 2) * 512 + (n & 3) * 4 + gate // core.own * (core.units * 64)
                    f.set(total, intrinsic("fma", Load(place, F32), x, total))
            for total, found in zip(totals, sums, strict=True):
                f.set(total, select((total - total).ne(0), found, total))


def _times(turns: Expr, n: int) -> Expr:
    return const(turns.value * n, I64) if isinstance(turns, Const) else turns * n
