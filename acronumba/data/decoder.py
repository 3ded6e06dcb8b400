"""What makes the results of instances when they are asked for; `data.unpack` returns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from acronumba.records import record

FEW = 8  # values that are made one by one: fewer do not pay for what reading columns takes,
FEW_CYCLIC = 2  # unless they hold others of their own type, and so may be large


@record()
class Decoder:
    """The values of instances, by their numbers."""

    one: Callable[[int], Any]  # that of one
    many: Callable[[Sequence[int]], list[Any]]  # those of several, which takes less time for each
    few: int = FEW  # from which number on

    def some(self, ks: Sequence[int]) -> list[Any]:
        """Return the values of any number of instances."""
        return self.many(ks) if len(ks) >= self.few else list(map(self.one, ks))

    def __call__(self, k: int) -> Any:
        return self.one(k)

    @staticmethod
    def of(one: Callable[[int], Any]) -> Decoder:
        """Return what makes several values one by one."""
        return Decoder(one, lambda ks: list(map(one, ks)))
