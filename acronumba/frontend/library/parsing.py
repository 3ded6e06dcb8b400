"""`int(s)` and `float(s)` of strings of run time, in the compiled language.

A float is rounded once: a few digits and a small power of ten by one product or quotient of exact floats, all others by
integers of any size, as lists of words of 32 bits, the lowest first.
"""

from __future__ import annotations

from acronumba.frontend.library.decorators import apart


def int_of(s):
    """`int(s)`."""
    state, value = whole(s, 10)
    if state == NO_INT:
        raise ValueError("invalid literal for int() with base 10")
    return value * value if state == TOO_LARGE else value


def int_of_base(s, base):
    """`int(s, base)`."""
    if base != 0 and (base < 2 or base > 36):
        raise ValueError("int() base must be >= 2 and <= 36, or 0")
    state, value = whole(s, base)
    if state == NO_INT:
        raise ValueError("invalid literal for int() with this base")
    return value * value if state == TOO_LARGE else value


INT, NO_INT, TOO_LARGE = range(3)  # a string is an int, none, is beyond 64 bits


@apart
def whole(s, base):
    """Return whether a string is an int of a base, and that int; if it is too large, an int whose square is."""
    s = with_ascii_digits(s)
    start, end = trimmed(s)
    k = start
    negative = k < end and s[k] == "-"
    if k < end and (s[k] == "-" or s[k] == "+"):
        k += 1
    named = _base_of_prefix(s, k, end)
    prefixed = named != 0 and (base == 0 or base == named)
    radix = named if prefixed else 10 if base == 0 else base
    zero_first = base == 0 and not prefixed and k < end and s[k] == "0"
    k = k + 2 if prefixed else k
    out, separable, valid, large = 0, prefixed, False, False
    most = 2**63 - 1
    while k < end:
        d = _digit(ord(s[k]))
        valid = d < radix
        if valid and negative:
            large = large or out < (d - most + radix - 2) // radix
            out = 0 if large else out * radix - d
        elif valid:
            large = large or out > (most - d) // radix
            out = 0 if large else out * radix + d
        elif not (separable and s[k] == "_"):
            return NO_INT, 0
        separable = valid
        k += 1
    if not valid or (zero_first and (large or out != 0)):
        return NO_INT, 0
    return (TOO_LARGE, 2**32) if large else (INT, out)


def _base_of_prefix(s, k, end):
    if k + 1 >= end or s[k] != "0":
        return 0
    c = s[k + 1]
    return 16 if c in ("x", "X") else 8 if c in ("o", "O") else 2 if c in ("b", "B") else 0


def _digit(code):
    if 48 <= code <= 57:
        return code - 48
    if 97 <= code <= 122:
        return code - 87
    return code - 55 if 65 <= code <= 90 else 99


def float_of(s):
    """`float(s)`."""
    s = with_ascii_digits(s)
    start, end = trimmed(s)
    valid, value = parsed(s, start, end)
    if not valid:
        raise ValueError("could not convert string to float")
    return value


@apart
def with_ascii_digits(s):
    """Return a string with all its decimal digits, of whatever script, as those of ASCII."""
    for c in s:
        if ord(c) > 127 and c.isdecimal():
            return "".join([_ascii_digit(d) for d in s])
    return s


def _ascii_digit(c):
    if not c.isdecimal():
        return c
    first = ord(c)
    while chr(first - 1).isdecimal():  # ten digits follow each other in each script: Unicode will always keep that
        first -= 1
    return chr(48 + (ord(c) - first) % 10)


@apart
def trimmed(s):
    """Return the part of a string without whitespace around it."""
    start, end = 0, len(s)
    while start < end and _is_space(s[start]):
        start += 1
    while end > start and _is_space(s[end - 1]):
        end -= 1
    return start, end


def _is_space(c):
    return c in " \t\n\r\v\f" or (ord(c) > 127 and c.isspace())


@apart
def parsed(s, start, end):
    """Return whether a part of a string is a float, and that float."""
    k = start
    sign = 1.0
    if k < end and (s[k] == "-" or s[k] == "+"):
        sign = -1.0 if s[k] == "-" else 1.0
        k += 1
    name = s[k:end].lower() if end - k < 9 else ""
    if name == "inf" or name == "infinity":
        return True, sign * float("inf")
    if name == "nan":
        return True, sign * float("nan")
    digits = [0]
    shift, whole, some = 0, True, False  # digits behind the point; whether it is still to come; whether there are any
    after_digit = False
    while k < end and s[k] != "e" and s[k] != "E":
        d = ord(s[k]) - 48
        if 0 <= d <= 9:
            if d > 0 or len(digits) > 1:
                digits.append(d)
            shift += 0 if whole else 1
            after_digit = some = True
        elif s[k] == "_" and after_digit and k + 1 < end and 0 <= ord(s[k + 1]) - 48 <= 9:
            after_digit = False
        elif s[k] == "." and whole:
            after_digit = whole = False
        else:
            return False, 0.0
        k += 1
    exponent = 0
    if k < end:
        k += 1
        down = k < end and s[k] == "-"
        if k < end and (s[k] == "-" or s[k] == "+"):
            k += 1
        after_digit = False
        while k < end:
            d = ord(s[k]) - 48
            if 0 <= d <= 9:
                exponent = min(exponent * 10 + d, 10**9)
                after_digit = True
            elif after_digit and s[k] == "_":
                after_digit = False
            else:
                return False, 0.0
            k += 1
        exponent = -exponent if down else exponent
        some = some and after_digit
    if not some:
        return False, 0.0
    return True, sign * _nearest(digits, exponent - shift)


def _nearest(digits, exponent):
    """Return the float that is nearest to an integer, of which these are the digits, times a power of ten."""
    count = len(digits) - 1
    if count == 0 or count + exponent < -330:
        return 0.0
    if count + exponent > 310:
        return float("inf")
    if count < 16 and -22 <= exponent <= 22:
        out = 0
        for d in digits:
            out = out * 10 + d
        power = 1.0
        for _ in range(abs(exponent)):
            power *= 10.0
        return out / power if exponent < 0 else out * power
    words = [0]
    for d in digits:
        multiply(words, 10, d)
    for k in range(0, exponent, 9):
        multiply(words, 10 ** min(exponent - k, 9), 0)
    below = 2 if exponent > 0 else 4 - exponent // 9
    words = [0] * below + words
    exact = True
    for k in range(0, -exponent, 9):
        exact = divide(words, 10 ** min(-exponent - k, 9)) and exact
    return rounded(words, 32 * below, exact)


def multiply(words, factor, plus):
    """Multiply an integer by a small one, and add another."""
    carry = plus
    for k in range(len(words)):
        carry += words[k] * factor
        words[k] = carry & 0xFFFFFFFF
        carry >>= 32
    if carry > 0:
        words.append(carry)


def divide(words, by):
    """Divide an integer by a small one; return whether there is no remainder."""
    rest = 0
    for k in range(len(words) - 1, -1, -1):
        rest = (rest << 32) + words[k]
        words[k] = rest // by
        rest %= by
    return rest == 0


def rounded(words, scale, exact):
    """Return the float nearest to an integer divided by `2**scale`; unless `exact`, it is a little more."""
    top = len(words) - 1
    while words[top] == 0:
        top -= 1
    size = 32 * top + words[top].bit_length()
    dropped = size - max(min(53, size - scale + 1074), 0)
    out = 0
    for k in range(size - 1, dropped - 1, -1):
        out = out * 2 + (words[k // 32] >> (k % 32) & 1)
    half = words[(dropped - 1) // 32] >> ((dropped - 1) % 32) & 1
    if half == 1:
        rest = not exact or words[(dropped - 1) // 32] & ((1 << (dropped - 1) % 32) - 1) != 0
        for k in range((dropped - 1) // 32):
            rest = rest or words[k] != 0
        if rest or out % 2 == 1:
            out += 1
    value = float(out)
    left = dropped - scale
    while left > 0:
        value *= 2.0
        left -= 1
    while left < -32:
        value *= 2.0**-32
        left += 32
    while left < 0:
        value *= 0.5
        left += 1
    return value
