"""Methods of strings made of others, in the compiled language: splitting, stripping, replacing, searching, padding.

In: the string and the arguments of the call. Out: the result of Python's method.
"""

from __future__ import annotations

from typing import Any


def split(s: Any, sep: Any = None, maxsplit: Any = -1) -> Any:
    """Return the parts between separators; the words if `sep` is None."""
    out: list[str] = []
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


def _begin(s: Any, chars: Any) -> Any:
    k = 0
    while k < len(s) and (s[k].isspace() if chars is None else s[k] in chars):
        k += 1
    return k


def _end(s: Any, chars: Any, start: Any) -> Any:
    k = len(s)
    while k > start and (s[k - 1].isspace() if chars is None else s[k - 1] in chars):
        k -= 1
    return k


def strip(s: Any, chars: Any = None) -> Any:
    """Return a string without leading and trailing characters of `chars`, or whitespace."""
    start = _begin(s, chars)
    return s[start : _end(s, chars, start)]


def lstrip(s: Any, chars: Any = None) -> Any:
    """Return a string without leading characters of `chars`, or whitespace."""
    return s[_begin(s, chars) :]


def rstrip(s: Any, chars: Any = None) -> Any:
    """Return a string without trailing characters of `chars`, or whitespace."""
    return s[: _end(s, chars, 0)]


def replace(s: Any, old: Any, new: Any, count: Any = -1) -> Any:
    """Return a string with the first `count` (all if negative) occurrences of `old` replaced by `new`."""
    if len(old) == 0:
        most = len(s) + 1 if count < 0 else count
        parts = [(new if k < most else "") + c for k, c in enumerate(s)]
        return "".join(parts) + (new if len(s) < most else "")
    return new.join(split(s, old, count))


def count(s: Any, sub: Any) -> Any:
    """Return the number of non-overlapping occurrences of a substring."""
    if len(sub) == 0:
        return len(s) + 1
    out = 0
    k = s.find(sub)
    while k >= 0:
        out += 1
        k = s.find(sub, k + len(sub))
    return out


def rfind(s: Any, sub: Any) -> Any:
    """Return the index of the last occurrence of a substring; -1 if there is none."""
    k = len(s) - len(sub)
    while k >= 0 and not s[k:].startswith(sub):
        k -= 1
    return max(k, -1)


def partition(s: Any, sep: Any) -> Any:
    """Return the part before the first separator, the separator, and the part after it."""
    if len(sep) == 0:
        raise ValueError("empty separator")
    k = s.find(sep)
    if k < 0:
        return s, "", ""
    return s[:k], sep, s[k + len(sep) :]


def capitalize(s: Any) -> Any:
    """Return a string with its first character in upper case, and the others in lower case."""
    return s[:1].upper() + s[1:].lower()


def zfill(s: Any, width: Any) -> Any:
    """Return a string padded with zeros at the left, after a sign."""
    signed = s[:1] == "-" or s[:1] == "+"
    zeros = "0" * max(width - len(s), 0)
    return s[:1] + zeros + s[1:] if signed else zeros + s


METHODS = {
    "split": split, "strip": strip, "lstrip": lstrip, "rstrip": rstrip, "replace": replace, "count": count,
    "rfind": rfind, "partition": partition, "capitalize": capitalize, "zfill": zfill,
}  # fmt: skip
