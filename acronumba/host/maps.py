"""Dicts of the host program: lists of entries followed by a hash table.

In: a `ListOp`. Out: its code, written with a `Writer`. A dict is a list whose elements begin with the words of a key.
Its capacity is a power of two (or 0: no table); behind the memory of its entries lies a table of twice as many words:
1 + the number of an entry, or 0 if the slot is empty. A key is searched for by linear probing from its hash on; removal
of an entry moves later ones up (Knuth, TAOCP 3, 6.4, algorithm R). A dict of instance data has capacity 0, so that it
is never changed in place; its fourth word is the address of its table, which begins with the number of slots minus 1
(`data.collect.Maps`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acronumba.emit import tree
from acronumba.emit.tree import I1, I64, Expr, Local, const, convert, intrinsic, load
from acronumba.host.segments import Segment
from acronumba.host.texts import use
from acronumba.host.writer import Writer
from acronumba.ir.nodes import ListOp, Var
from acronumba.ir.types import ListT, TextT, Word, entry_widths, words

FIRST = 8  # entries for which the first room is


def find(w: Writer, instr: ListOp, key: Sequence[Var]) -> Expr:
    """Return the index of a key's entry, -1 if the dict does not have the key."""
    name = library(w, _type(instr))
    values = [convert(w[v], I64, "unsigned") if w[v].type == I1 else w[v] for v in key]
    return tree.Call(f"{name}_find", (w[instr.args[0]], *values), I64)


def put(
    w: Writer, segment: Segment, instr: ListOp, before: Callable[[], None] = lambda: None,
    after: Callable[[Local], None] = lambda at: None
) -> None:  # fmt: skip
    """Write the store of an entry: over that of an equal key, or at the end.

    A new entry is followed by the code of `after`, and `before` writes a test for the memory that this takes.
    """
    b, it = w.b, w[instr.args[0]]
    t = _type(instr)
    key, width = entry_widths(t.item)
    words = instr.args[1:]
    at = b.let("index", find(w, instr, words[:key]))
    with b.when(at < 0):
        b.set(at, load(it, 1))
        wanted = b.let("wanted", at + 1)
        grow(w, segment, it, t, wanted)
        before()
        place = b.let("at", load(it) + at * (8 * width))
        for k, v in enumerate(words[:key]):
            w.write_word(place, k, w[v])
        b.store(it, 1, wanted)
        b.do(tree.Call(f"{library(w, t)}_enter", (it, at), tree.VOID))
        after(at)
    place = b.let("at", load(it) + at * (8 * width))
    for k, v in enumerate(words[key:], key):
        w.write_word(place, k, w[v])


def update(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Store all entries of another dict."""
    b, it, other = w.b, w[instr.args[0]], w[instr.args[1]]
    wanted = b.let("wanted", load(it, 1) + load(other, 1))
    grow(w, segment, it, _type(instr), wanted)
    b.do(tree.Call(f"{library(w, _type(instr))}_update", (it, other), tree.VOID))


def remove(w: Writer, instr: ListOp) -> None:
    """Remove an entry."""
    index = w[instr.args[1]]
    w.b.do(tree.Call(f"{library(w, _type(instr))}_remove", (w[instr.args[0]], index), tree.VOID))


def grow(w: Writer, segment: Segment, it: Expr, t: ListT, wanted: Local) -> None:
    """Write the growth of a dict to `wanted` entries, with a new table."""
    b, top, width = w.b, w.reg["top"], len(words(t.item))
    with b.when(wanted > load(it, 2)):
        room = b.let("room", const(FIRST, I64))
        with b.while_(wanted > room):
            b.set(room, room * 2)
        w.room(segment, room * (8 * (width + 2)))
        b.do(intrinsic("copy_bytes", top, load(it), load(it, 1) * (8 * width), type=tree.VOID))
        b.store(it, 0, top)
        b.store(it, 2, room)
        b.set(top, top + room * (8 * (width + 2)))
        b.do(tree.Call(f"{library(w, t)}_index", (it,), tree.VOID))


def _type(instr: ListOp) -> ListT:
    """Return the type of the dict of an operation."""
    t = instr.args[0].type
    assert isinstance(t, ListT)
    return t


def library(w: Writer, t: ListT) -> str:
    """Return the name of the functions for dicts whose keys and entries have so many words."""
    key, width = entry_widths(t.item)
    kinds = [_kind(w, word) for word in words(t.item)[:key]]
    name = "_".join([f"dict_{key}_{width}", *(f"{kind}{j}" for j, kind in enumerate(kinds) if kind)])
    names = [f"k{j}" for j in range(key)]
    hashes = [f"{kind}_hash({n})" if kind else n for n, kind in zip(names, kinds, strict=True)]
    tests = [f"{kind}_same(ld(entry, {{0}}), {{1}}) != 0" if kind else "ld(entry, {0}) == {1}" for kind in kinds]
    given = "".join(f", {n}: i64" for n in names)
    text = _TEXT.format(
        name=name,
        key=key,
        width=width,
        given=given,
        hash="".join(f"\n    h = (h ^ {n}) * 6364136223846793005\n    h = h ^ lshr(h, 32)" for n in hashes),
        same=" and ".join(test.format(j, n) for j, (test, n) in enumerate(zip(tests, names, strict=True))) or "1 == 1",
        words="".join(f", ld(entry, {j})" for j in range(key)),
        comma_words=", ".join(f"ld(entry, {j})" for j in range(key)),
        parameters=", ".join(f"{n}: i64" for n in names),
        arguments=", ".join(names),
    )
    w.helper(f"{name}_find", text)
    return name


def _kind(w: Writer, word: Word) -> str:
    """Return the name of the functions that hash and compare strings or tuples; "" for words that are no reference."""
    if isinstance(word, TextT):
        use(w)
        return "text"
    if not isinstance(word, ListT):
        return ""
    inner = [_kind(w, one) for one in words(word.item)]
    name = "_".join(["tuple", str(len(inner)), *(f"{kind}{j}" for j, kind in enumerate(inner) if kind)])
    there = [f"ld(at, k * {len(inner)} + {j})" for j in range(len(inner))]
    here = [f"ld(other, k * {len(inner)} + {j})" for j in range(len(inner))]
    hashes = [f"{kind}_hash({word})" if kind else word for kind, word in zip(inner, there, strict=True)]
    tests = [
        f"{kind}_same({a}, {b}) == 0" if kind else f"{a} != {b}" for kind, a, b in zip(inner, there, here, strict=True)
    ]
    mixed = "".join(f"\n        h = (h ^ {h}) * 6364136223846793005\n        h = h ^ lshr(h, 32)" for h in hashes)
    differ = "".join(f"\n        if {test}:\n            return 0" for test in tests)
    nothing = "\n        h = n"
    w.helper(f"{name}_hash", _TUPLE.format(name=name, mixed=mixed or nothing, differ=differ or nothing))
    return name


_TUPLE = '''
def {name}_hash(it: i64) -> i64:
    """Return the hash of a tuple, by its elements."""
    if it == 0:
        return 0
    at = ld(it, 0)
    n = ld(it, 1)
    h = n
    for k in range(n):{mixed}
    return h


def {name}_same(it: i64, that: i64) -> i64:
    """Return 1 if two tuples are equal."""
    if it == that:
        return 1
    if it == 0 or that == 0:
        return 0
    n = ld(it, 1)
    if n != ld(that, 1):
        return 0
    at = ld(it, 0)
    other = ld(that, 0)
    for k in range(n):{differ}
    return 1
'''


_TEXT = '''
def {name}_hash({parameters}) -> i64:
    """Return the hash of a key."""
    h = 1{hash}
    return h


def {name}_find(it: i64{given}) -> i64:
    """Return the index of the entry of a key, -1 if there is none."""
    n = ld(it, 1)
    if n == 0:
        return -1
    at = ld(it, 0)
    room = ld(it, 2)
    table = at + room * {width} * 8
    mask = 2 * room - 1
    if room == 0:
        table = ld(it, 3)
        mask = ld(table, 0)
        table = table + 8
    slot = {name}_hash({arguments}) & mask
    while 1 == 1:
        there = ld(table, slot)
        if there == 0:
            return -1
        entry = at + (there - 1) * {width} * 8
        if {same}:
            return there - 1
        slot = (slot + 1) & mask
    return -1


def {name}_enter(it: i64, index: i64):
    """Put an entry, which is in its place and has a new key, into the table."""
    at = ld(it, 0)
    room = ld(it, 2)
    table = at + room * {width} * 8
    mask = 2 * room - 1
    entry = at + index * {width} * 8
    slot = {name}_hash({comma_words}) & mask
    while ld(table, slot) != 0:
        slot = (slot + 1) & mask
    st(table, slot, index + 1)


def {name}_index(it: i64):
    """Make the table of the entries that are there."""
    room = ld(it, 2)
    fill_bytes(ld(it, 0) + room * {width} * 8, 0, 16 * room)
    for k in range(ld(it, 1)):
        {name}_enter(it, k)


def {name}_update(it: i64, other: i64):
    """Put all entries of another dict; there is room for them."""
    for k in range(ld(other, 1)):
        entry = ld(other, 0) + k * {width} * 8
        index = {name}_find(it{words})
        fresh = 0
        if index < 0:
            fresh = 1
            index = ld(it, 1)
            st(it, 1, index + 1)
        to = ld(it, 0) + index * {width} * 8
        for j in range({width}):
            if fresh != 0 or j >= {key}:
                st(to, j, ld(entry, j))
        if fresh != 0:
            {name}_enter(it, index)


def {name}_remove(it: i64, index: i64):
    """Take an entry out: those behind it move up."""
    at = ld(it, 0)
    n = ld(it, 1)
    room = ld(it, 2)
    table = at + room * {width} * 8
    mask = 2 * room - 1
    entry = at + index * {width} * 8
    hole = {name}_hash({comma_words}) & mask
    while ld(table, hole) != index + 1:
        hole = (hole + 1) & mask
    slot = (hole + 1) & mask
    while ld(table, slot) != 0:
        entry = at + (ld(table, slot) - 1) * {width} * 8
        home = {name}_hash({comma_words}) & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            st(table, hole, ld(table, slot))
            hole = slot
        slot = (slot + 1) & mask
    st(table, hole, 0)
    if index < n - 1:
        to = at + index * {width} * 8
        move_bytes(to, to + {width} * 8, (n - 1 - index) * {width} * 8)
        for k in range(2 * room):
            if ld(table, k) > index + 1:
                st(table, k, ld(table, k) - 1)
    st(it, 1, n - 1)
'''
