"""Sets of the host program that are iterated in Python's order: they also keep the hash table that CPython would have.

In: a `ListOp` on sets whose type is ordered. Out: its code, written with a `Writer`. Besides its list of entries with
the table of `host.maps`, such a set has a table of CPython's layout (`Objects/setobject.c`, unchanged in 3.10 to 3.14):
open addressing with nine linear probes, whose slots are the hash of an element and 1 + the number of its entry, 0 if
the slot is free and -1 if an element was taken out of it. Each operation changes it as Python's operation does, since
the order of the elements, that of the slots, depends on all that was done to a set. The record of a set is

    entries, length, capacity      as of other lists
    slots, mask, fill, finger      of Python's table; `fill` counts slots that are not free
    16 words                       the first eight slots

Hashes are those of the process that runs the program: `data.hashing` fills the table that STATE calls `hashing`.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.data.texts import signed
from acronumba.emit import tree
from acronumba.emit.tree import I64, Expr, const, load
from acronumba.host import maps, texts
from acronumba.host.segments import Segment
from acronumba.host.writer import Writer
from acronumba.ir.nodes import ListOp, Var
from acronumba.ir.types import (
    ORDER,
    BoolT,
    EnumT,
    IntT,
    ListT,
    NoneT,
    ScalarT,
    StrT,
    TextT,
    TupleT,
    Type,
    UnionT,
    Word,
    case_slices,
    members,
    union_word,
    words,
)

WORDS = 23  # of the record of a set
_EACH = 512  # bytes that suffice for the tables made while an element is added, on average; and some more at once,
_MORE = 1024


def is_ordered(word: Word) -> bool:
    """Whether a list is a set that keeps Python's table."""
    return isinstance(word, ListT) and isinstance(word.item, TupleT) and word.item.items[-1:] == (ORDER,)


def new(w: Writer, out: Var) -> None:
    """Write a new set."""
    b, top = w.b, w.reg["top"]
    b.do(tree.intrinsic("fill_bytes", top, const(0, I64), const(8 * WORDS, I64), type=tree.VOID))
    b.store(top, 3, top + 56)
    b.store(top, 4, 7)
    w.assign(out, top)
    b.set(top, top + 8 * WORDS)


def room(w: Writer, segment: Segment, count: Expr) -> None:
    """Write the test for the memory of the tables that adding `count` elements takes at most."""
    w.room(segment, count * _EACH + _MORE)


def put(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Write `s.add(x)`."""
    it = w[instr.args[0]]

    def before() -> None:
        with w.b.when((load(it, 5) + 1) * 5 >= load(it, 4) * 3):
            room(w, segment, load(it, 1) + 1)

    maps.put(w, segment, instr, before, lambda at: _call(w, instr, "keep", it, at))


def update(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Write `s.update(other)`, of a set or dict with keys of the same type."""
    b, (it, other) = w.b, (w[v] for v in instr.args)
    mine, given = (v.type for v in instr.args)
    assert isinstance(mine, ListT) and isinstance(given, ListT)
    wanted = b.let("wanted", load(it, 1) + load(other, 1))
    maps.grow(w, segment, it, mine, wanted)
    room(w, segment, wanted)
    if is_ordered(given):
        _call(w, instr, "merge", it, other)
    else:
        _call(w, instr, "mix", it, other, const(8 * len(words(given.item)), I64))


def remove(w: Writer, instr: ListOp) -> None:
    """Write the removal of an entry."""
    _slots(w)
    w.b.do(tree.Call("set_drop", (w[instr.args[0]], w[instr.args[1]]), tree.VOID))
    maps.remove(w, instr)


def erase(w: Writer, instr: ListOp) -> None:
    """Write `s.clear()`."""
    _slots(w)
    w.b.do(tree.Call("set_clear", (w[instr.args[0]],), tree.VOID))


def clone(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Write the set that has the elements, and the table, of one of the instance data."""
    b, given = w.b, w[instr.args[0]]
    out = b.let("made", w.reg["top"])
    t = instr.outs[0].type
    assert isinstance(t, ListT)
    _slots(w)
    slots, count = b.let("slots", tree.Call("set_slots", (given,), I64)), b.let("count", load(given, 1))
    w.room(segment, slots * 16 + (count + 4) * (16 * (_width(t) + 2)) + 8 * WORDS)
    new(w, instr.outs[0])
    maps.grow(w, segment, out, t, count)
    b.set(w.reg["top"], tree.Call(f"{_library(w, instr.outs[0])}_clone", (_secret(w), out, given, w.reg["top"]), I64))


def order(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Write the list of the elements, in Python's order."""
    b, it, top = w.b, w[instr.args[0]], w.reg["top"]
    _slots(w)
    count, width = b.let("count", load(it, 1)), const(8 * instr.width, I64)
    w.room(segment, count * width + 24)
    made = b.let("made", top)
    b.store(made, 0, made + 24)
    b.store(made, 1, count)
    b.store(made, 2, count)
    b.set(top, made + count * width + 24)
    if is_ordered(instr.args[0].type):
        b.do(tree.Call("set_order", (it, made + 24, width), tree.VOID))
    else:  # one of the data, which has its order
        b.do(tree.intrinsic("copy_bytes", made + 24, load(it), count * width, type=tree.VOID))
    w.assign(instr.outs[0], made)


def next_index(w: Writer, instr: ListOp) -> None:
    """Write the search for the entry that `s.pop()` takes; -1 if there is none."""
    _slots(w)
    w.assign(instr.outs[0], tree.Call("set_next", (w[instr.args[0]],), I64))


def combine(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Write an operator: its result goes into the first set, which is empty or the left operand."""
    it, *others = (w[v] for v in instr.args)
    if instr.op == "narrow":  # the result is made in another set, whose table becomes that of the left operand
        it, others = others[0], [it, others[1]]
    b = w.b
    count = b.let("count", load(it, 1))
    for other in others:
        b.set(count, count + load(other, 1))
    t = instr.args[0].type
    assert isinstance(t, ListT)
    maps.grow(w, segment, it, t, count)
    room(w, segment, count)
    _call(w, instr, "meet" if instr.op == "narrow" else instr.op, it, *others)
    if instr.op == "narrow":
        b.do(tree.Call("set_become", (others[0], it), tree.VOID))


def _call(w: Writer, instr: ListOp, name: str, *args: Expr) -> None:
    """Write a call of a function that returns the new top of the heap."""
    top = w.reg["top"]
    w.b.set(top, tree.Call(f"{_library(w, instr.args[0])}_{name}", (_secret(w), *args, top), I64))


def _secret(w: Writer) -> Expr:
    return w.word("hashing")


def _width(word: Word) -> int:
    assert isinstance(word, ListT)
    return len(words(word.item))


def _name(w: Writer, v: Var) -> str:
    assert isinstance(v.type, ListT)
    return maps.library(w, v.type)


def _slots(w: Writer) -> None:
    w.helper("set_free", _SLOTS)


def _library(w: Writer, v: Var) -> str:
    """Return the name of the functions for sets with such elements."""
    base = _name(w, v)
    assert isinstance(v.type, ListT) and isinstance(v.type.item, TupleT)
    hashed = hash_function(w, v.type.item.items[0])
    name = f"{base}_{hashed}"
    _slots(w)
    width = _width(v.type)
    text = _SETS.format(
        name=name, base=base, hash=hashed, words="".join(f", ld(entry, {j})" for j in range(width)), width=8 * width,
        count=width,
    )  # fmt: skip
    w.helper(f"{name}_keep", text)
    return name


# ---- hashes


def hash_function(w: Writer, t: Type) -> str:
    """Return the name of the function that computes Python's hash of values of a type, from their words."""
    if t not in w.hashes:
        w.helper("hash_int", _HASHES)
        texts.use(w)
        w.helper("hash_text", _SIPHASH)
        w.hashes[t] = _hash_function(w, t)
    return w.hashes[t]


def _hash_function(w: Writer, t: Type) -> str:
    if isinstance(t, IntT | ScalarT | BoolT):
        return "hash_int"
    if isinstance(t, TextT):
        return "hash_text"
    inner: Sequence[str] = ()
    match t:
        case StrT() | NoneT():
            body = [f"return ld(s, {w.hashed(t)})"]
        case EnumT():
            body = [f"return ld(s, {w.hashed(t)} + a0)"]
        case TupleT():
            inner = [hash_function(w, item) for item in t.items]
            body, at = ["h = 0 + HASH_START"], 0
            for item, name in zip(t.items, inner, strict=True):
                given = "".join(f", a{at + k}" for k in range(len(words(item))))
                body.append(f"h = hash_part(h, {name}(s{given}))")
                at += len(words(item))
            body.append(f"return hash_end(h, {len(t.items)})")
        case ListT():
            name, width = hash_function(w, t.item), len(words(t.item))
            given = "".join(f", ld(ld(a0, 0), k * {width} + {j})" for j in range(width))
            body = ["h = 0 + HASH_START", "for k in range(ld(a0, 1)):", f"    h = hash_part(h, {name}(s{given}))"]
            body.append("return hash_end(h, ld(a0, 1))")
        case UnionT() if union_word(t) is not None:
            (some,) = [m for m in members(t) if not isinstance(m, NoneT)]
            none = next(m for m in members(t) if isinstance(m, NoneT))
            body = ["if a0 == 0:", f"    return {hash_function(w, none)}(s)", f"return {hash_function(w, some)}(s, a0)"]
        case UnionT():
            body = []
            for k, (case, place) in enumerate(case_slices(t)):
                given = "".join(f", a{j}" for j in range(place.start, place.stop))
                body += [f"if a0 == {k}:", f"    return {hash_function(w, case)}(s{given})"]
            body.append("return 0")
        case _:
            body = ["return 0"]  # no value has the type
    name = f"hash_of{len(w.hashes)}"
    parameters = "".join(f", a{k}: i64" for k in range(len(words(t))))
    lines = "".join(f"    {line}\n" for line in body).replace("HASH_START", str(_P5))
    w.helper(name, f'def {name}(s: i64{parameters}) -> i64:\n    """Return the hash of a value."""\n{lines}')
    return name


_P1, _P2, _P5 = signed(11400714785074694791), signed(14029467366897019727), signed(2870177450012600261)
_HASHES = f'''
def hash_int(s: i64, x: i64) -> i64:
    """Return the hash of an int: modulo 2**61 - 1, with its sign."""
    u = select(x < 0, 0 - x, x)
    h = (u & {(1 << 61) - 1}) + lshr(u, 61)
    if h >= {(1 << 61) - 1}:
        h = h - {(1 << 61) - 1}
    if x < 0:
        h = 0 - h
    return select(h == -1, -2, h)


def hash_part(h: i64, part: i64) -> i64:
    """Return the hash of a tuple with one more part."""
    h = h + part * ({_P2})
    h = (h << 31) | lshr(h, 33)
    return h * ({_P1})


def hash_end(h: i64, n: i64) -> i64:
    """Return the hash of a tuple of n parts."""
    h = h + (n ^ {_P5 ^ 3527539})
    return select(h == -1, 1546275796, h)
'''
_SIPHASH = f'''
def hash_text(s: i64, text: i64) -> i64:
    """Return the hash of a string: SipHash-1-3 of its characters, in 1, 2 or 4 bytes each."""
    n = text_length(text)
    if n == 0:
        return 0
    largest = 0
    for k in range(n):
        c = text_item(text, k)
        largest = select(c > largest, c, largest)
    size = select(largest < 256, 1, select(largest < 65536, 2, 4))
    bytes = n * size
    each = 8 // size
    blocks = bytes >> 3
    a = ld(s, 0) ^ {0x736F6D6570736575}
    b = ld(s, 1) ^ {0x646F72616E646F6D}
    c = ld(s, 0) ^ {0x6C7967656E657261}
    d = ld(s, 1) ^ {0x7465646279746573}
    for k in range(blocks + 4):
        m = 0
        if k <= blocks:
            for j in range(each):
                if k * each + j < n:
                    m = m | (text_item(text, k * each + j) << (8 * size * j))
            if k == blocks:
                m = m | (bytes << 56)
        d = d ^ m
        if k == blocks + 1:
            c = c ^ 255
        a = a + b
        c = c + d
        b = ((b << 13) | lshr(b, 51)) ^ a
        d = ((d << 16) | lshr(d, 48)) ^ c
        a = (a << 32) | lshr(a, 32)
        c = c + b
        a = a + d
        b = ((b << 17) | lshr(b, 47)) ^ c
        d = ((d << 21) | lshr(d, 43)) ^ a
        c = (c << 32) | lshr(c, 32)
        a = a ^ m
    h = (a ^ b) ^ (c ^ d)
    return select(h == -1, -2, h)
'''

# ---- Python's table


_SLOTS = '''
def set_free(table: i64, mask: i64, hash: i64) -> i64:
    """Return the slot for a new element: a free one, or the last on the way to it that an element was taken out of."""
    perturb = hash
    i = hash & mask
    gone = -1
    while 1 == 1:
        last = select(i + 9 <= mask, i + 9, i)
        k = i
        while k <= last:
            there = ld(table, 2 * k + 1)
            if there == 0:
                return select(gone >= 0, gone, k)
            if there == -1:
                gone = k
            k = k + 1
        perturb = lshr(perturb, 5)
        i = (i * 5 + 1 + perturb) & mask
    return -1


def set_resize(it: i64, least: i64, top: i64) -> i64:
    """Make the table anew, with more than `least` slots; return the new top of the heap."""
    size = 8
    while size <= least:
        size = size * 2
    old = ld(it, 3)
    slots = ld(it, 4) + 1
    small = it + 56
    new = small
    if size > 8:
        new = top
        top = top + 16 * size
    elif old == small:
        if ld(it, 5) == ld(it, 1):
            return top
        copy_bytes(top, old, 128)
        old = top
    fill_bytes(new, 0, 16 * size)
    for k in range(slots):
        if ld(old, 2 * k + 1) > 0:
            to = set_free(new, size - 1, ld(old, 2 * k))
            st(new, 2 * to, ld(old, 2 * k))
            st(new, 2 * to + 1, ld(old, 2 * k + 1))
    st(it, 3, new)
    st(it, 4, size - 1)
    st(it, 5, ld(it, 1))
    return top


def set_more(n: i64) -> i64:
    """Return what a table of n elements grows to have more slots than."""
    return select(n > 50000, n * 2, n * 4)


def set_insert(it: i64, index: i64, hash: i64, top: i64) -> i64:
    """Put a new element, which is counted already, into the table."""
    table = ld(it, 3)
    slot = set_free(table, ld(it, 4), hash)
    gone = ld(table, 2 * slot + 1)
    st(table, 2 * slot, hash)
    st(table, 2 * slot + 1, index + 1)
    if gone == -1:
        return top
    st(it, 5, ld(it, 5) + 1)
    if ld(it, 5) * 5 >= ld(it, 4) * 3:
        return set_resize(it, set_more(ld(it, 1)), top)
    return top


def set_expect(it: i64, n: i64, top: i64) -> i64:
    """Make room for n more elements at once."""
    if (ld(it, 5) + n) * 5 >= ld(it, 4) * 3:
        return set_resize(it, (ld(it, 1) + n) * 2, top)
    return top


def set_drop(it: i64, index: i64):
    """Take the element of an entry, which is still counted, out of the table; the entries behind it move up."""
    table = ld(it, 3)
    for k in range(ld(it, 4) + 1):
        there = ld(table, 2 * k + 1)
        if there > index:
            st(table, 2 * k + 1, select(there == index + 1, -1, there - 1))


def set_clear(it: i64):
    """Take all elements out."""
    fill_bytes(it + 56, 0, 128)
    st(it, 3, it + 56)
    st(it, 4, 7)
    st(it, 5, 0)


def set_become(it: i64, other: i64):
    """Give a set the elements and the table of another one."""
    st(it, 0, ld(other, 0))
    st(it, 1, ld(other, 1))
    st(it, 2, ld(other, 2))
    st(it, 3, select(ld(other, 3) == other + 56, it + 56, ld(other, 3)))
    st(it, 4, ld(other, 4))
    st(it, 5, ld(other, 5))
    copy_bytes(it + 56, other + 56, 128)


def set_order(it: i64, to: i64, width: i64):
    """Write the elements in the order of the table."""
    table = ld(it, 3)
    for k in range(ld(it, 4) + 1):
        there = ld(table, 2 * k + 1)
        if there > 0:
            copy_bytes(to, ld(it, 0) + (there - 1) * width, width)
            to = to + width


def set_next(it: i64) -> i64:
    """Return the index of the element that is taken next; -1 if there is none."""
    if ld(it, 1) == 0:
        return -1
    table = ld(it, 3)
    mask = ld(it, 4)
    k = ld(it, 6) & mask
    while ld(table, 2 * k + 1) <= 0:
        k = (k + 1) & mask
    st(it, 6, k + 1)
    return ld(table, 2 * k + 1) - 1


def set_slots(given: i64) -> i64:
    """Return the number of slots that a set of the instance data has in Python."""
    if ld(given, 1) == 0:
        return 8
    at = ld(given, 3)
    return ld(at, ld(at, 0) + 2) >> 1
'''

_SETS = '''
def {name}_keep(s: i64, it: i64, index: i64, top: i64) -> i64:
    """Put a new entry, which is counted already, into Python's table."""
    entry = ld(it, 0) + index * {width}
    return set_insert(it, index, {hash}(s{words}), top)


def {name}_add(it: i64, entry: i64, hash: i64, top: i64) -> i64:
    """Add an element of another set or dict, for whose entry there is room."""
    if {base}_find(it{words}) >= 0:
        return top
    n = ld(it, 1)
    copy_bytes(ld(it, 0) + n * {width}, entry, {width})
    st(it, 1, n + 1)
    {base}_enter(it, n)
    return set_insert(it, n, hash, top)


def {name}_mix(s: i64, it: i64, other: i64, width: i64, top: i64) -> i64:
    """Add the keys of a dict."""
    top = set_expect(it, ld(other, 1), top)
    for k in range(ld(other, 1)):
        entry = ld(other, 0) + k * width
        top = {name}_add(it, entry, {hash}(s{words}), top)
    return top


def {name}_merge(s: i64, it: i64, other: i64, top: i64) -> i64:
    """Add the elements of another set."""
    n = ld(other, 1)
    if it == other or n == 0:
        return top
    top = set_expect(it, n, top)
    slots = ld(other, 4) + 1
    if ld(it, 5) == 0 and ld(it, 4) == ld(other, 4) and ld(other, 5) == n:
        copy_bytes(ld(it, 0), ld(other, 0), n * {width})
        copy_bytes(ld(it, 3), ld(other, 3), 16 * slots)
        st(it, 1, n)
        st(it, 5, n)
        {base}_index(it)
        return top
    table = ld(other, 3)
    for k in range(slots):
        there = ld(table, 2 * k + 1)
        if there > 0:
            top = {name}_add(it, ld(other, 0) + (there - 1) * {width}, ld(table, 2 * k), top)
    return top


def {name}_clone(s: i64, it: i64, given: i64, top: i64) -> i64:
    """Give a new set the elements, and the table, of a set of the instance data."""
    n = ld(given, 1)
    if n == 0:
        return top
    known = ld(given, 3)
    known = known + 8 * (ld(known, 0) + 2)
    slots = ld(known, 0) >> 1
    if slots > 8:
        fill_bytes(top, 0, 16 * slots)
        st(it, 3, top)
        st(it, 4, slots - 1)
        top = top + 16 * slots
    copy_bytes(ld(it, 0), ld(given, 0), n * {width})
    st(it, 1, n)
    st(it, 5, n + (ld(known, 0) & 1))
    {base}_index(it)
    table = ld(it, 3)
    for k in range(n):
        entry = ld(it, 0) + k * {width}
        st(table, 2 * ld(known, 1 + k), {hash}(s{words}))
        st(table, 2 * ld(known, 1 + k) + 1, k + 1)
    return top


def {name}_pick(out: i64, it: i64, other: i64, wanted: i64, top: i64) -> i64:
    """Add to `out` the elements of a set that are in another one, or (`wanted` is 0) that are not."""
    table = ld(it, 3)
    for k in range(ld(it, 4) + 1):
        there = ld(table, 2 * k + 1)
        if there > 0:
            entry = ld(it, 0) + (there - 1) * {width}
            if select({base}_find(other{words}) >= 0, 1, 0) == wanted:
                top = {name}_add(out, entry, ld(table, 2 * k), top)
    return top


def {name}_meet(s: i64, out: i64, it: i64, other: i64, top: i64) -> i64:
    """Fill an empty set with the elements of two sets that are in both."""
    if it == other:
        return {name}_merge(s, out, it, top)
    if ld(other, 1) > ld(it, 1):
        return {name}_pick(out, it, other, 1, top)
    return {name}_pick(out, other, it, 1, top)


def {name}_exclude(s: i64, it: i64, other: i64, top: i64) -> i64:
    """Take the elements of another set out of a set."""
    if it == other:
        st(it, 1, 0)
        st(it, 2, 0)
        set_clear(it)
        return top
    for k in range(ld(other, 1)):
        entry = ld(other, 0) + k * {width}
        index = {base}_find(it{words})
        if index >= 0:
            set_drop(it, index)
            {base}_remove(it, index)
    if ld(it, 5) - ld(it, 1) > ld(it, 4) >> 2:
        return set_resize(it, set_more(ld(it, 1)), top)
    return top


def {name}_minus(s: i64, out: i64, it: i64, other: i64, top: i64) -> i64:
    """Fill an empty set with the elements of a set that are not in another one."""
    if ld(it, 1) >> 2 > ld(other, 1):
        top = {name}_merge(s, out, it, top)
        return {name}_exclude(s, out, other, top)
    return {name}_pick(out, it, other, 0, top)


def {name}_toggle(s: i64, it: i64, other: i64, top: i64) -> i64:
    """Take the elements of another set out of a set, or add those that are not in it."""
    if it == other:
        st(it, 1, 0)
        st(it, 2, 0)
        set_clear(it)
        return top
    table = ld(other, 3)
    for k in range(ld(other, 4) + 1):
        there = ld(table, 2 * k + 1)
        if there > 0:
            entry = ld(other, 0) + (there - 1) * {width}
            index = {base}_find(it{words})
            if index >= 0:
                set_drop(it, index)
                {base}_remove(it, index)
            else:
                top = {name}_add(it, entry, ld(table, 2 * k), top)
    return top
'''
