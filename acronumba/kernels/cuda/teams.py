"""Teams: the warps of a block that do a node together where one of its tasks needs what another has computed.

In: the tasks of a stage. Out: how many warps a team has, and the function's text: each task is shared out, the warps
meet after it. Two kinds of tasks can be shared out: loops over an outer axis, and reductions of a whole row, whose
terms the team leaves in shared memory, where each of its warps adds them all. So it adds them as a warp alone does,
lane by lane in ascending order, then the lanes by halving: the bits do not depend on the size of the team.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from acronumba.emit.simt import WARP, device
from acronumba.emit.tree import I64, Const, Expr, Load, Local, const, select
from acronumba.ir.spec import Dim, Size
from acronumba.kernels.cuda.shares import SHARE, elements_of, shares_of
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.kernels.cuda.writer import Grid, SimtWriter
from acronumba.kernels.stages.index import ONE, Index, Poly, count
from acronumba.kernels.stages.tasks import Nest, Single, Stages
from acronumba.kernels.write.element import DTYPES, combine
from acronumba.kernels.write.writer import to_memory

WARPS = THREADS // WARP
MOST = 20 << 10  # bytes of the terms of a task, of all teams of a block; two tasks' terms are there at once


def row_of(stages: Stages, item: Nest | Single) -> int:
    """Return the length of the row that a task reduces, if a team can share it; else 0."""
    if not isinstance(item, Nest) or not item.reductions:
        return 0
    real = [k for k, n in enumerate(item.space) if n != 1]
    types = [DTYPES[op.dtype] for v in item.reductions if (op := stages.graph.op(v)) is not None]
    one_column = len(item.space) > 1 and item.space[-1] == 1  # its sum has the order of a sum for several columns
    if len(real) != 1 or real[0] not in item.reduced or one_column or any(t.kind == "b" or t.size < 4 for t in types):
        return 0
    return count(item.space).constant or 0


def places_of(stages: Stages, item: Nest | Single) -> tuple[dict[int, int], int]:
    """Return the offset of the terms of each of a task's reductions, and the bytes of all."""
    found: dict[int, int] = {}
    end, row = 0, -(-row_of(stages, item) // WARP) * WARP
    for v in item.reductions if isinstance(item, Nest) and row else ():
        found[v], end = end, end + row * DTYPES[stages.graph.dtype(v)].size
    return found, end


def loops(stages: Stages, item: Nest | Single) -> bool:
    """Whether the outermost loops of a task can be shared out."""
    if isinstance(item, Nest):
        return any(n != 1 for k, n in enumerate(item.space) if k not in item.reduced)
    return item.kind in ("concat", "stack") or elements_of(stages, item) is not None


def work_of(stages: Stages, item: Nest | Single) -> int:
    """Return the vectors of a task that can be shared out; of one with run-time extents, at least so many as a team has
    warps if a vector or more comes with each unit of an extent.
    """
    if row := row_of(stages, item):
        return -(-row // WARP)
    if not loops(stages, item):
        return 0
    spaces = [item.space if isinstance(item, Nest) else stages.graph.shape(item.value)]
    known = math.prod(n for n in spaces[0] if isinstance(n, int))
    if len(spaces[0]) > 1 and known >= WARP and any(isinstance(n, Dim) for n in spaces[0]):
        return WARPS
    return (elements_of(stages, item) or 0) // SHARE


def team_of(stages: Stages, items: Sequence[Nest | Single]) -> int:
    """Return the number of warps of a team; 1: there are none."""
    work = max((work_of(stages, item) for item in items), default=0)
    if shares_of(stages, items) > 1 and not any(row_of(stages, item) for item in items):
        return 1
    team = WARPS
    while team > max(work, 1):
        team //= 2
    fits = max((places_of(stages, item)[1] for item in items), default=0) * (WARPS // team) <= MOST
    return team if fits else 1


class TeamWriter(SimtWriter):
    """Writes a stage whose nodes are done by teams."""

    team = 1  # warps
    member: Expr = Const(0, I64)  # which one of them this is
    first_warp: Expr | None = None  # of the team, among all warps
    each: tuple[Expr, int] | None = None  # the share of every loop nest of a task: its number, and how many there are
    terms: Local | None = None  # where the terms of the current reductions lie
    length = 0  # how many terms each has
    met = False  # whether the team has met after the last of them

    def nodes_of_teams(self, items: Sequence[Nest | Single], team: int) -> Grid:
        """Write the loop over nodes: all teams of a block take as many turns, some of them the last node again.

        Return the grid: a block for every node of its teams.
        """
        f, teams = self.f, WARPS // team
        each = max(places_of(self.stages, item)[1] for item in items)
        memory = self.local("memory", device("block_memory", const(2 * teams * each, I64), type=I64)) if each else None
        at = self.local("warp_at", self.thread() >> (WARP.bit_length() - 1))
        number = self.local("team", at >> (team.bit_length() - 1))
        self.team, self.member = team, self.local("member", at & (team - 1))
        block = device("block", type=I64)
        self.first_warp = self.local("first_warp", block * WARPS + number * team)
        places = [self.local("terms", memory + (number * 2 + k) * each) for k in range(2)] if memory is not None else []
        a = self.local("a", block * teams)
        with f.while_(a < f["nodes"]), self.scope():
            r = self.local("r", a + number)
            f.set(r, select(r < f["nodes"], r, f["nodes"] - 1))
            self.at_node(r, None)
            for item in items:
                self.item_of_team(item, places[0] if row_of(self.stages, item) else None)
                f.do(device("meet"))
                places.reverse()  # some warps may still read the others
            f.set(a, a + device("blocks", type=I64) * teams)
        return Grid(teams, 1)

    def item_of_team(self, item: Nest | Single, place: Local | None) -> None:
        """Write a task, shared out if it can be; `place`: of the terms of its reductions of a row."""
        mine = self.member, self.team
        if place is not None or loops(self.stages, item):
            if isinstance(item, Single) and item.kind == "concat":
                self.each = mine
            else:
                self.share = mine
            self.offsets = places_of(self.stages, item)[0]
            self.terms, self.length, self.met = place, row_of(self.stages, item), False
            self.item(item)
            self.share = self.each = self.terms = None
        elif isinstance(item, Nest) and count(item.space) == ONE:
            self.item(item)
        else:
            with self.when(self.member.eq(0)):
                self.item(item)
            for v in item.values:  # the other warps do not have it
                self.scopes[self.home_depth].cache.pop(("register", v), None)

    def space(
        self, axes: Sequence[int], shape: Sequence[Size], at: list[Poly], inner: Callable[[], None],
        vector: int | None = None,
        lanes: int = 1,
    ) -> None:  # fmt: skip
        mine, self.each = self.each, None
        if mine is not None:
            self.share = mine
        super().space(axes, shape, at, inner, vector, lanes)
        if mine is not None:
            self.share, self.each = None, mine

    def warp(self) -> Expr:
        return self.first_warp if self.first_warp is not None else super().warp()

    def add_term(self, v: int, total: Local, x: Expr, lanes: int) -> None:
        if self.terms is None:
            super().add_term(v, total, x, lanes)
            return
        t = DTYPES[self.graph.dtype(v)]
        self.f.store_lanes(self.term_at(v, self.symbols[self.lane or ""]), to_memory(x, t))

    def term_at(self, v: int, j: Expr) -> Expr:
        """Return where the terms of a reduction lie from the `j`-th on."""
        assert self.terms is not None
        size = DTYPES[self.graph.dtype(v)].size
        return self.terms + self.offsets[v] + j * size if self.offsets[v] else self.terms + j * size

    def finish(self, v: int, index: Index, total: Local, reduced: Sequence[int], across: bool) -> None:
        if self.terms is not None:
            op, t = self.graph.op(v), DTYPES[self.graph.dtype(v)]
            assert op is not None
            if not self.met:
                self.f.do(device("meet"))
                self.met = True
            with self.loop("c", 0, self.length, WARP) as c:
                x = Load(self.term_at(v, c), t.memory.vector(WARP))
                self.f.set(total, combine(op.op, total, x, t))
        super().finish(v, index, total, reduced, across)
