"""Tiles of products on a GPU: text of functions that all threads of a block call together.

In: the type of a product or its precision (a *kind*), and columns of its packed weight. Out: the text of a function

    tile(rows, m, apart_rows, pieces, lengths, weight, sums, apart)

    rows, apart_rows   rows[s * apart_rows + r] is the address of piece s of row r of the left operand
    m                  rows, at most `ROWS`
    pieces, lengths    of a row: int64 elements of each
    weight             of one panel: `width` columns for each k
    sums, apart        row r of the sums is at sums + r * apart

Rows are read where they lie, so that gathering and concatenating cost nothing. The order of summation is the same for
every row, whatever its place in the tile and however many there are: k ascending in steps of `STEP`, piece by piece, a
fresh accumulator every `CHUNK` terms.

float32 products are computed by tensor cores, whose factors have 11 bits: each factor is split into a large part and a
small rest, and of their four products the three that count are added ("3xTF32"), which is about as exact as float32.
With `precision="tf32"` there is one product, of factors rounded to 11 bits, with "bf16" of factors rounded to 8: then a
sum of products is off by at most about 2**-10 or 2**-7 of the sum of their sizes. Sums are of float32 in all three.
Infinities, NaN and what would round to infinity can be neither split nor rounded: rows and columns that have one are
summed again, element by element, in float32. So a row's sum does not depend on what other rows have.
"""

from __future__ import annotations

from acronumba.kernels.tiles import CHUNK

ROWS = 64  # of a tile
STEP = 16  # elements of each row that are in shared memory at once, twice: one is read while the next is fetched
THREADS = 128  # of a block

# Of each kind that tensor cores compute, the largest size of a factor that surely does not round to infinity.
MOST = {"float32": 3.4e38, "tf32": 3.4e38, "bf16": 3.39e38}

_PLAIN = '''@cuda.jit(device=True)
def tile_{name}(rows, m, apart_rows, pieces, lengths, weight, sums, apart):
    """Products of m rows with {width} columns of a packed weight, element by element."""
    for e in range(i64(cuda.threadIdx.x), m * {width}, {threads}):
        r = sdiv(e, {width})
        c = e - r * {width}
        total = {type}(0.0)
        chunk = {type}(0.0)
        terms = 0
        at = weight + c * {size}
        for s in range(pieces):
            row = ld(rows, s * apart_rows + r)
            for k in range(ld(lengths, s)):
                if terms == {chunk}:
                    total = total + chunk
                    chunk = {type}(0.0)
                    terms = 0
                chunk = fma(load({type}, row + k * {size}), load({type}, at), chunk)
                at += {step}
                terms += 1
        store(sums + r * apart + c * {size}, total + chunk)
'''

_SPLIT = '''@cuda.jit(device=True)
def again_{name}(rows, m, apart_rows, pieces, lengths, weight, sums, apart, odd):
    """Sum anew, element by element, rows and columns with a factor that is none for tensor cores: `odd` marks them."""
    for e in range(i64(cuda.threadIdx.x), m * {width}, {threads}):
        r = e // {width}
        c = e - r * {width}
        if ld(odd, r) != 0 or ld(odd, {rows} + c) != 0:
            total = f32(0.0)
            at = weight + c * 4
            for s in range(pieces):
                row = ld(rows, s * apart_rows + r)
                for k in range(ld(lengths, s)):
                    total = fma(load(f32, row + k * 4), load(f32, at), total)
                    at += {width} * 4
            store(sums + r * apart + c * 4, total)


@cuda.jit(device=True)
def fetch_{name}(left, right, rows, m, high, apart_rows, k, n, weight):
    """Begin to copy {step} elements of each row, from k on, and as many rows of the weight; behind n is nothing."""
    thread = i64(cuda.threadIdx.x)
    for e in range(thread, high * {quarters}, {threads}):
        r = e // {quarters}
        c = (e - r * {quarters}) * 4
        to = left + (r * {left_step} + c) * 4
        have = n - k - c if r < m else 0
        source = ld(rows, r) + (k + c) * 4 if have > 0 else 0
        if have >= 4 and source & 15 == 0:
            copy_later(to, source)
        else:
            for q in range(4):
                store(to + q * 4, load_if(q < have, f32, source + q * 4))
    for e in range(thread, {weight_quarters}, {threads}):
        r = e // {width_quarters}
        c = (e - r * {width_quarters}) * 4
        to = right + (r * {right_step} + c) * 4
        if k + r < n:
            copy_later(to, weight + (r * {width} + c) * 4)
        else:
            for q in range(4):
                store(to + q * 4, f32(0.0))
    copies_end()


@cuda.jit(device=True)
def tile_{name}(rows, m, apart_rows, pieces, lengths, weight, sums, apart):
    """Products of m rows with {width} columns of a packed weight, by tensor cores."""
    left = cuda.shared.array({left_size}, f32, 16)
    right = cuda.shared.array({right_size}, f32, 16)
    marks = cuda.shared.array({rows} + {width}, f64, 16)
    odd = address(marks)
    left_at = address(left)
    right_at = address(right)
    thread = i64(cuda.threadIdx.x)
    for e in range(thread, {rows} + {width}, {threads}):
        st(odd, e, 0)
    first_weight = weight
    high = 16 if m <= 16 else 32 if m <= 32 else 64
    # a warp has 16 rows, and every `apart_columns`-th 8 columns
    warp = thread // 32
    apart_columns = 64 // high
    row = (warp & (high // 16 - 1)) * 16 + (thread & 31) // 4
    column = warp * 16 // high
    k_lane = thread & 3
    n_lane = (thread & 31) // 4
    total = cuda.local.array(({tiles}, 4), f32)
    chunk = cuda.local.array(({tiles}, 4), f32)
    for q in range({tiles}):
        for i in range(4):
            total[q, i] = f32(0.0)
            chunk[q, i] = f32(0.0)
    s = 0
    k = 0
    terms = 0
    at = 0
    fetch_{name}(left_at, right_at, rows, m, high, apart_rows, 0, ld(lengths), weight)
    while s < pieces:
        # what comes next is on its way while this is computed
        n = ld(lengths, s)
        s_next = s
        k_next = k + {step}
        weight += {step} * {width} * 4
        if k_next >= n:
            weight -= (k_next - n) * {width} * 4
            s_next = s + 1
            k_next = 0
        there = 1 - at
        if s_next < pieces:
            fetch_{name}(
                left_at + there * {left_bytes}, right_at + there * {right_bytes}, rows + s_next * apart_rows * 8, m,
                high, apart_rows, k_next, ld(lengths, s_next), weight
            )
            wait_for_older_copies()
        else:
            wait_for_copies()
        cuda.syncthreads()
{products}        terms += {step}
        if terms == {chunk}:
            terms = 0
            for q in range({tiles}):
                for i in range(4):
                    total[q, i] = total[q, i] + chunk[q, i]
                    chunk[q, i] = f32(0.0)
        cuda.syncthreads()
        s = s_next
        k = k_next
        at = there
    for q in range({tiles}):
        j = column + q * apart_columns
        if j < {tiles}:
            to = sums + row * apart + (j * 8 + k_lane * 2) * 4
            if row < m:
                store(to, total[q, 0] + chunk[q, 0])
                store(to + 4, total[q, 1] + chunk[q, 1])
            if row + 8 < m:
                store(to + 8 * apart, total[q, 2] + chunk[q, 2])
                store(to + 8 * apart + 4, total[q, 3] + chunk[q, 3])
    cuda.syncthreads()
    again_{name}(rows, m, apart_rows, pieces, lengths, first_weight, sums, apart, odd)
    cuda.syncthreads()
'''


# What a warp does with {step} elements of its rows and columns. Which of them a thread takes for which place of the
# tensor cores' operands is open, if only it is the same for both.
_TF32 = """
        for half in range({step} // 8):
            a = at * {left_half} + row * {left_step} + half * 8 + k_lane
            x0 = left[a]
            x1 = left[a + 8 * {left_step}]
            x2 = left[a + 4]
            x3 = left[a + 8 * {left_step} + 4]
            if not (max_abs(x0, x2) < f32({most})):
                st(odd, row, 1)
            if not (max_abs(x1, x3) < f32({most})):
                st(odd, row + 8, 1)
            large0 = tf32(x0)
            large1 = tf32(x1)
            large2 = tf32(x2)
            large3 = tf32(x3){rests}
            for q in range({tiles}):
                j = column + q * apart_columns
                if j < {tiles}:
                    b = at * {right_half} + (half * 8 + k_lane) * {right_step} + j * 8 + n_lane
                    y0 = right[b]
                    y1 = right[b + 4 * {right_step}]
                    if not (max_abs(y0, y1) < f32({most})):
                        st(odd, {rows} + j * 8 + n_lane, 1)
                    large4 = tf32(y0)
                    large5 = tf32(y1)
                    c0, c1, c2, c3 = chunk[q, 0], chunk[q, 1], chunk[q, 2], chunk[q, 3]{small}
                    c0, c1, c2, c3 = mma(large0, large1, large2, large3, large4, large5, c0, c1, c2, c3)
                    chunk[q, 0], chunk[q, 1], chunk[q, 2], chunk[q, 3] = c0, c1, c2, c3
"""
_RESTS = """
            small0 = tf32(x0 - bits(f32, large0))
            small1 = tf32(x1 - bits(f32, large1))
            small2 = tf32(x2 - bits(f32, large2))
            small3 = tf32(x3 - bits(f32, large3))"""
_SMALL = """
                    small4 = tf32(y0 - bits(f32, large4))
                    small5 = tf32(y1 - bits(f32, large5))
                    c0, c1, c2, c3 = mma(small0, small1, small2, small3, large4, large5, c0, c1, c2, c3)
                    c0, c1, c2, c3 = mma(large0, large1, large2, large3, small4, small5, c0, c1, c2, c3)"""
_BF16 = """
        a = at * {left_half} + row * {left_step} + k_lane
        x0, x2, x4, x6 = left[a], left[a + 4], left[a + 8], left[a + 12]
        a += 8 * {left_step}
        x1, x3, x5, x7 = left[a], left[a + 4], left[a + 8], left[a + 12]
        if not (max_abs(max_abs(x0, x2), max_abs(x4, x6)) < f32({most})):
            st(odd, row, 1)
        if not (max_abs(max_abs(x1, x3), max_abs(x5, x7)) < f32({most})):
            st(odd, row + 8, 1)
        a0 = bf16(x0, x2)
        a1 = bf16(x1, x3)
        a2 = bf16(x4, x6)
        a3 = bf16(x5, x7)
        for q in range({tiles}):
            j = column + q * apart_columns
            if j < {tiles}:
                b = at * {right_half} + k_lane * {right_step} + j * 8 + n_lane
                y0, y1 = right[b], right[b + 4 * {right_step}]
                y2, y3 = right[b + 8 * {right_step}], right[b + 12 * {right_step}]
                if not (max_abs(max_abs(y0, y1), max_abs(y2, y3)) < f32({most})):
                    st(odd, {rows} + j * 8 + n_lane, 1)
                c0, c1, c2, c3 = chunk[q, 0], chunk[q, 1], chunk[q, 2], chunk[q, 3]
                c0, c1, c2, c3 = mma_bf16(a0, a1, a2, a3, bf16(y0, y1), bf16(y2, y3), c0, c1, c2, c3)
                chunk[q, 0], chunk[q, 1], chunk[q, 2], chunk[q, 3] = c0, c1, c2, c3
"""
_PRODUCTS = {
    "float32": _TF32.replace("{rests}", _RESTS).replace("{small}", _SMALL),
    "tf32": _TF32.replace("{rests}", "").replace("{small}", ""),
    "bf16": _BF16,
}


def kind_of(dtype: str, precision: str) -> str:
    """Return the kind of tiles for products of a type."""
    return precision if dtype == "float32" else dtype


def tile_name(kind: str, width: int) -> str:
    """Return the name of the tile for so many columns."""
    return f"tile_{kind}_{width}"


def tile_text(kind: str, width: int) -> str:
    """Return the functions of the tile for so many columns, a multiple of 8."""
    name = tile_name(kind, width).removeprefix("tile_")
    if kind not in MOST:
        return _PLAIN.format(name=name, width=width, threads=THREADS, chunk=CHUNK, type="f64", size=8, step=8 * width)
    left_step, right_step = STEP + 4, width + 8  # elements from row to row: few threads read from one bank
    left, right = ROWS * left_step, STEP * right_step
    return _SPLIT.replace("{products}", _PRODUCTS[kind].removeprefix("\n")).format(
        name=name, width=width, threads=THREADS, chunk=CHUNK, step=STEP, quarters=STEP // 4,
        weight_quarters=STEP * width // 4, width_quarters=width // 4, tiles=width // 8,
        left_step=left_step, right_step=right_step, left_size=2 * left, right_size=2 * right,
        left_bytes=4 * left, right_bytes=4 * right, left_half=left, right_half=right, rows=ROWS, most=MOST[kind],
    )  # fmt: skip


def staging(kind: str, width: int) -> int:
    """Return the bytes of shared memory that a tile takes."""
    if kind not in MOST:
        return 0
    return 8 * (ROWS * (STEP + 4) + STEP * (width + 8)) + 8 * (ROWS + width)
