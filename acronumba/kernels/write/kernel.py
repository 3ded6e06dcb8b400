"""State shared by the functions of one kernel: homes of stored values, scratch memory, tiles, names.

In: `Stages`. Out: a `Kernel`, which a `Writer` reads and adds to.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import field

from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.target import Target
from acronumba.emit.tree import I64, Expr, Ty, const, select
from acronumba.ir.spec import FIXED
from acronumba.kernels.stages.index import Poly
from acronumba.kernels.stages.passes import last_vectors
from acronumba.kernels.stages.tasks import Stages
from acronumba.kernels.write.element import DTYPES
from acronumba.records import record

LANE_BUFFER = 1024  # bytes of scratch for values computed lane by lane


@record(eq=False, frozen=False)
class Home:
    """Location of a stored value in memory."""

    kind: str  # "result" | "block" (of each node of the block) | "row" (of the node at hand, each thread's own), or
    # "tile" (some rows of the lead of a stage in tiles, each thread's own), or "front" (of the rows of a tile of
    # products, each block of threads' own)
    slot: int  # of scratch; number of the result
    row_bytes: Poly  # of a node, or of one row of a tile
    copies: tuple[int, ...] = ()  # further results that are the same value
    local: bool = False  # one element, kept in a local while its stage works on the node


@record()
class Gathered:
    """Location of an operand's copy: a row per node of the block."""

    slot: int  # of scratch
    row_bytes: Poly


@record(eq=False, frozen=False)
class Scratch:
    """The layout of scratch memory: slots of bytes, 64-byte aligned; fixed sizes come first.

    A slot belongs to the block, and all threads that share the block's stages read and write it, or is thread-local: at
    one offset, in the block's scratch S or in the thread's scratch T. Behind the slots of fixed size lie slots of the
    block whose size depends on a node's run-time extents, node after node of the block, then thread-local ones of the
    current stage.
    """

    slots: list[tuple[str, Poly]] = field(default_factory=list)
    own: dict[int, int] = field(default_factory=dict)  # thread-local slots -> their stage

    def add(self, name: str, size: Poly, own: int | None = None) -> int:
        """Return a new slot; `own`: the stage that uses it, if it is thread-local."""
        self.slots.append((name, size))
        if own is not None:
            self.own[len(self.slots) - 1] = own
        return len(self.slots) - 1

    def fixed(self) -> tuple[dict[int, int], int]:
        """Return the offsets of the slots of known size, and their end."""
        out, top = {}, 0
        for k, (_, size) in enumerate(self.slots):
            if (known := size.constant) is not None:
                out[k] = top
                top += -(-known // 64) * 64 + 64
        return out, top

    def dynamic(self, own: int | None = None) -> list[int]:
        """Return the slots whose size depends on extents: of the nodes of a block, or thread-local ones of a stage."""
        return [k for k, (_, size) in enumerate(self.slots) if size.constant is None and self.own.get(k) == own]


@record(eq=False, frozen=False)
class RaggedSlots:
    """Scratch slots of a block of nodes with run-time extents: int64[nodes + 1] each."""

    places: int = -1  # address of the node's scratch, whose size depends on its extents
    times: dict[int, int] = field(default_factory=dict)  # by stage: nanoseconds before those of each node
    starts: dict[int, int] = field(default_factory=dict)  # by stage: units, or rows, before those of each node
    owners: dict[int, int] = field(default_factory=dict)  # by stage of products: node and row of each row


@record(eq=False)
class OwnSlots:
    """Memory of a call of an operation of the user's own."""

    table: int  # slot of scratch
    values: tuple[int, ...]  # per result: the value, -1 if the kernel has none
    slots: tuple[int, ...]  # per result: the slot of scratch of one that no value needs, else -1


@record(eq=False, frozen=False)
class Kernel:
    """State shared by the functions of one kernel."""

    name: str
    stages: Stages
    target: Target
    homes: dict[int, Home]
    scratch: Scratch
    block: Poly  # most nodes of a block
    table: dict[int, int]  # operands whose words are in the block's table: column; empty: no table
    table_slot: int
    lane_slot: int
    gathered: dict[int, Gathered]  # operands that are copied before they are read
    names: list[str]
    shared: list[tuple[tuple[int, ...], object]] = field(default_factory=list)
    tiles: dict[tuple[int, str], int] = field(default_factory=dict)  # (vectors, dtype): rows of the tallest tile
    tile_bytes: dict[int, Poly] = field(default_factory=dict)  # of one row of all that lies in tiles of a stage
    outside: dict[int, int] = field(
        default_factory=dict
    )  # scratch: a number of each row of a tile, outside of its band
    wanted: list[tuple[str, Ty]] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)
    fronts: set[int] = field(default_factory=set)  # slots of scratch of homes in fronts
    own: dict[int, OwnSlots] = field(default_factory=dict)  # calls of operations of the user's own
    owns: list[str] = field(default_factory=list)  # texts of these, in the order of their addresses in P

    ragged: RaggedSlots | None = None  # where nodes have run-time extents

    @property
    def results(self) -> int:
        return len(self.stages.graph.spec.results)

    def tile(self, vectors: int, rows: int, dtype: str) -> int:
        """Request tiles of 1 to `rows` rows; return the index in P of the one-row tile, as known so far."""
        key = (vectors, dtype)
        self.tiles[key] = max(rows, self.tiles.get(key, 0))
        before = list(self.tiles)[: list(self.tiles).index(key)]
        return FIXED + self.results + len(self.shared) + sum(self.tiles[k] for k in before)

    def tile_of(self, q: int, gates: int, n: int, lanes: int, rows: int, form: str, panel: Expr) -> Expr:
        """Return where the addresses of a panel's tiles begin in P, in bytes: the last panel may have narrower ones."""
        tile, last = self.tile(gates * q, rows, form) - 1, last_vectors(q, gates, n, lanes, form)
        if last == gates * q:
            return const(8 * tile, I64)
        narrower = self.tile(last, rows, form) - 1
        return select(panel.eq((n - 1) // (q * lanes)), const(8 * narrower, I64), const(8 * tile, I64))

    def own_entry(self, text: str) -> int:
        """Return the index in P of the address of an operation's kernel, as known so far."""
        if text not in self.owns:
            self.owns.append(text)
        before = len(self.shared) + sum(self.tiles.values())
        return FIXED + self.results + before + self.owns.index(text)

    def share(self, operands: tuple[int, ...], packing: object) -> int:
        """Return the entry of the shared table for an operand, or for one or more packed ones."""
        entry = (operands, packing)
        if entry not in self.shared:
            self.shared.append(entry)
        return self.shared.index(entry)


RESERVED = frozenset(("P", "S", "T", "D", "OUT", "lo", "hi", "range", "ld", "st", "min", "max", "select", "for", "abs"))


def identifier(name: str, fallback: str) -> str:
    """Return the user's name as an identifier."""
    out = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    if not out or out[0].isdigit():
        out = fallback if not out else f"v_{out}"
    if keyword.iskeyword(out) or out in RESERVED or out in INTRINSICS or out in DTYPES:
        out += "_"
    return out
