"""Strings of the host program: constants, queries, and joining.

In: an instruction. Out: its code, written with a `Writer`. See `data.texts` for the layout of a string.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from acronumba.data.texts import FACTOR, HEAD, immediate, record_of, signed
from acronumba.emit import tree
from acronumba.emit.tree import I1, I64, Expr, const, load
from acronumba.host.segments import Segment
from acronumba.host.writer import Writer
from acronumba.ir.nodes import ListOp, Scalar
from acronumba.ir.ops import CASES, CHARACTERS, LAST_CHARACTER, PREDICATES, predicate

ASCII = 128  # characters that tables have a place for each


def constant(w: Writer, text: str) -> Expr:
    """Return the word of a string of the program."""
    word = immediate(text)
    return const(word, I64) if word is not None else w.reg["shapes"] + 8 * w.shape(record_of(text))


def use(w: Writer) -> None:
    """Add the functions for queries of strings."""
    w.helper("text_length", _TEXT)


def called(w: Writer, name: str, *args: Expr) -> Expr:
    """Call one of the functions for queries of strings."""
    use(w)
    return tree.Call(f"text_{name}", args, I64)


def join(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Join the strings of a list."""
    b, it, top = w.b, w[instr.args[0]], w.reg["top"]
    size = b.let("size", called(w, "total", it))
    w.room(segment, size * 8 + 8 * HEAD)
    made = b.let("made", called(w, "join", it, top))
    with b.when(made > 0):
        b.set(top, top + size_of(made))
    w.assign(instr.outs[0], made)


def size_of(text: Expr) -> Expr:
    """Return the bytes of the record of a string."""
    return load(text) * 8 + 8 * HEAD


def _asked(name: str) -> Callable[..., Expr]:
    return lambda w, i, *args: called(w, name, *args)


def _tested(name: str) -> Callable[..., Expr]:
    return lambda w, i, *args: called(w, name, *args).ne(0)


def _of_code(w: Writer, i: Scalar, code: Expr) -> Expr:
    inside: Expr = (code >= 0) & (code <= LAST_CHARACTER)
    assert inside.type == I1
    return tree.select(inside, ~code, const(-1, I64))


@functools.cache
def boundaries(name: str) -> tuple[int, ...]:
    """Return the characters at which a predicate of Python's strings begins, or ceases, to be true."""
    method = predicate(name)
    holds = [False, *(method(chr(c)) for c in range(LAST_CHARACTER + 1)), False]
    return tuple(c for c in range(LAST_CHARACTER + 2) if holds[c] != holds[c + 1])


@functools.cache
def other_case(name: str) -> tuple[tuple[int, str], ...]:
    """Return pairs of a character that a method of Python's strings changes, and its replacement."""
    method = getattr(str, name)
    return tuple((c, to) for c in range(LAST_CHARACTER + 1) if (to := method(chr(c))) != chr(c))


def _of_all(name: str) -> Callable[..., Expr]:
    def make(w: Writer, i: Scalar, s: Expr) -> Expr:
        ends = boundaries(name)
        ascii_ones = sum(1 << c for c in range(ASCII) if predicate(name)(chr(c)))
        table = (signed(ascii_ones), signed(ascii_ones >> 64), *ends)
        return called(w, "of_all", s, w.reg["shapes"] + 8 * w.shape(table), const(len(ends), I64)).ne(0)

    return make


def _changed(name: str) -> Callable[..., Expr]:
    def make(w: Writer, i: Scalar, s: Expr) -> Expr:
        known = [(c, to) for c, to in other_case(name) if c >= ASCII]
        own = [~ord(getattr(str, name)(chr(c))) for c in range(ASCII)]
        words: list[int] = []  # of several characters: 1 and the place of the record among the constants
        for _, to in known:
            word = immediate(to)
            words.append(8 * w.shape(record_of(to)) + 1 if word is None else word)
        base = w.reg["shapes"]
        table = base + 8 * w.shape((*own, *(c for c, _ in known), *words))
        return called(w, "changed", s, table, const(len(known), I64), base)

    return make


TEXTS: dict[str, Callable[..., Expr]] = {
    **{f"text_{name}": _of_all(name) for name in (*PREDICATES, *CHARACTERS)},
    **{f"text_{name}": _changed(name) for name in CASES},
    "text_eq": _tested("same"),
    "text_lt": _tested("less"),
    "text_len": _asked("length"),
    "text_at": _asked("at"),
    "text_code": _asked("code"),
    "text_of_code": _of_code,
    "text_find": _asked("find"),
    "text_starts": _tested("starts"),
}

# A word that is not positive is no address: that of a single character, or 0 where an operation is done too early.
_TEXT = f'''
def text_length(s: i64) -> i64:
    """Return how many characters a string has."""
    if s <= 0:
        return 1
    return ld(s, 0)


def text_hash(s: i64) -> i64:
    """Return the hash of a string."""
    if s <= 0:
        return s
    return ld(s, 1)


def text_item(s: i64, k: i64) -> i64:
    """Return the number of a character that is there."""
    if s <= 0:
        return -1 - s
    return ld(s, k + {HEAD})


def text_at(s: i64, k: i64) -> i64:
    """Return the character at an index as a string."""
    n = text_length(s)
    if k < 0 or k >= n:
        return -1
    return -1 - text_item(s, k)


def text_code(s: i64) -> i64:
    """Return the number of the only character, -1 if there are more or fewer."""
    if s < 0:
        return -1 - s
    return -1


def text_same(s: i64, t: i64) -> i64:
    """Return 1 if two strings are equal."""
    if s == t:
        return 1
    if s <= 0 or t <= 0:
        return 0
    n = ld(s, 0)
    if n != ld(t, 0):
        return 0
    if ld(s, 1) != ld(t, 1):
        return 0
    for k in range(n):
        if ld(s, k + {HEAD}) != ld(t, k + {HEAD}):
            return 0
    return 1


def text_less(s: i64, t: i64) -> i64:
    """Return 1 if a string comes before another one."""
    n = text_length(s)
    m = text_length(t)
    for k in range(select(n < m, n, m)):
        x = text_item(s, k)
        y = text_item(t, k)
        if x != y:
            return select(x < y, 1, 0)
    return select(n < m, 1, 0)


def text_starts(s: i64, t: i64, at: i64) -> i64:
    """Return 1 if a string begins at an index of another one."""
    n = text_length(s)
    m = text_length(t)
    if at < 0 or at + m > n:
        return 0
    for k in range(m):
        if text_item(s, at + k) != text_item(t, k):
            return 0
    return 1


def text_find(s: i64, t: i64, at: i64) -> i64:
    """Return where a string is in another one, from an index on; -1 if it is not."""
    first = select(at < 0, 0, at)
    if s > 0 and t < 0:  # a single character
        for k in range(first, ld(s, 0)):
            if ld(s, k + {HEAD}) == -1 - t:
                return k
        return -1
    for k in range(first, text_length(s) - text_length(t) + 1):
        if text_starts(s, t, k) != 0:
            return k
    return -1


def text_place(table: i64, n: i64, c: i64) -> i64:
    """Return how many of n numbers, which are in order, are not greater than another one."""
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if ld(table, middle) <= c:
            low = middle + 1
        else:
            high = middle
    return low


def text_of_all(s: i64, table: i64, n: i64) -> i64:
    """Return 1 if all characters of a string, and any, are in one of the ranges whose n ends are in a table.

    Two words before them have a bit for each character of ASCII.
    """
    m = text_length(s)
    for k in range(m):
        c = text_item(s, k)
        if c < {ASCII}:
            if (ld(table, c >> 6) >> (c & 63)) & 1 == 0:
                return 0
        elif text_place(table + 16, n, c) & 1 == 0:
            return 0
    return select(m > 0, 1, 0)


def text_changed(s: i64, table: i64, n: i64, base: i64) -> i64:
    """Return what becomes of the first character by a table.

    That is what each character of ASCII becomes, then n others, and the words of what these become.
    """
    if text_length(s) == 0:
        return s
    c = text_item(s, 0)
    if c < {ASCII}:
        return ld(table, c)
    others = table + 8 * {ASCII}
    k = text_place(others, n, c)
    if k == 0:
        return -1 - c
    if ld(others, k - 1) != c:
        return -1 - c
    to = ld(others, n + k - 1)
    if to > 0:
        return base + to - 1
    return to


def text_total(it: i64) -> i64:
    """Return how many characters the strings of a list have."""
    out = 0
    for k in range(ld(it, 1)):
        out = out + text_length(ld(ld(it, 0), k))
    return out


def text_finish(to: i64, end: i64) -> i64:
    """Return the string of the characters that are in a record, which ends before a word; complete the record."""
    if end == {HEAD} + 1:
        return -1 - ld(to, {HEAD})
    hash = 0
    power = {signed(FACTOR)}
    for k in range({HEAD}, end):
        hash = hash + (ld(to, k) + 1) * power
        power = power * {signed(FACTOR)}
    st(to, 0, end - {HEAD})
    st(to, 1, hash)
    return to


def text_join(it: i64, to: i64) -> i64:
    """Return the string that those of a list make, with a record at `to` if it needs one."""
    at = {HEAD}
    for k in range(ld(it, 1)):
        s = ld(ld(it, 0), k)
        for j in range(text_length(s)):
            st(to, at, text_item(s, j))
            at = at + 1
    return text_finish(to, at)
'''
