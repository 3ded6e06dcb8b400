"""Packing of columns of strings, and hashing of the keys of dicts. See `data.texts`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from acronumba.data.heap import Heap, Mismatch, Region
from acronumba.data.texts import HEAD, records_of
from acronumba.generics import Value
from acronumba.ir.types import ListT, TextT, Word, words
from acronumba.memory import Words


class Texts:
    """The strings of a heap: each that needs a record has one."""

    def __init__(self) -> None:
        self.columns: list[TextColumn] = []
        self.at: dict[str | None, int] = {}  # their words
        self._records: Words
        self._starts: Words
        self._region: Region

    def reserve(self, add: Callable[..., Region], take: Callable[[float], None]) -> None:
        """Make the records; `add` reserves a region, `take` counts its bytes."""
        found = dict.fromkeys(v for column in self.columns for v in column.values)
        self.at = {text: 0 if text is None else ~ord(text) for text in found if text is None or len(text) == 1}
        rest = [text for text in found if text not in self.at]
        take(8.0 * (sum(map(len, rest)) + HEAD * len(rest)))
        self._records, self._starts = records_of(rest)
        self._region = add("texts", len(self._records), 1)
        self.at.update(dict.fromkeys(rest, 0))

    def fill(self, heap: Heap) -> None:
        """Write the records."""
        heap.table(self._region)[:, 0] = self._records
        rest = [text for text in self.at if text is not None and len(text) != 1]
        self.at.update(zip(rest, (heap.address(self._region) + 8 * self._starts).tolist(), strict=True))


class TextColumn:
    """A column of strings."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.values: list[Value] = []
        texts.columns.append(self)

    def add(self, values: list[Value]) -> None:
        """Add strings."""
        _expect(values, _STRINGS)
        self.values += values

    def add_optional(self, values: list[Value]) -> None:
        """Add strings that may be None."""
        _expect(values, _STRINGS_OR_NONE)
        self.values += values

    def words(self) -> Words:
        """Return the words."""
        return np.fromiter(map(self._texts.at.__getitem__, self.values), np.int64, len(self.values))


_STRINGS: frozenset[type] = frozenset((str,))
_STRINGS_OR_NONE: frozenset[type] = frozenset((str, type(None)))


def _expect(values: Iterable[object], kinds: frozenset[type]) -> None:
    if not kinds.issuperset(map(type, values)):
        raise Mismatch


def hashes(heap: Heap, keys: Words, kinds: Sequence[Word]) -> Words:
    """Return the hashes of keys as `host.maps` computes them; a column of `keys` holds words of one of the kinds."""
    out = np.ones(len(keys), np.int64)
    for j, kind in enumerate(kinds):
        out = _mixed(out, _hashed(heap, keys[:, j], kind))
    return out


def _mixed(out: Words, word: Words) -> Words:
    """Combine hashes with one more word."""
    new = (out ^ word).view(np.uint64) * np.uint64(6364136223846793005)
    new ^= new >> np.uint64(32)
    return new.view(np.int64)


def _hashed(heap: Heap, column: Words, kind: Word) -> Words:
    """Return the hash input of each word: the word itself, or for a string or tuple a hash of its contents."""
    if not isinstance(kind, TextT | ListT):
        return column
    out = column.copy()
    there = np.flatnonzero(out > 0)
    heads = (out[there] - heap.base) // 8
    out[there] = heap.words[heads + 1]  # the hash of a string, the length of a tuple
    if isinstance(kind, ListT):
        inner = words(kind.item)
        lengths, at = out[there], (heap.words[heads] - heap.base) // 8
        some = np.flatnonzero(lengths > 0)
        for k in range(max(lengths, default=0)):
            some = some[lengths[some] > k]
            for j, word in enumerate(inner):
                of = heap.words[at[some] + k * len(inner) + j]
                out[there[some]] = _mixed(out[there[some]], _hashed(heap, of, word))
    return out
