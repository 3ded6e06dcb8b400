"""Hashes and sets of this Python: what compiled code needs to have the order of sets that Python would have.

Hashes of strings differ from process to process. So they are in no pack and no compiled code, which computes them with
the key of the process that runs it (`host.sets`); those of constants and of members of enumerations are in a table.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence, Set
from functools import cache
from itertools import repeat

import numpy as np

from acronumba.ir.types import BoolT, EnumT, IntT, ListT, NeverT, NoneT, ScalarT, StrT, TextT, TupleT, Type, all_parts
from acronumba.memory import Words, native

_MASK = (1 << 64) - 1
_HEAD = object.__basicsize__  # bytes before the fields of a set: fill, used, mask, table


def hash_count(t: Type) -> int:
    """Return the number of hashes of a constant, or of the members of an enumeration."""
    return len(list(t.cls)) if isinstance(t, EnumT) else 1  # type: ignore[call-overload]


def hash_table(types: Sequence[Type]) -> Words:
    """Return the table that compiled code reads: the keys of SipHash, and the hashes of constants and of members."""
    out = list(text_keys() or (0, 0))
    for t in types:
        held = list(t.cls) if isinstance(t, EnumT) else [t.value if isinstance(t, StrT) else None]  # type: ignore[call-overload]
        out += map(hash, held)
    return np.array([k & _MASK for k in out], np.uint64).view(np.int64)


def unordered(key: Type) -> str:
    """Return why the order of sets with such elements is not known here; "" if it is."""
    if not known_sets():
        return "of this implementation of Python"
    for t in all_parts(key):
        if isinstance(t, TextT | StrT) and text_keys() is None:
            return "of strings, whose hashes cannot be read here"
        if not isinstance(t, IntT | BoolT | ScalarT | StrT | TextT | EnumT | NoneT | NeverT | TupleT | ListT):
            if not hasattr(t, "members"):
                return f"of {type(t).__name__}"
    return ""


@cache
def known_sets() -> bool:
    """Whether sets have the order that `host.sets` describes, and `read_tables` can read their tables."""
    if sys.implementation.name != "cpython" or not (3, 10) <= sys.version_info[:2] <= (3, 14):
        return False
    try:
        some = {15, 7, 2**70}
        some.discard(2**70)
        large = set(range(20, 40))
        tables, slots = read_tables([some, large])
    except ValueError:
        return False
    return tables == [17, 256] and slots == [4, 7, *range(20, 40)] and hash((1, -(2**61))) == _PAIR


_PAIR = -6779188579744246035  # the hash of -1 is that of -2


@cache
def text_keys() -> tuple[int, int] | None:
    """Return the keys of SipHash-1-3 of this process; None if strings are hashed in another way."""
    if sys.hash_info.algorithm != "siphash13" or sys.hash_info.cutoff:
        return None
    try:
        keys = tuple((ctypes.c_uint64 * 2).in_dll(ctypes.pythonapi, "_Py_HashSecret"))
    except (ValueError, AttributeError):
        return None
    same = all(_siphash(keys, text.encode(code)) == hash(text) & _MASK for text, code in _SAMPLES)
    return keys if same else None


_SAMPLES = (("a", "latin-1"), ("nine char", "latin-1"), ("\u0100bc", "utf-16-le"), ("\U0001f600", "utf-32-le"))


def _siphash(keys: Sequence[int], data: bytes) -> int:
    """Return the hash of bytes: SipHash-1-3."""
    a, b = keys[0] ^ 0x736F6D6570736575, keys[1] ^ 0x646F72616E646F6D
    c, d = keys[0] ^ 0x6C7967656E657261, keys[1] ^ 0x7465646279746573
    end = len(data) // 8 * 8
    last = int.from_bytes(data[end:], "little") | (len(data) & 255) << 56
    blocks = [*(int.from_bytes(data[k : k + 8], "little") for k in range(0, end, 8)), last, 0, 0, 0]
    for k, m in enumerate(blocks):
        d ^= m
        c ^= 255 * (k == len(blocks) - 3)
        a, c = a + b & _MASK, c + d & _MASK
        b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
        a, c = _turned(a, 32), c + b & _MASK
        a = a + d & _MASK
        b, d, c = _turned(b, 17) ^ c, _turned(d, 21) ^ a, _turned(c, 32)
        a ^= m
    return a ^ b ^ c ^ d


def _turned(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _MASK


def read_tables(sets: Sequence[Set[object]]) -> tuple[list[int], list[int]]:
    """Return for sets 2 * slots of the table (+ 1 if elements were taken out), and the slots of all their elements."""
    starts = [id(s) + _HEAD for s in sets]
    heads = np.frombuffer(b"".join(map(ctypes.string_at, starts, repeat(_FIELDS))), np.int64).reshape(-1, _FIELDS // 8)
    fill, used, mask = heads[:, 0], heads[:, 1], heads[:, 2]
    if (used != list(map(len, sets))).any() or (mask & (mask + 1)).any() or ((used > fill) | (fill > mask)).any():
        raise ValueError("sets have another layout")
    tables = [
        row[6:].tobytes() if slots == _SMALL else ctypes.string_at(int(row[3]), 16 * slots)
        for row, slots in zip(heads, (mask + 1).tolist(), strict=True)
    ]
    table = np.frombuffer(b"".join(tables), np.int64).reshape(-1, 2)
    first = np.cumsum(mask + 1) - mask - 1
    found = np.flatnonzero((table[:, 0] != 0) & (table[:, 1] != -1))
    return (2 * (mask + 1) + (fill != used)).tolist(), (found - first.repeat(native(used))).tolist()


_SMALL = 8  # slots of a table that lies in the set itself
_FIELDS = 48 + 16 * _SMALL  # bytes of the fields and of that table
