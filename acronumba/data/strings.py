"""Columns of strings, and hashes of the keys of dicts, while instances are packed. See `data.texts`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from acronumba.data.heap import Heap, Mismatch, Region, Words
from acronumba.data.texts import HEAD, records_of


class Texts:
    """The strings of a heap: each that needs a record has one."""

    def __init__(self) -> None:
        self.columns: list[TextColumn] = []
        self.at: dict[str | None, int] = {}  # their words
        self._records: Words
        self._starts: Words
        self._region: Region

    def reserve(self, add: Callable[..., Region], take: Callable[[float], None]) -> None:
        """Make the records; `add` reserves a region, `take` says how many bytes it takes."""
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
        self.values: list[Any] = []
        texts.columns.append(self)

    def add(self, values: list[Any]) -> None:
        """Add strings."""
        _expect(values, _STRINGS)
        self.values += values

    def add_optional(self, values: list[Any]) -> None:
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


def hashes(heap: Heap, keys: Words, strings: tuple[int, ...]) -> Words:
    """Return the hashes of keys as `host.maps` computes them; the words of columns `strings` are of strings."""
    out = np.ones(len(keys), np.uint64)
    for j in range(keys.shape[1]):
        word = keys[:, j].copy()
        if j in strings:
            records = word > 0
            word[records] = heap.words[(word[records] - heap.base) // 8 + 1]
        out = (out ^ word.view(np.uint64)) * np.uint64(6364136223846793005)
        out ^= out >> np.uint64(32)
    return out.view(np.int64)
