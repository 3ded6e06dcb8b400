"""Methods of strings in the compiled language: splitting, stripping, replacing, padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.kinds.strings import StringValue, string
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import implements, primitive
from acronumba.ir.ops import SCALARS

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@implements(str.split)
def split(s, sep=None, maxsplit=-1):
    """Return the parts between separators; the words if `sep` is None."""
    out = []
    if sep is None:
        n = len(s)
        k = 0
        while k < n:
            if s[k].isspace():
                k += 1
            elif 0 <= maxsplit <= len(out):
                out.append(s[k:])
                k = n
            else:
                start = k
                while k < n and not s[k].isspace():
                    k += 1
                out.append(s[start:k])
        return out
    if len(sep) == 0:
        raise ValueError("empty separator")
    start = 0
    k = s.find(sep)
    while k >= 0 and (maxsplit < 0 or len(out) < maxsplit):
        out.append(s[start:k])
        start = k + len(sep)
        k = s.find(sep, start)
    out.append(s[start:])
    return out


def _begin(s, chars):
    k = 0
    while k < len(s) and (s[k].isspace() if chars is None else s[k] in chars):
        k += 1
    return k


def _end(s, chars, start):
    k = len(s)
    while k > start and (s[k - 1].isspace() if chars is None else s[k - 1] in chars):
        k -= 1
    return k


@implements(str.strip)
def strip(s, chars=None):
    """Return a string without leading and trailing characters of `chars`, or whitespace."""
    start = _begin(s, chars)
    return s[start : _end(s, chars, start)]


@implements(str.lstrip)
def lstrip(s, chars=None):
    """Return a string without leading characters of `chars`, or whitespace."""
    return s[_begin(s, chars) :]


@implements(str.rstrip)
def rstrip(s, chars=None):
    """Return a string without trailing characters of `chars`, or whitespace."""
    return s[: _end(s, chars, 0)]


@implements(str.replace)
def replace(s, old, new, count=-1):
    """Return a string with the first `count` (all if negative) occurrences of `old` replaced by `new`."""
    if len(old) == 0:
        most = len(s) + 1 if count < 0 else count
        parts = [(new if k < most else "") + c for k, c in enumerate(s)]
        return "".join(parts) + (new if len(s) < most else "")
    return new.join(split(s, old, count))


@implements(str.count)
def count(s, sub, start=None, end=None):
    """Return the number of non-overlapping occurrences of a substring."""
    if start is not None or end is not None:
        return within("count", s, sub, start, end)
    if len(sub) == 0:
        return len(s) + 1
    out = 0
    k = s.find(sub)
    while k >= 0:
        out += 1
        k = s.find(sub, k + len(sub))
    return out


@implements(str.rfind)
def rfind(s, sub, start=None, end=None):
    """Return the index of the last occurrence of a substring; -1 if there is none."""
    if start is not None or end is not None:
        return within("rfind", s, sub, start, end)
    k = len(s) - len(sub)
    while k >= 0 and not s[k:].startswith(sub):
        k -= 1
    return max(k, -1)


@implements(str.rindex)
def rindex(s, sub, start=None, end=None):
    return within("rindex", s, sub, start, end)


@implements(str.find)
def find(s, sub, start=None, end=None):
    return within("find", s, sub, start, end)


@implements(str.index)
def index(s, sub, start=None, end=None):
    return within("index", s, sub, start, end)


@implements(str.startswith)
def startswith(s, prefix, start=None, end=None):
    return within("startswith", s, prefix, start, end)


@implements(str.endswith)
def endswith(s, suffix, start=None, end=None):
    return within("endswith", s, suffix, start, end)


def within(name, s, sub, start, end):
    """Call a method that searches in a part of a string."""
    n = len(s)
    low = 0 if start is None else max(start + n, 0) if start < 0 else start
    high = n if end is None else max(end + n, 0) if end < 0 else min(end, n)
    part = s[low:high]
    if name == "startswith":
        return low <= high and part.startswith(sub)
    if name == "endswith":
        return low <= high and part.endswith(sub)
    if name == "count":
        return part.count(sub) if low <= high else 0
    k = -1
    if low <= high:
        k = part.find(sub) if name in ("find", "index") else rfind(part, sub)
    if name in ("index", "rindex") and k < 0:
        raise ValueError("substring not found")
    return k if k < 0 else k + low


@implements(str.partition)
def partition(s, sep):
    """Return the part before the first separator, the separator, and the part after it."""
    if len(sep) == 0:
        raise ValueError("empty separator")
    k = s.find(sep)
    if k < 0:
        return s, "", ""
    return s[:k], sep, s[k + len(sep) :]


@implements(str.capitalize)
def capitalize(s):
    """Return a string with its first character in title case, and the others in lower case."""
    return of_character("title", s[0]) + s[1:].lower() if len(s) > 0 else ""


@implements(str.ljust)
def ljust(s, width, fillchar=" "):
    return s + _fill(s, width, fillchar)


@implements(str.rjust)
def rjust(s, width, fillchar=" "):
    return _fill(s, width, fillchar) + s


@implements(str.center)
def center(s, width, fillchar=" "):
    gap = _fill(s, width, fillchar)
    left = len(gap) // 2 + (len(gap) & width & 1)
    return gap[:left] + s + gap[left:]


def _fill(s, width, fillchar):
    if len(fillchar) != 1:
        raise TypeError("The fill character must be exactly one character long")
    return fillchar * max(width - len(s), 0)


@implements(str.rpartition)
def rpartition(s, sep):
    """Return the part before the last separator, the separator, and the part after it."""
    if len(sep) == 0:
        raise ValueError("empty separator")
    k = rfind(s, sep)
    if k < 0:
        return "", "", s
    return s[:k], sep, s[k + len(sep) :]


@implements(str.zfill)
def zfill(s, width):
    """Return a string padded with zeros at the left, after a sign."""
    signed = s[:1] == "-" or s[:1] == "+"
    zeros = "0" * max(width - len(s), 0)
    return s[:1] + zeros + s[1:] if signed else zeros + s


# ---- by character


def _of_character(w: Walker, a: Args) -> Val:
    name = f"text_{a.static('name')}"
    out = w.scalar(name, string(w, a["c"]).num)
    return StringValue(out) if SCALARS[name].result == "t" else out


@primitive(rule=_of_character)
def of_character(name, c):
    """Return the result of a method of strings, or of another operation, for one character."""
    raise NotImplementedError


def _is_cased(c):
    return of_character("isupper", c) or of_character("islower", c) or of_character("istitle", c)


@implements(str.title)
def title(s):
    out = []
    inside = False
    for c in s:
        out.append(c.lower() if inside else of_character("title", c))
        inside = _is_cased(c)
    return "".join(out)


@implements(str.istitle)
def istitle(s):
    inside = False
    some = False
    for c in s:
        if of_character("isupper", c) or of_character("istitle", c):
            if inside:
                return False
            inside = some = True
        elif of_character("islower", c):
            if not inside:
                return False
            some = True
        else:
            inside = False
    return some


def _in_one_case(s, case):
    some = False
    for c in s:
        found = of_character(case, c)
        if not found and _is_cased(c):
            return False
        some = some or found
    return some


@implements(str.isupper)
def isupper(s):
    return _in_one_case(s, "isupper")


@implements(str.islower)
def islower(s):
    return _in_one_case(s, "islower")


@implements(str.isidentifier)
def isidentifier(s):
    for k, c in enumerate(s):
        if not of_character("isidentifier" if k == 0 else "continues", c):
            return False
    return len(s) > 0


@implements(str.isascii)
def isascii(s):
    for c in s:
        if ord(c) > 127:
            return False
    return True


@implements(str.rsplit)
def rsplit(s, sep=None, maxsplit=-1):
    """Return the parts between separators, found from the end."""
    out = [part[::-1] for part in split(s[::-1], None if sep is None else sep[::-1], maxsplit)]
    out.reverse()
    return out


@implements(str.splitlines)
def splitlines(s, keepends=False):
    out = []
    start = k = 0
    while k < len(s):
        end = k
        k += 1
        if s[end] in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029":
            k += 1 if s[end] == "\r" and s[k : k + 1] == "\n" else 0
            out.append(s[start : k if keepends else end])
            start = k
    if start < k:
        out.append(s[start:])
    return out


@implements(str.expandtabs)
def expandtabs(s, tabsize=8):
    out = []
    column = 0
    for c in s:
        if c == "\t":
            gap = tabsize - column % tabsize if tabsize > 0 else 0
            out.append(" " * gap)
            column += gap
        else:
            out.append(c)
            column = 0 if c == "\n" or c == "\r" else column + 1
    return "".join(out)


@implements(str.maketrans)
def maketrans(x, y=None, z=""):
    """Return a dict from the codes of characters to what replaces them."""
    if y is None:
        return {ord(k) if isinstance(k, str) else k: v for k, v in x.items()}
    if len(x) != len(y):
        raise ValueError("the first two maketrans arguments must have equal length")
    out = {ord(c): ord(to) for c, to in zip(x, y, strict=True)}
    for c in z:
        out[ord(c)] = None
    return out


@implements(str.translate)
def translate(s, table):
    out = []
    for c in s:
        if ord(c) in table:
            to = table[ord(c)]
            if to is not None:
                out.append(to if isinstance(to, str) else chr(to))
        else:
            out.append(c)
    return "".join(out)
