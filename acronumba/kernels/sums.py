"""Sums over nodes: the terms that a mini-batch adds to the gradients of shared tensors.

In: addresses of rows, one row of numbers of each node, in the order of recording. Out: the array of sums. Threads share
each function: `run(P, low, high, scratch)` does the tasks low..high of the job at P.

    outer     C[m, k] += sum over nodes of g[m] x[k]      the gradient of a matrix of products; a task is a block of C
    columns   C[j] += sum over nodes of g[j]              biases, scales, start states; a task is a vector of columns
    rows      C[index[i]] += the row of node i            tables; a task is an index, with the nodes that have it
    adjoints  C += the parts of an adjoint                a task is an adjoint, a row of `SUM`
    spans     C[m, k] += sum over spans of C'[m, k]       on a GPU: a task is a vector of a row of C

Rows are added in chunks of a fixed length, and the chunks in order: no bit depends on threads, tasks, tiles or the
width of vectors. Products are tiles of accumulators, which read g in place; x is copied for each panel of columns, or
read in place if C has few rows. On a GPU a warp is a thread with vectors of 32 lanes: the same text, with tasks of few
rows of C, to occupy thousands of warps; and long sums are cut into spans of whole chunks, each with a partial sum C'
(`kernels.cuda.sums`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from acronumba.emit import tree
from acronumba.emit.compile import Deferred
from acronumba.emit.parse import parse
from acronumba.emit.words import RecordLayout
from acronumba.ir.spec import FIXED
from acronumba.kernels.tiles import TYPES

if TYPE_CHECKING:
    from acronumba.emit.target import Target

OUTER_CHUNK = 128  # rows of a chunk of `outer`: a panel of x stays in the first cache
SUM_CHUNK = 256  # rows of a chunk of `columns`
OUTER_BLOCK = 640  # rows of C that share a copy of a panel; on a GPU nobody copies: a block is a tile
OUTER_PANELS = 8  # panels of C that share a chunk of g: with their part of C it stays in the second cache

# The words of a job, behind those that every kernel has. `first` is 1 where C holds nothing yet: it is stored to.
OUTER = "x g count k m c step first panels each".split()
COLUMNS = "g count k c first".split()
ROWS = "order starts index g k c".split()
SPANS = "parts apart count m k c step first panels".split()
WORDS_OF = {"outer": OUTER, "columns": COLUMNS, "rows": ROWS, "spans": SPANS}
MOST_WORDS = max(map(len, (OUTER, COLUMNS, ROWS)))  # of a job on a CPU

# What `adjoints` reads: a sum and its parts.
SUM = RecordLayout("""
to          address of the sum
size        bytes
links       the first link
""")
LINK = RecordLayout("""
source      address of a part of an adjoint
key         node that gave it and which of its parts it is: parts are added in this order
next        next link; 0: there is none
size        bytes; -1: all of the adjoint
start       bytes from the start of the adjoint
index       0, or the address of the number of the row that it is for
width       ... then bytes of a row,
last        ... and the last row that it may be
""")
WORDS = SUM.constants("SUM_") | LINK.constants("LINK_")


def outer_tile(on: Target) -> tuple[int, int]:
    """Return the maximum number of rows, and of vectors of columns, of a tile of C in `outer`."""
    if on.warps:
        return (4, 4)
    return (5, 5) if on.registers >= 32 else (4, 3)


def outer_panels(on: Target, dtype: str, columns: int) -> int:
    """Return the number of panels of the columns of C."""
    return -(-columns // (on.lanes(TYPES[dtype]) * outer_tile(on)[1]))


def outer_block(on: Target) -> int:
    """Return the number of rows of C in a task of `outer`."""
    return outer_tile(on)[0] if on.warps else OUTER_BLOCK


def outer_shares(on: Target, panels: int, rows: int, threads: int) -> tuple[int, int]:
    """Return the number of panels of a block of rows of C in a task of `outer`, and the number of tasks.

    Panels of one task find the block's part of g in the L2 cache; but every thread should get some tasks, and every
    warp at least one.
    """
    blocks = -(-rows // outer_block(on))
    each = panels if threads == 1 else -(-panels * blocks // (4 * threads))
    each = 1 if on.warps else max(min(each, OUTER_PANELS), 1)
    return each, -(-panels // each) * blocks


def outer_scratch(on: Target) -> int:
    """Return the bytes that `outer` needs for a panel; in bf16 for half of one, and for a block of g."""
    panel = OUTER_CHUNK * outer_tile(on)[1] * on.vector_bits // 8
    return max(panel, panel // 2 + OUTER_CHUNK // 2 * OUTER_BLOCK * 4)


# The tasks of `outer`, and the chunks of rows of each.
_CHUNKS = """\
    columns, rows, panels, each = lds(P, P_K, P_M, P_PANELS, P_EACH)
    vectors = (columns + LANES - 1) // LANES
    groups = (panels + each - 1) // each
    for t in range(low, high):
        begin = t // groups * BLOCK
        end = min(begin + BLOCK, rows)
        first = t % groups * each
        for at in range(0, max(ld(P, P_COUNT), 1), CHUNK):  # without rows, a C that is stored to is zero
"""

_OUTER = (
    '''
def outer(P, low, high, S) -> None:
    """C[m, k] += sum of g[m] x[k]; a task is some panels of a block of rows of C."""
'''
    + _CHUNKS
    + '''            for p in range(first, min(first + each, panels)):
                start = p * vectors // panels * LANES
                stop = min((p + 1) * vectors // panels * LANES, columns)
                panel(P, at, begin, end, start, stop, S)


def panel(P, at, begin, end, start, stop, S) -> None:
    """Add a chunk of rows to a panel of a block of rows of C: while g stays in the second cache."""
    n = min(ld(P, P_COUNT) - at, CHUNK)
    q = (stop - start + LANES - 1) // LANES
    last = stop - start - (q - 1) * LANES
    first = ld(P, P_FIRST) if at == 0 else 0
    x = ld(P, P_X) + 8 * at
    g = ld(P, P_G) + 8 * at
    step = ld(P, P_STEP)
{copy}
    m = begin
    while m < end:
        r = min(end - m, TALL)
        C = ld(P, P_C) + m * step + start * SIZE
{tiles}
        m = m + r
'''
)

_PACK = '''
@noinline
def pack(x, n, at, bytes, step, S) -> None:
    """Copy a piece of each row next to each other; what is left of its last vector is zero."""
    for k in range(n):
        if bytes < step:
            store(S + (k + 1) * step - LANES * SIZE, vec(0.0))
        copy_bytes(S + k * step, ld(x, k) + at, bytes)
'''

_OUTER_OF_HALVES = (
    '''
def outer(P, low, high, S) -> None:
    """C[m, k] += sum of g[m] x[k], rounded to bf16; a task is some panels of a block of rows of C."""
'''
    + _CHUNKS
    + '''            n = min(ld(P, P_COUNT) - at, CHUNK)
            in_pairs(ld(P, P_G) + 8 * at, n, begin * SIZE, end - begin, BLOCK * SIZE, S)
            for p in range(first, min(first + each, panels)):
                start = p * vectors // panels * LANES
                stop = min((p + 1) * vectors // panels * LANES, columns)
                panel(P, at, n, begin, end, start, stop, S)


def panel(P, at, n, begin, end, start, stop, S) -> None:
    """Add a chunk of rows to a panel of a block of rows of C."""
    q = (stop - start + LANES - 1) // LANES
    last = stop - start - (q - 1) * LANES
    first = ld(P, P_FIRST) if at == 0 else 0
    X = S + CHUNK // 2 * BLOCK * SIZE
    in_pairs(ld(P, P_X) + 8 * at, n, start * SIZE, stop - start, q * LANES * SIZE, X)
    step = ld(P, P_STEP)
    m = begin
    while m < end:
        r = min(end - m, TALL)
        C = ld(P, P_C) + m * step + start * SIZE
        g = S + (m - begin) * SIZE
{tiles}
        m = m + r


@noinline
def in_pairs(rows, n, at, count, step, S) -> None:
    """Copy a piece of each two rows as words of two rounded elements; behind the last of an odd number are zeros."""
    for k in range(0, n, 2):
        a = ld(rows, k) + at
        other = min(k + 1, n - 1)
        b = ld(rows, other) + at
        for c in range(0, count, LANES):
            left = count - c
            low = unsigned(words, to_bf16(halves, load(vec, a + c * SIZE, left)))
            high = unsigned(words, to_bf16(halves, load(vec, b + c * SIZE, left if other > k else 0)))
            store(S + k // 2 * step + c * SIZE, low | (high << words(16)))
'''
)

_COLUMNS = '''
def columns(P, low, high, S) -> None:
    """C[j] += sum of g[j]; a task is a vector of columns."""
    G, count, wide, C = lds(P, P_G, P_COUNT, P_K, P_C)
    for t in range(low, high):
        at = t * LANES * SIZE
        left = min(wide - t * LANES, LANES)
        total = vec(0.0)
        if ld(P, P_FIRST) == 0:
            total = load(vec, C + at, left)
        for first in range(0, count, CHUNK):
            part = vec(0.0)
            for k in range(first, min(first + CHUNK, count)):
                part = part + load(vec, ld(G, k) + at, left)
            total = total + part
        store(C + at, total, left)
'''

_ROWS = '''
def rows(P, low, high, S) -> None:
    """C[index[i]] += the row of node i; a task is an index, whose nodes are order[starts[t]] and so on."""
    order, starts, index, G, wide, C = lds(P, P_ORDER, P_STARTS, P_INDEX, P_G, P_K, P_C)
    for t in range(low, high):
        start, stop = lds(starts, t, t + 1)
        to = C + ld(index, ld(order, start)) * wide * SIZE
        for j in range(0, wide, LANES):
            left = min(wide - j, LANES)
            total = vec(0.0)
            for k in range(start, stop):
                total = total + load(vec, ld(G, ld(order, k)) + j * SIZE, left)
            store(to + j * SIZE, load(vec, to + j * SIZE, left) + total, left)
'''

_SPANS = '''
def spans(P, low, high, S) -> None:
    """C[m, k] += the sums of spans, one after the other; a task is a vector of a row of C."""
    parts, apart, count, columns, C, step, panels = lds(P, P_PARTS, P_APART, P_COUNT, P_K, P_C, P_STEP, P_PANELS)
    for t in range(low, high):
        at = t % panels * LANES
        left = min(columns - at, LANES)
        to = C + t // panels * step + at * SIZE
        part = parts + (t // panels * columns + at) * SIZE
        total = vec(0.0)
        if ld(P, P_FIRST) == 0:
            total = load(vec, to, left)
        for k in range(count):
            total = total + load(vec, part + k * apart, left)
        store(to, total, left)
'''

_SORT = '''
def sort_rows(index, count, order, starts, counts, most) -> i64:
    """Order nodes by index, those of one index as they came; return how many indices there are.

    counts: room for `most` + 1 words, where `most` is how many indices may occur.
    """
    fill_bytes(counts, 0, 8 * (most + 1))
    for i in range(count):
        at = ld(index, i) + 1
        st(counts, at, ld(counts, at) + 1)
    groups = 0
    for at in range(most):
        before = ld(counts, at)
        many = ld(counts, at + 1)
        if many != 0:
            st(starts, groups, before)
            groups = groups + 1
        st(counts, at + 1, before + many)
    st(starts, groups, count)
    for i in range(count):
        at = ld(index, i)
        place = ld(counts, at)
        st(order, place, i)
        st(counts, at, place + 1)
    return groups
'''


_ADJOINTS = '''
def adjoints(P, low, high, S) -> None:
    """Add the parts of adjoints; a task is an adjoint."""
    for i in range(low, high):
        row = ld(ld(P), i)
        to, size, link = lds(row, SUM_TO, SUM_SIZE, SUM_LINKS)
        begun = 0
        while link != 0:
            source, part = lds(link, LINK_SOURCE, LINK_SIZE)
            if part < 0:
                if begun == 0:
                    copy(to, source, size)
                else:
                    add_to(to, source, size // SIZE)
            else:
                if begun == 0:
                    clear(to, size)
                start, index = lds(link, LINK_START, LINK_INDEX)
                if index != 0:
                    start = max(min(ld(index), ld(link, LINK_LAST)), 0) * ld(link, LINK_WIDTH)
                if start + part <= size:  # or else there is no such row
                    add_to(to + start, source, part // SIZE)
            begun = 1
            link = ld(link, LINK_NEXT)
{meet}


def add_to(to, source, count) -> None:
    for k in range(0, count, LANES):
        left = min(count - k, LANES)
        at = k * SIZE
        store(to + at, load(vec, to + at, left) + load(vec, source + at, left), left)


def copy(to, source, size) -> None:
{copied}


def clear(to, size) -> None:
{cleared}
'''

_BY_BYTES = {"meet": "", "copied": "    copy_bytes(to, source, size)", "cleared": "    fill_bytes(to, 0, size)"}
_BY_LANES = {  # a lane may read another's stores for the next part: a barrier
    "meet": "            meet_warp()",
    "copied": """
    for k in range(0, size // SIZE, LANES):
        left = min(size // SIZE - k, LANES)
        store(to + k * SIZE, load(vec, source + k * SIZE, left), left)""",
    "cleared": """
    for k in range(0, size // SIZE, LANES):
        store(to + k * SIZE, vec(0.0), min(size // SIZE - k, LANES))
    meet_warp()""",
}


def _tile(rows: int, vectors: int, apart: bool) -> str:
    """Return a tile: rows of x lie at `x`, `xat` bytes apart, or `xat` bytes behind where the words at `x` say."""
    cells = [(r, v) for r in range(rows) for v in range(vectors)]
    row, part = ("ld(x, k) + xat", ", last") if apart else ("x + k * xat", "")

    def end(v: int, lanes: str) -> str:
        return lanes if v == vectors - 1 else ""

    def place(r: int, v: int) -> str:
        return " + ".join(["C", *([f"{r} * step"] if r else []), *([f"{v} * LANES * SIZE"] if v else [])])

    return "\n".join([
        "@noinline",
        f"def {'apart' if apart else 'panel'}_{rows}_{vectors}(g, at, n, x, xat, C, step, last, first) -> None:",
        f'    """A tile of {rows} rows and {vectors} vectors of columns; the last has `last` lanes."""',
        *(f"    c{r}_{v} = vec(0.0)" for r, v in cells),
        "    for k in range(n):",
        "        a = ld(g, k) + at",
        f"        row = {row}",
        *(f"        x{v} = load(vec, row + {v} * LANES * SIZE{end(v, part)})" for v in range(vectors)),
        *(line for r in range(rows) for line in (
            f"        a{r} = vec(load(num, a + {r} * SIZE))",
            *(f"        c{r}_{v} = fma(a{r}, x{v}, c{r}_{v})" for v in range(vectors)),
        )),
        "    if first == 0:",
        *(f"        c{r}_{v} = load(vec, {place(r, v)}{end(v, ', last')}) + c{r}_{v}" for r, v in cells),
        *(f"    store({place(r, v)}, c{r}_{v}{end(v, ', last')})" for r, v in cells),
        "",
    ])  # fmt: skip


def _tile_of_halves(rows: int, vectors: int) -> str:
    """Return a tile of words of two rows each: those of x are `xat` bytes apart, those of g a block's row."""
    cells = [(r, v) for r in range(rows) for v in range(vectors)]

    def end(v: int) -> str:
        return ", last" if v == vectors - 1 else ""

    def place(r: int, v: int) -> str:
        return " + ".join(["C", *([f"{r} * step"] if r else []), *([f"{v} * LANES * SIZE"] if v else [])])

    return "\n".join([
        "@noinline",
        f"def halves_{rows}_{vectors}(g, n, x, xat, C, step, last, first) -> None:",
        f'    """A tile of {rows} rows and {vectors} vectors of columns; the last has `last` lanes."""',
        *(f"    c{r}_{v} = vec(0.0)" for r, v in cells),
        "    flush_denormals(1)",
        "    for k in range((n + 1) // 2):",
        *(f"        x{v} = load(pairs, x + k * xat + {v} * LANES * SIZE)" for v in range(vectors)),
        "        a = g + k * BLOCK * SIZE",
        *(line for r in range(rows) for line in (
            f"        a{r} = bits(pairs, words(load(word, a + {r} * SIZE)))",
            *(f"        c{r}_{v} = dots_bf16(vec, c{r}_{v}, a{r}, x{v})" for v in range(vectors)),
        )),
        "    flush_denormals(0)",
        "    if first == 0:",
        *(f"        c{r}_{v} = load(vec, {place(r, v)}{end(v)}) + c{r}_{v}" for r, v in cells),
        *(f"    store({place(r, v)}, c{r}_{v}{end(v)})" for r, v in cells),
        "",
    ])  # fmt: skip


def _choice(kind: str, x: str, rows: int, vectors: int) -> str:
    """Return the call of the tile of r rows and q vectors."""
    lines = []
    for q in range(1, vectors + 1):
        lines.append(f"{'if' if q == 1 else 'elif'} q == {q}:")
        for r in range(1, rows + 1):
            lines.append(f"    {'if' if r == 1 else 'elif'} r == {r}:")
            given = "g" if kind == "halves" else "g, m * SIZE"
            lines.append(f"        {kind}_{r}_{q}({given}, n, {x}, C, step, last, first)")
    return "\n".join(lines)


def _outer(on: Target) -> str:
    """Return the text of `outer`, with its tiles."""
    rows, vectors = outer_tile(on)
    apart = _choice("apart", "x, start * SIZE", rows, vectors)
    copy, choice, kinds = "", apart, [True]
    if not on.warps:
        copy = "if end - begin > FEW:\n    pack(x, n, start * SIZE, (stop - start) * SIZE, q * LANES * SIZE, S)"
        panel = _choice("panel", "S, q * LANES * SIZE", rows, vectors)
        choice = f"if end - begin > FEW:\n{indent(panel, '    ')}\nelse:\n{indent(apart, '    ')}"
        kinds = [False, True]
    tiles = [_tile(r, v, kind) for kind in kinds for v in range(1, vectors + 1) for r in range(1, rows + 1)]
    text = _OUTER.format(copy=indent(copy, " " * 4), tiles=indent(choice, " " * 8))
    return "\n\n".join([*tiles, text, *([] if on.warps else [_PACK])])


def _outer_of_halves(on: Target) -> str:
    """Return the text of `outer` in bf16, with its tiles."""
    rows, vectors = outer_tile(on)
    choice = indent(_choice("halves", "X, q * LANES * SIZE", rows, vectors), " " * 8)
    tiles = [_tile_of_halves(r, v) for v in range(1, vectors + 1) for r in range(1, rows + 1)]
    return "\n\n".join([*tiles, _OUTER_OF_HALVES.format(tiles=choice)])


def name_of(function: str, dtype: str) -> str:
    """Return the name of a function for a GPU, where functions of both dtypes may be part of one kernel."""
    return function if dtype == "float32" else f"{function}_{dtype}"


def functions(dtype: str, on: Target, precision: str = "float32") -> tuple[tree.Function, ...]:
    """Return the functions for a dtype. Functions for a GPU do not sort, but can add up spans."""
    rows, _ = outer_tile(on)
    vec = on.vector(TYPES[dtype])
    types = {"vec": vec, "num": TYPES[dtype], "word": tree.I32, "words": tree.I32.vector(vec.lanes),
             "halves": tree.I16.vector(vec.lanes), "pairs": tree.I16.vector(2 * vec.lanes)}  # fmt: skip
    halves = precision == "bf16" and dtype == "float32" and not on.warps
    lanes, size = on.lanes(TYPES[dtype]), TYPES[dtype].bits // 8

    def read(text: str, words: Sequence[str], **more: int) -> tuple[tree.Function, ...]:
        numbers = {"LANES": lanes, "SIZE": size, **more}
        numbers |= {f"P_{word.upper()}": FIXED + k for k, word in enumerate(words)}
        given = "\n".join(f"{name} = {n}" for name, n in numbers.items())
        if on.warps:
            text = _DEFINED.sub(lambda found: f"{name_of(found[1], dtype)}(", text)
        return parse(f"{given}\n\n{text}", types, (_MEET,) if on.warps else ())

    sizes = {"BLOCK": outer_block(on), "CHUNK": OUTER_CHUNK, "TALL": rows, "FEW": 2 * rows}
    return (
        *read(_outer_of_halves(on) if halves else _outer(on), OUTER, **sizes),
        *read(_COLUMNS, COLUMNS, CHUNK=SUM_CHUNK),
        *read(_ROWS, ROWS),
        *(read(_SPANS, SPANS) if on.warps else read(_SORT, ())),
        *read(_ADJOINTS.format(**_BY_LANES if on.warps else _BY_BYTES), (), **WORDS),
    )


SUMS = ("outer", "columns", "rows", "adjoints")  # and, on a GPU, "spans"
EXPORTS = (*SUMS, "sort_rows")
# The functions that functions for a GPU define.
_DEFINED = re.compile(r"\b(outer|panel|apart_\d_\d|columns|rows|spans|adjoints|add_to|copy|clear)\(")
_MEET = tree.Function("meet_warp", (), tree.VOID, [])  # of `emit.simt`


@functools.cache
def module(dtype: str, on: Target, precision: str = "float32") -> tree.Module:
    """Return the module of the functions for a dtype, on a CPU; `precision`: of the factors of outer products."""
    doc = f"Sums over nodes, {dtype}, vectors of {on.vector_bits} bits."
    return tree.Module(f"sums_{dtype}", functions(dtype, on, precision), EXPORTS, doc, compact=True)


def deferred(dtype: str, on: Target, precision: str = "float32") -> Deferred:
    """Return the module of `module`, made only if its machine code is not cached."""
    key = f"sums {dtype} {on}{' bf16' * (precision == 'bf16')}"
    return Deferred(name=f"sums_{dtype}", key=key, make=functools.partial(module, dtype, on, precision))
