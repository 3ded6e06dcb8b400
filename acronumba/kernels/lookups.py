"""Products with weights whose rows consist of a pool's vectors, by table look-up: the weight pools of Li & Gupta 2022.

A row of activations, of codes of 8 bits, is multiplied by each vector of the pool once for each 8 of its elements: a
table of at most 64 numbers, two registers of 16-bit lanes. A column of the weight reads one number of each table, at
the number of its vector; an instruction looks up 32 of them. It replaces 256 multiplications.

In: a pool and the vector numbers of a weight's rows. Out: the packed copy of both (`LookupPacking`), and the tile that
reads it (`tile_function`), called like tiles of `kernels.tiles`. Sums are exact:

  - Numbers of a table are at most the sum of the magnitudes of a vector times the largest code of the row, which the
    tile determines. The smaller they are, the more of them are added in 16 bits before the sum is widened to 32: so
    activations of fewer bits take less time.
  - If a single number may not fit into 16 bits, the upper and the lower 4 bits of codes are looked up separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from acronumba.emit import tree
from acronumba.emit.tree import I8, I16, I32, I64, Expr, Operand, const, convert, intrinsic, select
from acronumba.memory import aligned
from acronumba.records import record

GROUP = 8  # elements of a vector
NUMBERS = 64  # of a table
FITS = 32767  # the largest number of 16 bits
LANES = 16  # sums of 32 bits in a register
PARAMETERS = ("T", "tstep", "segs", "K", "W", "wstep", "C", "cstep", "scratch")  # as of other tiles, but for the last
ROWS = 4  # of a tile at most; one after the other
WIDEST = 64  # registers of sums in a panel: all of a panel's columns share the tables of a row
_BLOCK = 4  # pairs of registers of columns that are summed together
_WORDS, _BYTES, _SPREAD, _STEEP, _HEAD = 0, 256, 768, 896, 960  # offsets of the pool's data in a panel


class Scratch(Protocol):
    """Allocator of memory for packed weights."""

    @property
    def allocate(self) -> Callable[[int], NDArray[np.uint8]]: ...


def panel_width(gates: int, n: int) -> int:
    """Return the registers of columns of each gate in a panel."""
    needed = max(1, -(-n // LANES))
    panels = -(-gates * needed // WIDEST)
    return -(-needed // panels)


def panel_bytes(k: int, vectors: int) -> int:
    """Return the bytes of a panel of so many registers of columns."""
    return _HEAD + k // GROUP * 2 * LANES * (-(-vectors // 2))


def scratch_bytes(k: int) -> int:
    """Return the bytes that a tile takes for itself: a row, and its tables."""
    return -(-k // 64) * 64 + 128 + k // GROUP * 2 * NUMBERS


@record()
class LookupPacking:
    """The layout of a shared weight of vectors of a pool; a panel:

    int32[64]            sums of the elements of each vector, in the order of `_head`
    int8[2][64][4]       the vectors, in this order: their first halves, then the others
    int16[2][32]         1, 0, 1, 0, ... and 0, 1, 0, 1, ...: factors that split a register into two of 32-bit lanes
    int64                the largest sum of magnitudes of a vector, at least 1
    uint8[pairs][k/8][4][32]   numbers of vectors, by four pairs of registers of columns; of a pair every other one
    """

    gates: int
    n: int
    k: int
    q: int

    def apply(self, pool: NDArray[np.int8], index: NDArray[np.uint8], by: Scratch | None = None) -> NDArray[np.generic]:
        """Return the packed copy, aligned to 64 bytes, of a pool int8 [v, 8] and numbers uint8 [gates * n, k / 8]."""
        groups, vectors = self.k // GROUP, self.gates * self.q
        columns = self.q * LANES
        panels, pairs = -(-self.n // columns), -(-vectors // 2)
        whole = np.zeros((self.gates, panels * columns, groups), np.uint8)
        whole[:, : self.n] = np.minimum(index, len(pool) - 1).reshape(self.gates, self.n, groups)
        wide = np.zeros((panels, 2 * pairs, LANES, groups), np.uint8)
        of_panels = whole.reshape(self.gates, panels, self.q, LANES, groups).transpose(1, 0, 2, 3, 4)
        wide[:, :vectors] = of_panels.reshape(panels, vectors, LANES, groups)
        mixed = wide.reshape(panels, pairs, 2, LANES, groups).transpose(0, 1, 4, 3, 2)  # [panel][pair][group][lane]
        size = panel_bytes(self.k, vectors)
        packed = (aligned if by is None else by.allocate)(panels * size).reshape(panels, size)
        packed[:, :_HEAD] = _head(pool)
        at = _HEAD
        for first in range(0, pairs, _BLOCK):
            some = mixed[:, first : first + _BLOCK].transpose(0, 2, 1, 3, 4).reshape(panels, -1)
            packed[:, at : at + some.shape[1]] = some
            at += some.shape[1]
        return packed


def _head(pool: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Return the first bytes of a panel, which depend on the pool alone."""
    vectors = np.zeros((NUMBERS, GROUP), np.int8)
    vectors[: len(pool)] = pool
    vectors = vectors.reshape(2, LANES, 2, GROUP).transpose(0, 2, 1, 3).reshape(NUMBERS, GROUP)
    wide = vectors.astype(np.int64)
    head = np.zeros(_HEAD, np.uint8)
    head[_WORDS:_BYTES] = wide.sum(axis=1).astype(np.int32).view(np.uint8)
    halves = np.stack([vectors[:, :4], vectors[:, 4:]])
    head[_BYTES:_SPREAD] = halves.reshape(-1).view(np.uint8)
    head[_SPREAD:_STEEP] = np.array([[1, 0] * LANES, [0, 1] * LANES], np.int16).reshape(-1).view(np.uint8)
    head[_STEEP : _STEEP + 8] = np.array([max(1, np.abs(wide).sum(axis=1).max())]).view(np.uint8)
    return head


def tile_function(name: str, rows: int, vectors: int) -> tree.Function:
    """Return the tile of so many rows and registers of sums as a function of `PARAMETERS`."""
    f = tree.Builder(
        name,
        [(p, I64) for p in PARAMETERS],
        inline="never",
        doc=f"C[r][v] = sum over g of table[r][g][W[g][v]]: {rows} rows, {vectors} vectors of {LANES} columns.",
    )
    with f.loop("r", 0, rows) as r:
        end = _copied(f, r)
        row = f["scratch"]
        groups = f.let("groups", (end - row) >> 3)
        most = _largest(f, row, end)
        steep = f.let("steep", tree.load(f["W"] + _STEEP))
        f.comment("codes as they are, or their upper halves, then the lower ones")
        halves = f.let("halves", select(steep * most > FITS, const(1, I64), 0))
        bound = f.let("bound", select(halves > 0, steep * 16, steep * most))
        every = f.let("every", intrinsic("udiv", const(FITS, I64), bound))
        tables = f.let("tables", (end + 127) & -64)
        c = f.let("c", f["C"] + f["cstep"] * r)
        f.do(intrinsic("fill_bytes", c, const(0, I8), const(vectors * 4 * LANES, I64), type=tree.VOID))
        with f.loop("plane", 0, halves + 1) as plane:
            _tables(f, row, groups, tables, halves, plane)
            _columns(f, vectors, groups, tables, every, c)
    return f.function()


def _copied(f: tree.Builder, r: Expr) -> Expr:
    """Write the concatenation of a row's pieces, padded with codes of 0; return the address of its end."""
    end = f.let("end", f["scratch"])
    with f.loop("s", 0, f["segs"]) as s:
        size = f.let("size", tree.load(f["K"], s))
        f.do(intrinsic("copy_bytes", end, tree.load(f["T"] + s * f["tstep"] * 8, r), size, type=tree.VOID))
        f.set(end, end + size)
    f.store_lanes(end, const(-128, I8.vector(64)))
    return end


def _largest(f: tree.Builder, row: Expr, end: Expr) -> Expr:
    """Return an upper bound of the magnitudes of a row's codes, which are stored as unsigned bytes, offset by 128."""
    wide = I8.vector(64)
    found = f.let("found", const(0, wide))
    with f.loop("k", row, end, 64) as k:
        code = tree.Load(k, wide) ^ const(-128, wide)
        f.set(found, intrinsic("umax", found, intrinsic("abs", code)))
    most = intrinsic("hmax", intrinsic("umin", found, const(127, wide)), type=I8)
    return f.let("most", convert(most, I64) + 1)  # -128 is 127 here


def _tables(f: tree.Builder, row: Expr, groups: Expr, tables: Expr, halves: Expr, plane: Expr) -> None:
    """Multiply each 8 codes by all vectors of the pool."""
    words, narrow = I32.vector(LANES), I8.vector(4 * LANES)
    more = f.let("more", convert(convert(select(halves.eq(0), const(128, I64), 8 - plane * 8), I32), words, "spread"))
    begin = [-(tree.Load(f["W"] + (_WORDS + 64 * i), words) * more) for i in range(NUMBERS // LANES)]
    begin = [f.let(f"begin{i}", x) for i, x in enumerate(begin)]
    vectors = [f.let(f"p{i}", tree.Load(f["W"] + (_BYTES + 64 * i), narrow)) for i in range(2 * NUMBERS // LANES)]

    def write(codes: Callable[[Expr], Expr]) -> None:
        with f.loop("g", 0, groups) as g:
            x = [f.let(f"x{j}", convert(codes(tree.Load(row + g * 8 + 4 * j, I32)), narrow, "bits")) for j in range(2)]
            sums = []
            for i, start in enumerate(begin):
                for j in range(2):
                    start = intrinsic("dots", start, x[j], vectors[4 * j + i], type=words)
                sums.append(f.let(f"t{i}", start))
            for i in range(0, len(sums), 2):
                both = (sums[i + 1] << const(16, words)) | (sums[i] & const(0xFFFF, words))
                f.store_lanes(tables + g * 128 + 32 * i, both)

    with f.when(halves.eq(0)):
        write(lambda word: convert(word, words, "spread"))
    with f.otherwise():
        shift = f.let("shift", convert(4 - plane * 4, I32))  # of one word: LLVM 22 does not end with vectors of them
        write(lambda word: convert(intrinsic("lshr", word, shift) & 0x0F0F0F0F, words, "spread"))


def _columns(f: tree.Builder, vectors: int, groups: Expr, tables: Expr, every: Expr, c: Expr) -> None:
    """Write the look-ups of all columns, added to 16 times the sums in memory."""
    pairs = -(-vectors // 2)
    whole, rest = divmod(pairs, _BLOCK)
    if vectors % 2 and not rest:
        whole, rest = whole - 1, _BLOCK  # the last one has no second register
    even = f.let("even", tree.Load(f["W"] + _SPREAD, I16.vector(2 * LANES)))
    odd = f.let("odd", tree.Load(f["W"] + (_SPREAD + 64), I16.vector(2 * LANES)))
    numbers = f.let("numbers", f["W"] + _HEAD)

    def some(first: Operand, vectors: int) -> None:
        at = f.let("at", c + first * (8 * _BLOCK * LANES))
        _block(f, vectors, groups, tables, every, at, numbers, (even, odd))

    if whole:
        with f.loop("block", 0, whole) as block:
            some(block, 2 * _BLOCK)
    if rest:
        some(whole, vectors - whole * 2 * _BLOCK)


def _block(
    f: tree.Builder, vectors: int, groups: Expr, tables: Expr, every: Expr, c: Expr, numbers: tree.Local,
    split: tuple[Expr, Expr],
) -> None:  # fmt: skip
    """Write the look-ups for some registers of columns; `numbers`: address of vector numbers, which is advanced."""
    words, wide, pairs = I32.vector(LANES), I16.vector(2 * LANES), -(-vectors // 2)
    sums = [f.let(f"sums{v}", tree.Load(c + 4 * LANES * v, words) << const(4, words)) for v in range(vectors)]

    def found(g: Expr) -> list[Expr]:
        at = tables + g * 128
        low, high = f.let("low", tree.Load(at, wide)), f.let("high", tree.Load(at + 64, wide))
        out = []
        for p in range(pairs):
            number = convert(tree.Load(numbers + 2 * LANES * p, I8.vector(2 * LANES)), wide, "unsigned")
            out.append(intrinsic("pick", low, high, number))
        return out

    done = f.let("done", 0)
    with f.while_(done < groups):
        held = [f.let(f"held{p}", x) for p, x in enumerate(found(done))]
        f.set(numbers, numbers + 2 * LANES * pairs)
        stop = f.let("stop", select(done + every < groups, done + every, groups))
        with f.loop("g", done + 1, stop) as g:
            for h, x in zip(held, found(g), strict=True):
                f.set(h, h + x)
            f.set(numbers, numbers + 2 * LANES * pairs)
        for v, s in enumerate(sums):
            f.set(s, s + intrinsic("pairs", held[v // 2], split[v % 2], type=words))
        f.set(done, stop)
    for v, s in enumerate(sums):
        f.store_lanes(c + 4 * LANES * v, s)
