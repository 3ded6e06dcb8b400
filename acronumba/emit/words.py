"""Layouts of tables of 64-bit words that Python and compiled code share, described by one text.

In: a text with a line for each word, `name  meaning`; a line that begins with a blank continues the meaning of the
previous word, and `name[3]` is three words. Out: a map from names to the numbers of words, for Python, and the same
numbers as constants in capitals, for the small language.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

_NAME = re.compile(r"(\w+)(?:\[(\d+)\])?(?: |$)")


class RecordLayout:
    """The words of a table.

    >>> row = RecordLayout('''
    ... start      first byte
    ... shape[2]   rows,
    ...            and columns
    ... end        byte behind the last
    ... ''')
    >>> row.at["end"], row.count, row.size
    (3, 4, 32)
    >>> row.constants("ROW_")
    {'ROW_START': 0, 'ROW_SHAPE': 1, 'ROW_END': 3}
    >>> row.constant(2)
    'SHAPE + 1'
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at: Mapping[str, int]  # the place of each word, or of the first of several
        self.count = 0  # words of the table
        places: dict[str, int] = {}
        for line in text.strip().splitlines():
            if line.startswith(" "):
                continue
            found = _NAME.match(line)
            if found is None or found[1] in places:
                raise ValueError(f"no name of a word, or one that is taken: {line}")
            places[found[1]] = self.count
            self.count += int(found[2] or 1)
        self.at = places

    @property
    def size(self) -> int:
        """Bytes of the table."""
        return 8 * self.count

    def constants(self, prefix: str = "") -> dict[str, int]:
        """Return a map from names in capitals, behind a prefix, to the numbers of words."""
        return {f"{prefix}{name.upper()}": place for name, place in self.at.items()}

    def constant(self, word: int) -> str:
        """Return the number of a word as text, by the last name at or before it: `END`, `SHAPE + 1`."""
        k = bisect_right(list(self.at.values()), word) - 1
        name, first = list(self.at.items())[k]
        return f"{name.upper()} + {word - first}" if word > first else name.upper()
