"""Regular expressions that only run time knows: a table of their codes, which the host program looks up.

In: the word of a pattern, and its flags, for which the host program has found no code. Out: a hash table,

    entries     a power of two; then, for each,
    pattern, flags, code     words of strings (`data.texts`); the code is 0 if the entry is free
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from acronumba.data.texts import immediate, record_of, text_at
from acronumba.ir.patterns import code_at_run_time
from acronumba.memory import Array, Words, address, word_at

_FIRST = 16  # entries
_MOST = 1 << 12  # patterns that are kept for the next run


class KnownPatterns:
    """The patterns of one run at a time, and of earlier ones. No code moves while a run may read it."""

    def __init__(self, reach: Callable[[Array], object]) -> None:
        self.reach = reach
        self.clear()

    def clear(self) -> None:
        self._records: list[Words] = []
        self._entries: list[tuple[int, int, int, int]] = []  # hash, then the words of an entry
        self._table: Words = np.zeros(0, np.int64)
        self._grow(_FIRST)

    def begin(self) -> None:
        """Forget the patterns of earlier runs, if they are many."""
        if len(self._entries) > _MOST:
            self.clear()

    def add(self, word: int, flags: int) -> None:
        """Add a pattern by its word."""
        text = text_at(word, lambda at, n: [word_at(at + 8 * k) for k in range(n)])
        known = immediate(text)
        mark = record_of(text)[1] if known is None else known
        entry = mark, self._word(text), flags, self._word(code_at_run_time(text, flags))
        self._entries.append(entry)
        if 2 * len(self._entries) > self._table[0]:
            self._grow(2 * int(self._table[0]))
        else:
            self._put(entry)

    def _word(self, text: str) -> int:
        word = immediate(text)
        if word is not None:
            return word
        record: Words = np.array(record_of(text), np.int64)
        self.reach(record)
        self._records.append(record)
        return address(record)

    def _grow(self, size: int) -> None:
        self._table = np.zeros(1 + 3 * size, np.int64)
        self._table[0] = size
        self.reach(self._table)
        self.address = address(self._table)
        for entry in self._entries:
            self._put(entry)

    def _put(self, entry: tuple[int, int, int, int]) -> None:
        table, (mark, *words) = self._table, entry
        size = int(table[0])
        k = (mark ^ entry[2]) & (size - 1)
        while table[3 * k + 3]:
            k = (k + 1) & (size - 1)
        table[3 * k + 1 : 3 * k + 4] = words
