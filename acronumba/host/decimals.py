"""Texts of floats, as Python writes them: the shortest that stands for one, or a number of digits, correctly rounded.

In: the `ListOp` "decimal". Out: its code, written with a `Writer`. A float is a whole number times a power of two, and
so a whole number divided by a power of ten: all its digits are computed, nine in a word. The shortest text is the
decimal of the fewest digits between the two midpoints to the neighbouring floats, whose digits are computed likewise.
"""

from __future__ import annotations

from acronumba.data.texts import HEAD
from acronumba.emit import tree
from acronumba.emit.tree import I64
from acronumba.host import texts
from acronumba.host.segments import Segment
from acronumba.host.writer import Writer
from acronumba.ir.nodes import ListOp

_CHARACTERS = 330  # besides those after the point: a sign, at most 309 digits before it, an exponent
_LIMBS = 90  # of nine digits: a float has at most 767 digits
_WORDS = 2 * _CHARACTERS + 3 * _LIMBS  # besides two for each digit after the point


def decimal(w: Writer, segment: Segment, instr: ListOp) -> None:
    """Make the text of a float."""
    b, top = w.b, w.reg["top"]
    x, kind, places = (w[a] for a in instr.args)
    texts.use(w)
    w.helper("decimal_text", _TEXT)
    w.room(segment, (places + places + _WORDS) * 8)
    made = b.let("made", tree.Call("decimal_text", (x, kind, places, top), I64))
    with b.when(made > 0):
        b.set(top, top + texts.size_of(made))
    w.assign(instr.outs[0], made)


# In `digits`: word 0 is the place of the point, before digit 0 if it is 0; the digits follow after a word for a carry.
_TEXT = f'''
def decimal_scaled(to: i64, value: i64, factor: i64, times: i64) -> i64:
    """Store the limbs of a number times a power of 2 or 5; return how many."""
    st(to, 0, value % 1000000000)
    st(to, 1, value // 1000000000)
    n = 2
    left = times
    while left > 0:
        most = min(select(factor == 2, 29, 12), left)
        step = 1
        for k in range(most):
            step = step * factor
        left = left - most
        carry = 0
        for k in range(n):
            carry = carry + ld(to, k) * step
            st(to, k, carry % 1000000000)
            carry = carry // 1000000000
        if carry > 0:
            st(to, n, carry)
            n = n + 1
    while n > 1 and ld(to, n - 1) == 0:
        n = n - 1
    return n


def decimal_digit(limbs: i64, n: i64, power: i64) -> i64:
    """Return the digit of a power of ten."""
    if power < 0 or power >= 9 * n:
        return 0
    part = ld(limbs, power // 9)
    for k in range(power % 9):
        part = part // 10
    return part % 10


def decimal_length(limbs: i64, n: i64) -> i64:
    """Return how many digits a number has; 1 for zero."""
    power = 9 * n - 1
    while power > 0 and decimal_digit(limbs, n, power) == 0:
        power = power - 1
    return power + 1


def decimal_begin(limbs: i64, n: i64, length: i64) -> i64:
    """Return the first 18 of so many digits as a number; a digit before them, too."""
    out = 0
    for k in range(19):
        out = out * 10 + decimal_digit(limbs, n, length - k)
    return out


def decimal_rest(limbs: i64, n: i64, power: i64) -> i64:
    """Return 1 if the digit of any power of ten below one is not zero."""
    for k in range(power):
        if decimal_digit(limbs, n, k) != 0:
            return 1
    return 0


def decimal_shortest(digits: i64, limbs: i64, m: i64, e: i64, halved: i64) -> i64:
    """Store the fewest digits that stand for m * 2**e; return how many. The float below is half as near if `halved`."""
    high = limbs + {8 * _LIMBS}
    low = high + {8 * _LIMBS}
    factor = select(e < 2, 5, 2)
    times = select(e < 2, 2 - e, e - 2)
    n = decimal_scaled(limbs, 4 * m, factor, times)
    n_high = decimal_scaled(high, 4 * m + 2, factor, times)
    n_low = decimal_scaled(low, 4 * m - 2 + halved, factor, times)
    length = decimal_length(limbs, n)
    value = decimal_begin(limbs, n, length)
    least = decimal_begin(low, n_low, length)
    most = decimal_begin(high, n_high, length)
    even = 1 - (m & 1)
    low_in = select(decimal_rest(low, n_low, length - 18) == 0, even, 0)
    high_in = even | decimal_rest(high, n_high, length - 18)
    unit = 100000000000000000
    found = 0
    chosen = 0
    while found == 0:
        down = value // unit
        rest = value - down * unit
        if down * unit > least - low_in:
            found = 1
        if (down + 1) * unit < most + high_in:
            found = found + 2
        chosen = down
        if found == 2:
            chosen = down + 1
        if found == 3:
            if rest > unit - rest:
                chosen = down + 1
            if rest == unit - rest:
                if decimal_rest(limbs, n, length - 18) != 0 or down & 1 != 0:
                    chosen = down + 1
        unit = unit // 10
    point = length - select(e < 2, times, 0)
    count = 0
    rest = chosen
    while rest > 0:
        rest = rest // 10
        count = count + 1
    unit = select(unit == 0, 1, unit * 10)
    if chosen * unit >= 1000000000000000000:
        point = point + 1
    while chosen % 10 == 0:
        chosen = chosen // 10
        count = count - 1
    for k in range(count):
        st(digits, 1 + count - k, chosen % 10)
        chosen = chosen // 10
    st(digits, 0, point)
    return count


def decimal_rounded(digits: i64, limbs: i64, n: i64, length: i64, count: i64) -> i64:
    """Store so many digits, rounded; return 1 if there is one more, in the word before them."""
    for k in range(count):
        st(digits, 2 + k, decimal_digit(limbs, n, length - 1 - k))
    st(digits, 1, 0)
    power = length - 1 - count
    first = decimal_digit(limbs, n, power)
    up = select(first > 5, 1, 0)
    if first == 5:
        up = decimal_rest(limbs, n, power) | (ld(digits, 1 + count) & 1)
    at = 1 + count
    while up != 0:
        digit = ld(digits, at) + 1
        up = select(digit == 10, 1, 0)
        st(digits, at, select(digit == 10, 0, digit))
        at = at - 1
    return ld(digits, 1)


def decimal_put(to: i64, at: i64, digits: i64, count: i64, start: i64, stop: i64) -> i64:
    """Store the characters of digits from `start` to `stop`, zeros around those that there are; return their end."""
    for k in range(start, stop):
        digit = 0
        if k >= 0 and k < count:
            digit = ld(digits, k)
        st(to, at, digit + 48)
        at = at + 1
    return at


def decimal_word(to: i64, at: i64, a: i64, b: i64, c: i64) -> i64:
    """Store three characters; return their end."""
    st(to, at, a)
    st(to, at + 1, b)
    st(to, at + 2, c)
    return at + 3


def decimal_text(x: f64, kind: i64, places: i64, to: i64) -> i64:
    """Return the text of a float: `kind` is the letter of the format.

    "r" is that of `str`, "p" that of a format without a letter; "s" is that of `str` of a NumPy float32, which has an
    exponent from 10**places on. A record of the text is at `to` if it needs one; memory behind it is overwritten.
    """
    stf(to, 0, x)
    bits = ld(to, 0)
    at = {HEAD}
    if x != x:
        return text_finish(to, decimal_word(to, at, 110, 97, 110))
    if bits < 0:
        st(to, at, 45)
        at = at + 1
    if abs(x) == inf:
        return text_finish(to, decimal_word(to, at, 105, 110, 102))
    e = (bits >> 52) & 2047
    m = bits & {(1 << 52) - 1}
    if e > 0:
        m = m | {1 << 52}
    e = max(e, 1) - 1075
    digits = to + 8 * ({_CHARACTERS} + places)
    limbs = digits + 8 * ({_CHARACTERS} + places)
    count = 1
    least = 0
    exponent = 0
    start = 2
    if m == 0:
        st(digits, 0, 1)
        st(digits, 2, 0)
    if kind == {ord("r")} or kind == {ord("s")}:
        halved = select(m == {1 << 52}, select(e > -1074, 1, 0), 0)
        if kind == {ord("s")}:
            while m > 0 and (m >= {1 << 24} or e < -149):
                m = m >> 1
                e = e + 1
            halved = select(m == {1 << 23}, select(e > -149, 1, 0), 0)
        if m > 0:
            count = decimal_shortest(digits, limbs, m, e, halved)
        limit = 1e16
        if kind == {ord("s")}:
            limit = 1.0
            for k in range(places):
                limit = limit * 10.0
        exponent = select(abs(x) < 0.0001, select(m > 0, 1, 0), select(abs(x) < limit, 0, 1))
        least = 1
    else:
        n = decimal_scaled(limbs, m, select(e < 0, 5, 2), abs(e))
        length = decimal_length(limbs, n)
        point = select(m == 0, 1, length + min(e, 0))
        count = places + select(kind == {ord("f")}, point, select(kind == {ord("e")}, 1, 0))
        if kind != {ord("f")}:
            count = max(count, 1)
        if count >= 0:
            if decimal_rounded(digits, limbs, n, length, count) != 0:
                start = 1
                point = point + 1
                if kind == {ord("f")}:
                    count = count + 1
        st(digits, 0, point)
        least = places
        if kind == {ord("e")}:
            exponent = 1
        if kind == {ord("g")} or kind == {ord("p")}:
            least = select(kind == {ord("p")}, 1, 0)
            exponent = select(point < -3, 1, select(point > count - least, 1, 0))
            while count > 1 and ld(digits, start + count - 1) == 0:
                count = count - 1
    point = ld(digits, 0)
    digits = digits + 8 * start
    after = count - point
    if kind == {ord("f")}:
        after = places
    if exponent != 0:
        after = count - 1
    elif after < least:
        after = least
    before = select(exponent != 0, 1, max(point, 1))
    first = select(exponent != 0, 0, min(point - 1, 0))
    at = decimal_put(to, at, digits, count, first, first + before)
    if after > 0:
        st(to, at, 46)
        at = decimal_put(to, at + 1, digits, count, first + before, first + before + after)
    if exponent != 0:
        size = abs(point - 1)
        st(to, at, 101)
        st(to, at + 1, select(point < 1, 45, 43))
        at = at + 2
        if size > 99:
            st(to, at, size // 100 + 48)
            at = at + 1
        st(to, at, size // 10 % 10 + 48)
        st(to, at + 1, size % 10 + 48)
        at = at + 2
    return text_finish(to, at)
'''
