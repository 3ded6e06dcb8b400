"""Compiled decoder of plain Python data from the bytes of `marshal` to words: see `data.stream`.

The format is version 4 of `marshal`: a letter gives the class of a value. Its highest bit marks a value that back
references may name by its number among the marked values. Numbers are little-endian.
"""

from __future__ import annotations

from acronumba.data.stream_words import (
    BOOL,
    CONSTANT,
    DICT,
    FLOAT,
    INT,
    LIST,
    MAP,
    MORE,
    NOTHING,
    OK,
    OPTIONAL,
    TEXT,
    TUPLE,
    UNION,
    WRONG,
)  # fmt: skip
from acronumba.data.texts import FACTOR
from acronumba.emit.language import copy_bytes, fill_bytes, i64, inline, ld, ld8, lshr, st

from acronumba.data.stream_words import (  # isort: skip
    HEAD_BYTES, HEAD_CAPACITY, HEAD_ITEMS, HEAD_LENGTH, HEAD_NODE, HEAD_TABLE, NODE_COUNT, NODE_ITEM, NODE_KEY,
    NODE_KIND, NODE_NUMBER, NODE_TEXTS, NODE_TUPLED, NODE_WIDTH, PART_BYTES, PART_CASE, PART_KEY, PART_NODE,
    PART_OFFSET, REF_AT, REF_BYTES, REF_NODE, REF_WORD, STATE_ALONE, STATE_BOTTOM, STATE_COLUMNS, STATE_COLUMNS_COUNT,
    STATE_COUNT, STATE_END, STATE_ENTRIES, STATE_ENTRIES_END, STATE_HIGH, STATE_POS, STATE_REFS, STATE_REFS_COUNT,
    STATE_REFS_ROOM, STATE_ROOTS, STATE_STEP, STATE_TOP,
)  # fmt: skip


@inline
def byte(at: i64) -> i64:
    """Return a byte."""
    return ld8(at) & 255


@inline
def number(at: i64) -> i64:
    """Return a number of four bytes."""
    return byte(at) | (byte(at + 1) << 8) | (byte(at + 2) << 16) | (ld8(at, 3) << 24)


def read(P: i64) -> i64:
    """Write all instances."""
    status = begin(P, ld(P, STATE_COLUMNS_COUNT))
    columns = ld(P, STATE_COLUMNS)
    for k in range(ld(P, STATE_COLUMNS_COUNT)):
        if status == OK:
            to = ld(P, STATE_ROOTS) + ld(columns, 2 * k + 1)
            status = column(P, ld(columns, 2 * k), to, ld(P, STATE_STEP), ld(P, STATE_COUNT))
    return status


def column(P: i64, t: i64, to: i64, stride: i64, count: i64) -> i64:
    """Decode the next list, one row per value."""
    at = ld(P, STATE_POS)
    code = byte(at)
    if code & 127 != 91:
        return WRONG
    if new_ref(P, code, at) < 0:
        return MORE
    if number(at + 1) != count:
        return WRONG
    st(P, STATE_POS, at + 5)
    for k in range(count):
        status = value(P, t, to + k * stride)
        if status != OK:
            return status
    return OK


def begin(P: i64, count: i64) -> i64:
    """Begin with the tuple of some columns."""
    at = ld(P, STATE_POS)
    code = byte(at)
    if code & 127 != 41:
        return WRONG
    if new_ref(P, code, at) < 0:
        return MORE
    if byte(at + 1) != count:
        return WRONG
    st(P, STATE_POS, at + 2)
    return OK


def new_ref(P: i64, code: i64, at: i64) -> i64:
    """Return the address of the REF row of a value that back references may name, 0 for others; -1: no room."""
    if at < ld(P, STATE_HIGH):
        return 0
    st(P, STATE_HIGH, at + 1)
    if code & 128 == 0:
        return 0
    n = ld(P, STATE_REFS_COUNT)
    if n == ld(P, STATE_REFS_ROOM):
        return -1
    ref = ld(P, STATE_REFS) + REF_BYTES * n
    st(ref, REF_AT, at)
    st(ref, REF_NODE, 0)
    st(ref, REF_WORD, 0)
    st(P, STATE_REFS_COUNT, n + 1)
    return ref


def class_of(P: i64, at: i64) -> i64:
    """Return the class number of the value at an address, as the parts of a union count classes; -1: unsupported."""
    code = byte(at) & 127
    if code == 114:
        n = number(at + 1)
        if n >= ld(P, STATE_REFS_COUNT):
            return -1
        code = byte(ld(ld(P, STATE_REFS) + REF_BYTES * n, REF_AT)) & 127
    if code == 105:
        return 0
    if code == 108:
        return 0
    if code == 103:
        return 1
    if code == 84:
        return 2
    if code == 70:
        return 2
    if code == 78:
        return 3
    if is_text(code) != 0:
        return 4
    if code == 91:
        return 5
    if code == 41:
        return 6
    if code == 40:
        return 6
    if code == 123:
        return 7
    return -1


@inline
def is_text(code: i64) -> i64:
    """Return the format of a string by its type code: 1, 2: length of one or four bytes, 3: UTF-8, 0: no string."""
    if code == 122:
        return 1
    if code == 90:
        return 1
    if code == 97:
        return 2
    if code == 65:
        return 2
    if code == 117:
        return 3
    if code == 116:
        return 3
    return 0


def value(P: i64, t: i64, to: i64) -> i64:
    """Decode the next value into words."""
    kind = ld(t, NODE_KIND)
    at = ld(P, STATE_POS)
    if at >= ld(P, STATE_END):
        return WRONG
    if kind == OPTIONAL:
        if byte(at) == 78:
            st(to, 0, 0)
            st(P, STATE_POS, at + 1)
            return OK
        return value(P, ld(t, NODE_ITEM), to)
    if kind == UNION:
        case = class_of(P, at)
        if case < 0:
            return WRONG
        part = ld(t, NODE_ITEM) + PART_BYTES * case
        if ld(part, PART_NODE) == 0:
            return WRONG
        st(to, 0, ld(part, PART_CASE))
        return value(P, ld(part, PART_NODE), to + ld(part, PART_OFFSET))
    if kind == CONSTANT:
        return expected(P, ld(t, NODE_ITEM))
    code = byte(at)
    if code & 127 == 114:
        return again(P, t, to, at)
    if at < ld(P, STATE_HIGH):
        if kind == LIST or kind == MAP:  # a part of a repeated tuple
            return WRONG
    ref = new_ref(P, code, at)
    if ref < 0:
        return MORE
    return new_value(P, t, to, at, code & 127, ref)


def again(P: i64, t: i64, to: i64, at: i64) -> i64:
    """Write the value that a back reference names."""
    n = number(at + 1)
    if n >= ld(P, STATE_REFS_COUNT):
        return WRONG
    ref = ld(P, STATE_REFS) + REF_BYTES * n
    kind = ld(t, NODE_KIND)
    word = ld(ref, REF_WORD)
    if kind == LIST or kind == MAP:
        node, alone = ld(ref, REF_NODE), ld(P, STATE_ALONE)
        if word == 0 or node != t or alone != 0:
            return WRONG
        st(to, 0, word)
        st(P, STATE_POS, at + 5)
        return OK
    if kind == TEXT:
        if word != 0:
            if ld(ref, REF_NODE) != 0:
                return WRONG
            st(to, 0, word)
            st(P, STATE_POS, at + 5)
            return OK
    first = ld(ref, REF_AT)
    status = new_value(P, t, to, first, byte(first) & 127, 0)
    st(P, STATE_POS, at + 5)
    return status


def new_value(P: i64, t: i64, to: i64, at: i64, code: i64, ref: i64) -> i64:
    """Write the value that begins with a type code."""
    kind = ld(t, NODE_KIND)
    if kind == INT:
        return whole(P, to, at, code)
    if kind == FLOAT:
        if code != 103:
            return WRONG
        copy_bytes(to, at + 1, 8)
        st(P, STATE_POS, at + 9)
        return OK
    if kind == TEXT:
        word = text(P, at, code)
        if word == 0:
            return WRONG
        if word == 1:
            return MORE
        st(to, 0, word)
        if ref != 0:
            st(ref, REF_WORD, word)
        return OK
    if kind == LIST:
        return listed(P, t, to, at, code, ref)
    if kind == TUPLE:
        return parts(P, t, to, at, code)
    if kind == MAP:
        return entries(P, t, to, at, code, ref)
    if kind == DICT:
        return fields(P, t, to, at, code)
    if kind == BOOL:
        if code != 84 and code != 70:
            return WRONG
        st(to, 0, 0)
        if code == 84:
            st(to, 0, 1)
        st(P, STATE_POS, at + 1)
        return OK
    if kind == NOTHING:
        if code != 78:
            return WRONG
        st(P, STATE_POS, at + 1)
        return OK
    return WRONG


def whole(P: i64, to: i64, at: i64, code: i64) -> i64:
    """Write an int. The largest and smallest 64-bit values, and anything beyond, are left to the Python packer."""
    if code == 105:
        st(to, 0, number(at + 1))
        st(P, STATE_POS, at + 5)
        return OK
    if code != 108:
        return WRONG
    n = number(at + 1)
    size = n
    if n < 0:
        size = -n
    if size > 5:
        return WRONG
    out = 0
    for k in range(size):
        digit = byte(at + 5 + 2 * k) | (byte(at + 6 + 2 * k) << 8)
        if k == 4:
            if digit > 7:
                return WRONG
        out = out | (digit << (15 * k))
    if n < 0:
        out = -out
    st(to, 0, out)
    st(P, STATE_POS, at + 5 + 2 * size)
    return OK


def text(P: i64, at: i64, code: i64) -> i64:
    """Return the word of a string, see `data.texts`; 0: not a string, 1: no room."""
    form = is_text(code)
    if form == 0:
        return 0
    start = at + 2
    n = byte(at + 1)
    if form > 1:
        start = at + 5
        n = number(at + 1)
    top = ld(P, STATE_TOP)
    if top + 8 * (n + 2) > ld(P, STATE_BOTTOM):
        return 1
    st(P, STATE_POS, start + n)
    count = 0
    h = 0
    power = FACTOR
    k = start
    while k < start + n:
        c = byte(k)
        k = k + 1
        if form == 3:
            more = 0
            if c >= 240:
                c = c & 7
                more = 3
            elif c >= 224:
                c = c & 15
                more = 2
            elif c >= 192:
                c = c & 31
                more = 1
            for _ in range(more):
                c = (c << 6) | (byte(k) & 63)
                k = k + 1
        st(top, 2 + count, c)
        count = count + 1
        h = h + (c + 1) * power
        power = power * FACTOR
    if count == 1:
        return -1 - ld(top, 2)
    st(top, 0, count)
    st(top, 1, h)
    st(P, STATE_TOP, top + 8 * (count + 2))
    return top


def same_text(a: i64, b: i64) -> i64:
    """Whether two words are of equal strings."""
    if a == b:
        return 1
    if a <= 0 or b <= 0:
        return 0
    if ld(a, 1) != ld(b, 1):
        return 0
    if ld(a, 0) != ld(b, 0):
        return 0
    for k in range(ld(a, 0)):
        if ld(a, 2 + k) != ld(b, 2 + k):
            return 0
    return 1


def expected(P: i64, wanted: i64) -> i64:
    """Skip a string that must equal the expected one."""
    at = ld(P, STATE_POS)
    code = byte(at)
    top = ld(P, STATE_TOP)
    word = 0
    ref = 0
    if code & 127 == 114:
        n = number(at + 1)
        if n >= ld(P, STATE_REFS_COUNT):
            return WRONG
        ref = ld(P, STATE_REFS) + REF_BYTES * n
        word = ld(ref, REF_WORD)
        if ld(ref, REF_NODE) != 0:
            return WRONG
        if word == 0:
            first = ld(ref, REF_AT)
            word = text(P, first, byte(first) & 127)
        st(P, STATE_POS, at + 5)
    else:
        ref = new_ref(P, code, at)
        if ref < 0:
            return MORE
        word = text(P, at, code & 127)
    if word == 1:
        return MORE
    if word == 0:
        return WRONG
    same = same_text(word, wanted)
    if ref != 0:
        st(ref, REF_WORD, word)
    else:
        st(P, STATE_TOP, top)
    if same != 0:
        return OK
    return WRONG


def new_head(P: i64) -> i64:
    """Allocate the head of a list or dict and return its address; 0: no room."""
    bottom = ld(P, STATE_BOTTOM) - HEAD_BYTES
    if bottom < ld(P, STATE_TOP):
        return 0
    st(P, STATE_BOTTOM, bottom)
    return bottom


@inline
def length_of_tuple(at: i64, code: i64) -> i64:
    """Return the number of elements of a tuple; -1: not a tuple."""
    if code == 41:
        return byte(at + 1)
    if code == 40:
        return number(at + 1)
    return -1


@inline
def behind_length(at: i64, code: i64) -> i64:
    """Return the address of the first element of a list or tuple."""
    if code == 41:
        return at + 2
    return at + 5


def listed(P: i64, t: i64, to: i64, at: i64, code: i64, ref: i64) -> i64:
    """Write a list, or a tuple of any length."""
    n = length_of_tuple(at, code)
    if ld(t, NODE_TUPLED) == 0:
        n = -1
        if code == 91:
            n = number(at + 1)
    if n < 0:
        return WRONG
    step = 8 * ld(t, NODE_COUNT)
    head = new_head(P)
    top = ld(P, STATE_TOP)
    bottom = ld(P, STATE_BOTTOM)
    if head == 0 or top + n * step > bottom:
        return MORE
    st(P, STATE_TOP, top + n * step)
    st(P, STATE_POS, behind_length(at, code))
    fill_bytes(top, 0, n * step)
    item = ld(t, NODE_ITEM)
    for k in range(n):
        status = value(P, item, top + k * step)
        if status != OK:
            return status
    close(t, to, head, top, n, ref)
    st(head, HEAD_CAPACITY, n)
    return OK


def close(t: i64, to: i64, head: i64, top: i64, n: i64, ref: i64) -> None:
    """Write the head of a list or dict whose elements are written."""
    st(head, HEAD_ITEMS, top)
    st(head, HEAD_LENGTH, n)
    st(head, HEAD_CAPACITY, 0)
    st(head, HEAD_TABLE, 0)
    st(head, HEAD_NODE, ld(t, NODE_NUMBER))
    st(to, 0, head)
    if ref != 0:
        st(ref, REF_NODE, t)
        st(ref, REF_WORD, head)


def parts(P: i64, t: i64, to: i64, at: i64, code: i64) -> i64:
    """Write a tuple, or a list with elements of several types."""
    n = length_of_tuple(at, code)
    if n != ld(t, NODE_COUNT):
        return WRONG
    st(P, STATE_POS, behind_length(at, code))
    part = ld(t, NODE_ITEM)
    for _ in range(n):
        status = value(P, ld(part, PART_NODE), to + ld(part, PART_OFFSET))
        if status != OK:
            return status
        part = part + PART_BYTES
    return OK


def fields(P: i64, t: i64, to: i64, at: i64, code: i64) -> i64:
    """Write a dict whose keys are known."""
    if code != 123:
        return WRONG
    st(P, STATE_POS, at + 1)
    part = ld(t, NODE_ITEM)
    for _ in range(ld(t, NODE_COUNT)):
        status = expected(P, ld(part, PART_KEY))
        if status != OK:
            return status
        status = value(P, ld(part, PART_NODE), to + ld(part, PART_OFFSET))
        if status != OK:
            return status
        part = part + PART_BYTES
    if byte(ld(P, STATE_POS)) != 48:
        return WRONG
    st(P, STATE_POS, ld(P, STATE_POS) + 1)
    return OK


def entries(P: i64, t: i64, to: i64, at: i64, code: i64, ref: i64) -> i64:
    """Write a map, with its hash table."""
    if code != 123:
        return WRONG
    st(P, STATE_POS, at + 1)
    first = ld(P, STATE_ENTRIES)
    step = 8 * ld(t, NODE_COUNT)
    n = 0
    while byte(ld(P, STATE_POS)) != 48:
        entry = ld(P, STATE_ENTRIES)
        if entry + step > ld(P, STATE_ENTRIES_END):
            return MORE
        st(P, STATE_ENTRIES, entry + step)
        fill_bytes(entry, 0, step)
        status = value(P, ld(t, NODE_KEY), entry)
        if status != OK:
            return status
        status = value(P, ld(t, NODE_ITEM), entry + 8 * ld(t, NODE_WIDTH))
        if status != OK:
            return status
        n = n + 1
    st(P, STATE_POS, ld(P, STATE_POS) + 1)
    st(P, STATE_ENTRIES, first)
    slots = 2
    while slots < 2 * n:
        slots = 2 * slots
    head = new_head(P)
    top = ld(P, STATE_TOP)
    table = top + n * step
    bottom = ld(P, STATE_BOTTOM)
    if head == 0 or table + 8 * (slots + 1) > bottom:
        return MORE
    st(P, STATE_TOP, table + 8 * (slots + 1))
    copy_bytes(top, first, n * step)
    st(table, 0, slots - 1)
    fill_bytes(table + 8, 0, 8 * slots)
    for k in range(n):
        enter(t, top + k * step, table + 8, slots - 1, k)
    close(t, to, head, top, n, ref)
    st(head, HEAD_TABLE, table)
    return OK


def enter(t: i64, entry: i64, table: i64, mask: i64, k: i64) -> None:
    """Insert an entry into the hash table: see `host.maps`."""
    h = 1
    texts = ld(t, NODE_TEXTS)
    for j in range(ld(t, NODE_WIDTH)):
        word = ld(entry, j)
        if (texts >> j) & 1 != 0:
            if word > 0:
                word = ld(word, 1)
        h = (h ^ word) * 6364136223846793005
        h = h ^ lshr(h, 32)
    slot = h & mask
    while ld(table, slot) != 0:
        slot = (slot + 1) & mask
    st(table, slot, k + 1)
