"""Lists of the host program: operations with a static bound of the memory that they allocate, and those without.

In: a `ListOp`. Out: its code, written with a `Writer`. An operation without a bound is the only one of its segment
(`dynamic`): it tests for free memory itself, before any effect.
"""

from __future__ import annotations

from acronumba.emit import tree
from acronumba.emit.tree import I64, Expr, Local, const, convert, intrinsic, load, select
from acronumba.host import decimals, maps, patterns, sets, texts
from acronumba.host.segments import Segment
from acronumba.host.writer import Writer
from acronumba.ir.nodes import ListOp, Var
from acronumba.ir.types import FloatT, ListT, words

_MOST = 1 << 48  # elements that no memory has room for, and whose bytes fit 64 bits


def list_operation(w: Writer, instr: ListOp) -> None:
    """Write an operation that allocates no memory."""
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
        case "find":
            w.assign(instr.outs[0], maps.find(w, instr, instr.args[1:]))
        case "remove":
            (sets if sets.is_ordered(instr.args[0].type) else maps).remove(w, instr)
        case "erase":
            b.store(it, 1, 0)
            b.store(it, 2, 0)
            if sets.is_ordered(instr.args[0].type):
                sets.erase(w, instr)
        case "next":
            sets.next_index(w, instr)
        case _:
            raise ValueError(f"list operation {instr.op!r}")


def dynamic(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Write an operation that checks for free memory before any effect."""
    operation = _Dynamic(w, segment, instr)
    match instr.op:
        case "append":
            operation.append()
        case "insert":
            operation.insert()
        case "extend":
            operation.extend()
        case "slice":
            operation.slice()
        case "fill":
            operation.fill()
        case "sort":
            operation.sort()
        case "put":
            (sets if sets.is_ordered(instr.args[0].type) else maps).put(w, segment, instr)
        case "update":
            (sets if sets.is_ordered(instr.args[0].type) else maps).update(w, segment, instr)
        case "join":
            texts.join(w, segment, instr)
        case "decimal":
            decimals.decimal(w, segment, instr)
        case "pattern":
            patterns.compile(w, segment, instr)
        case "match":
            patterns.match(w, segment, instr)
        case "order":
            sets.order(w, segment, instr)
        case "clone":
            sets.clone(w, segment, instr)
        case "meet" | "minus" | "narrow" | "exclude" | "toggle":
            sets.combine(w, segment, instr)


class _Dynamic:
    """Writes one operation that tests for free memory itself."""

    def __init__(self, w: Writer, segment: Segment, instr: ListOp) -> None:
        self.w, self.segment, self.instr = w, segment, instr
        self.width = instr.width  # words of an element
        self.top = w.reg["top"]
        self.it = w[instr.args[0]]  # the list, or the number of elements to fill, or a float

    def bytes(self, count: Expr) -> Expr:
        return count * (8 * self.width)

    def copy(self, to: Expr, source: Expr, size: Expr) -> None:
        self.w.b.do(intrinsic("copy_bytes", to, source, size, type=tree.VOID))

    def grow(self, wanted: Local) -> None:
        """Write the growth of the list's capacity to so many elements."""
        b, it, top = self.w.b, self.it, self.top
        with b.when(wanted > load(it, 2)):
            double = b.let("double", load(it, 2) * 2)
            room = b.let("room", select(double > wanted, double, wanted))
            b.set(room, select(room > 8, room, 8))
            self.w.room(self.segment, self.bytes(room))
            self.copy(top, load(it), self.bytes(load(it, 1)))
            b.store(it, 0, top)
            b.store(it, 2, room)
            b.set(top, top + self.bytes(room))

    def fresh(self, count: Expr) -> Local:
        """Make a list of so many elements; return the address of the first."""
        b = self.w.b
        self.w.room(self.segment, self.bytes(count) + 24)
        made = b.let("made", self.top)
        at = b.let("at", made + 24)
        b.store(made, 0, at)
        b.store(made, 1, count)
        b.store(made, 2, count)
        b.set(self.top, at + self.bytes(count))
        self.w.assign(self.instr.outs[0], made)
        return at

    def longer(self) -> tuple[Local, Local]:
        """Write the growth of the list by one element; return the length before and after."""
        b = self.w.b
        length = b.let("length", load(self.it, 1))
        wanted = b.let("wanted", length + 1)
        self.grow(wanted)
        return length, wanted

    def put(self, at: Expr, values: tuple[Var, ...], wanted: Local) -> None:
        """Store an element, and the length with it."""
        for k, v in enumerate(values):
            self.w.write_word(at, k, self.w[v])
        self.w.b.store(self.it, 1, wanted)

    def append(self) -> None:
        length, wanted = self.longer()
        at = self.w.b.let("at", load(self.it) + self.bytes(length))
        self.put(at, self.instr.args[1:], wanted)

    def insert(self) -> None:
        b = self.w.b
        length, wanted = self.longer()
        index = self.w[self.instr.args[1]]
        at = b.let("at", load(self.it) + self.bytes(index))
        b.do(intrinsic("move_bytes", at + 8 * self.width, at, self.bytes(length - index), type=tree.VOID))
        self.put(at, self.instr.args[2:], wanted)

    def extend(self) -> None:
        b, it = self.w.b, self.it
        other = self.w[self.instr.args[1]]
        more = b.let("more", load(other, 1))
        length = b.let("length", load(it, 1))
        wanted = b.let("wanted", length + more)
        self.grow(wanted)
        self.copy(load(it) + self.bytes(length), load(other), self.bytes(more))
        b.store(it, 1, wanted)

    def slice(self) -> None:
        b, width = self.w.b, self.width
        start, step, count = (self.w[v] for v in self.instr.args[1:])
        at = self.fresh(count)
        source = b.let("source", load(self.it) + self.bytes(start))
        with b.loop("k", 0, count) as i:
            for j in range(width):
                b.store(at, i * width + j, load(source, i * step * width + j))

    def fill(self) -> None:
        b = self.w.b
        count = b.let("count", select(self.it > 0, self.it, 0))
        b.set(count, select(count < _MOST, count, _MOST))
        at = self.fresh(count)
        with b.loop("k", 0, count) as i:
            for j, v in enumerate(self.instr.args[1:]):
                self.w.write_word(at, i * self.width + j, self.w[v])

    def sort(self) -> None:
        w, b, top = self.w, self.w.b, self.top
        keys, descending = w[self.instr.args[1]], w[self.instr.args[2]]
        item = self.instr.args[1].type
        floats = isinstance(item, ListT) and any(isinstance(x, FloatT) for x in words(item.item))
        count = b.let("count", load(self.it, 1))
        w.room(self.segment, count * (16 + 8 * self.width))
        w.helper("sort_order", _SORT_ORDER)
        sorter = w.word("sorter") if floats else const(0, I64)
        given = (load(keys), count, top, sorter, convert(descending, I64, "unsigned"))
        order_at = b.let("order", tree.Call("sort_order", given, I64))
        copy_at = b.let("copy", top + count * 16)
        self.copy(copy_at, load(self.it), self.bytes(count))
        here = b.let("at", load(self.it))
        with b.loop("k", 0, count) as i:
            source = b.let("source", copy_at + self.bytes(load(order_at, i)))
            for j in range(self.width):
                b.store(here, i * self.width + j, load(source, j))


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
