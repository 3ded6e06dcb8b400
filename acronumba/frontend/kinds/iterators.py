"""Ranges, slices and iterators: what `range`, `zip`, `enumerate`, `reversed` and generators return."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import Num
from acronumba.frontend.kinds.value import Val, Value
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.walker import Walker


@record(eq=False, frozen=False)
class Range(Value):
    start: Num
    stop: Num
    step: Num

    family = "range"
    python_class = range
    stored_as = "list(...)"

    def describe(self, w: Blocks) -> str:
        return "a range"

    def children(self) -> tuple[Val, ...]:
        return self.start, self.stop, self.step

    def with_children(self, children: Sequence[Val]) -> Value:
        return Range(*children)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        return True


@record(eq=False, frozen=False)
class SliceVal(Value):
    """A slice object as a value; a slice in an index is a `slice` of bounds and a constant step (`subscripts`)."""

    start: Val
    stop: Val
    step: Val

    python_class = slice

    def describe(self, w: Blocks) -> str:
        return "a slice"

    def children(self) -> tuple[Val, ...]:
        return self.start, self.stop, self.step

    def with_children(self, children: Sequence[Val]) -> Value:
        return SliceVal(*children)

    def _alike(self, other: Value) -> bool:
        return True


@record(eq=False, frozen=False)
class Zip(Value):
    parts: tuple[Val, ...]
    strict: bool = False

    stored_as = "list(...)"
    is_iterator = True

    def form_key(self, w: Walker) -> object:
        return "zip", self.strict

    def children(self) -> tuple[Val, ...]:
        return self.parts

    def with_children(self, children: Sequence[Val]) -> Value:
        return Zip(tuple(children), self.strict)

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Zip)
        return self.strict == other.strict and len(self.parts) == len(other.parts)


@record(eq=False, frozen=False)
class Enumerate(Value):
    inner: Val
    start: Num

    stored_as = "list(...)"
    is_iterator = True

    def children(self) -> tuple[Val, ...]:
        return self.inner, self.start

    def with_children(self, children: Sequence[Val]) -> Value:
        return Enumerate(*children)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        return True


@record(eq=False, frozen=False)
class Reversed(Value):
    inner: Val

    stored_as = "list(...)"
    is_iterator = True

    def children(self) -> tuple[Val, ...]:
        return (self.inner,)

    def with_children(self, children: Sequence[Val]) -> Value:
        return Reversed(*children)

    def _alike(self, other: Value) -> bool:
        return True


@record(eq=False, frozen=False)
class Stream(Value):
    """An iterator, which can be consumed once. `depth` is the number of loops around the binding of its name."""

    inner: Val
    depth: int = 0

    stored_as = "list(...)"
    is_iterator = True

    def describe(self, w: Blocks) -> str:
        return f"an iterator over {w.describe(self.inner)}"

    def children(self) -> tuple[Val, ...]:
        return (self.inner,)

    def with_children(self, children: Sequence[Val]) -> Value:
        return Stream(children[0], self.depth)

    def _alike(self, other: Value) -> bool:
        return True


@record(eq=False, frozen=False)
class Columns(Value):
    """`zip(*rows)` of a run-time list: the k-th item is the tuple of the k-th elements of all rows."""

    rows: ListVal

    is_iterator = True

    def children(self) -> tuple[Val, ...]:
        return (self.rows,)

    def with_children(self, children: Sequence[Val]) -> Value:
        return Columns(*children)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        return True


@record(eq=False, frozen=False)
class Yields(Value):
    """A call of a generator function, which is walked in the loop over it."""

    func: Func
    params: dict[str, Val]
    node: ast.AST | None


@record(eq=False, frozen=False)
class Generator(Value):
    """A generator expression, to be consumed at once."""

    node: ast.GeneratorExp
    scope: tuple[Any, ...]
