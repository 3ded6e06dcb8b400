"""Strings as words: encoding and decoding.

A string of run time (`ir.types.TextT`) is one word. None is 0. A string of one character is ~c, where c is its code
point: a negative word that needs no memory, so that `s[i]`, loops over characters and comparisons of characters
allocate nothing. Any other string is the address of an immutable record:

    length      of the string, in characters (code points)
    hash        see `hash_of`; equal strings have equal hashes
    characters  one word each

Two strings are equal if their words are, or if both are addresses of records with equal contents: hash and length are
compared first. So nothing is interned: strings of any two packs, of the program and of the call compare right, and the
memory of a record is that of the heap that it lies in. Records are in the heap of the packed values (each distinct
string of a heap once; they hold no addresses, so that heaps are moved and pickled as before), in the table of constants
of the host program, and in the heap of the call (`"".join`). As keys of dicts they are hashed by their record's hash
and compared by contents (`host.maps`). `ir.interpret` has Python's own strings in their place.

The front end keeps constants apart (`StrT`, no word at all): only where a constant meets a string of run time, in a
list or under a name, does it become one (`ir.types.union`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from acronumba.memory import native

HEAD = 2  # words before the characters
FACTOR = 0x5851F42D4C957F2D  # odd: of the hash
_MASK = (1 << 64) - 1


def signed(value: int) -> int:
    """Return the int64 with the same 64 bits."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def hash_of(characters: Sequence[int]) -> int:
    """Return the 64-bit polynomial hash of characters: the sum of (character + 1) times a power of `FACTOR`."""
    out, power = 0, FACTOR
    for c in characters:
        out += (c + 1) * power
        power = power * FACTOR & _MASK
    return signed(out)


def immediate(text: str) -> int | None:
    """Return the word of a string without a record, or None if the string needs a record."""
    return ~ord(text) if len(text) == 1 else None


def record_of(text: str) -> tuple[int, ...]:
    """Return the words of the record of a string."""
    characters = tuple(map(ord, text))
    return (len(characters), hash_of(characters), *characters)


def records_of(texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the concatenated records of strings, and the index of each."""
    counts = np.fromiter(map(len, texts), np.int64, len(texts))
    characters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    starts = np.cumsum(counts) - counts
    at = starts + HEAD * np.arange(len(texts))
    out = np.zeros(len(characters) + HEAD * len(texts), np.int64)
    out[at] = counts
    inside = np.arange(len(characters)) - starts.repeat(native(counts))
    out[inside + (at + HEAD).repeat(native(counts))] = characters
    powers = np.full(int(counts.max(initial=0)), FACTOR, np.uint64).cumprod()
    terms = (characters + 1).view(np.uint64) * powers[inside]
    sums = np.concatenate((np.zeros(1, np.uint64), terms.cumsum(dtype=np.uint64)))
    out[at + 1] = (sums[starts + counts] - sums[starts]).view(np.int64)
    return out, at


def text_at(word: int, read: Callable[[int, int], Iterable[int]]) -> str:
    """Return the string of a word; `read` returns words at an address."""
    if word < 0:
        return chr(~word)
    (length,) = read(word, 1)
    return "".join(map(chr, read(word + 8 * HEAD, length)))
