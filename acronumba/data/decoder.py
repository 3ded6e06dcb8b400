"""Lazy decoder of results, as `data.unpack` returns it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from acronumba.generics import Value
from acronumba.records import record

FEW = 8  # fewer results are decoded one at a time: reading columns has a fixed cost
FEW_CYCLIC = 2  # the same for recursive types, whose values may be large


@record()
class Decoder:
    """The values of instances, by their numbers."""

    one: Callable[[int], Value]  # decodes the result of one instance
    many: Callable[[Sequence[int]], list[Value]]  # decodes the results of several instances, in less time per instance
    few: int = FEW  # use `many` for at least so many instances

    def some(self, ks: Sequence[int]) -> list[Value]:
        """Return the values of any number of instances."""
        return self.many(ks) if len(ks) >= self.few else list(map(self.one, ks))

    def __call__(self, k: int) -> Value:
        return self.one(k)

    @staticmethod
    def of(one: Callable[[int], Value]) -> Decoder:
        """Return a decoder that decodes several values one at a time."""
        return Decoder(one, lambda ks: list(map(one, ks)))
