"""Register tiles: the innermost loops of every matrix product, and the packing of the shared weights that they read.

In: the number of products side by side (`gates`), their columns, the element type and the machine. Out: the shape of
the panel and of the tile (`panel_shape`), the packed copy of a weight (`Packing`), and the code of the tiles
(`tile_module`), one module per panel width with a function for every number of rows. A tile computes

    C[r][v] = sum over k of  A[r][k] * W[k][v]        rows r < rows, vectors of columns v < vectors

with all of C in registers, k ascending, one accumulator and one fma per element; after each `CHUNK` of k the
accumulators are added to C in memory and start again from zero, so that long sums are as accurate as in libraries that
block k for their caches. The bits of a result depend on its row and its column alone: not on the tile's rows, not on
the cut of k into pieces, not on neighbours. Kernels call tiles by address (`kernels.cpu`), so a tile is compiled once
per machine and used by every model.

The right operand W is either a packed panel of a shared weight or any matrix whose columns are contiguous: `wstep` is
the distance from k to k + 1. The left operand comes as rows of `segs` pieces, never concatenated:

    T       int64[segs, tstep]  T[s, r]: address of piece s of row r
    tstep   entries from one piece's addresses to the next one's
    segs    number of pieces
    K       int64[segs]         elements in each piece
    W       address of the right operand, wstep bytes from k to k + 1
    C       address of the result, cstep bytes from row to row
    passed  number of terms of the first chunk that are left out, as they are 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from acronumba.emit import tree
from acronumba.emit.arithmetic import to_bf16
from acronumba.emit.compile import Deferred
from acronumba.ir.spec import CHUNK
from acronumba.kernels import lookups
from acronumba.memory import aligned
from acronumba.records import record
from acronumba.strategy import DEFAULT, Strategy

if TYPE_CHECKING:
    from acronumba.emit.target import Target

PARAMETERS = ("T", "tstep", "segs", "K", "W", "wstep", "C", "cstep", "passed")
# Of sums, by the form of a product; int32: of codes of 8 bits; lookups: of them, too, see `kernels.lookups`; bf16: of
# upper halves of float32, in pairs.
TYPES = {"float32": tree.F32, "float64": tree.F64, "int32": tree.I32, "lookups": tree.I32, "bf16": tree.F32}


@record()
class PanelShape:
    """Partition of a product's columns into panels.

    A panel holds `q` vectors of columns of every gate, so `vectors` = gates * q; a tile works on up to `rows` rows.
    """

    q: int
    rows: int
    vectors: int


@record()
class TileKey:
    """Names a tile: `rows` x `vectors` of sums of products of the form `dtype`, see `TYPES`."""

    rows: int
    vectors: int
    dtype: str

    @property
    def name(self) -> str:
        return f"tile_{self.rows}x{self.vectors}_{self.dtype}"


class Packer(Protocol):
    """Packs weights, into memory that it allocates."""

    @property
    def allocate(self) -> Callable[[int], NDArray[np.uint8]]:
        """Allocator: from a size in bytes to memory aligned to 64 bytes."""

    def write(self, array: NDArray[np.generic], packed: NDArray[np.generic], n: int, transposed: bool) -> None:
        """Write an array with contiguous rows to its packed form, without the padding."""

    def round(self, array: NDArray[np.generic], words: NDArray[np.generic], across: bool) -> None:
        """Write an array of float32 with contiguous rows rounded to bf16, two elements in a word: neighbours in a
        column (`across`), or in a row.
        """

    def copied(self) -> None:
        """Note that an array that is written next is a copy: to write it again needs another copy."""

    def restart(self) -> None:
        """Allocate the same memory again, in the same order, from now on."""

    def repeat(self) -> bool:
        """Pack what was packed since `restart` again; False if nothing was done, since `write` did not write it all."""


@record()
class CodePacking:
    """The layout of a shared weight of codes: [panel][k/group][gate][q][lane][group], padded with zeros.

    A panel of groups of 4 begins with the initial values of its sums, int32[gate][q][lane]: the instruction takes
    activations as unsigned bytes, offset by 128, so sums begin at -128 times the column's sum.

    The weight comes as an array of shape (gates * n, k), the left operand of `w @ x`; or transposed, as for `Packing`.
    """

    gates: int
    n: int
    k: int
    q: int
    lanes: int
    group: int  # adjacent codes of a column, which one instruction multiplies and sums
    transposed: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the packed copy."""
        columns = self.q * self.lanes
        return -(-self.n // columns), -(-self.k // self.group) + (self.group == 4), self.gates, columns * self.group

    dtype = "int8"

    def apply(
        self, array: NDArray[np.generic], by: Packer | None = None, to: NDArray[np.generic] | None = None
    ) -> NDArray[np.generic]:
        """Return the packed copy of `array`, aligned to 64 bytes; `by` and `to`: as for `Packing`."""
        wide = self.gates * self.n
        expected = (wide, self.k) if self.transposed else (self.k, wide)
        if array.shape != expected or array.dtype != np.int8:
            raise ValueError(f"packing expects int8 of shape {expected}, got {array.dtype} of {array.shape}")
        columns = self.q * self.lanes
        panels, groups = -(-self.n // columns), -(-self.k // self.group)
        rows = (array if self.transposed else array.T).reshape(self.gates, self.n, self.k)
        full = np.zeros((self.gates, panels * columns, groups * self.group), np.int8)
        full[:, : self.n, : self.k] = rows
        by_panel = full.reshape(self.gates, panels, columns, groups, self.group).transpose(1, 3, 0, 2, 4)
        head = self.group == 4
        packed = allocated(self.shape, self.dtype, by) if to is None else to
        packed[:, head:] = by_panel.reshape(panels, groups, self.gates, columns * self.group)
        if head:
            begin = -128 * by_panel.sum(axis=(1, 4), dtype=np.int32)
            packed[:, 0] = begin.view(np.int8).reshape(panels, self.gates, columns * self.group)
        return packed


@record()
class Packing:
    """The layout of a shared weight as the tiles read it: [panel][k][gate][q][lane], columns padded with zeros.

    The weight is `gates` products side by side, each of `n` columns and extent `k`. It comes as an array of shape
    (k, gates * n), the right operand of `x @ w`; or, `transposed`, of shape (gates * n, k), the left one of `w @ x`.
    """

    gates: int
    n: int
    k: int
    q: int
    lanes: int
    dtype: str
    transposed: bool

    @property
    def columns(self) -> int:
        """Columns of one gate in one panel."""
        return self.q * self.lanes

    @property
    def panels(self) -> int:
        return -(-self.n // self.columns)

    @property
    def step(self) -> int:
        """Bytes from k to k + 1 (`wstep`)."""
        return self.gates * self.columns * np.dtype(self.dtype).itemsize

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the packed copy."""
        return self.panels, self.k, self.gates, self.columns

    def apply(
        self, array: NDArray[np.generic], by: Packer | None = None, to: NDArray[np.generic] | None = None
    ) -> NDArray[np.generic]:
        """Return the packed copy of `array`, aligned to 64 bytes.

        Parameters
        ----------
        array
            The weight.
        by
            What packs it; None: NumPy.
        to
            The memory for the copy, of its `shape`, with contiguous rows.

        Raises
        ------
        ValueError
            If the array's shape is not the one described above.
        """
        wide = self.gates * self.n
        expected = (wide, self.k) if self.transposed else (self.k, wide)
        if array.shape != expected:
            raise ValueError(f"packing expects shape {expected}, got {array.shape}")
        full = self.n // self.columns
        packed = allocated(self.shape, self.dtype, by) if to is None else to
        packed[full:] = 0
        if by is not None and array.strides[-1] == array.itemsize and array.dtype == packed.dtype:
            by.write(array, packed, self.n, self.transposed)
            return packed
        by_gate = (array.T if self.transposed else array).reshape(self.k, self.gates, self.n)
        head = by_gate[:, :, : full * self.columns].reshape(self.k, self.gates, full, self.columns)
        packed[:full] = head.transpose(2, 0, 1, 3)
        if full < self.panels:
            packed[full, :, :, : self.n - full * self.columns] = by_gate[:, :, full * self.columns :]
        return packed


@record()
class PairPacking:
    """The layout of a shared weight of bf16: that of `Packing`, of words with two neighbours along k, the first below.

    The weight comes as float32, as for `Packing`, and is rounded. Of an odd number the last one has a 0 above it.
    """

    words: Packing  # its `k` counts words
    k: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the packed copy."""
        return self.words.shape

    @property
    def dtype(self) -> str:
        return self.words.dtype

    def apply(
        self, array: NDArray[np.generic], by: Packer | None = None, to: NDArray[np.generic] | None = None
    ) -> NDArray[np.generic]:
        """Return the packed copy of `array`, aligned to 64 bytes; `by` and `to`: as for `Packing`."""
        across = not self.words.transposed
        wide = self.words.gates * self.words.n
        expected = (self.k, wide) if across else (wide, self.k)
        if array.shape != expected:
            raise ValueError(f"packing expects shape {expected}, got {array.shape}")
        shape = (self.words.k, wide) if across else (wide, self.words.k)
        if by is not None and array.strides[-1] == array.itemsize and array.dtype == np.float32:
            words = allocated(shape, self.dtype, by)
            by.round(array, words, across)
            return self.words.apply(words, by, to)
        halves = np.zeros((wide, 2 * self.words.k), np.int16)
        halves[:, : self.k] = to_bf16(array.T if across else array)
        if by is not None:
            by.copied()
        words = halves.view(self.dtype)
        return self.words.apply(np.ascontiguousarray(words.T) if across else words, by, to)


AnyPacking: TypeAlias = Packing | CodePacking | PairPacking


def allocated(shape: tuple[int, ...], dtype: str, by: Packer | None) -> NDArray[np.generic]:
    """Return memory for a packed copy, aligned to 64 bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return (aligned if by is None else by.allocate)(size).view(dtype).reshape(shape)


def group_of(target: Target) -> int:
    """Return the number of adjacent codes of a column in a packed weight of codes."""
    return 4 if target.dots else 2


def at_once(dtype: str, target: Target) -> int:
    """Return how many terms of a sum an instruction of a tile multiplies, by the form of the product."""
    if dtype == "bf16":
        return 2 if target.halves else 1
    return group_of(target) if dtype == "int32" else 1


def packing_of(
    target: Target, dtype: str, *, gates: int, n: int, k: int, q: int, lanes: int, transposed: bool
) -> AnyPacking:
    """Return the layout of a weight for tiles of a form."""
    if dtype == "bf16":
        words = Packing(gates=gates, n=n, k=-(-k // 2), q=q, lanes=lanes, dtype="uint32", transposed=transposed)
        return PairPacking(words=words, k=k)
    if dtype == "int32":
        group = group_of(target)
        return CodePacking(gates=gates, n=n, k=k, q=q, lanes=lanes, group=group, transposed=transposed)
    return Packing(gates=gates, n=n, k=k, q=q, lanes=lanes, dtype=dtype, transposed=transposed)


def bytes_of_panel(target: Target, dtype: str, k: int, wide: int) -> int:
    """Return the bytes of a panel of a packed weight, of which the sums of a row take `wide` bytes."""
    if dtype == "lookups":
        return lookups.panel_bytes(k, wide // (4 * lookups.LANES))
    if dtype != "int32":
        return (-(-k // 2) if dtype == "bf16" else k) * wide
    group = group_of(target)
    return (-(-k // group) + (group == 4)) * (wide // 4 * group)


def free(target: Target, dtype: str) -> Target:
    """Return a target with the registers that are free for tiles: products of codes take one as a temporary."""
    if dtype != "int32" or target.dots:
        return target
    return replace(target, registers=target.registers - 1)


def widest(target: Target) -> int:
    """Return the number of vectors of columns that one pass over k can hold; wider panels take several passes."""
    return 6 if target.registers >= 32 else 5 if target.registers >= 16 else 3


def passes_over(vectors: int, target: Target) -> list[int]:
    """Cut `vectors` into passes of nearly equal width."""
    count = -(-vectors // widest(target))
    return [vectors * (i + 1) // count - vectors * i // count for i in range(count)]


def tallest(vectors: int, target: Target, most: int = DEFAULT.tile_rows) -> int:
    """Return the rows of the tallest tile whose accumulators, one row of W and one element of A fit the registers."""
    wide = max(passes_over(vectors, target))
    return max(1, min(most, (target.registers - wide - 1) // wide))


def panel_shape(gates: int, n: int, target: Target, dtype: str, strategy: Strategy = DEFAULT) -> PanelShape:
    """Choose the shape of panels and tiles for `gates` products of `n` columns each.

    A tile of r x v accumulators does r * v multiplications for r + v loads, and needs about 20 accumulators (8 with 16
    registers) to hide the latency of an fma. With 1.7 times as many multiplications as loads the multipliers are busy.
    The last panel of one gate has a tile for the vectors that are left; in others, columns beyond `n` are work for
    nothing. The least time for all columns decides.
    """
    if dtype == "lookups":
        q = lookups.panel_width(gates, n)
        return PanelShape(q, min(lookups.ROWS, strategy.tile_rows), gates * q)
    target = free(target, dtype)
    lanes = target.lanes(TYPES[dtype])
    needed = max(1, -(-n // lanes))  # vectors of columns per gate
    most = max(1, widest(target) // gates)
    if strategy.panel_vectors:
        most = min(most, strategy.panel_vectors)

    def time(q: int) -> tuple[float, bool, float]:
        each, rows = _score(gates * q, target, strategy), tallest(gates * q, target, strategy.tile_rows)
        whole, left = divmod(needed, q) if gates == 1 else (-(-needed // q), 0)
        last = left / min(_busy(rows, left, target), _BUSY) if left else 0.0
        return round(whole * gates * q / min(each, _BUSY) + last, 9), left > 0, -each

    q = min(range(1, min(most, needed) + 1), key=time)
    return PanelShape(q, tallest(gates * q, target, strategy.tile_rows), gates * q)


_BUSY = 1.7  # multiplications for each load


def _score(vectors: int, target: Target, strategy: Strategy) -> float:
    """Return a score of how well tiles of so many vectors keep the CPU's multipliers busy."""
    return _busy(tallest(vectors, target, strategy.tile_rows), max(passes_over(vectors, target)), target)


def _busy(rows: int, wide: int, target: Target) -> float:
    """Return the same of a tile: multiplications for each load, less where there are too few accumulators."""
    enough = 20 if target.registers >= 32 else 8
    return rows * wide / (rows + wide) * min(1.0, rows * wide / enough)


def narrow(gates: int, n: int, target: Target, dtype: str, strategy: Strategy = DEFAULT) -> bool:
    """Whether a panel of `gates` products of `n` columns has too few vectors of columns to keep a tile busy."""
    if dtype == "lookups":
        return False
    whole, mine = panel_shape(gates, n, target, dtype, strategy).vectors, free(target, dtype)
    return 1.2 * _score(whole, mine, strategy) < max(_score(v, mine, strategy) for v in range(1, widest(mine) + 1))


def tile_keys(shape: PanelShape, dtype: str) -> tuple[TileKey, ...]:
    """Return the tiles of a panel shape: every number of rows from 1 up."""
    return tuple(TileKey(rows, shape.vectors, dtype) for rows in range(1, shape.rows + 1))


def tile_function(key: TileKey, target: Target) -> tree.Function:
    """Return the tile `key` as a function of the parameters described at the top of this module."""
    if key.dtype == "lookups":
        return lookups.tile_function(key.name, key.rows, key.vectors)
    target = free(target, key.dtype)
    element = TYPES[key.dtype]
    vector = element.vector(target.lanes(element))
    f = tree.Builder(
        key.name,
        [(name, tree.I64) for name in PARAMETERS],
        inline="never",
        doc=f"C[r][v] = sum of A[r][k] * W[k][v]: {key.rows} rows, {key.vectors} vectors of {vector.lanes} columns.",
    )
    first = 0
    for wide in passes_over(key.vectors, target):
        columns = range(first, first + wide)
        if key.dtype == "int32":
            _pass_of_codes(f, key.rows, columns, vector, group_of(target))
        else:
            _pass(f, key.rows, columns, vector, _Halves(vector) if key.dtype == "bf16" else _Floats(vector))
        first += wide
    return f.function()


def _after(address: tree.Expr, count: int) -> tree.Expr:
    return address + count if count else address


class _Floats:
    """Elements of the operands of a tile: one term at a time."""

    def __init__(self, vector: tree.Ty) -> None:
        self.vector = vector  # of sums
        self.size = vector.bits // 8  # of an element of the left operand
        self.step = self.size  # bytes of it that are multiplied at once
        self.columns = vector  # of the right operand, for a vector of sums

    def left(self, address: tree.Expr) -> tree.Expr:
        """Return an element, or a pair, in all lanes."""
        return tree.convert(tree.Load(address, self.vector.scalar), self.vector, "spread")

    def add(self, c: tree.Expr, x: tree.Expr, w: tree.Expr) -> tree.Expr:
        """Return a sum with what is multiplied at once."""
        return tree.intrinsic("fma", x, w, c)


class _Halves(_Floats):
    """Elements of bf16, two at a time; of an odd number the last one is multiplied with a 0 beside it."""

    def __init__(self, vector: tree.Ty) -> None:
        super().__init__(vector)
        self.size, self.columns = 2, tree.I16.vector(2 * vector.lanes)

    def left(self, address: tree.Expr) -> tree.Expr:
        return self._spread(tree.convert(tree.Load(address, tree.I16.vector(2)), tree.I32, "bits"))

    def last(self, address: tree.Expr) -> tree.Expr:
        """Return the last element, with a 0 beside it."""
        return self._spread(tree.convert(tree.Load(address, tree.I16), tree.I32, "unsigned"))

    def _spread(self, word: tree.Expr) -> tree.Expr:
        return tree.convert(tree.convert(word, tree.I32.vector(self.vector.lanes), "spread"), self.columns, "bits")

    def add(self, c: tree.Expr, x: tree.Expr, w: tree.Expr) -> tree.Expr:
        return tree.intrinsic("dots_bf16", c, x, w)


def _pass(f: tree.Builder, rows: int, columns: range, vector: tree.Ty, of: _Floats) -> None:
    """Write one pass over k for the vectors `columns` of the panel."""
    size, width = of.size, vector.lanes * vector.bits // 8
    w = f.let("w", _after(f["W"], columns.start * width))
    left = f.let("left", (CHUNK - f["passed"]) * size)
    begun = f.let("begun", 0)
    s = f.let("s", 0)
    start = f.let("start", 0)
    more = f.let("more", 1)
    with f.while_(more > 0):
        sums = {(r, v): f.let(f"c{r}_{v}", tree.const(0.0, vector)) for r in range(rows) for v in columns}

        def add(element: Callable[[int], tree.Expr], sums: dict[tuple[int, int], tree.Local] = sums) -> None:
            row = {v: f.let(f"w{v}", tree.Load(_after(w, (v - columns.start) * width), of.columns)) for v in columns}
            for r in range(rows):
                x = f.let(f"x{r}", element(r))
                for v in columns:
                    f.set(sums[r, v], of.add(sums[r, v], x, row[v]))
            f.set(w, w + f["wstep"])

        if isinstance(of, _Halves):
            f.do(tree.intrinsic("flush_denormals", tree.const(1, tree.I64), type=tree.VOID))
        with f.while_(s < f["segs"]):
            end = f.let("end", tree.load(f["K"], s) * size)
            with f.when(start.eq(end)):
                f.set(s, s + 1)
                f.set(start, 0)
            with f.otherwise():
                with f.when(left.eq(0)):
                    f.leave()
                piece = f.let("piece", f["T"] + s * f["tstep"] * 8)
                a = [f.let(f"a{r}", tree.load(piece, r)) for r in range(rows)]
                stop = f.let("stop", tree.select(end < start + left, end, start + left))
                if isinstance(of, _Halves):
                    whole = f.let("whole", stop & -of.step)
                    with f.loop("k", start, whole, of.step) as k:
                        add(lambda r, a=a, k=k: of.left(a[r] + k))  # type: ignore[misc]
                    with f.when(whole < stop):
                        add(lambda r, a=a, whole=whole: of.last(a[r] + whole))  # type: ignore[misc]
                else:
                    with f.loop("k", start, stop, of.step) as k:
                        add(lambda r, a=a, k=k: of.left(a[r] + k))  # type: ignore[misc]
                f.set(left, left - (stop - start))
                f.set(start, stop)
        if isinstance(of, _Halves):
            f.do(tree.intrinsic("flush_denormals", tree.const(0, tree.I64), type=tree.VOID))
        at = [f.let("at0", f["C"])]
        for r in range(1, rows):
            at.append(f.let(f"at{r}", at[-1] + f["cstep"]))
        with f.when(begun > 0):
            for (r, v), c in sums.items():
                f.set(c, tree.Load(_after(at[r], v * width), vector) + c)
        for (r, v), c in sums.items():
            f.store_lanes(_after(at[r], v * width), c)
        f.set(begun, 1)
        f.set(left, CHUNK * size)
        f.set(more, f["segs"] - s)


def _pass_of_codes(f: tree.Builder, rows: int, columns: range, vector: tree.Ty, group: int) -> None:
    """Write one pass over groups of k for the vectors `columns` of the panel.

    In groups of 2, codes of 16 bits are multiplied by codes of 8 bits, which are widened; in groups of 4, bytes by
    bytes.
    """
    width = vector.lanes * 4
    near = vector.lanes * group  # bytes of the codes that belong to a vector of sums
    narrow, pairs = tree.I8.vector(near), tree.I16.vector(near)
    size = 4 // group  # bytes of an element of the left operand
    start = _after(f["W"], columns.start * near)
    zero = tree.const(0, vector)

    def begin(v: int) -> tree.Expr:
        return tree.Load(_after(start, (v - columns.start) * near), vector) if group == 4 else zero

    sums = {(r, v): f.let(f"c{r}_{v}", begin(v)) for r in range(rows) for v in columns}
    step = f["wstep"] if group == 4 else f.let("step", f["wstep"] >> 1)
    w = f.let("w", start + step if group == 4 else start)

    def add(words: Callable[[int], tree.Expr]) -> None:
        row = {v: tree.Load(_after(w, (v - columns.start) * near), narrow) for v in columns}
        held = {v: f.let(f"w{v}", x if group == 4 else tree.convert(x, pairs)) for v, x in row.items()}
        for r in range(rows):
            word = tree.convert(words(r), vector, "spread")
            x = f.let(f"x{r}", tree.convert(word, narrow if group == 4 else pairs, "bits"))
            for v in columns:
                c = sums[r, v]
                two = group == 2
                f.set(c, c + tree.intrinsic("pairs", x, held[v], type=vector) if two
                      else tree.intrinsic("dots", c, x, held[v], type=vector))  # fmt: skip
        f.set(w, w + step)

    with f.loop("s", 0, f["segs"]) as s:
        piece = f.let("piece", f["T"] + s * f["tstep"] * 8)
        a = [f.let(f"a{r}", tree.load(piece, r)) for r in range(rows)]
        many = f.let("many", tree.load(f["K"], s) * size)
        whole = f.let("whole", many & -4)
        with f.loop("k", 0, whole, 4) as k:
            add(lambda r: tree.Load(a[r] + k, tree.I32))
        with f.when(whole < many):
            add(lambda r: _last(f, a[r] + whole, many - whole, size))
    for (r, v), c in sums.items():
        row = f["C"] + f["cstep"] * r if r > 1 else f["C"] + f["cstep"] if r else f["C"]
        f.store_lanes(_after(row, v * width), c)


def _last(f: tree.Builder, address: tree.Expr, count: tree.Expr, size: int) -> tree.Expr:
    """Return the `count` bytes at an address, fewer than four, as a word whose other bytes are 0."""
    if size == 2:
        return tree.convert(tree.Load(address, tree.I16), tree.I32, "unsigned")
    word = f.let("last", 0, tree.I32)
    with f.loop("j", 0, count) as j:
        byte = tree.convert(tree.Load(address + j, tree.I8), tree.I32, "unsigned")
        f.set(word, word | (byte << tree.convert(j * 8, tree.I32)))
    return word


def _ordered(keys: Iterable[TileKey]) -> list[TileKey]:
    return sorted(set(keys), key=lambda key: (key.dtype, key.vectors, key.rows))


def _module_name(ordered: Sequence[TileKey]) -> str:
    return f"tiles_{'_'.join(dict.fromkeys(f'{key.dtype}_{key.vectors}' for key in ordered))}"


def deferred(keys: Iterable[TileKey], target: Target) -> Deferred:
    """Return the module `tile_module(keys, target)`, made only if its machine code is not cached."""
    ordered = _ordered(keys)
    key = f"tiles {ordered} {target}"
    return Deferred(name=_module_name(ordered), key=key, make=lambda: tile_module(ordered, target))


def tile_module(keys: Iterable[TileKey], target: Target) -> tree.Module:
    """Return a module of tiles, all exported. Best take one module per panel shape, all of `tile_keys`."""
    ordered = _ordered(keys)
    functions = tuple(tile_function(key, target) for key in ordered)
    return tree.Module(
        name=_module_name(ordered),
        functions=functions,
        exports=tuple(function.name for function in functions),
        header="Register tiles of matrix products (acronumba.kernels.tiles)",
    )
