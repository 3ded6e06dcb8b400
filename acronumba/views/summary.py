"""A summary: a title, a sentence and a table, as text and for notebooks. Objects that show one are `Summarised`."""

from __future__ import annotations

from dataclasses import dataclass

from acronumba.generics import Value

ROWS = 60  # of a text


@dataclass(frozen=True, slots=True)
class Summary:
    """A title, a sentence and a table, as `summary` returns them.

    Attributes
    ----------
    title, words : str
        What it is, and its totals.
    heads, rows
        The columns' heads, and the rows as tuples of texts.
    """

    title: str
    words: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        shown = [self.heads, *self.rows[:ROWS]] if self.rows else []
        wide = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = ["  ".join(map(str.ljust, row, wide)).rstrip() for row in shown]
        more = [f"and {len(self.rows) - ROWS:,} more"] if len(self.rows) > ROWS else []
        return "\n".join([f"{self.title}: {self.words}", *lines, *more])

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Value = None, exclude: Value = None) -> dict[str, str]:
        from acronumba.views.explorer.summary import table_summary

        return {"text/plain": str(self), "text/html": table_summary(self.title, self.words, self.heads, self.rows)}


class Summarised:
    """Base class of objects that a notebook shows by their summary."""

    __slots__ = ()

    def _summary(self) -> Summary:
        raise NotImplementedError

    def _repr_mimebundle_(self, include: Value = None, exclude: Value = None) -> dict[str, str]:
        return {**self._summary()._repr_mimebundle_(), "text/plain": repr(self)}
