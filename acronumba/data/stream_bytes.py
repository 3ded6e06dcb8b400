"""Compiled parts of the decoder `data.stream_reader` that need no types: numbers, strings, references."""

from __future__ import annotations

from acronumba.data.stream_words import MORE, OK, WRONG
from acronumba.data.texts import FACTOR
from acronumba.emit.language import i64, inline, ld, ld8, st

from acronumba.data.stream_words import (  # isort: skip
    BRANCH_BELOW, BRANCH_BESIDE, BRANCH_KEY, BRANCH_ROW, REF_AT, REF_BYTES, REF_NODE, REF_WORD, STATE_BOTTOM,
    STATE_BRANCH, STATE_DICT, STATE_DICTS, STATE_HIGH, STATE_POS, STATE_REFS, STATE_REFS_COUNT, STATE_REFS_ROOM,
    STATE_TOP,
)  # fmt: skip


@inline
def byte(at: i64) -> i64:
    """Return a byte."""
    return ld8(at) & 255


@inline
def number(at: i64) -> i64:
    """Return a number of four bytes."""
    return byte(at) | (byte(at + 1) << 8) | (byte(at + 2) << 16) | (ld8(at, 3) << 24)


def new_ref(P: i64, code: i64, at: i64) -> i64:
    """Return the address of the REF row of a value that back references may name, 0 for others; -1: no room."""
    if at < ld(P, STATE_HIGH):
        return 0
    st(P, STATE_HIGH, at + 1)
    if code & 127 == 123:
        st(P, STATE_DICT, ld(P, STATE_DICT) + 1)
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


def next_text(P: i64) -> i64:
    """Skip a string; return its word, which is valid until the next value is read; 0: not a string, 1: no room."""
    at = ld(P, STATE_POS)
    code = byte(at)
    top = ld(P, STATE_TOP)
    word = 0
    ref = 0
    if code & 127 == 114:
        n = number(at + 1)
        if n >= ld(P, STATE_REFS_COUNT):
            return 0
        ref = ld(P, STATE_REFS) + REF_BYTES * n
        word = ld(ref, REF_WORD)
        if ld(ref, REF_NODE) != 0:
            return 0
        if word == 0:
            first = ld(ref, REF_AT)
            word = text(P, first, byte(first) & 127)
        st(P, STATE_POS, at + 5)
    else:
        ref = new_ref(P, code, at)
        if ref < 0:
            return 1
        word = text(P, at, code & 127)
    if word == 0 or word == 1:
        return word
    if ref != 0:
        st(ref, REF_WORD, word)
    else:
        st(P, STATE_TOP, top)
    return word


def expected(P: i64, wanted: i64) -> i64:
    """Skip a string that must equal the expected one."""
    word = next_text(P)
    if word == 1:
        return MORE
    if word == 0:
        return WRONG
    if same_text(word, wanted) != 0:
        return OK
    return WRONG


def text_ahead(P: i64, at: i64) -> i64:
    """Return the word of the string at an address, valid until a value is read; 0: no string, 1: no room."""
    pos = ld(P, STATE_POS)
    top = ld(P, STATE_TOP)
    code = byte(at) & 127
    if code == 114:
        n = number(at + 1)
        if n >= ld(P, STATE_REFS_COUNT):
            return 0
        ref = ld(P, STATE_REFS) + REF_BYTES * n
        if ld(ref, REF_NODE) != 0:
            return 0
        if ld(ref, REF_WORD) != 0:
            return ld(ref, REF_WORD)
        at = ld(ref, REF_AT)
        code = byte(at) & 127
    word = text(P, at, code)
    st(P, STATE_POS, pos)
    st(P, STATE_TOP, top)
    return word


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


def skip(P: i64) -> i64:
    """Skip a value."""
    at = ld(P, STATE_POS)
    code = byte(at)
    if code & 127 == 114:
        st(P, STATE_POS, at + 5)
        return OK
    if new_ref(P, code, at) < 0:
        return MORE
    return skip_at(P, at)


def skip_at(P: i64, at: i64) -> i64:
    """Skip the value at an address that is no back reference, and that back references may name."""
    code = byte(at) & 127
    st(P, STATE_POS, at + 5)
    if code == 105:
        return OK
    if code == 78 or code == 84 or code == 70:
        st(P, STATE_POS, at + 1)
        return OK
    if code == 103:
        st(P, STATE_POS, at + 9)
        return OK
    if code == 108:
        size = number(at + 1)
        if size < 0:
            size = -size
        st(P, STATE_POS, at + 5 + 2 * size)
        return OK
    form = is_text(code)
    if form == 1:
        st(P, STATE_POS, at + 2 + byte(at + 1))
        return OK
    if form != 0:
        st(P, STATE_POS, at + 5 + number(at + 1))
        return OK
    n = length_of_tuple(at, code)
    if code == 91:
        n = number(at + 1)
    if n >= 0:
        st(P, STATE_POS, behind_length(at, code))
        for _ in range(n):
            status = skip(P)
            if status != OK:
                return status
        return OK
    if code == 123:
        return skip_dict(P, at)
    return WRONG


def skip_dict(P: i64, at: i64) -> i64:
    """Skip a dict; find its shape, if shapes are to be found."""
    st(P, STATE_POS, at + 1)
    number_of_dict = ld(P, STATE_DICT) - 1
    branch = ld(P, STATE_BRANCH)
    finds = branch
    while byte(ld(P, STATE_POS)) != 48:
        word = 0
        key = ld(P, STATE_POS)
        if branch != 0:
            word = next_text(P)
        if word == 1:
            return MORE
        if word == 0:
            branch = 0
            st(P, STATE_POS, key)
            status = skip(P)
            if status != OK:
                return status
        if branch != 0:
            branch = ld(branch, BRANCH_BELOW)
        found = 0
        while branch != 0 and found == 0:
            if same_text(word, ld(branch, BRANCH_KEY)) != 0:
                found = 1
            else:
                branch = ld(branch, BRANCH_BESIDE)
        status = skip(P)
        if status != OK:
            return status
    st(P, STATE_POS, ld(P, STATE_POS) + 1)
    if finds != 0:
        row = 0
        if branch != 0:
            row = ld(branch, BRANCH_ROW)
        st(ld(P, STATE_DICTS), number_of_dict, row)
    return OK


def find_shapes(P: i64) -> i64:
    """Find the shapes of all dicts, and begin again."""
    pos, top, high = ld(P, STATE_POS), ld(P, STATE_TOP), ld(P, STATE_HIGH)
    status = skip(P)
    st(P, STATE_POS, pos)
    st(P, STATE_TOP, top)
    st(P, STATE_HIGH, high)
    st(P, STATE_REFS_COUNT, 0)
    st(P, STATE_DICT, 0)
    st(P, STATE_BRANCH, 0)
    return status
