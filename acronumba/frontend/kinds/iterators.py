"""Ranges, slices and iterators: what `range`, `zip`, `enumerate`, `reversed` and generators return."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import CONSTANTS, handles
from acronumba.frontend.kinds.errors import READ_AGAIN, ErrorValue
from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.lists import at_run_time
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Index, StateKey, Steps, Turns, Val, Value
from acronumba.frontend.numbering import is_natural
from acronumba.ir import nodes as ir
from acronumba.ir.types import INT
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks, Point
    from acronumba.frontend.kinds.arrays import Tensor
    from acronumba.frontend.kinds.lists import ElementInfo, ListVal
    from acronumba.frontend.walker import Loop, Walker


@record(eq=False, frozen=False)
class Range(Value):
    start: Num
    stop: Num
    step: Num

    family = "range"
    python_class = range
    stored_as = "list(...)"

    iterable = True
    has_positions = True

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
class Cycle(Value):
    """The items of a list, again and again: `itertools.cycle`."""

    inner: ListVal

    stored_as = "list(...)"
    iterable = True
    has_positions = True

    def describe(self, w: Blocks) -> str:
        return f"a cycle of {w.describe(self.inner)}"

    def children(self) -> tuple[Val, ...]:
        return (self.inner,)

    def with_children(self, children: Sequence[Val]) -> Value:
        return Cycle(*children)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        return True

    def length(self, w: Walker) -> Num:
        return w.select(self.inner.truth(w), number(2**62), number(0))

    def turns(self, w: Walker) -> Turns:
        n = self.length(w)
        return lambda: n, lambda i: self.get_item(w, i)

    def get_item(self, w: Walker, index: Index) -> Val:
        assert isinstance(index, Num)
        return self.inner.item_at(w, w.scalar("mod", w.read(index), w.ops.list_lengths(self.inner)))


@handles(CONSTANTS, range)
def _of_constant(value: range) -> Range:
    return Range(number(value.start), number(value.stop), number(value.step))


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
class Starred(Value):
    """The argument `*xs` of a call, of a list whose length is known only at run time."""

    inner: ListVal

    def describe(self, w: Blocks) -> str:
        return "* of a value whose length is known only at run time"

    def spread(self, w: Walker, defaults: Sequence[Val | None], more: bool, name: str) -> list[Val]:
        """Return the items as arguments of a function, one for each of `defaults`, which the last of them may be.

        The instance fails if items without a default are missing, or if there are too many, unless `more` are allowed.
        """
        size, least, most = w.ops.list_lengths(self.inner), defaults.count(None), len(defaults)
        text = f"{name}() takes {least}{'' if least == most else f' to {most}'} arguments from *, but there are {{0}}"
        w.check(w.scalar("ge", size, number(least)), "TypeError", text, (size,))
        if not more and w.block is not None:
            w.check(w.scalar("le", size, number(most)), "TypeError", text, (size,))
        if w.block is None:
            raise Dead
        out = []
        for k, default in enumerate(defaults):
            item = partial(self.inner.item_at, w, number(k))
            if default is None:
                out.append(item())
            else:
                out.append(w.cond(w.scalar("gt", size, number(k)), item, partial(_itself, default)))
        return out


def _itself(val: Val) -> Val:
    return val


@record(eq=False, frozen=False)
class Zip(Value):
    """Tuples of the items of several iterables: `zip(*parts)`; with a number `start`, which counts them: `enumerate`.

    With `starred`, the only part is a list of run time, whose elements are the iterables.
    """

    parts: tuple[Val, ...]
    strict: bool = False
    starred: bool = False
    start: Num | None = None

    stored_as = "list(...)"
    is_iterator = True

    iterable = True

    def describe(self, w: Blocks) -> str:
        return "zip" if self.start is None else "enumerate"

    def form_key(self, w: Walker) -> object:
        return "zip", self.strict, self.starred, self.start is None

    def children(self) -> tuple[Val, ...]:
        return self.parts if self.start is None else (*self.parts, self.start)

    def with_children(self, children: Sequence[Val]) -> Value:
        n = len(self.parts)
        return replace(self, parts=tuple(children[:n]), start=next(iter(children[n:]), None))  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Zip)
        mine, others = ((v.strict, v.starred, v.start is None, len(v.parts)) for v in (self, other))
        return mine == others

    @property
    def is_lazy(self) -> bool:  # type: ignore[override]
        return any(v.is_lazy or (k and v.resizable) for k, v in enumerate(self.parts))

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        if self.is_lazy:
            return None
        columns = [c for c in map(w.items_of, self.parts) if c is not None]
        if self.starred or len(columns) < len(self.parts):
            return None
        lengths = set(map(len, columns))
        if self.strict and len(lengths) > 1:
            raise w.reject("ACR305", seen=f"zip of {sorted(lengths)} items")
        rows = enumerate(zip(*columns, strict=False))
        return tuple(TupleVal((*self._count(w, number(k)), *row)) for k, row in rows)

    def turns(self, w: Walker) -> Turns | None:
        if self.starred:
            return Value.turns(self, w)
        parts = [
            w.turns(v if v.is_live or (items := w.items_of(v)) is None else at_run_time(w, items)) for v in self.parts
        ]
        if self.strict:
            if w.catches("ValueError"):  # Python raises it at the end
                raise w.reject("ACR101", seen="zip(..., strict=True) in `try`", rewrite="compare the lengths first")
            first = parts[0][0]()
            for length, _ in parts[1:]:
                good = w.scalar("eq", first, length())
                w.check(good, "ValueError", "zip() arguments have different lengths")

        def shortest() -> Num:
            out = parts[0][0]()
            for length, _ in parts[1:]:
                out = w.scalar("min", out, length())
            return out

        return shortest, lambda i: TupleVal((*self._count(w, i), *(get(i) for _, get in parts)))

    def steps(self, w: Walker) -> Steps | None:
        """Return a function for each turn, if a part has modules, of which code is compiled for each.

        It tests whether the other parts have an item left, and returns this test and how the item is read.
        """
        columns = [w.items_of(v) for v in self.parts]
        rest = [None if c is not None else v for v, c in zip(self.parts, columns, strict=True)]
        inner = [v.steps(w) if isinstance(v, Zip) else None for v in rest]
        modules = any(v.is_choosable and v.is_input for c in columns if c is not None for v in c)
        if self.starred or self.strict or None not in columns or not (modules or any(inner)):
            return None
        others = [None if v is None or some is not None else w.turns(v) for v, some in zip(rest, inner, strict=True)]

        def step(k: int) -> tuple[Num, Callable[[], Val]]:
            tests, reads = [number(True)], list[Callable[[], Val]]()
            for column, some, turns in zip(columns, inner, others, strict=True):
                if column is not None:
                    reads.append(partial(column.__getitem__, k))
                    continue
                if some is not None:
                    test, read = some[k]()
                else:
                    assert turns is not None
                    test, read = w.scalar("lt", number(k), turns[0]()), partial(turns[1], number(k))
                tests.append(test)
                reads.append(read)
            test = functools.reduce(w.both, tests)
            return test, lambda: TupleVal((*self._count(w, number(k)), *(read() for read in reads)))

        n = min(len(c) for c in (*columns, *inner) if c is not None)
        return [partial(step, k) for k in range(n)]

    def _count(self, w: Walker, index: Num) -> tuple[Num, ...]:
        """Return the number of an item, if they are counted."""
        return () if self.start is None else (apart(w, w.scalar("add", index, self.start), index),)


@record(eq=False, frozen=False)
class Stream(Value):
    """An iterator, which can be consumed once: `iter`, `reversed` (`backward`), or one that is bound to a name."""

    inner: Val
    loops: tuple[Loop, ...] = ()  # around the binding of its name
    backward: bool = False
    advances: bool = False  # `next` may advance it, at any place: it is over what keeps its length
    size: Num | None = None  # how many items there were when it began, if it is `backward` over a list

    stored_as = "list(...)"
    is_iterator = True

    iterable = True

    @property
    def origin(self) -> Val:
        return self if self.backward else self.inner.origin

    def describe(self, w: Blocks) -> str:
        return f"an iterator over {w.describe(self.inner)}"

    def form_key(self, w: Walker) -> object:
        return "iterator", self.backward

    @property
    def is_lazy(self) -> bool:  # type: ignore[override]
        return self.inner.is_lazy

    def children(self) -> tuple[Val, ...]:
        return (self.inner,) if self.size is None else (self.inner, self.size)

    def with_children(self, children: Sequence[Val]) -> Value:
        return Stream(children[0], self.loops, self.backward, self.advances, *children[1:])  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Stream)
        return self.backward == other.backward and (self.size is None) == (other.size is None)

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        inner = w.items_of(self.inner)
        if inner is not None and self.size is not None and w.static(self.size) != len(inner):
            return None
        return inner[::-1] if self.backward and inner is not None else inner

    def turns(self, w: Walker) -> Turns:
        length, get = w.turns(self.inner)
        if not self.backward:
            return length, get
        n = length()
        if self.size is not None:  # of a list that has become shorter, its first item is missing
            n = w.select(w.scalar("le", self.size, n), self.size, number(0))
        last = w.scalar("sub", n, number(1))
        return lambda: n, lambda i: get(w.scalar("sub", last, i))

    def bound_as(self, w: Walker, name: str, key: StateKey) -> Val:
        """Return the iterable; it may be read once, and not in a loop that began after the binding of the name."""
        if not set(w.loops_around).issubset(self.loops):
            return ErrorValue(READ_AGAIN, "ACR114").bound_as(w, name, key)
        w.state[key] = ErrorValue(READ_AGAIN, "ACR114")
        return self.inner


@record(eq=False, frozen=False)
class Begun(Value):
    """A dict or set, or a view of one, over which an iterator began when it had `size` entries."""

    inner: Val
    size: Num

    iterable = True
    is_lazy = True

    def describe(self, w: Blocks) -> str:
        return w.describe(self.inner)

    def children(self) -> tuple[Val, ...]:
        return self.inner, self.size

    def with_children(self, children: Sequence[Val]) -> Value:
        return Begun(*children)  # type: ignore[arg-type]

    def _alike(self, other: Value) -> bool:
        return True

    def turns(self, w: Walker) -> Turns:
        self.check(w)
        return w.turns(self.inner)

    def check(self, w: Walker) -> None:
        """Let the instance fail if the size has changed since the iterator began."""
        size = self.inner.length(w) or number(len(w.items_of(self.inner) or ()))
        w.check(w.scalar("eq", self.size, size), "RuntimeError", "a dict, set or deque changed size during iteration")
        if w.block is None:
            raise Dead


@record(eq=False, frozen=False)
class Cursor(Value):
    """An iterator with a name that `next` advances: what it is over, and a list of one number, of the items read."""

    inner: ListVal | Range
    position: ListVal

    stored_as = "list(...)"

    def describe(self, w: Blocks) -> str:
        return f"an iterator over {w.describe(self.inner)}, which next() advances"

    def children(self) -> tuple[Val, ...]:
        return self.inner, self.position

    def with_children(self, children: Sequence[Val]) -> Value:
        return Cursor(*children)  # type: ignore[arg-type]

    def _same(self, other: Value) -> bool:
        assert isinstance(other, Cursor)
        return self.inner.same(other.inner) and self.position.same(other.position)

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Cursor)
        return type(self.inner) is type(other.inner)

    def truth(self, w: Walker) -> Num:
        return number(True)


@record(kw_only=True, eq=False)
class Pull:
    """How the next item of an iterable is asked for."""

    begin: Callable[[], None]  # set the state keys as for the first item
    # Emit the code; return the points where there is no further item, and the item at the point where it continues.
    ask: Callable[[], tuple[list[Point], Val]]
    keys: tuple[StateKey, ...] = ()  # state keys that it changes
    count: int | None = None  # how many items there are, if they are known one by one


@record(eq=False, frozen=False)
class Waiting(Value):
    """An iterator with a name that is asked for items at several places: a `Pull`, whose state is that of an object."""

    inner: Val
    key: tuple[str, int]
    pull: Pull

    stored_as = "list(...)"
    is_iterator = True
    is_lazy = True

    @property
    def origin(self) -> Val:
        return self

    def describe(self, w: Blocks) -> str:
        return w.describe(self.inner)

    def walked_cells(self) -> list[ElementInfo]:
        return self.inner.walked_cells()

    def _alike(self, other: Value) -> bool:
        assert isinstance(other, Waiting)
        return self.key == other.key


@record(eq=False, frozen=False)
class Generator(Value):
    """A call of a generator function, which is walked in the loop over it; a generator expression is such a call."""

    func: Func
    params: dict[str, Val]
    node: ast.AST | None
    scope: tuple[Hashable, ...] | None = None  # of the function that contains the expression

    is_iterator = True
    is_lazy = True
    stored_as = "list(...)"

    def describe(self, w: Blocks) -> str:
        name = self.func.source.name.rpartition(".")[2]
        return "a generator expression" if self.scope is not None else f"what {name} yields"

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
        w.naturals.add(out)
    return Num(INT, var=out)
