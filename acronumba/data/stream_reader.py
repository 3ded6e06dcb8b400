"""Compiled decoder of plain Python data from the bytes of `marshal` to words: see `data.stream`.

The format is version 4 of `marshal`: a letter gives the class of a value. Its highest bit marks a value that back
references may name by its number among the marked values. Numbers are little-endian.
"""

from __future__ import annotations

from acronumba.data.stream_bytes import (
    behind_length,
    byte,
    class_of,
    expected,
    find_shapes,
    length_of_tuple,
    new_ref,
    next_text,
    number,
    same_text,
    skip,
    skip_at,
    text,
    text_ahead,
    whole,
)
from acronumba.data.stream_words import (
    ANY_DICT,
    ANY_LIST,
    ANY_TUPLE,
    BOOL,
    BY_KEYS,
    CONSTANT,
    CONSTANTS,
    DICT,
    FLOAT,
    INT,
    LIST,
    MAP,
    MORE,
    NOTHING,
    OK,
    OPTIONAL,
    ROW,
    SHAPES,
    SKIPPED,
    TEXT,
    TUPLE,
    UNION,
    WRONG,
)
from acronumba.emit.language import copy_bytes, fill_bytes, i64, ld, lshr, st

from acronumba.data.stream_words import (  # isort: skip
    HEAD_BYTES, HEAD_CAPACITY, HEAD_ITEMS, HEAD_LENGTH, HEAD_NODE, HEAD_TABLE, NODE_CLASS, NODE_COUNT, NODE_ITEM,
    NODE_KEY, NODE_KIND, NODE_NUMBER, NODE_SIZE, NODE_TAG, NODE_TEXTS, NODE_TUPLED, NODE_WIDTH, PART_BYTES,
    PART_CASE, PART_KEY, PART_NODE, PART_OFFSET, REF_AT, REF_BYTES, REF_NODE, REF_WORD, STATE_ALONE, STATE_BOTTOM,
    STATE_BRANCH, STATE_COLUMNS, STATE_COLUMNS_COUNT, STATE_COUNT, STATE_DICT, STATE_DICTS, STATE_END,
    STATE_ENTRIES, STATE_ENTRIES_END, STATE_HIGH, STATE_POS, STATE_REFS, STATE_REFS_COUNT, STATE_ROOTS, STATE_STEP,
    STATE_TOP,
)  # fmt: skip


def read(P: i64) -> i64:
    """Write all instances."""
    status = OK
    if ld(P, STATE_BRANCH) != 0:
        status = find_shapes(P)
    if status == OK:
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
    if kind == CONSTANTS:
        return chosen(P, t, to)
    if kind == SKIPPED:
        return skip(P)
    if kind == SHAPES:
        return shaped(P, t, to, at)
    code = byte(at)
    if code & 127 == 114:
        return again(P, t, to, at)
    if at < ld(P, STATE_HIGH):
        if kind == LIST or kind == MAP or kind == ROW:  # a part of a repeated tuple
            return WRONG
    ref = new_ref(P, code, at)
    if ref < 0:
        return MORE
    return new_value(P, t, to, at, code & 127, ref)


def chosen(P: i64, t: i64, to: i64) -> i64:
    """Skip one of several strings; write the number of its case."""
    word = next_text(P)
    if word == 1:
        return MORE
    part = ld(t, NODE_ITEM)
    for _ in range(ld(t, NODE_COUNT)):
        if same_text(word, ld(part, PART_KEY)) != 0:
            st(to, 0, ld(part, PART_CASE))
            return OK
        part = part + PART_BYTES
    return WRONG


def again(P: i64, t: i64, to: i64, at: i64) -> i64:
    """Write the value that a back reference names."""
    n = number(at + 1)
    if n >= ld(P, STATE_REFS_COUNT):
        return WRONG
    ref = ld(P, STATE_REFS) + REF_BYTES * n
    kind = ld(t, NODE_KIND)
    word = ld(ref, REF_WORD)
    if kind == LIST or kind == MAP or kind == ROW:
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
    if kind == ROW:
        return row_of(P, t, to, at, code, ref)
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


def new_head(P: i64) -> i64:
    """Allocate the head of a list or dict and return its address; 0: no room."""
    bottom = ld(P, STATE_BOTTOM) - HEAD_BYTES
    if bottom < ld(P, STATE_TOP):
        return 0
    st(P, STATE_BOTTOM, bottom)
    return bottom


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


def new_row(P: i64, size: i64) -> i64:
    """Allocate a row and return its address; 0: no room."""
    top = ld(P, STATE_TOP)
    if top + size > ld(P, STATE_BOTTOM):
        return 0
    st(P, STATE_TOP, top + size)
    fill_bytes(top, 0, size)
    return top


def close_row(t: i64, to: i64, row: i64, ref: i64) -> i64:
    """Refer to a row whose fields are written."""
    st(row, 0, ld(t, NODE_TAG))
    st(to, 0, row)
    if ref != 0:
        st(ref, REF_NODE, t)
        st(ref, REF_WORD, row)
    return OK


def row_of(P: i64, t: i64, to: i64, at: i64, code: i64, ref: i64) -> i64:
    """Write a list, tuple or dict of a closed shape: a row, as an object is."""
    row = new_row(P, ld(t, NODE_SIZE))
    if row == 0:
        return MORE
    part = ld(t, NODE_ITEM)
    if ld(t, NODE_COUNT) < 0:  # of any number of elements: a list or dict in the row
        to_list = row + ld(part, PART_OFFSET)
        if ld(ld(part, PART_NODE), NODE_KIND) == SKIPPED:
            status = skip_at(P, at)
        else:
            status = new_value(P, ld(part, PART_NODE), to_list, at, code, 0)
    elif ld(t, NODE_CLASS) != 0:
        status = fields(P, t, row, at, code)
    else:
        status = parts(P, t, row, at, code)
    if status != OK:
        return status
    return close_row(t, to, row, ref)


def shaped(P: i64, t: i64, to: i64, at: i64) -> i64:
    """Write a list, tuple or dict of one of several closed shapes, or None."""
    code = byte(at) & 127
    if code == 114:
        return known_row(P, t, to, at)
    if code == 78:
        if ld(t, NODE_CLASS) == 0:
            return WRONG
        st(to, 0, 0)
        st(P, STATE_POS, at + 1)
        return OK
    if at < ld(P, STATE_HIGH):
        return WRONG
    row = shape_of(P, t, at, code)
    if row == 0:
        return WRONG
    if row == 1:
        return MORE
    return value(P, row, to)


def known_row(P: i64, t: i64, to: i64, at: i64) -> i64:
    """Write the row that a back reference names: of any shape, as one place holds the values of each."""
    n = number(at + 1)
    if n >= ld(P, STATE_REFS_COUNT):
        return WRONG
    ref = ld(P, STATE_REFS) + REF_BYTES * n
    node, alone = ld(ref, REF_NODE), ld(P, STATE_ALONE)
    if node == 0 or alone != 0:
        return WRONG
    if fits(t, node) == 0:
        return WRONG
    st(to, 0, ld(ref, REF_WORD))
    st(P, STATE_POS, at + 5)
    return OK


def fits(t: i64, row: i64) -> i64:
    """Whether one of several shapes is that of a node."""
    part = ld(t, NODE_ITEM)
    for _ in range(ld(t, NODE_COUNT)):
        if ld(part, PART_NODE) == row:
            return 1
        part = part + PART_BYTES
    return 0


def shape_of(P: i64, t: i64, at: i64, code: i64) -> i64:
    """Return the node of the list, tuple or dict at an address; 0: there is none, 1: no room."""
    n = length_of_tuple(at, code)
    most = ANY_TUPLE
    if code == 91:
        most = ANY_LIST
    elif code == 123:
        most = ANY_DICT
    elif n < 0:
        return 0
    word = 0
    part = ld(t, NODE_ITEM)
    for _ in range(ld(t, NODE_COUNT)):
        size = ld(part, PART_CASE)
        key = ld(part, PART_KEY)
        if size == most:
            return ld(part, PART_NODE)
        if size == BY_KEYS and code == 123:
            row = ld(ld(P, STATE_DICTS), ld(P, STATE_DICT))
            if ld(part, PART_NODE) == row:
                return row
        if size == n and n >= 0:
            if key == 0:
                return ld(part, PART_NODE)
            if word == 0:
                word = text_ahead(P, behind_length(at, code))
            if word == 1:
                return 1
            if word != 0:
                if same_text(word, key) != 0:
                    return ld(part, PART_NODE)
        part = part + PART_BYTES
    return 0
