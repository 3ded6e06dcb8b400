"""Ranges, slices and iterators: what `range`, `zip`, `enumerate`, `reversed` and generators return."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.lists import at_run_time
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Turns, Val, Value
from acronumba.frontend.numbering import is_natural
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.kinds.arrays import Tensor
    from acronumba.frontend.walker import Walker


@record(eq=False, frozen=False)
class Range(Value):
    start: Num
    stop: Num
    step: Num

    family = "range"
    python_class = range
    stored_as = "list(...)"

    iterable = True

    def describe(self, w: Blocks) -> str:
        return "a range"

    def children(self) -> tuple[Val, ...]:
        return self.start, self.stop, self.step

    def with_children(self, children: Sequence[Val]) -> Value:
        return Range(*children)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        return True

    def truth(self, w: Walker) -> Num:
        return w.scalar("gt", self.length(w), number(0))

    def length(self, w: Walker) -> Num:
        gap = w.scalar("sub", self.stop, self.start)
        count = w.scalar("neg", w.scalar("floordiv", w.scalar("neg", gap), self.step))
        return w.scalar("max", count, number(0))

    def turns(self, w: Walker) -> Turns:
        n = self.length(w)
        return lambda: n, lambda i: self.number_at(w, i)

    def axis_index(self, w: Walker) -> Tensor:
        return w.ops.arange(self.start, self.stop, self.step, None)

    def number_at(self, w: Walker, index: Num) -> Num:
        """Return the number at an index that is known to be in range."""
        out = apart(w, w.scalar("add", self.start, w.scalar("mul", index, self.step)), index)
        if out.var is not None and self.step.const == 1 and self.start.const is not NOT_CONST and self.start.const >= 0:
            w.below[out.var] = self.stop
        return out

    def attribute(self, w: Walker, name: str) -> Val | None:
        bounds = {"start": self.start, "stop": self.stop, "step": self.step}
        return w.read(bounds[name]) if name in bounds else None


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

    def attribute(self, w: Walker, name: str) -> Val | None:
        return {"start": self.start, "stop": self.stop, "step": self.step}.get(name)


@record(eq=False, frozen=False)
class Zip(Value):
    """`zip(*parts)`; `starred`: the only part is a list of run time, whose elements are the arguments."""

    parts: tuple[Val, ...]
    strict: bool = False
    starred: bool = False

    stored_as = "list(...)"
    is_iterator = True

    iterable = True

    def form_key(self, w: Walker) -> object:
        return "zip", self.strict, self.starred

    def children(self) -> tuple[Val, ...]:
        return self.parts

    def with_children(self, children: Sequence[Val]) -> Value:
        return replace(self, parts=tuple(children))

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Zip)
        mine, others = ((v.strict, v.starred, len(v.parts)) for v in (self, other))
        return mine == others

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        columns = [c for c in map(w.items_of, self.parts) if c is not None]
        if self.starred or len(columns) < len(self.parts):
            return None
        lengths = set(map(len, columns))
        if self.strict and len(lengths) > 1:
            raise w.reject("ACR305", seen=f"zip of {sorted(lengths)} items")
        return tuple(TupleVal(t) for t in zip(*columns, strict=False))

    def turns(self, w: Walker) -> Turns | None:
        if self.starred:
            return Value.turns(self, w)
        parts = [w.turns(v if (items := w.items_of(v)) is None else at_run_time(w, items)) for v in self.parts]
        if self.strict:
            first = parts[0][0]()
            for length, _ in parts[1:]:
                good = w.scalar("eq", first, length())
                w.check(good, "ValueError", "zip() arguments have different lengths")

        def shortest() -> Num:
            out = parts[0][0]()
            for length, _ in parts[1:]:
                out = w.scalar("min", out, length())
            return out

        return shortest, lambda i: TupleVal(tuple(get(i) for _, get in parts))


@record(eq=False, frozen=False)
class Enumerate(Value):
    inner: Val
    start: Num

    stored_as = "list(...)"
    is_iterator = True

    iterable = True

    def children(self) -> tuple[Val, ...]:
        return self.inner, self.start

    def with_children(self, children: Sequence[Val]) -> Value:
        return Enumerate(*children)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        return True

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        inner = w.items_of(self.inner)
        if inner is None:
            return None
        return tuple(TupleVal((w.scalar("add", self.start, number(k)), v)) for k, v in enumerate(inner))

    def turns(self, w: Walker) -> Turns:
        length, get = w.turns(self.inner)
        return length, lambda i: TupleVal((apart(w, w.scalar("add", i, self.start), i), get(i)))


@record(eq=False, frozen=False)
class Reversed(Value):
    inner: Val

    stored_as = "list(...)"
    is_iterator = True

    iterable = True

    def children(self) -> tuple[Val, ...]:
        return (self.inner,)

    def with_children(self, children: Sequence[Val]) -> Value:
        return Reversed(*children)

    def _alike(self, other: Value) -> bool:
        return True

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        inner = w.items_of(self.inner)
        return None if inner is None else tuple(reversed(inner))

    def turns(self, w: Walker) -> Turns:
        length, get = w.turns(self.inner)
        n = length()
        last = w.scalar("sub", n, number(1))
        return lambda: n, lambda i: get(w.scalar("sub", last, i))


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

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        return w.items_of(self.inner)

    def turns(self, w: Walker) -> Turns:
        return w.turns(self.inner)


@record(eq=False, frozen=False)
class Generator(Value):
    """A call of a generator function, which is walked in the loop over it; a generator expression is such a call."""

    func: Func
    params: dict[str, Val]
    node: ast.AST | None
    scope: tuple[Hashable, ...] | None = None  # of the function that contains the expression

    is_iterator = True

    def children(self) -> tuple[Val, ...]:
        return tuple(self.params.values())

    def with_children(self, children: Sequence[Val]) -> Value:
        return Generator(self.func, dict(zip(self.params, children, strict=True)), self.node, self.scope)

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Generator)
        return self.func.alike(other.func) and self.node is other.node

    def functions(self) -> list[Func]:
        return [self.func, *Value.functions(self)]


def apart(w: Walker, value: Num, counter: Num) -> Num:
    """Return the item of an iteration, copied if it is the loop counter, which is incremented while it is in use."""
    if value.var is None or value.var is not counter.var:
        return value
    out = w.var("", INT)
    w.emit(ir.Copy(out=out, src=value.var, loc=w.loc))
    if is_natural(value, w.naturals):
        w.naturals[out] = None
    return Num(INT, var=out)
