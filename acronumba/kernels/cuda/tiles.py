"""Tiles of products on a GPU: text of functions that all threads of a block call together.

In: a `Tile`. Out: the text of a function

    tile(rows, m, apart_rows, pieces, lengths, weight, first, power, sums, apart)    returns the address of the sums

    rows, apart_rows   rows[s * apart_rows + r] is the address of piece s of row r of the left operand
    m                  rows, at most `Tile.rows`
    pieces, lengths    of a row: int64 elements of each
    weight             of one panel: `Tile.columns` columns of each of `Tile.gates` gates, for each k
    first, power       of the columns of each gate, 2**power from `first` on are computed
    stride, columns    of a matrix that is not a packed weight (`Tile.right`): bytes from one row to the next, or from
                       one column; number of columns. Both stand behind `power`
    sums, apart        row r of the sums is at sums + r * apart, gate g at column g * `Tile.columns` of it; if `sums` is
                       0, they overwrite the ring of steps

Rows are read in place, so that gathering and concatenating cost nothing. Steps of `STEP` elements of each row, and of
as many rows of the weight, go through a ring in shared memory: while a step is computed, the next ones are fetched.
The order of summation is the same for every row, whatever its position in the tile, the number of rows, and the part of
a panel that a block computes: k ascending in steps of `STEP`, piece by piece, a new accumulator every `PART` terms. So
k is never shared out to warps or blocks, which would add up in another order.

float32 products are computed by tensor cores, whose factors have 11 bits: each factor is split into a large part and a
small rest, and of their four products the three that count are added ("3xTF32"). Tensor cores truncate their sums
instead of rounding them, a bias that grows over a chain of hundreds: they add up 8 terms, and these sums are added as
float32, so that the result is about as exact as float32 (Ootomo and Yokota, 2022).
With `precision="tf32"` there is one product, of factors rounded to 11 bits, with "bf16" of factors rounded to 8: then a
sum of products is off by at most about 2**-10 or 2**-7 of the sum of their magnitudes. Sums are float32 in all three.
("tf32x3" is float32 here; it is for `kernels.cuda.stream`.)
Indices into the ring are unsigned (`u64`): Numba counts a negative index from the end, and tests for it at each access.
Infinities, NaN and numbers that would round to infinity can be neither split nor rounded: rows and columns with one are
summed again, element by element, in float32. So a row's sum does not depend on other rows.

*Shapes.* The number of rows and columns that a block does at a time (`Shape`) is chosen for each launch. Large tiles
fetch less for each product: a tile of 64 x 80 fetches 576 bytes for 5,120 products, one of 16 x 8 fetches 96 for 128.
Small ones keep more multiprocessors busy. `shapes` makes a ladder from small to large, and `Shape.cost` estimates from
the instructions of a step how long each takes: the launch takes the shape whose blocks, dealt out to the
multiprocessors, are done first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from acronumba.emit import simt
from acronumba.records import record

ROWS = 64  # of a tile, at most
STEP = 16  # elements of each row that are fetched together
THREADS = 256  # of a block
PART = 64  # terms of a part of a sum, which is summed from zero
WIDEST = 80  # columns of a tile: each thread has the sums of width / 2 elements in registers, twice
MOST_STAGES = 4  # steps in shared memory at once
LEFT_STEP = STEP + 4  # elements from row to row of the left operand in shared memory: no two threads read from one bank

# Of each kind that tensor cores compute, the largest size of a factor that surely does not round to infinity.
MOST = {"float32": 3.4e38, "tf32": 3.4e38, "bf16": 3.39e38}

_PLAIN = '''@cuda.jit(device=True)
def tile_{name}({here}rows, m, apart_rows, pieces, lengths, weight, first, power{given}, sums, apart):
    """Products of m rows with columns of {what}, element by element."""
    for e in range({thread}, (m * {gates}) << power, {threads}):
        r = (e >> power) // {gates}
        c = ((e >> power) - r * {gates}) * {columns} + (e & ((1 << power) - 1))
        total = f64(0.0)
        chunk = f64(0.0)
        terms = 0
        at = weight + {column}
        for s in range({pieces}):
            row = ld(rows, s * apart_rows + r)
            for k in range(ld(lengths, s)):
                if terms == {chunk}:
                    total = total + chunk
                    chunk = f64(0.0)
                    terms = 0
                chunk = fma(load(f64, row + k * 8), load(f64, at), chunk)
                at += {next}
                terms += 1
        store(sums + r * apart + c * 8, total + chunk)
    return sums
'''

_AGAIN = '''@cuda.jit(device=True)
def again_{name}({here}rows, m, apart_rows, pieces, lengths, weight, first, power{given}, sums, apart, odd):
    """Sum anew, element by element, rows and columns with a factor that is none for tensor cores: `odd` marks them."""
    for e in range({thread}, (m * {gates}) << power, {threads}):
        r = (e >> power) // {gates}
        gate = (e >> power) - r * {gates}
        c = e & ((1 << power) - 1)
        if {inside}ld(odd, r) != 0 or ld(odd, {rows} + (gate << power) + c) != 0{end}:
            c += gate * {columns}
            total = f32(0.0)
            at = weight + {column}
            for s in range(pieces):
                row = ld(rows, s * apart_rows + r)
                for k in range(ld(lengths, s)):
                    total = fma(load(f32, row + k * 4), load(f32, at), total)
                    at += {next}
            store(sums + r * apart + c * 4, total)
'''

_FETCH = '''@cuda.jit(device=True)
def fetch_{name}(left, right, rows, m, high, k, n, weight, power{given}):
    """Begin to copy {step} elements of each row, from k on, and as many {fetched}; behind n is nothing."""
    thread = i64(this_thread()) & {threads} - 1  # in each step anew: no registers are kept for addresses
    c = (thread & {quarters} - 1) * 4
    have = n - k - c
    for q in range({left_turns}):
        r = thread // {quarters} + q * {rows_per_turn}
        if r < high:
            to = left + (r * {left_step} + c) * 4
            there = have if r < m else 0
            source = ld(rows, r) + (k + c) * 4 if there > 0 else 0
            if there >= 4 and source & 15 == 0:
                copy_later(to, source)
            else:
                for i in range(4):
                    store(to + i * 4, load_if(i < there, f32, source + i * 4))
{right}'''

# How each of {step} rows of the right operand is copied: of a packed weight, of a matrix whose rows lie in one piece
# each, of one whose columns do.
_RIGHT = {
    "packed": """    r = thread // {threads_per_row}
    for q in range({right_turns}):
        c = (thread & {threads_per_row} - 1) + q * {threads_per_row}
        if c < {gates} << (power - 2):
            to = right + (r * {right_step} + c * 4) * 4
            if k + r < n:
                gate = c >> (power - 2)
                copy_later(to, weight + (r * {width} + (c + gate * ({columns} // 4 - (1 << (power - 2)))) * 4) * 4)
            else:
                for i in range(4):
                    store(to + i * 4, f32(0.0))
""",
    "rows": """    r = thread // {threads_per_row}
    for q in range({right_turns}):
        c = ((thread & {threads_per_row} - 1) + q * {threads_per_row}) * 4
        if c < 1 << power:
            to = right + (r * {right_step} + c) * 4
            there = columns - c if k + r < n else 0
            source = weight + r * stride + c * 4 if there > 0 else 0
            if there >= 4 and source & 15 == 0:
                copy_later(to, source)
            else:
                for i in range(4):
                    store(to + i * 4, load_if(i < there, f32, source + i * 4))
""",
    "columns": """    for q in range({right_turns}):
        r = thread // {quarters} + q * {rows_per_turn}
        if r < 1 << power:
            to = right + (r * {left_step} + c) * 4
            there = have if r < columns else 0
            source = weight + r * stride + c * 4 if there > 0 else 0
            if there >= 4 and source & 15 == 0:
                copy_later(to, source)
            else:
                for i in range(4):
                    store(to + i * 4, load_if(i < there, f32, source + i * 4))
""",
}

_TILE = '''@cuda.jit(device=True)
def tile_{name}({here}rows, m, apart_rows, pieces, lengths, weight, first, power{given}, sums, apart):
    """Products of m rows with columns of {what}, by tensor cores."""
    ring = {ring}
    marks = {marks}
    odd = address(marks)
    ring_at = address(ring)
    thread = {thread}
    for e in range(thread, {rows} + {width}, {threads}):
        st(odd, e, 0)
    # a warp has 16 rows; as many warps as there are left share the columns, 8 and 8
    share = 3 if m <= 16 else 2 if m <= 32 else 1
    high = 128 >> share
    warp = thread // 32
    row = (warp & ((8 >> share) - 1)) * 16 + (thread & 31) // 4
    k_lane = thread & 3
    n_lane = (thread & 31) // 4
    mine = (({gates} << (power - 3)) + (1 << share) - 1) >> share
    begin = (warp >> (3 - share)) * mine
    mine = min(mine, ({gates} << (power - 3)) - begin)
    total = cuda.local.array(({tiles}, 4), f32)
    chunk = cuda.local.array(({tiles}, 4), f32)
    for q in range({tiles}):
        for i in range(4):
            total[q, i] = f32(0.0)
            chunk[q, i] = f32(0.0)
    steps = 0
    for s in range(pieces):
        steps += max((ld(lengths, s) + {step} - 1) // {step}, 1)
    s = 0
    k = 0
    terms = 0
    into = 0
    at = 0
    source = weight + first * {across}
    for turn in range(steps + {stages} - 1):
        if turn >= {stages} - 1:
            # what is computed now has come, and all warps are done with what lies where the next is fetched to
            {wait}()
            cuda.syncthreads()
        if turn < steps:
            n = ld(lengths, s)
            fetch_{name}(
                ring_at + into * {left_size} * 4, ring_at + ({right_at} + into * {right_size}) * 4,
                rows + s * apart_rows * 8, m, high, k, n, source, power{passed}
            )
            source += min(n - k, {step}) * {along}
            k += {step}
            if k >= n:
                k = 0
                s += 1
            into = 0 if into == {stages} - 1 else into + 1
        copies_end()
        if turn >= {stages} - 1:
{products}
            at = 0 if at == {stages} - 1 else at + 1
            terms += {step}
            if terms == {chunk}:
                terms = 0
                for q in range({tiles}):
                    for i in range(4):
                        total[q, i] = total[q, i] + chunk[q, i]
                        chunk[q, i] = f32(0.0)
    cuda.syncthreads()
    if sums == 0:
        sums = ring_at
    for q in range({tiles}):
        if q < mine:
            c = (begin + q) * 8 + k_lane * 2
            to = sums + row * apart + (c + (c >> power) * ({columns} - (1 << power))) * 4
            if row < m:
                store(to, total[q, 0] + chunk[q, 0])
                store(to + 4, total[q, 1] + chunk[q, 1])
            if row + 8 < m:
                store(to + 8 * apart, total[q, 2] + chunk[q, 2])
                store(to + 8 * apart + 4, total[q, 3] + chunk[q, 3])
    cuda.syncthreads()
    again_{name}({here}rows, m, apart_rows, pieces, lengths, weight, first, power{given}, sums, apart, odd)
    cuda.syncthreads()
    return sums
'''


# What a warp does with {step} elements of its rows and columns. Which of them a thread takes for which place of the
# tensor cores' operands is open, if only it is the same for both.
_TF32 = """
        a = at * {left_size} + row * {left_step} + k_lane
        b = {right_at} + at * {right_size} + {begin}
        for half in range({step} // 8):
            x0 = ring[u64(a + half * 8)]
            x1 = ring[u64(a + half * 8 + 8 * {left_step})]
            x2 = ring[u64(a + half * 8 + 4)]
            x3 = ring[u64(a + half * 8 + 8 * {left_step} + 4)]
            if not within(x0, x2, f32({most})):
                st(odd, row, 1)
            if not within(x1, x3, f32({most})):
                st(odd, row + 8, 1)
            large0 = tf32(x0)
            large1 = tf32(x1)
            large2 = tf32(x2)
            large3 = tf32(x3){rests}
            for q in range({tiles}):
                if q < mine:
                    y0 = ring[u64(b + {half} + {eight})]
                    y1 = ring[u64(b + {half_4} + {eight})]
                    if not within(y0, y1, f32({most})):
                        st(odd, {rows} + (begin + q) * 8 + n_lane, 1)
                    large4 = tf32(y0)
                    large5 = tf32(y1){from}
                    c0, c1, c2, c3 = mma(large0, large1, large2, large3, large4, large5, c0, c1, c2, c3){into}
"""
_RESTS = """
            small0 = tf32(x0 - bits(f32, large0))
            small1 = tf32(x1 - bits(f32, large1))
            small2 = tf32(x2 - bits(f32, large2))
            small3 = tf32(x3 - bits(f32, large3))"""
_SMALL = """
                    small4 = tf32(y0 - bits(f32, large4))
                    small5 = tf32(y1 - bits(f32, large5))
                    c0, c1, c2, c3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
                    c0, c1, c2, c3 = mma(small0, small1, small2, small3, large4, large5, c0, c1, c2, c3)
                    c0, c1, c2, c3 = mma(large0, large1, large2, large3, small4, small5, c0, c1, c2, c3)"""
_BF16 = """
        a = at * {left_size} + row * {left_step} + k_lane
        b = {right_at} + at * {right_size} + {begin}
        x0, x2, x4, x6 = ring[u64(a)], ring[u64(a + 4)], ring[u64(a + 8)], ring[u64(a + 12)]
        a += 8 * {left_step}
        x1, x3, x5, x7 = ring[u64(a)], ring[u64(a + 4)], ring[u64(a + 8)], ring[u64(a + 12)]
        if not (within(x0, x2, f32({most})) & within(x4, x6, f32({most}))):
            st(odd, row, 1)
        if not (within(x1, x3, f32({most})) & within(x5, x7, f32({most}))):
            st(odd, row + 8, 1)
        a0 = bf16(x0, x2)
        a1 = bf16(x1, x3)
        a2 = bf16(x4, x6)
        a3 = bf16(x5, x7)
        for q in range({tiles}):
            if q < mine:
                y0, y1 = ring[u64(b + q * 8)], ring[u64(b + q * 8 + 4 * {right_step})]
                y2, y3 = ring[u64(b + q * 8 + 8 * {right_step})], ring[u64(b + q * 8 + 12 * {right_step})]
                if not (within(y0, y1, f32({most})) & within(y2, y3, f32({most}))):
                    st(odd, {rows} + (begin + q) * 8 + n_lane, 1)
                c0, c1, c2, c3 = chunk[q, 0], chunk[q, 1], chunk[q, 2], chunk[q, 3]
                c0, c1, c2, c3 = mma_bf16(a0, a1, a2, a3, bf16(y0, y1), bf16(y2, y3), c0, c1, c2, c3)
                chunk[q, 0], chunk[q, 1], chunk[q, 2], chunk[q, 3] = c0, c1, c2, c3
"""
_ADDED = """
                    chunk[q, 0] += c0
                    chunk[q, 1] += c1
                    chunk[q, 2] += c2
                    chunk[q, 3] += c3"""
_FROM = """
                    c0, c1, c2, c3 = chunk[q, 0], chunk[q, 1], chunk[q, 2], chunk[q, 3]"""
_INTO = """
                    chunk[q, 0], chunk[q, 1], chunk[q, 2], chunk[q, 3] = c0, c1, c2, c3"""
_PRODUCTS = {
    "float32": _TF32.replace("{rests}", _RESTS).replace("{from}", _SMALL).replace("{into}", _ADDED),
    "tf32": _TF32.replace("{rests}", "").replace("{from}", _FROM).replace("{into}", _INTO),
    "bf16": _BF16,
}


def kind_of(dtype: str, precision: str) -> str:
    """Return the kind of tiles for products of a type."""
    return {"tf32x3": "float32"}.get(precision, precision) if dtype == "float32" else dtype


def right_step(width: int) -> int:
    """Return the stride of the weight's rows in shared memory, in elements.

    A warp reads 4 rows of 8 columns at a time: they lie in different banks if rows are 8 or 24 banks apart.
    """
    return width if width % 16 else width + 8


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """Parameters of a function for tiles."""

    kind: str  # of products: "float32", "tf32", "bf16", "float64"
    gates: int
    columns: int  # of each gate in a panel: 8, 16, 32, 64
    rows: int  # at most: 16, 32, 64
    stages: int  # steps in shared memory: 2, 3, 4
    right: str = "packed"  # right operand: a packed weight, or a matrix of which "rows" or "columns" are contiguous

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.gates * self.columns

    @property
    def name(self) -> str:
        own = "" if self.right == "packed" else f"_{self.right}"
        return f"tile_{self.kind}_{self.gates}x{self.columns}_{self.rows}_{self.stages}{own}"

    @property
    def left(self) -> int:
        """Elements of the left operand in a step, in shared memory."""
        return self.rows * LEFT_STEP

    @property
    def right_size(self) -> int:
        """Elements that a step has of the right operand, in shared memory."""
        return self.width * LEFT_STEP if self.right == "columns" else STEP * right_step(self.width)

    def shared(self, own: bool) -> int:
        """Return the bytes of shared memory that the tile takes; with `own`, sums overwrite the ring of steps."""
        return 4 * self.ring(own) + 8 * (self.rows + self.width) if self.kind in MOST else 0

    def ring(self, own: bool = True) -> int:
        """Return the elements of the ring."""
        steps = self.stages * (self.left + self.right_size)
        return max(steps, self.rows * self.width) if own else steps

    def text(self) -> str:
        """Return the text of the functions, for kernels that are launched alone."""
        return "\n\n".join(part.write(simt.ALONE) for part in self.parts())

    def parts(self) -> tuple[simt.DeviceFunction, ...]:
        """Return the functions for any setting."""
        own = self.name.removeprefix("tile_")
        if self.kind not in MOST:
            return (simt.DeviceFunction(self.name, partial(self._write, _PLAIN, ()), asks=True),)
        arrays = (
            simt.SharedArray("f32", self.ring()),
            simt.SharedArray("f64", self.rows + self.width, f"{self.rows} + {self.width}"),
        )
        called = frozenset((f"again_{own}", f"fetch_{own}"))
        return (
            simt.DeviceFunction(f"again_{own}", partial(self._write, _AGAIN, ()), asks=True),
            simt.DeviceFunction(f"fetch_{own}", partial(self._write, _FETCH, ())),
            simt.DeviceFunction(self.name, partial(self._write, _TILE, arrays), called, arrays, asks=True),
        )

    def _write(self, template: str, arrays: tuple[simt.SharedArray, ...], setting: simt.Setting) -> str:
        common = {
            "name": self.name.removeprefix("tile_"), "threads": THREADS, "chunk": PART, "rows": self.rows,
            "width": self.width, "gates": self.gates, "columns": self.columns,
            "thread": setting.thread, "here": setting.call(self.name), **self._way(),
        }  # fmt: skip
        if self.kind not in MOST:
            return template.format(**common)
        wait = {2: "wait_for_copies", 3: "wait_for_older_copies", 4: "wait_for_oldest_copies"}[self.stages]
        products = _PRODUCTS[self.kind].strip("\n").replace("\n", "\n    ")
        return template.replace("{products}", "    " + products).replace("{right}", _RIGHT[self.right]).format(
            **common, step=STEP, quarters=STEP // 4, threads_per_row=THREADS // STEP, tiles=-(-self.width // 16),
            rows_per_turn=4 * THREADS // STEP, left_turns=-(-self.rows * STEP // (4 * THREADS)),
            right_turns=-(-self.width * STEP // (4 * THREADS)),
            left_step=LEFT_STEP, right_step=right_step(self.width), left_size=self.left, right_size=self.right_size,
            right_at=self.stages * self.left, stages=self.stages, wait=wait, most=MOST[self.kind],
            **{name: setting.memory(k, arrays[k]) for k, name in enumerate(("ring", "marks")[: len(arrays)])},
        )  # fmt: skip

    def _way(self) -> dict[str, object]:
        """Return the text that addresses elements of the right operand, in memory and in shared memory."""
        size = 4 if self.kind in MOST else 8
        step, wide = right_step(self.width), f"{self.width} * {size}"
        rows = {
            "begin": f"k_lane * {step} + begin * 8 + n_lane", "eight": "q * 8",
            "half": f"(half * 8) * {step}", "half_4": f"(half * 8 + 4) * {step}",
            "column": f"(first + c) * {size}", "across": size,
        }  # fmt: skip
        if self.right == "packed":
            return rows | {
                "what": "a packed weight", "fetched": "rows of the weight", "given": "", "passed": "",
                "pieces": "pieces", "inside": "", "end": "", "along": wide, "next": wide,
            }  # fmt: skip
        own = {
            "what": f"a matrix whose {self.right} are read", "given": ", stride, columns",
            "passed": ", stride, columns - first", "pieces": "pieces if first + c < columns else 0",
            "inside": "first + c < columns and (", "end": ")",
        }  # fmt: skip
        if self.right == "rows":
            return rows | own | {"fetched": "rows of the matrix", "along": "stride", "next": "stride"}
        return own | {
            "fetched": "of each column", "column": "(first + c) * stride", "across": "stride", "along": size,
            "next": size, "begin": f"(begin * 8 + n_lane) * {LEFT_STEP} + k_lane", "eight": f"q * {8 * LEFT_STEP}",
            "half": "half * 8", "half_4": "half * 8 + 4",
        }  # fmt: skip


@record()
class Shape:
    """Number of rows, and of columns of each gate, that a block does at a time."""

    rows: int
    columns: int

    def cost(self, kind: str, gates: int) -> int:
        """Estimate the cycles of a multiprocessor for 8 terms of every sum.

        Counts the instructions of the busiest warp: for each tile of 8 columns the instructions of tensor cores (8
        cycles each) and the preparation of their operands, then the preparation of 16 rows, the block's share of
        fetching (10 instructions for 4 elements of each thread), and the loop with its barrier.
        """
        width = gates * self.columns
        tiles = -(-width // 8 // (2 * ROWS // max(self.rows, 16)))
        products, prepare = {"float32": (24, 12), "tf32": (8, 8), "bf16": (4, 5)}.get(kind, (64, 16))
        return tiles * (products + prepare) + 2 * prepare + (self.rows + width) // 3 + 30


def shapes(rows: int, gates: int, columns: int) -> tuple[Shape, ...]:
    """Return the ladder of shapes: from the largest, the larger side is halved until no side can be."""
    out = [Shape(rows, columns)]
    while True:
        high, wide = out[-1].rows > 16, out[-1].columns > 8
        if not (high or wide):
            return tuple(out)
        if high and (not wide or out[-1].rows > gates * out[-1].columns):
            out.append(Shape(out[-1].rows // 2, out[-1].columns))
        else:
            out.append(Shape(out[-1].rows, out[-1].columns // 2))
