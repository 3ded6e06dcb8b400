"""Texts of numbers, strings, lists, tuples and dicts in the compiled language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import apart, implements, primitive

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@apart
def int_text(n, base):
    """Return the digits of an int, with its sign."""
    out = [] if n != 0 else ["0"]
    rest = n if n < 0 else -n  # as the least int has no opposite
    while rest < 0:
        digit = rest % -base
        out.append("0123456789abcdef"[-digit])
        rest = (rest - digit) // base
    if n < 0:
        out.append("-")
    out.reverse()
    return "".join(out)


def signed(text, plus):
    """Return a text with a sign for numbers that are not negative, too."""
    return text if text[0] == "-" else plus + text


@apart
def placed(text, width, fill, align):
    """Return a text filled up to a width: "<" at its end, "=" after its sign, "^" at both ends, else before it."""
    gap = fill * max(width - len(text), 0)
    if align == "<":
        return text + gap
    if align == "=":
        start = 1 if text[:1] == "-" or text[:1] == "+" or text[:1] == " " else 0
        if len(text) > start + 1 and text[start] == "0" and text[start + 1] in "boxX":
            start += 2  # a prefix, as of "0x1f"
        return text[:start] + gap + text[start:]
    if align == "^":
        half = len(gap) // 2
        return gap[:half] + text + gap[half:]
    return gap + text


@apart
def grouped(text, separator, size, letters):
    """Return a text of a number with its digits before the point in groups; with `letters`, all are digits."""
    start = 1 if text[0] == "-" else 0
    if not letters and text[start].isalpha():
        return text
    end = start
    while end < len(text) and (text[end].isdigit() or (letters and text[end].isalnum())):
        end += 1
    out = []
    for k in range(start, end):
        if k > start and (end - k) % size == 0:
            out.append(separator)
        out.append(text[k])
    return text[:start] + "".join(out) + text[end:]


@implements(bin)
def bin_(number, /):
    return prefixed(int_text(number, 2), "0b")


@implements(oct)
def oct_(number, /):
    return prefixed(int_text(number, 8), "0o")


@implements(hex)
def hex_(number, /):
    return prefixed(int_text(number, 16), "0x")


def prefixed(text, prefix):
    return "-" + prefix + text[1:] if text[0] == "-" else prefix + text


def character(x):
    """Return the text of `%c`."""
    if isinstance(x, str):
        if len(x) != 1:
            raise TypeError("%c requires int or char")
        return x
    if x < 0 or x > 0x10FFFF:
        raise OverflowError("%c arg not in range(0x110000)")
    return chr(x)


def quoted(s):
    """`repr(s)` of a string."""
    quote = '"' if "'" in s and '"' not in s else "'"
    out = [quote]
    for c in s:
        code = ord(c)
        if c == quote or c == "\\":
            out.append("\\" + c)
        elif c.isprintable():
            out.append(c)
        elif c in "\t\n\r":
            out.append("\\t" if c == "\t" else "\\n" if c == "\n" else "\\r")
        elif code < 256:
            out.append("\\x" + int_text(code, 16).zfill(2))
        elif code < 65536:
            out.append("\\u" + int_text(code, 16).zfill(4))
        else:
            out.append("\\U" + int_text(code, 16).zfill(8))
    out.append(quote)
    return "".join(out)


def list_text(xs):
    return "[" + ", ".join([repr(x) for x in xs]) + "]"


def tuple_text(xs):
    return "(" + ", ".join([repr(x) for x in xs]) + (",)" if len(xs) == 1 else ")")


def dict_text(d):
    return "{" + ", ".join([repr(k) + ": " + repr(v) for k, v in d.items()]) + "}"


def _opened(w: Walker, a: Args) -> Val:
    return a["x"].opened(w)


@primitive(rule=_opened, whole=True)
def opened(x):
    """Return a row of a closed shape as the list, tuple or dict that it is."""
    return x


@apart
def nested_text(x):
    """`repr(x)` of nested data: recursive, as it is called for the parts of `x`."""
    return repr(opened(x))


def shown_fields(x):
    """Return the text of an object by the fields of its class (see `frontend.texts`)."""
    return repr(x)


@apart
def object_text(x):
    """`repr(x)` of an object of a dataclass or NamedTuple: recursive, as it is called for the fields of `x`."""
    return shown_fields(x)
