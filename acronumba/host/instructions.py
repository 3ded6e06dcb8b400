"""Instructions of the host program: rows, lists, and what is recorded.

In: an instruction. Out: its code, written with a `Writer`. What has no static bound of the room that it takes stands
alone in its segment (`dynamic`): it tests for room itself.
"""

from __future__ import annotations

from acronumba.emit import tree
from acronumba.emit.tree import (
    I32,
    I64,
    Expr,
    Local,
    const,
    convert,
    intrinsic,
    load,
    select,
)
from acronumba.host.numbers import scalar
from acronumba.host.segments import Frame, Segment
from acronumba.host.writer import Writer
from acronumba.ir.nodes import (
    Check,
    ClassTag,
    Const,
    Copy,
    Emit,
    ExtentOf,
    Instr,
    IsNull,
    ListNew,
    ListOp,
    Load,
    New,
    Pad,
    Scalar,
    Shared,
    Var,
)
from acronumba.ir.types import FloatT, ListT, TensorT, words
from acronumba.runtime.state import RECORD

_MOST = 1 << 48  # elements that no memory has room for, and whose bytes fit 64 bits


def instruction(w: Writer, instr: Instr) -> None:
    b, reg = w.b, w.reg
    match instr:
        case Const():
            value = 0 if instr.value is None else instr.value
            w.assign(instr.out, const(value, w[instr.out].type))
        case Copy():
            w.assign(instr.out, w[instr.src])
        case Scalar():
            scalar(w, instr)
        case IsNull():
            w.assign(instr.out, w[instr.ref].eq(0))
        case ClassTag():
            w.assign(instr.out, load(w[instr.ref]))
        case Check():
            with b.when(~w[instr.cond]):
                w.fail(instr.site, instr.args)
        case Load():
            _, layout = w.layouts[instr.cls]
            (place,) = [f for f in layout.fields if f.name == instr.field]
            for k, v in enumerate(instr.outs):
                w.assign(v, w.read_word(w[instr.ref], place.offset + k, v.type))
        case New():
            number, layout = w.layouts[instr.cls]
            b.store(reg["top"], 0, number)
            at = [f.offset + k for f in layout.fields for k in range(f.width)]
            for k, v in zip(at, instr.args, strict=True):
                w.write_word(reg["top"], k, w[v])
            w.assign(instr.out, reg["top"])
            b.set(reg["top"], reg["top"] + 8 * layout.size)
        case ListNew():
            top = reg["top"]
            b.store(top, 0, top + 24)
            b.store(top, 1, instr.count)
            b.store(top, 2, instr.count)
            for k, v in enumerate(instr.args):
                w.write_word(top, 3 + k, w[v])
            w.assign(instr.out, top)
            b.set(top, top + 8 * (3 + instr.count * instr.width))
        case ListOp():
            _list(w, instr)
        case ExtentOf():
            # A variable that is bound later, or on another path only, may hold no tensor here: its extents are 0.
            w.assign(instr.out, const(0, I64))
            with b.when(w[instr.tensor].ne(0)):
                w.assign(instr.out, load(load(w[instr.tensor], 2), instr.axis))
        case Shared():
            w.assign(instr.out, w.read_word(w.word("shared"), instr.index, instr.out.type))
        case Emit():
            _emit(w, instr)
        case Pad():
            _pad(w, instr)
        case _:
            raise TypeError(f"{type(instr).__name__} has no place in a host program")


def emit_words(emit: Emit) -> int:
    moving = sum(len(shape) for shape in emit.shapes if any(isinstance(x, Var) for x in shape))
    return len(emit.args) + len(emit.dims) + RECORD * len(emit.outs) + moving


def _deepest(w: Writer, it: Expr) -> Local:
    """Return the largest depth of the tensors of a list, -1 if there are none."""
    b = w.b
    deepest = b.let("d", -1)
    items = b.let("items", load(it))
    with b.loop("k", 0, load(it, 1)) as k:
        d = b.let("d", convert(load(load(items, k), 2, I32), I64))
        b.set(deepest, select(d > deepest, d, deepest))
    return deepest


def _emit(w: Writer, emit: Emit) -> None:
    b, reg = w.b, w.reg
    n, top = reg["n"], reg["top"]
    row = b.let("node", top)
    given = (*emit.args, *emit.dims)
    for k, v in enumerate(given):
        w.write_word(row, k, w[v])
    depth: Expr = const(0, I64)
    depths: list[Local] = []
    for v in emit.args:
        if isinstance(v.type, TensorT):
            depths.append(b.let("d", convert(load(w[v], 2, I32), I64)))
        elif isinstance(v.type, ListT) and isinstance(v.type.item, TensorT):
            depths.append(_deepest(w, w[v]))
    for k, d in enumerate(depths):
        depth = d if k == 0 else b.let("d", select(d > depth, d, depth))
    if depths:
        depth = b.let("d", depth + 1)
    head = b.let("value", (n << 32) | depth)
    at = len(given)
    moving = at + RECORD * len(emit.outs)
    for v, shape in zip(emit.outs, emit.shapes, strict=True):
        b.store(row, at + 1, head)
        if any(isinstance(x, Var) for x in shape):
            for k, x in enumerate(shape):
                b.store(row, moving + k, w[x] if isinstance(x, Var) else x)
            b.store(row, at + 2, row + 8 * moving)
            moving += len(shape)
        else:
            b.store(row, at + 2, reg["shapes"] + 8 * w.shape(tuple(x for x in shape if isinstance(x, int))))
        w.assign(v, row + 8 * at)
        at += RECORD
    b.store(reg["kind"], n, emit.kernel, I32)
    b.store(reg["depth"], n, convert(depth, I32))
    b.store(reg["instance"], n, convert(reg["inst"], I32))
    b.store(reg["row"], n, row)
    b.set(n, n + 1)
    b.set(top, row + 8 * emit_words(emit))


def _pad(w: Writer, pad: Pad) -> None:
    """Make the value count as deeper, by at most `ghosts` levels. The record of an input is not ours: copy it."""
    b, record, top = w.b, w[pad.src], w.reg["top"]
    w.assign(pad.out, record)
    with b.when(record.ne(0)):  # None, or bound on another path
        node = b.let("of", load(record, 1) >> 32)
        depth = b.let("d", convert(load(record, 2, I32), I64) + pad.levels)
        with b.when(node >= 0):
            most = b.let("most", convert(load(w.reg["depth"], node, I32), I64) + w.ghosts)
            b.store(record, 2, convert(select(depth < most, depth, most), I32), I32)
        with b.otherwise():
            b.store(top, 0, load(record))
            b.store(top, 1, (node << 32) | select(depth < w.ghosts, depth, w.ghosts - 1))
            b.store(top, 2, load(record, 2))
            w.assign(pad.out, top)
            b.set(top, top + 8 * RECORD)


def _list(w: Writer, instr: ListOp) -> None:
    """An operation that needs no room."""
    b, width = w.b, instr.width
    it = w[instr.args[0]]
    match instr.op:
        case "len":
            w.assign(instr.outs[0], load(it, 1))
        case "get":
            at = b.let("at", load(it) + w[instr.args[1]] * (8 * width))
            for k, v in enumerate(instr.outs):
                w.assign(v, w.read_word(at, k, v.type))
        case "set":
            at = b.let("at", load(it) + w[instr.args[1]] * (8 * width))
            for k, v in enumerate(instr.args[2:]):
                w.write_word(at, k, w[v])
        case "pop":
            index = w[instr.args[1]]
            at = b.let("at", load(it) + index * (8 * width))
            for k, v in enumerate(instr.outs):
                w.assign(v, w.read_word(at, k, v.type))
            left = b.let("left", load(it, 1) - 1)
            b.store(it, 1, left)
            if width:
                with b.when(index < left):
                    b.do(intrinsic("move_bytes", at, at + 8 * width, (left - index) * (8 * width), type=tree.VOID))
        case "reverse":
            at = b.let("at", load(it))
            count = b.let("count", load(it, 1))
            with b.loop("k", 0, count // 2) as i:
                for j in range(width):
                    low = b.let("low", at + (i * width + j) * 8)
                    high = b.let("high", at + ((count - 1 - i) * width + j) * 8)
                    x = b.let("x", load(low))
                    b.store(low, 0, load(high))
                    b.store(high, 0, x)
        case _:
            raise ValueError(f"list operation {instr.op!r}")


def dynamic(w: Writer, frame: Frame, segment: Segment, instr: ListOp) -> None:
    """An operation that tests for room itw, as the first effect of its segment."""
    b, width, top = w.b, instr.width, w.reg["top"]
    it = w[instr.args[0]]

    def bytes_(count: Expr) -> Expr:
        return count * (8 * width)

    def copy(to: Expr, source: Expr, size: Expr) -> None:
        b.do(intrinsic("copy_bytes", to, source, size, type=tree.VOID))

    def grow(wanted: Local) -> None:
        """Make the list's segment large enough for so many elements."""
        with b.when(wanted > load(it, 2)):
            double = b.let("double", load(it, 2) * 2)
            room = b.let("room", select(double > wanted, double, wanted))
            b.set(room, select(room > 8, room, 8))
            w.room(frame, segment, bytes_(room))
            copy(top, load(it), bytes_(load(it, 1)))
            b.store(it, 0, top)
            b.store(it, 2, room)
            b.set(top, top + bytes_(room))

    def fresh(count: Local) -> Local:
        """Make a list of so many elements; return the address of the first."""
        w.room(frame, segment, bytes_(count) + 24)
        made = b.let("made", top)
        at = b.let("at", made + 24)
        b.store(made, 0, at)
        b.store(made, 1, count)
        b.store(made, 2, count)
        b.set(top, at + bytes_(count))
        w.assign(instr.outs[0], made)
        return at

    match instr.op:
        case "append" | "insert":
            length = b.let("length", load(it, 1))
            wanted = b.let("wanted", length + 1)
            grow(wanted)
            if instr.op == "append":
                at = b.let("at", load(it) + bytes_(length))
                values = instr.args[1:]
            else:
                index = w[instr.args[1]]
                at = b.let("at", load(it) + bytes_(index))
                values = instr.args[2:]
                b.do(intrinsic("move_bytes", at + 8 * width, at, bytes_(length - index), type=tree.VOID))
            for k, v in enumerate(values):
                w.write_word(at, k, w[v])
            b.store(it, 1, wanted)
        case "extend":
            other = w[instr.args[1]]
            more = b.let("more", load(other, 1))
            length = b.let("length", load(it, 1))
            wanted = b.let("wanted", length + more)
            grow(wanted)
            copy(load(it) + bytes_(length), load(other), bytes_(more))
            b.store(it, 1, wanted)
        case "slice":
            start, step, count = (w[v] for v in instr.args[1:])
            at = fresh(count)
            source = b.let("source", load(it) + bytes_(start))
            with b.loop("k", 0, count) as i:
                for j in range(width):
                    b.store(at, i * width + j, load(source, i * step * width + j))
        case "fill":
            count = b.let("count", select(w[instr.args[0]] > 0, w[instr.args[0]], 0))
            b.set(count, select(count < _MOST, count, _MOST))
            at = fresh(count)
            with b.loop("k", 0, count) as i:
                for j, v in enumerate(instr.args[1:]):
                    w.write_word(at, i * width + j, w[v])
        case "sort":
            keys, descending = w[instr.args[1]], w[instr.args[2]]
            item = instr.args[1].type
            floats = isinstance(item, ListT) and any(isinstance(x, FloatT) for x in words(item.item))
            count = b.let("count", load(it, 1))
            w.room(frame, segment, count * (16 + 8 * width))
            w.helper("sort_order", _SORT_ORDER)
            order = tree.Call(
                "sort_order",
                (
                    load(keys),
                    count,
                    top,
                    w.word("sorter") if floats else const(0, I64),
                    convert(descending, I64, "unsigned"),
                ),
                I64,
            )
            order_at = b.let("order", order)
            copy_at = b.let("copy", top + count * 16)
            copy(copy_at, load(it), bytes_(count))
            here = b.let("at", load(it))
            with b.loop("k", 0, count) as i:
                source = b.let("source", copy_at + bytes_(load(order_at, i)))
                for j in range(width):
                    b.store(here, i * width + j, load(source, j))


_SORT_ORDER = '''
def sort_order(keys: i64, n: i64, space: i64, floats: i64, descending: i64) -> i64:
    """Return the address of the stable order of n keys, int64[n], in the 2 n words at `space`, by merging.

    `floats`: 0 for ints, else what orders floats of which some are NaN.
    """
    a = space
    if floats != 0:
        for k in range(n):
            if ldf(keys, k) != ldf(keys, k):
                call_address(floats, keys, n, a, descending)
                return a
    b = space + n * 8
    for k in range(n):
        st(a, k, k)
    width = 1
    while width < n:
        low = 0
        while low < n:
            middle = select(low + width < n, low + width, n)
            high = select(low + 2 * width < n, low + 2 * width, n)
            i = low
            j = middle
            for k in range(low, high):
                right = 0
                if j < high:
                    if i >= middle:
                        right = 1
                    else:
                        x = ld(a, i)
                        y = ld(a, j)
                        if descending != 0:
                            z = x
                            x = y
                            y = z
                        if floats != 0:
                            if ldf(keys, y) < ldf(keys, x):
                                right = 1
                        else:
                            if ld(keys, y) < ld(keys, x):
                                right = 1
                if right != 0:
                    st(b, k, ld(a, j))
                    j = j + 1
                else:
                    st(b, k, ld(a, i))
                    i = i + 1
            low = low + 2 * width
        c = a
        a = b
        b = c
        width = 2 * width
    return a
'''
