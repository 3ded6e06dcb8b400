"""Methods of strings in the compiled language: splitting, stripping, replacing, padding."""

from __future__ import annotations

from acronumba.frontend.library.decorators import implements


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
def count(s, sub):
    """Return the number of non-overlapping occurrences of a substring."""
    if len(sub) == 0:
        return len(s) + 1
    out = 0
    k = s.find(sub)
    while k >= 0:
        out += 1
        k = s.find(sub, k + len(sub))
    return out


@implements(str.rfind)
def rfind(s, sub):
    """Return the index of the last occurrence of a substring; -1 if there is none."""
    k = len(s) - len(sub)
    while k >= 0 and not s[k:].startswith(sub):
        k -= 1
    return max(k, -1)


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
    """Return a string with its first character in upper case, and the others in lower case."""
    return s[:1].upper() + s[1:].lower()


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
